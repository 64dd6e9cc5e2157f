"""Rehearsals: the result of operations on a state, without any effect on it."""

from typing import Any

import pytest

from rote.contract import Head, State, View
from rote.contract.commands import GetHead, GetSnapshot, GetTimes, Rehearse
from rote.errors import InvalidInput, LimitExceeded, NotFound, PatchFailed, RoteError
from rote.schemas.registry import REGISTRY_ID, SCHEMA_PREFIX
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import (
    A,
    B,
    C,
    SpaceGround,
    Unchanged,
    add,
    change,
    logged,
    put,
    remove,
)
from rote.values import format_time, micros_of
from rote.values.limits import OPERATIONS_MAX

NOW = 1_767_000_000_000_000


@each_test_uses("staged")
class RehearsalTests(SpaceGround):
    @pytest.fixture
    def staged(self) -> None:
        self.space.transact([put(A, {"n": 1}), put(B, [1])])

    def rehearse(
        self, *operations: dict[str, Any], version: int | None = None, branch: str = "main",
        own: dict[str, State] | None = None,
    ) -> list[tuple[str, bool, Any]]:  # fmt: skip
        """Return the result of each operation: the fact, and the entity after it."""
        view = View(branch, version)
        rehearsed = self.port.answer(
            self.did, Rehearse(operations, view=view, own=own or {}, now=NOW)
        )
        return [(each.op, each.after.exists, each.after.value) for each in rehearsed]

    @pytest.mark.parametrize(
        "operations",
        [
            [put(A, 2), put(C, None)],
            [change(A, add("/m", 2)), change(A, add("/m", 3)), remove(A)],
            [remove(B), put(B, 1), change(B, {"op": "replace", "path": "", "value": 2})],
            [change(C, add("/m", 2), **{"else": {"new": True}}), change(C, add("/m", 2))],
        ],
    )
    def test_a_rehearsal_says_what_a_commit_then_does(self, operations: list[Any]) -> None:
        before = logged(self.space)
        rehearsed = self.rehearse(*operations)
        assert logged(self.space) == before
        commit = self.space.transact(operations)
        assert [op for op, _, _ in rehearsed] == [fact.op for fact in commit.facts]
        last = {
            operation["id"]: each for operation, each in zip(operations, rehearsed, strict=True)
        }
        for id, (_, exists, value) in last.items():
            state = self.space.read(id)
            assert (state.exists, state.value) == (exists, value)

    def test_a_rehearsal_stamps_the_time_it_is_given(self) -> None:
        (made,) = self.rehearse(put(C, {}, stamp=["/at"]))
        assert made == ("set", True, {"at": format_time(NOW)})

    def test_a_rehearsal_is_of_the_state_that_is_asked_for(self) -> None:
        self.space.set(A, {"n": 2})
        topic = self.space.create_branch("topic", at=1)
        topic.set(C, {})
        assert self.rehearse(change(A, add("/m", 1)), version=1)[0][2] == {"n": 1, "m": 1}
        assert self.rehearse(change(A, add("/m", 1)))[0][2] == {"n": 2, "m": 1}
        assert self.rehearse(change(C, add("/m", 1)), branch="topic")[0][2] == {"m": 1}
        with pytest.raises(NotFound):
            self.rehearse(change(C, add("/m", 1)))

    def test_own_entities_lie_on_the_state(self) -> None:
        own = {A: State(A, {"own": 1}, True, 0, None), B: State(B, None, False, 0, None)}
        assert self.rehearse(change(A, add("/m", 1)), own=own)[0][2] == {"own": 1, "m": 1}
        with pytest.raises(NotFound):
            self.rehearse(remove(B), own=own)

    def test_a_rehearsal_names_the_fact_it_would_follow(self) -> None:
        view, state = View("main", None), self.space.read(A)
        (known,) = self.port.answer(self.did, Rehearse([put(A, 1)], view=view, own={}, now=NOW))
        (new,) = self.port.answer(self.did, Rehearse([put(C, 1)], view=view, own={}, now=NOW))
        assert (known.parent, new.parent) == (state.hash, None)

    @pytest.mark.parametrize(
        ("operations", "kind"),
        [
            ([], InvalidInput),
            ([remove(C)], NotFound),
            ([put(A, 1), change(A, add("/m", 1))], PatchFailed),
            ([put("no uri", 1)], InvalidInput),
            ([{"op": "erase", "id": A}], InvalidInput),
            ([put(A, 1)] * (OPERATIONS_MAX + 1), LimitExceeded),
        ],
        ids=["nothing", "absent", "patch", "id", "op", "many"],
    )
    def test_a_rehearsal_refuses_what_a_commit_would(
        self, operations: list[Any], kind: type[RoteError]
    ) -> None:
        with Unchanged(self, kind) as refused:
            self.rehearse(*operations)
        with Unchanged(self, kind) as told:
            self.space.transact(operations)
        assert str(refused.value) == str(told.value)

    def test_a_rehearsal_is_judged_by_the_schemas_of_its_state(self) -> None:
        schema = {"type": "object", "required": ["n"]}
        registry = [put(f"{SCHEMA_PREFIX}s", schema), put(REGISTRY_ID, {"urn:governed:": "s"})]
        self.space.transact(registry)
        self.space.transact([remove(REGISTRY_ID)])
        wrong = put("urn:governed:x", {})
        self.rehearse(wrong, version=1)
        with pytest.raises(InvalidInput, match="conform"):
            self.rehearse(wrong, version=2)
        self.rehearse(wrong)
        with pytest.raises(InvalidInput, match="conform"):
            self.rehearse(*registry, wrong, version=1)
        own = {REGISTRY_ID: State(REGISTRY_ID, {"urn:governed:": "s"}, True, 0, None)}
        with pytest.raises(InvalidInput, match="conform"):
            self.rehearse(wrong, own=own)

    def test_a_deleted_branch_takes_no_rehearsal(self) -> None:
        self.space.create_branch("topic")
        self.space.delete_branch("topic")
        with pytest.raises(InvalidInput, match="deleted"):
            self.rehearse(put(A, 1), branch="topic")
        with pytest.raises(NotFound):
            self.rehearse(put(A, 1), branch="never")

    def test_a_snapshot_is_the_newest_commit_that_made_a_state(self) -> None:
        first = self.port.answer(self.did, GetSnapshot(View("main", None)))
        assert first == self.port.answer(self.did, GetHead())
        self.space.create_branch("topic").set(C, 1)
        self.space.create_branch("empty", at=0)
        assert self.port.answer(self.did, GetSnapshot(View("main", None))) == first
        assert self.port.answer(self.did, GetSnapshot(View("topic", 2))) == first
        assert self.port.answer(self.did, GetSnapshot(View("topic", None))).version == 3
        for view in (View("empty", None), View("main", 0)):
            assert self.port.answer(self.did, GetSnapshot(view)) == Head(0, None, None)

    def test_the_clock_that_all_share_does_not_go_back(self) -> None:
        instants = [self.port.answer("", GetTimes()).shared_now or 0 for _ in range(3)]
        assert instants == sorted(instants)
        assert instants[0] >= micros_of(self.clock.now())
