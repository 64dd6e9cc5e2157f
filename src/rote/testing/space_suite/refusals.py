"""Refusals: bad input raises its typed error and stores nothing, and the store still works."""

from typing import Any

import pytest

from rote.errors import InvalidInput, InvalidValue, LimitExceeded, PatchFailed
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A, SpaceGround, Unchanged, change, put
from rote.values.limits import COMMIT_BYTES_MAX, OPERATIONS_MAX

BAD_VALUES: list[Any] = [
    float("nan"),
    float("inf"),
    -float("inf"),
    2**63,
    -(2**63) - 1,
    "\ud800",
    b"bytes",
    {1: "a"},
    {"\udfff": 1},
    {1, 2},
    ...,
    [1, {"a": [float("nan")]}],
]

BAD_IDS: list[Any] = [
    "",
    "plain",
    "urn:",
    ":x",
    "1urn:x",
    "urn:a b",
    "urn:a\n",
    "urn:\0",
    "urn:x*",
    "urn:\ud800",
    "urn:" + "x" * 1_021,
    None,
    7,
    b"urn:a",
]

BAD_OPERATIONS: list[Any] = [
    [],
    None,
    "set",
    {"op": "set"},
    [None],
    ["set"],
    [{}],
    [{"op": "SET", "id": A, "value": 1}],
    [{"op": ["set"], "id": A, "value": 1}],
    [{"op": "set", "id": A}],
    [{"op": "set", "value": 1}],
    [{"op": "set", "id": A, "value": 1, "parent": "x"}],
    [{"op": "delete", "id": A, "value": 1}],
    [{"op": "patch", "id": A}],
    [{"op": "patch", "id": A, "ops": None}],
    [put(A, {}, stamp="/at")],
    [put(A, {}, stamp=[""])],
    [put(A, {}, stamp=["at"])],
    [put(A, {}, stamp=["/x/at"])],
    [put(A, 1, stamp=["/at"])],
    [put(A, {}, stamp=[7])],
]

BAD_PATCHES: list[Any] = [
    [None],
    [{}],
    [{"op": "frob", "path": ""}],
    [{"op": "add", "path": "/x"}],
    [{"op": "add", "value": 1}],
    [{"op": "add", "path": "x", "value": 1}],
    [{"op": "add", "path": "/~2", "value": 1}],
    [{"op": "add", "path": "/items/01", "value": 1}],
    [{"op": "add", "path": "/items/9", "value": 1}],
    [{"op": "remove", "path": ""}],
    [{"op": "remove", "path": "/never"}],
    [{"op": "replace", "path": "/never", "value": 1}],
    [{"op": "move", "from": "/items", "path": "/items/0"}],
    [{"op": "copy", "from": "/never", "path": "/x"}],
    [{"op": "test", "path": "/items", "value": [1, True]}],
    [{"op": "splice", "path": "/items", "index": 0, "remove": 0}],
    [{"op": "splice", "path": "/items", "index": 3, "remove": 0, "add": []}],
    [{"op": "splice", "path": "/items", "index": -1, "remove": 0, "add": []}],
    [{"op": "splice", "path": "/items", "index": 0.0, "remove": 0, "add": []}],
    [{"op": "splice", "path": "/n", "index": 0, "remove": 0, "add": []}],
]

BAD_READS: list[Any] = [
    "urn:a",
    [None],
    [{}],
    [{"id": A}],
    [{"id": A, "version": -1}],
    [{"id": A, "version": 1.0}],
    [{"id": A, "version": True}],
    [{"id": A, "version": None}],
    [{"id": "plain", "version": 0}],
    [{"id": A, "version": 0, "path": "x"}],
    [{"id": A, "version": 0, "path": 7}],
    [{"id": A, "prefix": "urn:", "version": 0}],
    [{"id": A, "version": 0, "hash": "x"}],
    [{"prefix": 7, "version": 0}],
    [{"prefix": "\ud800", "version": 0}],
    [{"from": "urn:", "to": 7, "version": 0}],
    [{"to": "urn:", "version": 0}],
    [{"prefix": "urn:", "path": "/a", "version": 0}],
    [{"id": A, "version": 0, "branch": ""}],
    [{"id": A, "version": 0, "branch": "/x"}],
]

BAD_KEYS: list[Any] = ["", "k" * 201, "é" * 101, "\ud800", "rote:mine", 7, b"k"]


def shown(value: Any) -> str:
    return ascii(value)[:60]


