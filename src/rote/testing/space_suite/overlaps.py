"""Overlaps: the parts of a document that a write touches. The table is the contract's, row by row."""

from typing import Any

import pytest

from rote.testing.space_suite.ground import A, B, change, put, remove
from rote.testing.space_suite.reads import ReadGround

START = {"a": {"x": 1, "y": 1}, "b": 1, "items": [1, 2, [3]], "0": {"z": 1}, "a/b": 1, "ab": 1}

Row = tuple[dict[str, Any], list[str], list[str]]

# (one operation of a patch, the paths whose reads it breaks, the paths whose reads stand)
TABLE: list[Row] = [
    # replace writes its path: what is at, above or below it.
    (
        {"op": "replace", "path": "/a/x", "value": 2},
        ["/a/x", "/a", "", "/a/x/deep"],
        ["/a/y", "/b", "/ab", "/a~1b"],
    ),
    ({"op": "replace", "path": "/items/0", "value": 9}, ["/items/0", "/items"], ["/items/1", "/b"]),
    ({"op": "replace", "path": "", "value": {}}, ["", "/a", "/b", "/never"], []),
    # add and remove write their path, or the array around an index.
    ({"op": "add", "path": "/a/new", "value": 1}, ["/a/new", "/a"], ["/a/x", "/b"]),
    (
        {"op": "add", "path": "/items/0", "value": 1},
        ["/items/0", "/items/1", "/items/2/0", "/items"],
        ["/a"],
    ),
    ({"op": "add", "path": "/items/-", "value": 1}, ["/items/0", "/items/-", "/items"], ["/b"]),
    ({"op": "add", "path": "/items/2/0", "value": 1}, ["/items/2/1", "/items/2"], ["/items/1"]),
    ({"op": "remove", "path": "/a/x"}, ["/a/x", "/a"], ["/a/y"]),
    ({"op": "remove", "path": "/items/1"}, ["/items/0", "/items"], ["/b"]),
    ({"op": "add", "path": "", "value": {}}, ["", "/a", "/b"], []),
    # move writes both ends, copy its target.
    (
        {"op": "move", "from": "/a/x", "path": "/a/z"},
        ["/a/x", "/a/z", "/a"],
        ["/a/y", "/b", "/items"],
    ),
    (
        {"op": "move", "from": "/items/0", "path": "/b"},
        ["/items/2", "/items", "/b"],
        ["/a/x", "/ab"],
    ),
    ({"op": "move", "from": "/b", "path": "/items/0"}, ["/items/1", "/b"], ["/a"]),
    ({"op": "copy", "from": "/a/x", "path": "/a/z"}, ["/a/z", "/a"], ["/a/x", "/a/y"]),
    ({"op": "copy", "from": "/b", "path": "/items/-"}, ["/items/0", "/items"], ["/b"]),
    # splice writes its path.
    (
        {"op": "splice", "path": "/items", "index": 1, "remove": 1, "add": []},
        ["/items", "/items/0", ""],
        ["/a", "/b"],
    ),
    # test writes nothing.
    ({"op": "test", "path": "/b", "value": 1}, [], ["/b", "/a", "/items/0"]),
    # The escapes belong to the pointer, not to the member.
    ({"op": "replace", "path": "/a~1b", "value": 2}, ["/a~1b"], ["/a", "/a/b", "/ab"]),
]

BREAKS = [(row[0], path) for row in TABLE for path in row[1]]
STANDS = [(row[0], path) for row in TABLE for path in row[2]]


def shown(value: Any) -> str:
    return value if isinstance(value, str) else f"{value['op']} {value['path']}"


class OverlapTests(ReadGround):
    @pytest.mark.parametrize(("operation", "path"), BREAKS, ids=shown)
    def test_a_patch_breaks_a_read_of_what_it_writes(
        self, operation: dict[str, Any], path: str
    ) -> None:
        self.space.set(A, START)
        self.space.patch(A, [operation])
        assert not self.holds({"id": A, "version": 1, "path": path})

    @pytest.mark.parametrize(("operation", "path"), STANDS, ids=shown)
    def test_a_patch_leaves_a_read_of_something_else_standing(
        self, operation: dict[str, Any], path: str
    ) -> None:
        self.space.set(A, START)
        self.space.patch(A, [operation])
        assert self.holds({"id": A, "version": 1, "path": path})

    @pytest.mark.parametrize("path", ["", "/a", "/a/x", "/never/there"])
    @pytest.mark.parametrize("operation", [put(A, START), remove(A)], ids=lambda op: op["op"])
    def test_set_and_delete_break_a_read_of_any_path(
        self, operation: dict[str, Any], path: str
    ) -> None:
        self.space.set(A, START)
        self.space.transact([operation])
        assert not self.holds({"id": A, "version": 1, "path": path})

    def test_any_operation_of_a_patch_can_break_a_read(self) -> None:
        self.space.set(A, START)
        operations = [
            {"op": "replace", "path": "/b", "value": 2},
            {"op": "replace", "path": "/ab", "value": 2},
        ]
        self.space.transact([change(A, *operations)])
        assert not self.holds({"id": A, "version": 1, "path": "/ab"})
        assert self.holds({"id": A, "version": 1, "path": "/a"})

    def test_the_actual_write_is_the_newest_that_overlaps_not_the_newest(self) -> None:
        self.space.set(A, START)
        self.space.patch(A, [{"op": "replace", "path": "/b", "value": 2}])
        overlapping = self.space.patch(A, [{"op": "replace", "path": "/b", "value": 3}])
        self.space.patch(A, [{"op": "replace", "path": "/ab", "value": 4}])
        (told,) = self.conflicts({"id": A, "version": 1, "path": "/b"})
        assert (told.actual_version, told.actual_hash) == (3, overlapping.facts[0].hash)

    def test_a_patch_of_another_entity_breaks_nothing(self) -> None:
        self.space.transact([put(A, START), put(B, START)])
        self.space.patch(B, [{"op": "replace", "path": "/b", "value": 2}])
        assert self.holds({"id": A, "version": 1, "path": "/b"})

    def test_a_path_of_something_never_written_is_broken_by_its_first_write(self) -> None:
        assert self.holds({"id": A, "version": 0, "path": "/x"})
        self.space.set(A, {})
        assert not self.holds({"id": A, "version": 0, "path": "/x"})

    def test_many_patches_beside_a_path_leave_its_read_standing(self) -> None:
        self.space.set(A, START)
        for number in range(40):
            self.space.patch(A, [{"op": "replace", "path": "/ab", "value": number}])
        assert self.holds({"id": A, "version": 1, "path": "/b"})
        assert not self.holds({"id": A, "version": 1, "path": "/ab"})
