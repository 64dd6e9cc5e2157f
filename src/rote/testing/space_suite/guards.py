"""Guarded commits: a commit and the move of its side row happen together or not at all."""

from typing import Any

import pytest

from rote.contract import Commit, Guard, SideRow
from rote.contract.commands import GetSide, MakeCommit, PutSide
from rote.errors import Conflict, Denied, InvalidInput, InvalidValue, NotFound, RoteError
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A, B, SpaceGround, Unchanged, put, remove


@each_test_uses("claimed")
class GuardTests(SpaceGround):
    @pytest.fixture
    def claimed(self) -> None:
        self.port.answer(self.did, PutSide("note", "r", {"state": "open"}, fence=0))

    def guarded(self, *operations: dict[str, Any], guards: list[Guard], **more: Any) -> Commit:
        return self.port.answer(self.did, MakeCommit(operations, guards=guards, **more))

    def claimed_row(self) -> SideRow | None:
        return self.port.answer(self.did, GetSide("note", "r"))

    def test_a_commit_whose_fence_holds_moves_the_row_with_it(self) -> None:
        commit = self.guarded(put(A, 1), guards=[Guard("note", "r", 1, {"state": "done"})])
        assert (commit.version, self.space.get(A)) == (1, 1)
        assert self.claimed_row() == SideRow("note", "r", 2, {"state": "done"})

    def test_a_guard_may_drop_its_row_with_the_commit(self) -> None:
        self.guarded(put(A, 1), guards=[Guard("note", "r", 1, drop=True)])
        assert self.claimed_row() is None
        with Unchanged(self, Denied):
            self.guarded(put(A, 2), guards=[Guard("note", "r", 1, drop=True)])
        assert self.port.answer(self.did, PutSide("note", "r", {}, fence=0)).fence == 1

    @pytest.mark.parametrize("more", [{"body": {}}, {"stamped": True}])
    def test_a_guard_that_drops_its_row_has_no_body(self, more: Any) -> None:
        with Unchanged(self, InvalidInput):
            self.guarded(put(A, 1), guards=[Guard("note", "r", 1, drop=True, **more)])
        assert self.claimed_row() is not None

    @pytest.mark.parametrize("fence", [0, 2])
    def test_a_stale_fence_is_denied_and_writes_nothing_at_all(self, fence: int) -> None:
        with Unchanged(self, Denied):
            self.guarded(put(A, 1), guards=[Guard("note", "r", fence, {"state": "done"})])
        assert self.claimed_row() == SideRow("note", "r", 1, {"state": "open"})

    def test_a_guard_on_a_row_that_is_not_there_is_denied(self) -> None:
        with Unchanged(self, Denied):
            self.guarded(put(A, 1), guards=[Guard("note", "never", 1, {})])

    def test_a_guard_with_fence_0_makes_its_row_once(self) -> None:
        guard = Guard("note", "new", 0, {"n": 1}, stamped=True)
        commit = self.guarded(put(A, 1), guards=[guard])
        row = self.port.answer(self.did, GetSide("note", "new"))
        assert row == SideRow("note", "new", 1, {"n": 1, "version": 1, "at": commit.at})
        with Unchanged(self, Denied):
            self.guarded(put(A, 2), guards=[guard])
        with Unchanged(self, InvalidInput):
            self.guarded(put(A, 2), guards=[Guard("note", "other", 0, drop=True)])
        assert self.port.answer(self.did, GetSide("note", "other")) is None

    @pytest.mark.parametrize(
        ("operation", "reads", "kind"),
        [
            (remove("urn:never"), (), NotFound),
            (put(A, 1), ({"id": B, "version": 0},), Conflict),
            (put(A, float("nan")), (), InvalidValue),
        ],
    )
    def test_a_commit_that_fails_leaves_the_row_where_it_was(
        self, operation: dict[str, Any], reads: Any, kind: type[RoteError]
    ) -> None:
        self.space.set(B, 1)
        with Unchanged(self, kind):
            self.guarded(operation, guards=[Guard("note", "r", 1, {})], reads=reads)
        assert self.claimed_row() == SideRow("note", "r", 1, {"state": "open"})

    def test_a_body_outside_the_value_domain_writes_nothing(self) -> None:
        with Unchanged(self, InvalidValue):
            self.guarded(put(A, 1), guards=[Guard("note", "r", 1, float("nan"))])
        assert self.claimed_row() == SideRow("note", "r", 1, {"state": "open"})
        assert self.space.verify().ok

    @pytest.mark.parametrize("kind", ["key", "checkpoint"])
    def test_a_guard_on_a_row_of_the_kernel_is_refused(self, kind: str) -> None:
        self.space.set(A, 1, key="k")
        self.space.checkpoint()
        with Unchanged(self, InvalidInput):
            self.guarded(put(A, 2), guards=[Guard(kind, "k", 1, {})])
        assert self.space.verify().ok

    def test_a_replayed_key_answers_although_the_fence_has_moved(self) -> None:
        guard = Guard("note", "r", 1, {"state": "done"})
        first = self.guarded(put(A, 1), guards=[guard], key="k")
        assert self.guarded(put(A, 1), guards=[guard], key="k") == first
        assert self.claimed_row() == SideRow("note", "r", 2, {"state": "done"})

    def test_a_guarded_commit_may_use_the_reserved_keys(self) -> None:
        commit = self.guarded(put(A, 1), guards=[Guard("note", "r", 1, {})], key="rote:run:r")
        assert commit.key == "rote:run:r"
