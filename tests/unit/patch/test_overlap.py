"""The reads that a patch overlaps: the table of contract `store`, Reads of a commit."""

from typing import Any

import pytest

from rote.patch import normalize, overlaps, parse_pointer, written_paths

WRITTEN: list[tuple[dict[str, Any], list[str]]] = [
    ({"op": "replace", "path": "/a/0", "value": 1}, ["/a/0"]),
    ({"op": "replace", "path": "", "value": 1}, [""]),
    ({"op": "add", "path": "/a/b", "value": 1}, ["/a/b"]),
    ({"op": "add", "path": "/a/0", "value": 1}, ["/a"]),
    ({"op": "add", "path": "/a/-", "value": 1}, ["/a"]),
    ({"op": "add", "path": "/7", "value": 1}, [""]),
    ({"op": "add", "path": "", "value": 1}, [""]),
    ({"op": "add", "path": "/0/b", "value": 1}, ["/0/b"]),
    ({"op": "remove", "path": "/a/b"}, ["/a/b"]),
    ({"op": "remove", "path": "/a/12"}, ["/a"]),
    ({"op": "move", "from": "/a/0", "path": "/b/c"}, ["/a", "/b/c"]),
    ({"op": "move", "from": "/a/x", "path": "/b/-"}, ["/a/x", "/b"]),
    ({"op": "copy", "from": "/a/0", "path": "/b/c"}, ["/b/c"]),
    ({"op": "copy", "from": "/a/0", "path": "/b/3"}, ["/b"]),
    ({"op": "splice", "path": "/a/0", "index": 0, "remove": 1, "add": []}, ["/a/0"]),
    ({"op": "test", "path": "/a", "value": 1}, []),
]


@pytest.mark.parametrize(("operation", "paths"), WRITTEN)
def test_an_operation_writes_the_paths_of_the_table(
    operation: dict[str, Any], paths: list[str]
) -> None:
    assert written_paths(normalize([operation])) == [parse_pointer(path) for path in paths]


@pytest.mark.parametrize(
    ("read", "overlapping"),
    [
        ("", True),
        ("/a", True),
        ("/a/b", True),
        ("/a/b/c", True),
        ("/a/bc", False),
        ("/b", False),
        ("/", False),
    ],
)
def test_a_write_overlaps_reads_at_above_and_below_it(read: str, overlapping: bool) -> None:
    operations = normalize(
        [
            {"op": "test", "path": "/b", "value": 1},
            {"op": "copy", "from": "/b", "path": "/a/b"},
        ]
    )
    assert overlaps(operations, parse_pointer(read)) is overlapping


def test_a_write_of_the_whole_document_overlaps_every_read() -> None:
    operations = normalize([{"op": "replace", "path": "", "value": {}}])
    for read in ("", "/a", "/a/b/c", "/0"):
        assert overlaps(operations, parse_pointer(read))


def test_an_element_put_in_front_overlaps_a_read_of_its_neighbour() -> None:
    operations = normalize([{"op": "add", "path": "/items/0", "value": 1}])
    assert overlaps(operations, parse_pointer("/items/5/name"))
    assert not overlaps(operations, parse_pointer("/other"))


def test_an_empty_patch_overlaps_nothing() -> None:
    assert not overlaps([], ())
