"""The reads of a commit: entities, prefixes and ranges, and the contents of a conflict."""

from typing import Any

import pytest

from rote.errors import Conflict, InvalidInput, ReadConflict
from rote.testing.space_suite.ground import (
    A,
    B,
    C,
    SpaceGround,
    Unchanged,
    add,
    change,
    put,
    remove,
)


def conflict(expected: int, actual: int, hash: str, **read: str) -> ReadConflict:
    """Return the conflict of a read on main."""
    fields: dict[str, Any] = {"id": None, "prefix": None, "start": None, "end": None, **read}
    return ReadConflict(
        **fields, branch="main", expected_version=expected, actual_version=actual, actual_hash=hash
    )


class ReadGround(SpaceGround):
    """Tests whether the reads of a commit hold."""

    def conflicts(self, *reads: dict[str, Any]) -> tuple[ReadConflict, ...]:
        """Return the conflicts of a commit with these reads, which must leave no mark."""
        with Unchanged(self, Conflict) as caught:
            self.space.transact([put("urn:mine", 1)], reads=reads)
        assert isinstance(caught.value, Conflict)
        return caught.value.conflicts

    def holds(self, *reads: dict[str, Any]) -> bool:
        """Whether a commit with these reads is made."""
        try:
            self.space.transact([put("urn:mine", 1)], reads=reads)
        except Conflict:
            return False
        return True


