"""The desk decides the commits of sessions: once each, in order, and for their owner alone."""

from collections.abc import Iterator
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from rote.contract import PortLayer, all_sides
from rote.contract.commands import Command, MakeCommit, PutSide
from rote.contract.sync import Mark, Transact
from rote.contract.verdicts import Verdict
from rote.errors import (
    Busy,
    Conflict,
    Denied,
    DependencyRejected,
    Diverged,
    InvalidInput,
    PayloadMismatch,
    ReadConflict,
    RoteError,
    SessionExpired,
    SessionRevoked,
    Unavailable,
)
from rote.kernel.committing import read_checks
from rote.opening import open as open_store
from rote.sessions.desk import Desk
from rote.sessions.rows import verdict_key
from rote.sessions.sittings import Sitting
from rote.sessions.verdicts import stored_error
from rote.space import Space, Store
from rote.testing.clocks import FixedClock
from rote.testing.sources import SeededIds
from rote.values import canonical
from rote.values.session_limits import (
    SESSION_SECONDS,
    SESSION_TOKENS_MAX,
    SESSION_WINDOW_MAX,
    VERDICT_ERROR_BYTES_MAX,
)

A, B = "urn:a", "urn:b"
R = TypeVar("R")


class BreakingPort(PortLayer):
    """A port whose next command of a kind fails: before it has reached the store, or after."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.space("s")._port)
        self.fails: type | None = None
        self.is_done = False

    def answer(self, space: str, command: Command[R], /) -> R:
        if type(command) is not self.fails:
            return super().answer(space, command)
        self.fails = None
        if self.is_done:
            super().answer(space, command)
        raise Unavailable("the line broke")


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store(":memory:", clock=FixedClock(), ids=SeededIds(1)) as store:
        yield store


@pytest.fixture
def space(store: Store) -> Space:
    return store.space("s")


@pytest.fixture
def port(store: Store) -> BreakingPort:
    return BreakingPort(store)


@pytest.fixture
def desk(port: BreakingPort, space: Space) -> Desk:
    return Desk(port, space.did, randomness=SeededIds(2), principal="did:key:one")


def put(local: int, id: str = A, value: Any = None, **more: Any) -> Transact:
    value = local if value is None else value
    basis = more.pop("basis", 0)
    return Transact(local, basis, [{"op": "set", "id": id, "value": value}], **more)


def seen(*layers: int, version: int = 0, id: str = A) -> list[dict[str, Any]]:
    return [{"id": id, "version": version, "layers": list(layers)}]


def code(verdict: Verdict) -> str | None:
    return None if verdict.error is None else verdict.error["code"]


def again(desk: Desk, sitting: Sitting) -> Sitting:
    return desk.open(session=sitting.session, token=sitting.token)


# -- verdicts --------------------------------------------------------------------------------------


def test_an_accepted_commit_is_in_the_log_once_however_often_it_is_sent(
    desk: Desk, space: Space
) -> None:
    sitting = desk.open()
    first = sitting.transact(put(1))
    assert first.accepted
    assert (first.version, first.hash) == (space.version, space.head)
    second = sitting.transact(put(1))
    assert (second.version, second.hash, second.at) == (first.version, first.hash, first.at)
    assert space.version == 1


def test_another_payload_of_a_decided_local_is_refused_and_decides_nothing(desk: Desk) -> None:
    sitting = desk.open()
    sitting.transact(put(1))
    for other in (
        put(1, B),
        put(1, basis=1),
        put(1, key="k"),
        put(1, reads=seen()),
        put(1, meta=1),
    ):
        with pytest.raises(PayloadMismatch):
            sitting.transact(other)
    assert sitting.decided == 1


def test_locals_are_decided_in_their_order(desk: Desk) -> None:
    sitting = desk.open()
    with pytest.raises(InvalidInput) as caught:
        sitting.transact(put(2))
    assert (caught.value.code, caught.value.details["expected"]) == ("out_of_order", 1)
    assert sitting.decided == 0


def test_an_acknowledged_verdict_is_gone_and_others_stay(desk: Desk) -> None:
    sitting = desk.open()
    for local in (1, 2):
        sitting.transact(put(local))
    sitting.acknowledge(verdicts=1)
    with pytest.raises(InvalidInput) as caught:
        sitting.transact(put(1))
    assert caught.value.code == "verdict_gone"
    assert sitting.transact(put(2)).version == 2
    sitting.acknowledge(verdicts=0, basis=0)
    assert sitting.acknowledged == 1


@pytest.mark.parametrize(
    "sent",
    [
        put(1, "no uri"),
        put(1, reads=[{"id": A, "version": 9}]),
        put(1, basis=9),
        put(1, reads=seen(1)),
        put(1, reads=seen(2)),
        put(1, key="rote:mine"),
        Transact(1, 0, [{"op": "delete", "id": A}]),
        Transact(1, 0, [{"op": "patch", "id": B, "ops": [{"op": "remove", "path": "/x"}]}]),
        Transact(1, 0, []),
        Transact(1, 0, [{"op": "set", "id": A, "value": float("nan")}]),
    ],
    ids=repr,
)
def test_a_fault_of_the_commit_is_its_verdict_and_blocks_none_behind_it(
    desk: Desk, space: Space, sent: Transact
) -> None:
    space.set(B, {})
    sitting = desk.open()
    verdict = sitting.transact(sent)
    assert not verdict.accepted
    assert verdict.version == space.version == 1
    assert again(desk, sitting).transact(put(2)).accepted


def test_a_conflict_is_a_verdict_that_a_client_can_raise(desk: Desk, space: Space) -> None:
    space.set(A, 0)
    verdict = desk.open().transact(put(1, reads=seen()))
    assert verdict.error is not None
    error = RoteError.from_dict(verdict.error)
    assert error.conflicts[0].actual_version == 1  # type: ignore[attr-defined]


def test_an_abandoned_local_is_never_applied(desk: Desk, space: Space) -> None:
    sitting = desk.open()
    assert code(sitting.abandon(1)) == "withdrawn"
    assert code(sitting.transact(put(1))) == "withdrawn"
    sitting.transact(put(2))
    assert sitting.abandon(2).accepted
    assert space.version == 1


def test_an_error_is_stored_in_a_bounded_size() -> None:
    listed = tuple(
        ReadConflict.of_entity(
            f"urn:{'x' * 500}:{n}", branch="main", expected_version=0, actual=(1, None)
        )
        for n in range(1_000)
    )
    told = stored_error(Conflict(listed))
    assert len(canonical(told)) <= VERDICT_ERROR_BYTES_MAX
    kept = RoteError.from_dict(told)
    assert isinstance(kept, Conflict)
    assert len(kept.conflicts) + kept.details["more"] == 1_000
    assert kept.conflicts == listed[: len(kept.conflicts)]
    assert len(kept.conflicts) > 10


# -- layers ----------------------------------------------------------------------------------------


def test_what_a_commit_has_seen_of_its_own_does_not_conflict(desk: Desk, space: Space) -> None:
    sitting = desk.open()
    sitting.transact(put(1))
    assert sitting.transact(put(2, reads=seen(1))).accepted
    assert code(sitting.transact(put(3, reads=seen(1)))) == "conflict"  # 2 is not named
    space.set(A, "foreign")
    assert code(sitting.transact(put(4, reads=seen(1, 2)))) == "conflict"


def test_without_besides_an_own_layer_conflicts(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plant the bug that the kernel forgets the layers: the test above would see it."""
    find = read_checks._conflict

    def forgetful(draft: Any, read: Any, entries: Any, erased: Any) -> Any:
        return find(draft, replace(read, besides=frozenset()), entries, erased)

    monkeypatch.setattr(read_checks, "_conflict", forgetful)
    sitting = desk.open()
    sitting.transact(put(1))
    assert code(sitting.transact(put(2, reads=seen(1)))) == "conflict"