@each_test_uses("patchable")
class RefusalTests(SpaceGround):
    @pytest.fixture
    def patchable(self) -> None:
        self.space.set(A, {"items": [1, 1], "n": 1})

    def still_works(self) -> None:
        assert self.space.set(A, {"items": [1, 1], "n": 1}).version == 2
        assert self.space.verify().ok

    @pytest.mark.parametrize("value", BAD_VALUES, ids=shown)
    def test_a_value_outside_the_domain_is_refused_wherever_it_stands(self, value: Any) -> None:
        with Unchanged(self, InvalidValue):
            self.space.set(A, value)
        with Unchanged(self, InvalidValue):
            self.space.patch(A, [{"op": "add", "path": "/x", "value": value}])
        with Unchanged(self, InvalidValue):
            ops = [{"op": "splice", "path": "/items", "index": 0, "remove": 0, "add": [value]}]
            self.space.patch(A, ops)
        with Unchanged(self, InvalidValue):
            self.space.transact([change("urn:new", **{"else": value})])
        with Unchanged(self, InvalidValue):
            self.space.transact([put(A, 1)], meta=value)
        self.still_works()

    def test_a_refused_value_names_the_pointer_of_the_culprit(self) -> None:
        with Unchanged(self, InvalidValue) as caught:
            self.space.set(A, {"a": [0, {"b/c": float("nan")}]})
        assert caught.value.details["pointer"] == "/a/1/b~1c"

    @pytest.mark.parametrize("id", BAD_IDS, ids=shown)
    def test_a_bad_id_is_refused_by_every_call(self, id: Any) -> None:
        with Unchanged(self, InvalidInput):
            self.space.set(id, 1)
        with Unchanged(self, InvalidInput):
            self.space.patch(id, [])
        with Unchanged(self, InvalidInput):
            self.space.delete(id)
        with Unchanged(self, InvalidInput):
            self.space.read(id)
        with Unchanged(self, InvalidInput):
            self.space.get(id)
        with Unchanged(self, InvalidInput):
            self.space.at(1).get(id)
        with Unchanged(self, InvalidInput):
            self.space.history(id)
        with Unchanged(self, InvalidInput):
            self.space.update(id, lambda value: value)
        self.still_works()

    def test_the_longest_id_works_and_every_script_may_stand_in_it(self) -> None:
        for id in ("urn:" + "x" * 1_020, "urn:" + "é" * 510, "a:\U0001f600", "x+y.z-1:/?#[]@!$&'"):
            self.space.set(id, 1)
            assert self.space.get(id) == 1

    @pytest.mark.parametrize("operations", BAD_OPERATIONS, ids=shown)
    def test_bad_operations_are_refused(self, operations: Any) -> None:
        with Unchanged(self, InvalidInput):
            self.space.transact(operations)
        self.still_works()

    @pytest.mark.parametrize("ops", BAD_PATCHES, ids=shown)
    def test_a_patch_that_is_malformed_or_does_not_apply_is_refused(self, ops: Any) -> None:
        with Unchanged(self, PatchFailed) as caught:
            self.space.patch(A, ops)
        assert caught.value.details["index"] == 0
        self.still_works()

    @pytest.mark.parametrize("reads", BAD_READS, ids=shown)
    def test_bad_reads_are_refused(self, reads: Any) -> None:
        with Unchanged(self, InvalidInput):
            self.space.transact([put(A, 1)], reads=reads)
        self.still_works()

    @pytest.mark.parametrize("key", BAD_KEYS, ids=shown)
    def test_a_bad_key_is_refused(self, key: Any) -> None:
        with Unchanged(self, InvalidInput):
            self.space.set(A, 1, key=key)
        self.still_works()

    def test_more_operations_than_the_limit_are_refused(self) -> None:
        with Unchanged(self, LimitExceeded):
            self.space.transact([put(A, 1)] * (OPERATIONS_MAX + 1))

    def test_a_larger_commit_than_the_limit_is_refused(self) -> None:
        piece = "x" * (COMMIT_BYTES_MAX // 5)
        operations = [put(f"urn:{index}", piece) for index in range(5)]
        with Unchanged(self, LimitExceeded):
            self.space.transact(operations)

    @pytest.mark.parametrize("limit", [-1, 1.0, True, "1"], ids=repr)
    def test_a_bad_limit_is_refused_by_every_reading_call(self, limit: Any) -> None:
        with Unchanged(self, InvalidInput):
            list(self.space.scan(limit=limit))
        with Unchanged(self, InvalidInput):
            self.space.history(A, limit=limit)
        with Unchanged(self, InvalidInput):
            list(self.space.log(limit=limit))
        with Unchanged(self, InvalidInput), self.space.transaction() as tx:
            list(tx.scan(limit=limit))

    @pytest.mark.parametrize("text", ["\ud800", 7, b"urn:"], ids=ascii)
    def test_a_bad_prefix_or_place_is_refused_by_every_scan(self, text: Any) -> None:
        for more in ({"prefix": text}, {"after": text}):
            with Unchanged(self, InvalidInput):
                list(self.space.scan(**more))
            with Unchanged(self, InvalidInput), self.space.transaction() as tx:
                list(tx.scan(**more))

    @pytest.mark.parametrize("attempts", [0, -1, 1.5])
    def test_an_update_needs_at_least_one_attempt(self, attempts: Any) -> None:
        with Unchanged(self, InvalidInput):
            self.space.update(A, lambda value: value, attempts=attempts)

    @pytest.mark.parametrize("since", [-1, 1.0, "1"])
    def test_a_log_begins_at_a_version(self, since: Any) -> None:
        with Unchanged(self, InvalidInput):
            list(self.space.log(since=since))

    def test_a_prefix_with_a_star_is_refused_because_it_would_guard_nothing(self) -> None:
        self.space.set("urn:user:*x", 1)
        for prefix in ("*", "urn:user:*", "urn:**"):
            with Unchanged(self, InvalidInput) as caught:
                self.space.transact([put(A, 1)], reads=[{"prefix": prefix, "version": 1}])
            assert "a prefix is plain text here" in str(caught.value)
            with pytest.raises(InvalidInput, match="a prefix is plain text here"):
                self.space.scan(prefix)
            with pytest.raises(InvalidInput), self.space.transaction() as tx:
                tx.scan(prefix)
        # It may stand anywhere else, and in ids.
        self.space.transact([put(A, 1)], reads=[{"prefix": "urn:*:", "version": 1}])
        assert [state.id for state in self.space.scan("urn:user:*x")] == ["urn:user:*x"]
