"""Reads of a commit that leave out versions: what a session has written itself does not count."""

from typing import Any

import pytest

from rote.errors import InvalidInput, LimitExceeded
from rote.testing.space_suite.ground import A, B, Unchanged, add, change, put, remove
from rote.testing.space_suite.reads import ReadGround, conflict
from rote.values.limits import BESIDES_MAX

KINDS = [{"id": A}, {"id": A, "path": "/x"}, {"prefix": A}, {"from": A, "to": B}]


class BesidesTests(ReadGround):
    @pytest.mark.parametrize("read", KINDS, ids=str)
    def test_a_write_of_a_version_that_is_left_out_does_not_count(
        self, read: dict[str, Any]
    ) -> None:
        self.space.set(A, {"x": 1})
        self.space.set(A, {"x": 2})
        assert not self.holds({**read, "version": 1})
        assert self.holds({**read, "version": 1, "besides": [2]})

    @pytest.mark.parametrize("read", KINDS, ids=str)
    def test_writes_below_between_and_above_them_count(self, read: dict[str, Any]) -> None:
        for number in range(5):
            self.space.set(A, {"x": number})
        assert self.holds({**read, "version": 1, "besides": [2, 3, 4, 5]})
        for missing in (2, 3, 4, 5):
            besides = [version for version in (2, 3, 4, 5) if version != missing]
            (found,) = self.conflicts({**read, "version": 1, "besides": besides})
            assert found.actual_version == missing

    @pytest.mark.parametrize("read", KINDS, ids=str)
    def test_a_write_from_before_the_fork_counts_in_a_branch(self, read: dict[str, Any]) -> None:
        self.space.set(A, {"x": 1})
        self.space.set(A, {"x": 2})
        branch = self.space.create_branch("other")
        branch.set(A, {"x": 3})
        on_it = {**read, "version": 1, "branch": "other"}
        assert not self.holds({**on_it, "besides": [4]})
        assert self.holds({**on_it, "besides": [2, 4]})

    def test_of_several_facts_of_one_commit_none_counts(self) -> None:
        self.space.set(A, {"x": 1})
        self.space.transact([change(A, add("/x", 2)), remove(A), put(A, {"x": 3})])
        for read in KINDS:
            assert self.holds({**read, "version": 1, "besides": [2]})

    def test_a_patch_beside_the_path_still_leaves_its_read_standing(self) -> None:
        self.space.set(A, {"x": 1, "y": 1})
        self.space.patch(A, [add("/y", 2)])
        self.space.patch(A, [add("/x", 2)])
        assert self.holds({"id": A, "path": "/x", "version": 1, "besides": [3]})
        assert not self.holds({"id": A, "version": 1, "besides": [3]})

    @pytest.mark.parametrize("read", KINDS, ids=str)
    def test_an_erasure_in_between_counts_whoever_wrote_since(self, read: dict[str, Any]) -> None:
        self.space.set(A, {"x": 1})
        erased = self.space.erase(A, reason="asked to").commit.version
        own = self.space.set(A, {"x": 2}).version
        (found,) = self.conflicts({**read, "version": 1, "besides": [erased, own]})
        assert found.actual_version == erased

    @pytest.mark.parametrize("read", KINDS, ids=str)
    def test_what_was_compacted_away_conflicts(self, read: dict[str, Any]) -> None:
        for number in range(4):
            self.space.set(A, {"x": number})
        self.space.compact(before=4)
        assert not self.holds({**read, "version": 1, "besides": [2, 4]})
        assert self.holds({**read, "version": 3, "besides": [4]})

    def test_versions_that_wrote_something_else_change_nothing(self) -> None:
        self.space.set(A, 1)
        written = self.space.set(B, 1)
        read = {"id": B, "version": 0, "besides": [1]}
        assert self.conflicts(read) == (conflict(0, 2, written.facts[0].hash, id=B),)

    @pytest.mark.parametrize("read", KINDS, ids=str)
    @pytest.mark.parametrize("besides", [1, "1", [0], [-1], [True], [1.0], ["1"], None, {}])
    def test_other_than_versions_are_refused(self, read: dict[str, Any], besides: object) -> None:
        self.space.set(A, {"x": 1})
        with Unchanged(self, InvalidInput):
            self.space.transact([put(B, 1)], reads=[{**read, "version": 1, "besides": besides}])

    def test_a_version_beside_a_read_above_the_log_is_refused(self) -> None:
        self.space.set(A, 1)
        with Unchanged(self, InvalidInput):
            self.space.transact([put(B, 1)], reads=[{"id": A, "version": 0, "besides": [1, 2]}])

    def test_there_may_be_so_many_and_no_more(self) -> None:
        self.space.set(A, 1)
        assert self.holds({"id": A, "version": 0, "besides": [1] * BESIDES_MAX})
        with Unchanged(self, LimitExceeded):
            reads = [{"id": A, "version": 0, "besides": [1] * (BESIDES_MAX + 1)}]
            self.space.transact([put(B, 1)], reads=reads)