def test_what_has_seen_a_rejected_commit_is_rejected_too_and_nothing_else(desk: Desk) -> None:
    sitting = desk.open()
    sitting.abandon(1)
    sitting.transact(put(2, reads=seen(id=B)))
    verdict = sitting.transact(put(3, reads=seen(1, 2)))
    assert verdict.error is not None
    error = RoteError.from_dict(verdict.error)
    assert isinstance(error, DependencyRejected)
    assert error.local == 1
    assert code(sitting.transact(put(4, reads=seen(3), basis=1))) == "dependency_rejected"
    assert sitting.transact(put(5, reads=seen(2))).accepted


def test_a_read_without_a_version_is_of_the_basis(desk: Desk, space: Space) -> None:
    space.set(A, 1)
    sitting = desk.open()
    assert sitting.transact(put(1, B, basis=1, reads=[{"id": A}])).accepted
    assert code(sitting.transact(put(2, B, basis=0, reads=[{"id": A}]))) == "conflict"


def test_what_was_erased_after_the_basis_is_not_written_again(desk: Desk, space: Space) -> None:
    space.set(A, 1)
    space.erase(A, reason="asked to")
    sitting = desk.open()
    assert code(sitting.transact(put(1, basis=1))) == "conflict"
    assert sitting.transact(put(2, basis=2)).accepted


