"""Commits that come back without the data that their sender has."""

from typing import Any

import pytest

from rote.contract import Commit
from rote.contract.commands import MakeCommit
from rote.errors import InvalidInput
from rote.testing.space_suite.ground import A, B, C, SpaceGround, add, answered, change, put, remove


class BodyTests(SpaceGround):
    def lean(self, *operations: dict[str, Any], **more: Any) -> Commit:
        commit: Commit = answered(self, MakeCommit(operations, bodies=False, **more))
        return commit

    def test_only_the_data_of_plain_sets_is_left_out(self) -> None:
        self.space.set(C, {})
        commit = self.lean(
            put(A, {"n": 1}),
            put(B, {}, stamp=["/at"]),
            change(C, add("/n", 1)),
            change("urn:d", **{"else": {"n": 1}}),
            remove(C),
            put("urn:e", None),
        )
        stored = self.space.commit(2)
        assert [fact.data is None for fact in commit.facts] == [
            True,
            False,
            False,
            False,
            True,
            True,
        ]
        assert [fact.data is None for fact in stored.facts] == [False] * 4 + [True, False]
        for fact, whole in zip(commit.facts, stored.facts, strict=True):
            assert fact.hash == whole.hash
            assert fact.data in (None, whole.data)
        assert commit.hash == stored.hash

    def test_a_repeated_commit_leaves_out_what_was_sent_and_nothing_else(self) -> None:
        """After an erasure a key stands for other values, too: these are not what is stored."""
        first = self.lean(put(A, 1), put(B, 1), key="k")
        assert [fact.data for fact in first.facts] == [None, None]
        assert self.lean(put(A, 1), put(B, 1), key="k") == first
        self.space.erase(A, reason="asked to")
        again = self.lean(put(A, 1), put(B, 2), key="k")
        assert [(fact.data, fact.erased) for fact in again.facts] == [(None, True), (b"1", False)]

    def test_a_commit_with_reads_and_one_that_was_compacted_can_be_lean(self) -> None:
        first = self.lean(put(A, 1), reads=[{"id": A, "version": 0}], key="k")
        assert first.facts[0].data is None
        self.space.set(A, 2)
        self.space.compact(before=2)
        assert self.lean(put(A, 1), key="k").version == 1

    @pytest.mark.parametrize("bodies", [None, 1, "no"])
    def test_bodies_are_true_or_false(self, bodies: Any) -> None:
        with pytest.raises(InvalidInput):
            answered(self, MakeCommit([put(A, 1)], bodies=bodies))
        assert self.space.version == 0