class ReadTests(ReadGround):
    # -- entities ----------------------------------------------------------------------------------

    def test_a_read_of_the_newest_version_holds(self) -> None:
        self.space.set(A, 1)
        assert self.holds({"id": A, "version": 1})

    def test_a_read_at_any_version_since_the_last_write_holds(self) -> None:
        self.space.set(A, 1)
        self.space.set(B, 1)
        self.space.set(B, 2)
        assert self.holds({"id": A, "version": 1})
        assert self.holds({"id": A, "version": 2})

    @pytest.mark.parametrize(
        "operation", [put(A, 1), change(A, add("/n", 1)), remove(A)], ids=lambda op: op["op"]
    )
    def test_every_write_of_the_entity_conflicts_with_an_earlier_read(
        self, operation: dict[str, Any]
    ) -> None:
        self.space.set(A, {})
        written = self.space.transact([operation])
        assert self.conflicts({"id": A, "version": 1}) == (
            conflict(1, 2, written.facts[0].hash, id=A),
        )

    def test_version_zero_means_never_written(self) -> None:
        assert self.holds({"id": A, "version": 0})
        written = self.space.set(A, 1)
        self.space.set(B, 1)
        assert self.conflicts({"id": A, "version": 0}) == (
            conflict(0, written.version, written.facts[0].hash, id=A),
        )

    def test_a_deleted_entity_can_be_read_as_absent(self) -> None:
        self.space.set(A, 1)
        version = self.space.delete(A).version
        assert self.holds({"id": A, "version": version})
        assert not self.holds({"id": A, "version": 1})

    def test_a_set_to_the_same_value_is_still_a_write(self) -> None:
        self.space.set(A, 1)
        self.space.set(A, 1)
        assert not self.holds({"id": A, "version": 1})

    def test_a_commit_does_not_conflict_with_itself(self) -> None:
        self.space.set(A, 1)
        self.space.transact([put(A, 2), put(A, 3)], reads=[{"id": A, "version": 1}])
        assert self.space.get(A) == 3

    def test_the_newest_of_several_writes_is_the_actual_one(self) -> None:
        self.space.set(A, 1)
        self.space.set(A, 2)
        newest = self.space.transact([put(A, 3), put(A, 4)])
        assert self.conflicts({"id": A, "version": 1}) == (
            conflict(1, 3, newest.facts[1].hash, id=A),
        )

    # -- prefixes and ranges -----------------------------------------------------------------------

    def test_a_prefix_conflicts_with_any_write_below_it(self) -> None:
        self.space.set("urn:p", 0)
        self.space.set("urn:p:1", 1)
        written = self.space.set("urn:p:2", 1)
        self.space.set("urn:q", 1)
        assert self.conflicts({"prefix": "urn:p:", "version": 2}) == (
            conflict(2, 3, written.facts[0].hash, prefix="urn:p:"),
        )
        assert self.holds({"prefix": "urn:p:", "version": 3})

    def test_a_prefix_conflicts_with_an_entity_that_is_new(self) -> None:
        assert self.holds({"prefix": "urn:p:", "version": 0})
        self.space.set("urn:p:new", 1)
        assert not self.holds({"prefix": "urn:p:", "version": 1})

    def test_a_prefix_conflicts_with_a_delete(self) -> None:
        self.space.set("urn:p:1", 1)
        self.space.delete("urn:p:1")
        assert not self.holds({"prefix": "urn:p:", "version": 1})

    def test_the_empty_prefix_covers_the_space(self) -> None:
        self.space.set(A, 1)
        assert not self.holds({"prefix": "", "version": 0})
        assert self.holds({"prefix": "", "version": 1})

    @pytest.mark.parametrize("last", ["\ud7ff", "\uffff", "\U0001f600", "\U0010ffff"])
    def test_a_prefix_may_end_in_any_character(self, last: str) -> None:
        self.space.set("urn:x" + last + "!", 1)
        assert not self.holds({"prefix": "urn:x" + last, "version": 0})
        assert self.holds({"prefix": "urn:x" + last, "version": 1})

    @pytest.mark.parametrize(
        ("start", "end", "overlaps"),
        [
            ("urn:b", "urn:c", True),
            ("urn:a", "urn:b\0", True),
            ("urn:b", "urn:b\0", True),
            ("urn:b", None, True),
            ("", None, True),
            ("urn:a", "urn:b", False),
            ("urn:b\0", "urn:z", False),
            ("urn:\uffff", None, False),
        ],
    )
    def test_a_range_is_half_open_in_code_point_order(
        self, start: str, end: str | None, overlaps: bool
    ) -> None:
        self.space.set("urn:b", 1)
        assert self.holds({"from": start, "to": end, "version": 0}) is not overlaps

    def test_a_range_orders_characters_beyond_the_bmp_last(self) -> None:
        self.space.set("urn:\U00010000", 1)
        assert not self.holds({"from": "urn:\uffff", "to": None, "version": 0})
        assert self.holds({"from": "urn:", "to": "urn:\uffff", "version": 0})

    @pytest.mark.parametrize(("start", "end"), [("urn:b", "urn:b"), ("urn:c", "urn:a"), ("", "")])
    def test_a_range_that_holds_no_id_is_refused(self, start: str, end: str) -> None:
        """A caller that had swapped the bounds got a commit that checked nothing."""
        self.space.set("urn:b", 1)
        with Unchanged(self, InvalidInput) as caught:
            self.space.transact([put(A, 1)], reads=[{"from": start, "to": end, "version": 0}])
        assert "to must be above from" in str(caught.value)

    def test_a_conflicting_range_is_told_in_words(self) -> None:
        """An open range was reported as urn:a..None."""
        self.space.set("urn:b", 1)
        for end, words in (("urn:c", "to below 'urn:c'"), (None, "on")):
            with pytest.raises(Conflict, match=f"ids from 'urn:a' {words} "):
                self.space.transact([put(A, 1)], reads=[{"from": A, "to": end, "version": 0}])

    def test_a_conflicting_range_is_told_with_its_bounds(self) -> None:
        written = self.space.set("urn:b", 1)
        assert self.conflicts({"from": "urn:a", "to": "urn:c", "version": 0}) == (
            conflict(0, 1, written.facts[0].hash, start="urn:a", end="urn:c"),
        )

    # -- all of them -------------------------------------------------------------------------------

    def test_every_conflict_is_listed_in_the_order_of_the_reads(self) -> None:
        self.space.set(A, {"x": 1, "y": 1})
        self.space.set(B, 1)
        changed = self.space.patch(A, [{"op": "replace", "path": "/x", "value": 2}])
        written = self.space.set(C, 1)
        reads: list[dict[str, Any]] = [
            {"prefix": "urn:c", "version": 3},
            {"id": B, "version": 2},
            {"id": A, "version": 2, "path": "/x"},
            {"id": A, "version": 2, "path": "/y"},
            {"id": A, "version": 1},
            {"id": C, "version": 0},
        ]
        assert self.conflicts(*reads) == (
            conflict(3, 4, written.facts[0].hash, prefix="urn:c"),
            conflict(2, 3, changed.facts[0].hash, id=A),
            conflict(1, 3, changed.facts[0].hash, id=A),
            conflict(0, 4, written.facts[0].hash, id=C),
        )

    def test_the_details_of_a_conflict_say_the_same_as_its_fields(self) -> None:
        written = self.space.set(A, 1)
        with pytest.raises(Conflict) as caught:
            self.space.transact([put(B, 1)], reads=[{"id": A, "version": 0}])
        (told,) = caught.value.details["conflicts"]
        assert (told["id"], told["expected_version"], told["actual_version"]) == (A, 0, 1)
        assert told["actual_hash"] == written.facts[0].hash

    def test_reads_are_checked_before_operations_are_applied(self) -> None:
        self.space.set(A, 1)
        with Unchanged(self, Conflict):
            self.space.transact([remove("urn:never")], reads=[{"id": A, "version": 0}])

    @pytest.mark.parametrize("read", [{"id": A}, {"prefix": ""}, {"from": "", "to": None}])
    def test_a_version_above_the_log_is_refused(self, read: dict[str, Any]) -> None:
        self.space.set(A, 1)
        with Unchanged(self, InvalidInput):
            self.space.transact([put(B, 1)], reads=[{**read, "version": 2}])

    @pytest.mark.parametrize("read", [{"id": A}, {"prefix": ""}, {"from": "", "to": None}])
    def test_an_unknown_branch_is_refused(self, read: dict[str, Any]) -> None:
        self.space.set(A, 1)
        with Unchanged(self, InvalidInput):
            self.space.transact([put(B, 1)], reads=[{**read, "version": 1, "branch": "never"}])

    def test_a_read_may_name_the_branch_it_would_have_anyway(self) -> None:
        self.space.set(A, 1)
        assert self.holds({"id": A, "version": 1, "branch": "main"})
        assert not self.holds({"id": A, "version": 0, "branch": "main"})