def test_a_layer_that_was_let_go_is_refused(desk: Desk) -> None:
    sitting = desk.open()
    sitting.transact(put(1))
    sitting.acknowledge(verdicts=1, basis=0)
    assert sitting.transact(put(2, reads=seen(1))).accepted
    sitting.acknowledge(verdicts=2, basis=2)
    assert code(sitting.transact(put(3, reads=seen(1), basis=2))) == "invalid_input"


# -- rights ----------------------------------------------------------------------------------------


class AdmittingPort(PortLayer):
    """A port that lets nobody write one entity, and knows nothing of guards."""

    def answer(self, space: str, command: Command[R], /) -> R:
        if isinstance(command, MakeCommit):
            assert not command.guards
            self.check(command)
        return super().answer(space, command)

    def check(self, command: MakeCommit) -> None:
        if command.operations[0]["id"] == B:
            raise Denied("not this one", right="write")


def test_a_commit_that_is_not_allowed_is_a_verdict(port: BreakingPort, space: Space) -> None:
    desk = Desk(port, space.did, randomness=SeededIds(2), admit=AdmittingPort)
    sitting = desk.open()
    assert code(sitting.transact(put(1, B))) == "denied"
    assert sitting.transact(put(2)).accepted
    again(desk, sitting).confirm()
    with pytest.raises(SessionRevoked):
        sitting.transact(put(3))  # the guard is there, though the wrapper does not see it


# -- keys ------------------------------------------------------------------------------------------


def test_a_key_that_was_used_answers_its_commit_and_writes_nothing(
    desk: Desk, space: Space
) -> None:
    space.set(A, 1, key="k")
    space.set(B, 1)
    sitting = desk.open()
    verdict = sitting.transact(put(1, key="k"))
    assert (verdict.accepted, verdict.version, space.version) == (True, 1, 2)
    sitting = again(desk, sitting)
    assert sitting.transact(put(1, key="k")).version == 1
    assert code(sitting.transact(put(2, key="k"))) == "payload_mismatch"


def test_a_key_that_was_used_can_be_named_by_what_has_seen_its_commit(
    desk: Desk, space: Space
) -> None:
    """The verdict went with its acknowledgement, because the commit of the key is older than the basis;
    then what had seen it was rejected."""
    space.set(A, 1, key="k")
    space.set(B, 1)
    sitting = desk.open()
    sitting.transact(put(1, key="k"))
    sitting.acknowledge(verdicts=1, basis=2)
    sitting = again(desk, sitting)
    assert sitting.transact(put(2, basis=2, reads=seen(1, version=2))).accepted
    sitting.acknowledge(verdicts=1, basis=3)
    assert code(sitting.transact(put(3, basis=3, reads=seen(1, version=3)))) == "invalid_input"


@pytest.mark.parametrize("is_done", [False, True])
def test_a_key_that_was_used_is_decided_when_its_verdict_was_lost(
    desk: Desk, port: BreakingPort, space: Space, is_done: bool
) -> None:
    """The row of the verdict was there already, and was taken for a sign that the commit was made now:
    the verdict was told, and nothing of it was stored."""
    space.set(A, 1, key="k")
    sitting = desk.open()
    port.fails, port.is_done = PutSide, is_done
    with pytest.raises(Unavailable):
        sitting.transact(put(1, key="k"))
    assert sitting.transact(put(1, key="k")).version == 1
    assert again(desk, sitting).decided == 1


