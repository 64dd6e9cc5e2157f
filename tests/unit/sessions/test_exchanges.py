"""Exchanges: lines that end are mended, what was refused is sent again, and what cannot be mended ends."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rote
from rote.contract.links import Link, LinkRequest, Message, Refused, ended
from rote.contract.sync import Abandon, Ack, Mark, Opened, OpenSession, Transact
from rote.contract.verdicts import Verdict
from rote.errors import (
    Busy,
    Conflict,
    Diverged,
    InternalError,
    InvalidInput,
    LimitExceeded,
    RoteError,
    SessionExpired,
    SessionRevoked,
    Unavailable,
    Withdrawn,
)
from rote.opening.sources import SystemIds
from rote.sessions import exchange, sittings, stack
from rote.sessions.links import LocalLinker
from rote.sessions.session import Session
from rote.sessions.store_sessions import StoreSessions
from rote.space import Space
from rote.values.session_limits import (
    SESSION_ACK_VERDICTS,
    SESSION_PENDING_MAX,
    SESSION_WINDOW_MAX,
)

A, B, C = "urn:a", "urn:b", "urn:c"
SECONDS = 20.0


class BadLinker:
    """Implements contract.Linker on lines that do what a test says."""

    def __init__(self, space: Space) -> None:
        self._linker = LocalLinker(space._port, randomness=SystemIds())
        self.failures: list[RoteError] = []  # of the next openings
        self.openings: list[OpenSession] = []
        self.requests: list[LinkRequest] = []
        self.refusals: dict[int, RoteError] = {}  # of the next commit with a local
        self.links: list[BadLink] = []
        self.connected = threading.Semaphore(0)
        self.is_connecting, self.may_connect = threading.Event(), threading.Event()
        self.may_connect.set()
        self.opened: Callable[[], object] = lambda: None  # called after an opening

    def connect(self, opening: OpenSession) -> "BadLink":
        self.openings.append(opening)
        self.is_connecting.set()
        assert self.may_connect.wait(SECONDS)
        if self.failures:
            raise self.failures.pop(0)
        link = BadLink(self, self._linker.connect(opening))
        self.opened()
        self.links.append(link)
        self.connected.release()
        return link

    def cut(self, then: Any) -> None:
        """End the newest line."""
        self.links[-1].cut(then)

    def sent(self, kind: type[Any]) -> list[Any]:
        return [request for request in self.requests if isinstance(request, kind)]


class BadLink:
    """Implements contract.Link."""

    def __init__(self, linker: BadLinker, link: Link) -> None:
        self._linker = linker
        self._link = link
        self._refused: list[Refused] = []
        self._end: Unavailable | None = None

    @property
    def opened(self) -> Opened:
        return self._link.opened

    def send(self, request: LinkRequest) -> int:
        self._linker.requests.append(request)
        refusal = None
        if isinstance(request, Transact):
            refusal = self._linker.refusals.pop(request.local, None)
        if refusal is not None:
            id = self._link.send(Ack())  # so that ids go on, and the receiver wakes
            self._refused.append(Refused(id, refusal))
            return id
        return self._link.send(request)

    def receive(self, timeout: float | None = None) -> Message | None:
        try:
            message = self._link.receive(timeout)
        except Unavailable:
            if self._end is not None:
                raise self._end from None
            raise
        for refused in self._refused:
            if message is not None and getattr(message, "id", None) == refused.id:
                return refused
        return message

    def cut(self, then: Any) -> None:
        self._end = ended(then, "the line broke")
        self._link.close()

    def close(self) -> None:
        self._link.close()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "LINE_PAUSE_SECONDS_MIN", 0.001)


@pytest.fixture
def space() -> Iterator[Space]:
    with rote.open(":memory:") as store:
        yield store.space("s")


@pytest.fixture
def linker(space: Space) -> BadLinker:
    return BadLinker(space)


@pytest.fixture
def session(space: Space, linker: BadLinker) -> Iterator[Session]:
    session = begin(space, linker)
    yield session
    session.close()


def begin(space: Space, linker: BadLinker) -> Session:
    sessions = StoreSessions(linker, randomness=SystemIds())
    session = sessions.begin(space, watch=None, journal=None, timeout=SECONDS)
    assert linker.connected.acquire(timeout=SECONDS)
    return session


def await_event(session: Session, type: str) -> None:
    assert any(event["type"] == type for event in session.events(SECONDS))


# -- lines that end -------------------------------------------------------------------------------


@pytest.mark.parametrize("then", ["back", "later", "auth"])
def test_a_line_that_has_ended_is_mended_and_nothing_is_applied_twice(
    space: Space, session: Session, linker: BadLinker, then: str
) -> None:
    made = []
    for number in range(40):
        made.append(session.transact([{"op": "set", "id": A, "value": number}], meta=number))
        if number % 10 == 5:
            linker.cut(then)
            assert linker.connected.acquire(timeout=SECONDS)
    assert session.flush(SECONDS) == []
    assert [commit.meta for commit in space.log()] == list(range(40))
    assert [pending.wait(0).version for pending in made] == list(range(1, 41))
    assert session.get(A) == 39


def test_a_line_says_what_it_has_seen_and_shows_its_token(
    space: Space, session: Session, linker: BadLinker
) -> None:
    session.set(A, 1)
    session.flush(SECONDS)
    linker.cut("back")
    assert linker.connected.acquire(timeout=SECONDS)
    first, second = linker.openings
    assert (first.session, first.token, first.seen) == (None, None, None)
    opened = linker.links[0].opened
    assert (second.session, second.token) == (opened.session, opened.token)
    assert second.seen == Mark(1, space.head)


def test_a_store_that_does_not_answer_is_asked_again(space: Space, linker: BadLinker) -> None:
    linker.failures = [Unavailable("no"), Busy("no"), Unavailable("no")]
    session = begin(space, linker)
    session.set(A, 1)
    assert session.flush(SECONDS) == []
    assert len(linker.openings) == 4
    session.close()


def test_writes_offline_do_not_hurry_the_next_attempt(session: Session, linker: BadLinker) -> None:
    session._exchange._pause = 5
    linker.failures = [Unavailable("no")] * 100
    linker.cut("later")
    await_event(session, "offline")
    for number in range(200):
        session.set(A, number)
    assert len(linker.openings) <= 2
    linker.failures = []


def test_a_pause_waits_for_an_attempt_that_is_under_way(
    session: Session, linker: BadLinker
) -> None:
    linker.may_connect.clear()
    linker.is_connecting.clear()
    linker.cut("back")
    assert linker.is_connecting.wait(SECONDS)
    pausing = threading.Thread(target=session.pause)
    pausing.start()
    pausing.join(0.02)
    assert pausing.is_alive()
    linker.may_connect.set()
    pausing.join(SECONDS)
    assert session.state == "offline"
    session.set(A, 1)
    assert linker.sent(Transact) == []
    session.resume()
    assert session.flush(SECONDS) == []


def test_a_version_that_is_compacted_while_a_line_is_opened_ends_no_session(
    space: Space, session: Session, linker: BadLinker
) -> None:
    def compact() -> None:
        linker.opened = lambda: None
        space.set(A, 1)
        space.set(A, 2)
        space.compact(before=space.version)

    session.set(A, 0)
    session.flush(SECONDS)
    linker.opened = compact
    linker.cut("back")
    await_event(session, "offline")
    await_event(session, "online")
    assert session.set(B, 1).wait(SECONDS).version == space.version


def test_a_session_that_cannot_begin_in_time_says_why(space: Space, linker: BadLinker) -> None:
    linker.failures = [Unavailable("the cable is out")] * 1_000
    sessions = StoreSessions(linker, randomness=SystemIds())
    with pytest.raises(Unavailable, match="cable"):
        sessions.begin(space, watch=None, journal=None, timeout=0.05)


# -- ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [SessionRevoked("taken"), SessionExpired("old"), Diverged("restored")]
)
def test_what_no_line_mends_ends_the_session(
    space: Space, session: Session, linker: BadLinker, error: RoteError
) -> None:
    session.set(A, 1)
    session.flush(SECONDS)
    list(session.events(0))
    linker.refusals = {2: Busy("wait")}
    linker.failures = [error]
    pending = session.set(B, 1)
    linker.cut("back")
    with pytest.raises(type(error)):
        pending.wait(SECONDS)
    assert (session.state, pending.status) == ("ended", "unknown")
    with pytest.raises(type(error)):
        session.set(C, 1)
    with pytest.raises(type(error)):
        session.flush(SECONDS)
    assert session.get(A) == 1
    *_, last = session.events(SECONDS)
    assert (last["type"], last["error"]["code"]) == ("ended", error.code)


def test_what_is_not_made_again_any_more_is_lost(session: Session) -> None:
    session.pause()
    made = session.update(A, lambda value: 1)
    conflict = Conflict(()).to_dict()
    session._replica.decide(Verdict(1, False, 99, error=conflict))  # its version never comes
    session.close()
    assert made.status == "unknown"
    with pytest.raises(Unavailable, match="ended"):
        session.flush(SECONDS)


def test_a_line_that_says_stop_ends_the_session(session: Session, linker: BadLinker) -> None:
    linker.cut("stop")
    assert [event["type"] for event in session.events(SECONDS)][-1] == "ended"
    assert session.state == "ended"
    assert len(linker.openings) == 1


def test_a_session_that_is_opened_elsewhere_ends(
    space: Space, session: Session, linker: BadLinker
) -> None:
    opened = linker.links[0].opened
    other = LocalLinker(space._port, randomness=SystemIds()).connect(
        OpenSession(space.did, session=opened.session, token=opened.token)
    )
    other.send(Ack(to=0))
    other.receive(SECONDS)
    with pytest.raises(SessionRevoked):
        session.set(A, 1).wait(SECONDS)  # whichever is later than the news
    assert space.get(A) is None
    other.close()


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [Busy("full"), Unavailable("later"), InternalError("a bug")])
def test_what_was_refused_is_sent_again_with_all_after_it(
    space: Space, session: Session, linker: BadLinker, error: RoteError
) -> None:
    session.pause()
    linker.refusals = {2: error}
    for number in range(5):
        session.transact([{"op": "set", "id": A, "value": number}], meta=number)
    session.resume()
    assert session.flush(SECONDS) == []
    assert [commit.meta for commit in space.log()] == list(range(5))


def test_what_the_desk_cannot_read_is_rejected_and_blocks_nothing(
    space: Space, session: Session, linker: BadLinker
) -> None:
    session.pause()
    linker.refusals = {1: InvalidInput("no message of mine")}
    bad = session.set(A, 1)
    session.set(B, 1)
    session.resume()
    assert session.flush(SECONDS) == [bad]
    assert isinstance(bad.error, InvalidInput)
    assert [commit.facts[0].id for commit in space.log()] == [B]


def test_what_is_dead_before_it_was_sent_goes_as_abandon(
    session: Session, linker: BadLinker
) -> None:
    session.pause()
    first = session.set(A, 1)
    with session.transaction() as tx:
        tx.set(B, tx.get(A))
    assert first.cancel()
    session.set(C, 1)
    session.resume()
    session.flush(SECONDS)
    assert [request.local for request in linker.sent(Abandon)] == [1, 2]
    assert [request.local for request in linker.sent(Transact)] == [3]
    assert isinstance(first.error, Withdrawn)


# -- what is acknowledged -------------------------------------------------------------------------


def test_a_session_makes_more_commits_than_its_desk_keeps(
    space: Space, session: Session, linker: BadLinker
) -> None:
    for _ in range(4):
        for number in range(SESSION_WINDOW_MAX // 3):
            session.set(A, number)
        assert session.flush(SECONDS) == []
    told = [ack.verdicts for ack in linker.sent(Ack) if ack.verdicts is not None]
    assert told == sorted(set(told))
    assert len(told) <= session.version // SESSION_ACK_VERDICTS


def test_an_open_transaction_keeps_what_it_may_name(
    space: Space, session: Session, linker: BadLinker
) -> None:
    session.set(A, 0)
    with session.transaction() as tx:
        tx.set(B, tx.get(A))
        for number in range(3 * SESSION_ACK_VERDICTS):
            session.set(C, number)
        assert session.flush(SECONDS) == []
    assert tx.pending is not None
    assert tx.pending.wait(SECONDS).facts[0].id == B


def test_a_writer_that_never_waits_goes_on(
    monkeypatch: pytest.MonkeyPatch, session: Session
) -> None:
    monkeypatch.setattr(sittings, "SESSION_WINDOW_MAX", 30)
    monkeypatch.setattr(stack, "SESSION_PENDING_MAX", 28)
    monkeypatch.setattr(exchange, "SESSION_ACK_VERDICTS", 20)
    last = 300

    def is_there_room(number: int) -> bool:
        try:
            session.set(A, number)
        except LimitExceeded:
            return False
        return True

    for number in range(last + 1):
        if not is_there_room(number):
            assert any(is_there_room(number) for _ in session.events(1.0))
    assert session.flush(SECONDS) == []
    assert session.get(A) == last


def test_a_full_window_is_acknowledged_and_decides_again(
    space: Space, session: Session, linker: BadLinker
) -> None:
    session.pause()
    for number in range(SESSION_PENDING_MAX):
        session.set(A, number)
    session.resume()
    for number in range(2 * SESSION_ACK_VERDICTS):
        write_when_there_is_room(session, number)
    assert session.flush(SECONDS) == []
    assert session.version == SESSION_PENDING_MAX + 2 * SESSION_ACK_VERDICTS


def write_when_there_is_room(session: Session, value: int) -> None:
    for event in session.events(SECONDS):
        if event["type"] == "committed":
            try:
                session.set(A, value)
            except LimitExceeded:
                continue
            return


def test_an_open_transaction_bounds_the_commits_beside_it(session: Session) -> None:
    with session.transaction() as tx:
        tx.get(A)
        with pytest.raises(LimitExceeded, match="open transactions"):
            for number in range(2 * SESSION_PENDING_MAX):
                session.set(C, number)
                if number % 100 == 0:
                    session.flush(SECONDS)
        assert session.flush(SECONDS) == []
    session.set(C, "again")
    assert session.flush(SECONDS) == []


def test_any_number_of_commits_may_be_rejected_at_one_version(
    monkeypatch: pytest.MonkeyPatch, session: Session
) -> None:
    monkeypatch.setattr(sittings, "SESSION_WINDOW_MAX", 10)
    monkeypatch.setattr(exchange, "SESSION_ACK_VERDICTS", 6)
    session.set(A, 1)
    assert session.flush(SECONDS) == []
    for _ in range(15):
        with pytest.raises(Conflict):
            session.transact(
                [{"op": "set", "id": B, "value": 1}], reads=[{"id": A, "version": 0}]
            ).wait(SECONDS)
    session.pause()
    for _ in range(15):
        assert session.set(B, 1).cancel()
    session.resume()
    assert session.set(C, 1).wait(SECONDS).version == 2


def test_nothing_is_sent_after_a_pause(session: Session, linker: BadLinker) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set() and len(session.pending) < 500:
            session.set(A, 1)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for _ in range(20):
            session.pause()
            sent = len(linker.requests)
            session.set(B, 1)
            assert len(linker.requests) == sent
            session.resume()
            await_event(session, "online")
    finally:
        stop.set()
        writing.join()
    assert session.flush(SECONDS) == []


def test_a_closed_session_has_no_threads(space: Space, linker: BadLinker) -> None:
    before = threading.active_count()
    session = begin(space, linker)
    session.update(A, lambda value: value)
    session.close()
    for thread in threading.enumerate():
        if thread.name.startswith("rote-session"):
            thread.join(SECONDS)
    assert threading.active_count() <= before


def test_a_line_that_comes_after_the_end_is_given_back(
    space: Space, linker: BadLinker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "SYNC_CLOSE_SECONDS", 0.01)
    session = begin(space, linker)
    linker.may_connect.clear()
    linker.is_connecting.clear()
    linker.cut("back")
    assert linker.is_connecting.wait(SECONDS)
    session.close()
    linker.may_connect.set()
    assert linker.connected.acquire(timeout=SECONDS)
    for thread in session._exchange._threads:
        thread.join(SECONDS)
        assert not thread.is_alive()


def test_a_block_that_is_left_after_its_session_was_ended_says_so(
    space: Space, linker: BadLinker
) -> None:
    with pytest.raises(SessionRevoked), begin(space, linker) as session:
        session.pause()
        pending = session.set(A, 1)
        linker.failures = [SessionRevoked("taken over")]
        session.resume()
        await_event(session, "ended")
    assert pending.status == "unknown"
