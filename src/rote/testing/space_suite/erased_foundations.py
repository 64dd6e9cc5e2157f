"""Erasing and compacting the same history, in any order: every signed statement still holds."""

from typing import Any

import pytest

from rote.contract.commands import GetSide
from rote.errors import PayloadMismatch
from rote.kernel.log.seals import KEY
from rote.space import Space
from rote.testing.space_suite.compactions import CompactionGround, answers
from rote.testing.space_suite.ground import A, B, C, add, port_of

LINES = (2, 19)


class ErasedFoundationTests(CompactionGround):
    @pytest.mark.parametrize("before", LINES)
    @pytest.mark.parametrize("id", (A, B, C))
    def test_what_a_compaction_has_left_can_be_erased(self, before: int, id: str) -> None:
        self.write_much()
        others = tuple({A, B, C} - {id})
        expected = answers_of(self.space, before, others)
        self.space.compact(before=before)
        erasure = self.space.erase(id, reason="asked to")
        assert erasure.facts > 0
        self.check_erased(self.space, id, before, erasure.facts)
        assert answers_of(self.space, before, others) == expected
        self.check_copy(id, before)

    @pytest.mark.parametrize("before", (*LINES, 26))
    @pytest.mark.parametrize("id", (A, B, C))
    def test_what_was_erased_can_be_compacted(self, before: int, id: str) -> None:
        self.write_much()
        others = tuple({A, B, C} - {id})
        self.space.erase(id, reason="asked to")
        expected = answers_of(self.space, before, others)
        self.space.compact(before=before)
        self.check_erased(self.space, id, before, 1)
        assert answers_of(self.space, before, others) == expected
        self.check_copy(id, before)

    def test_erasing_goes_on_between_compactions(self) -> None:
        topic = self.write_much()
        self.space.compact(before=9)
        self.space.erase(A, reason="once")
        self.space.set(A, {"again": 1})
        topic.set(A, {"again": 2})
        self.space.patch(A, [add("/more", 2)])
        self.space.compact(before=self.space.version - 1)
        assert self.space.get(A) == {"again": 1, "more": 2}
        self.space.erase(A, reason="twice")
        self.space.erase(C, reason="too")
        self.space.set(B, "last")
        self.space.compact(before=self.space.version)
        assert self.space.verify().ok
        assert not self.space.read(A).exists
        assert not topic.read(A).exists
        self.check_copy(A, self.space.version)

    def test_a_copy_that_was_whole_follows_a_compaction_and_an_erasure(self) -> None:
        self.write_much()
        target = self.open_fresh("target")
        assert self.store.copy("notes", target).ok
        self.space.erase(B, reason="before")
        self.space.compact(before=19)
        self.space.erase(A, reason="after")
        report = self.store.copy("notes", target)
        assert report.ok, report.verified.faults
        copy = target.space("notes")
        assert copy.head == self.space.head
        assert copy.verify().erased == self.space.verify().erased
        assert answers(copy, 19, copy.version) == answers(self.space, 19, copy.version)

    def test_no_digest_of_what_was_compacted_away_outlives_an_erasure(self) -> None:
        """A key row holds an unsalted digest of its operations; the facts of its commit are gone."""
        self.space.set(A, "the likely value", key="likely")
        self.space.set(A, "another")
        self.space.set(B, 1)
        self.space.compact(before=3)
        assert self.space.set(A, "the likely value", key="likely").version == 1
        with pytest.raises(PayloadMismatch):
            self.space.set(A, "an unlikely value", key="likely")
        self.space.erase(A, reason="asked to")
        row = port_of(self.store).answer(self.space.did, GetSide(KEY, "likely"))
        assert row is not None
        assert row.body == {"payload": None, "version": 1}
        self.check_copy(A, 3)

    def check_erased(self, space: Space, id: str, before: int, facts: int) -> None:
        report = space.verify()
        assert report.ok, report.faults
        assert report.erased >= facts
        for version in range(before, space.version + 1):
            for branch in space.at(version).branches():
                assert not space.on(branch.name).at(version).read(id).exists
        assert all(fact.erased for fact in space.history(id))

    def check_copy(self, id: str, before: int) -> None:
        target = self.open_fresh("target")
        report = self.store.copy("notes", target)
        assert report.ok, report.verified.faults
        copy = target.space("notes")
        assert copy.head == self.space.head
        assert copy.history(id) == self.space.history(id)
        assert answers(copy, before, copy.version) == answers(self.space, before, copy.version)
        assert copy.verify().erased == self.space.verify().erased


def answers_of(space: Space, before: int, ids: tuple[str, ...]) -> list[Any]:
    """Return the answers about some entities at the first 25 versions, from the horizon on."""
    return [
        [space.at(version).on(branch.name).read(id) for id in ids]
        for version in range(before, 26)
        for branch in space.at(version).branches()
    ]