def test_nothing_of_a_session_is_hashed(space: Space) -> None:
    sitting = Desk(space._port, space.did, randomness=SeededIds(3)).open()
    sitting.transact(put(1, meta={"m": 1}))
    with open_store(":memory:", clock=FixedClock(), ids=SeededIds(1)) as other:
        other.space("s").transact([{"op": "set", "id": A, "value": 1}], meta={"m": 1})
        assert other.space("s").head == space.head


# -- opening ---------------------------------------------------------------------------------------


def test_a_session_goes_on_with_the_verdicts_that_were_not_acknowledged(desk: Desk) -> None:
    sitting = desk.open()
    told = [sitting.transact(put(1)), sitting.transact(put(2, reads=seen())), sitting.abandon(3)]
    sitting.acknowledge(verdicts=1)
    next = again(desk, sitting)
    assert next.is_resumed
    assert next.decided == 3
    assert [(v.local, v.version, v.error) for v in next.verdicts()] == [
        (v.local, v.version, v.error) for v in told[1:]
    ]


def test_the_holder_before_decides_nothing(desk: Desk, space: Space) -> None:
    before = desk.open()
    again(desk, before)
    for attempt in (
        lambda: before.transact(put(1)),
        lambda: before.abandon(1),
        lambda: before.acknowledge(basis=1),
        before.confirm,
        before.close,
    ):
        with pytest.raises(SessionRevoked):
            attempt()
    assert space.version == 0


def test_the_first_message_makes_its_token_the_only_good_one(desk: Desk) -> None:
    first = desk.open()
    second = again(desk, first)
    third = again(desk, first)  # the answer of the second was lost
    third.confirm()
    for stale in (first, second):
        with pytest.raises(SessionRevoked):
            again(desk, stale)
    again(desk, third)


def test_an_accepted_commit_confirms_its_token(desk: Desk) -> None:
    first = desk.open()
    second = again(desk, first)
    second.transact(put(1))
    with pytest.raises(SessionRevoked):
        again(desk, first)


def test_a_token_stays_good_however_many_answers_are_lost(desk: Desk) -> None:
    first = desk.open()
    given = [again(desk, first) for _ in range(SESSION_TOKENS_MAX + 3)]
    with pytest.raises(SessionRevoked):
        again(desk, given[0])
    again(desk, given[-1]).transact(put(1))


def test_unknown_expired_and_foreign_sessions_are_all_alike() -> None:
    clock = FixedClock()
    with open_store(":memory:", clock=clock, ids=SeededIds(1)) as store:
        space = store.space("s")
        desk = Desk(space._port, space.did, randomness=SeededIds(2), principal="one")
        other = Desk(space._port, space.did, randomness=SeededIds(3), principal="two")
        sitting = desk.open()
        sitting.transact(put(1))
        messages: set[str] = set()
        for asked, session in ((other, sitting.session), (desk, "00"), (desk, "")):
            with pytest.raises(SessionExpired) as caught:
                asked.open(session=session, token=sitting.token)
            messages.add(str(caught.value))
        clock.move(seconds=SESSION_SECONDS + 1)
        with pytest.raises(SessionExpired) as caught:
            again(desk, sitting)
        assert {*messages, str(caught.value)} == {str(caught.value)}
        space.gc()
        assert not rows(space, "session")
        assert not rows(space, "verdict")


def rows(space: Space, kind: str) -> list[Any]:
    return list(all_sides(space._port, space.did, kind))


def test_gc_keeps_what_was_touched(desk: Desk, space: Space) -> None:
    sitting = desk.open()
    sitting.transact(put(1))
    space.gc()
    assert again(desk, sitting).verdicts()[0].version == 1


