"""The desk keeps what it has decided: through stores that stop answering, and compactions."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from rote.contract import PortLayer, all_sides
from rote.contract.commands import Command, GetSide, MakeCommit, PutSide
from rote.contract.sync import Transact
from rote.contract.verdicts import Verdict
from rote.errors import LimitExceeded, PayloadMismatch, Unavailable
from rote.opening import open as open_store
from rote.sessions import desk as desk_module
from rote.sessions.desk import Desk
from rote.sessions.rows import SESSION, VERDICT
from rote.sessions.sittings import Sitting
from rote.space import Space, Store
from rote.testing.clocks import FixedClock
from rote.testing.sources import SeededIds
from rote.values.session_limits import SESSION_SECONDS

R = TypeVar("R")
Loses = Callable[[Command[Any]], bool]


class FailingPort(PortLayer):
    """A port that does a command, loses its answer, and then is down until it is mended."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.space("s")._port)
        self.loses: Loses = lambda _: False
        self.is_down = False

    def answer(self, space: str, command: Command[R], /) -> R:
        if self.is_down:
            raise Unavailable("the store does not answer")
        answer = super().answer(space, command)
        if self.loses(command):
            self.loses, self.is_down = lambda _: False, True
            raise Unavailable("the store does not answer")
        return answer


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def store(clock: FixedClock) -> Iterator[Store]:
    with open_store(":memory:", clock=clock, ids=SeededIds(1)) as store:
        yield store


@pytest.fixture
def space(store: Store) -> Space:
    return store.space("s")


@pytest.fixture
def port(store: Store) -> FailingPort:
    return FailingPort(store)


@pytest.fixture
def desk(port: FailingPort, space: Space) -> Desk:
    return Desk(port, space.did, randomness=SeededIds(2), principal="did:key:one")


def put(local: int, id: str = "urn:a", **more: Any) -> Transact:
    return Transact(local, more.pop("basis", 0), [{"op": "set", "id": id, "value": local}], **more)


def again(desk: Desk, sitting: Sitting) -> Sitting:
    return desk.open(session=sitting.session, token=sitting.token)


def is_commit(command: Command[Any]) -> bool:
    return isinstance(command, MakeCommit)


def is_look(command: Command[Any]) -> bool:
    return isinstance(command, GetSide)


def is_move(command: Command[Any]) -> bool:
    return isinstance(command, PutSide) and command.kind == SESSION


@pytest.mark.parametrize("then", ["abandoned", "repeated", "another"])
@pytest.mark.parametrize(
    "lost", [(is_commit, put(1)), (is_look, put(1, key="k")), (is_move, put(1, "no uri"))]
)
def test_a_verdict_is_not_changed_by_what_comes_after_an_outage(
    desk: Desk, port: FailingPort, space: Space, lost: tuple[Loses, Transact], then: str
) -> None:
    """The rows were not looked at again, because the store did not answer. Then an abandon, or a commit
    that was refused before it came to the store, was written over the verdict: a commit that is in the
    log was told as taken back."""
    loses, sent = lost
    sitting = desk.open()
    sitting.confirm()
    port.loses = loses
    with pytest.raises(Unavailable):
        sitting.transact(sent)
    port.is_down = False
    is_accepted = space.version == 1
    assert is_accepted == (loses is not is_move)
    if then == "abandoned":
        told = sitting.abandon(1)
    elif then == "repeated":
        told = sitting.transact(sent)
    else:
        with pytest.raises(PayloadMismatch):
            sitting.transact(put(1, basis=99))
        told = sitting.transact(sent)
    assert told.accepted == is_accepted
    assert is_accepted or (told.error or {})["code"] == "invalid_input"
    (stored,) = again(desk, sitting).verdicts()
    assert (stored.accepted, stored.version, stored.error) == (
        told.accepted, told.version, told.error,
    )  # fmt: skip


def test_a_compaction_takes_the_hash_of_a_verdict_and_nothing_else(
    desk: Desk, space: Space
) -> None:
    """A session with a verdict that was not acknowledged could not be opened any more."""
    sitting = desk.open()
    assert sitting.transact(put(1)).hash
    sitting.transact(put(2))
    space.compact(before=2)
    assert sitting.transact(put(1)) == Verdict(1, True, 1)
    first, second = again(desk, sitting).verdicts()
    assert first == Verdict(1, True, 1)
    assert second.hash == space.at(2).head


def test_a_session_that_is_closed_leaves_no_verdict_of_a_crash(
    desk: Desk, port: FailingPort, space: Space
) -> None:
    sitting = desk.open()
    sitting.confirm()
    port.loses = lambda command: isinstance(command, PutSide) and command.kind == VERDICT
    with pytest.raises(Unavailable):
        sitting.transact(put(1, "no uri"))
    port.is_down = False
    again(desk, sitting).close()
    assert not list(all_sides(port, space.did, VERDICT))


def test_sessions_that_are_over_take_no_room(
    desk: Desk, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk_module, "SESSIONS_PER_PRINCIPAL_MAX", 1)
    desk.open()
    with pytest.raises(LimitExceeded):
        desk.open()
    clock.move(seconds=SESSION_SECONDS + 1)
    desk.open()