def test_a_log_without_what_the_client_has_seen_has_diverged(desk: Desk, space: Space) -> None:
    sitting = desk.open(seen=Mark(0, None))
    sitting.transact(put(1))
    for wrong in (Mark(1, "0" * 64), Mark(2, space.head), Mark(0, "0" * 64)):
        with pytest.raises(Diverged):
            desk.open(session=sitting.session, token=sitting.token, seen=wrong)
    sitting.transact(put(2))  # nothing was opened
    desk.open(session=sitting.session, token=sitting.token, seen=Mark(1, space.at(1).head))


def test_a_closed_session_leaves_nothing(desk: Desk, space: Space) -> None:
    sitting = desk.open()
    sitting.transact(put(1))
    sitting.close()
    assert not rows(space, "session")
    assert not rows(space, "verdict")
    with pytest.raises(SessionExpired):
        again(desk, sitting)


# -- rows ------------------------------------------------------------------------------------------


def test_a_full_window_decides_nothing_until_verdicts_are_acknowledged(
    desk: Desk, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rote.sessions.sittings.SESSION_WINDOW_MAX", 3)
    assert SESSION_WINDOW_MAX == 1_024
    sitting = desk.open()
    for local in (1, 2, 3):
        sitting.transact(put(local))
    with pytest.raises(Busy):
        sitting.transact(put(4))
    with pytest.raises(Busy):
        sitting.abandon(4)
    sitting.acknowledge(verdicts=2, basis=1)
    assert [row.key for row in rows(space, "verdict")] == [
        verdict_key(sitting.session, local) for local in (2, 3)
    ]
    assert sitting.transact(put(4)).accepted


def test_rows_are_small(desk: Desk, space: Space) -> None:
    sitting = desk.open()
    sitting.transact(put(1, value="x" * 10_000, meta="y" * 10_000))
    for kind in ("session", "verdict"):
        (row,) = rows(space, kind)
        assert len(canonical(row.body)) < 400


def test_no_token_is_stored(desk: Desk, space: Space) -> None:
    sitting = desk.open()
    (row,) = rows(space, "session")
    assert sitting.token not in canonical(row.body).decode()


def test_an_erasure_drops_the_digests_of_commits_that_wrote_the_entity(
    desk: Desk, space: Space
) -> None:
    sitting = desk.open()
    sitting.transact(put(1))
    sitting.transact(put(2, B))
    sitting.abandon(3)
    space.erase(A, reason="asked to")
    kept = [row.body["payload"] is not None for row in rows(space, "verdict")]
    assert kept == [False, True, False]
    assert sitting.transact(put(4, B, basis=3)).accepted
    sitting = again(desk, sitting)
    assert sitting.transact(put(1)).version == 1
    with pytest.raises(PayloadMismatch):
        sitting.transact(put(2, A))


# -- broken lines ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [MakeCommit, PutSide])
@pytest.mark.parametrize("how", ["before", "after", "before, resumed", "after, resumed"])
def test_after_an_unknown_outcome_the_same_commit_is_decided_once(
    desk: Desk, port: BreakingPort, space: Space, fails: type, how: str
) -> None:
    is_done, goes_on = how.startswith("after"), how.endswith("resumed")
    sitting = desk.open()
    sent = put(1) if fails is MakeCommit else put(1, "no uri")
    port.fails, port.is_done = fails, is_done
    with pytest.raises(Unavailable):
        sitting.transact(sent)
    if goes_on:
        sitting = again(desk, sitting)
    assert sitting.transact(sent).accepted == (fails is MakeCommit)
    assert sitting.transact(put(2, B)).accepted
    assert space.version == (2 if fails is MakeCommit else 1)


def test_a_verdict_that_a_crash_has_left_counts_as_nothing(
    desk: Desk, port: BreakingPort, space: Space
) -> None:
    """A verdict is written before the session's row moves; a crash in between leaves the commit undecided."""
    sitting = desk.open()
    space.set(A, "foreign")
    moves = sitting._move

    def crash(row: Any) -> None:
        raise Unavailable("killed")

    sitting._move = crash  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        sitting.transact(put(1, reads=seen()))
    assert moves is not None
    after = again(desk, sitting)
    assert (after.decided, after.verdicts()) == (0, [])
    assert after.transact(put(1)).accepted
    with pytest.raises(SessionRevoked):
        Sitting.abandon(sitting, 1)
    assert again(desk, after).verdicts()[0].accepted
