"""Branches and events of sessions, and how they end."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.contract import all_sides
from rote.errors import (
    InvalidInput,
    NotFound,
    RoteError,
    Unavailable,
    Withdrawn,
)
from rote.sessions import events
from rote.sessions.session import Session
from rote.space import Space, Store
from rote.testing.serving import serving
from tests.unit.sessions.conftest import SECONDS, WATCH, come_back

A, B, C = "urn:a", "urn:b", "urn:c"


def test_a_session_writes_on_several_branches(space: Space) -> None:
    space.set(A, 1)
    space.create_branch("draft")
    watches = {"main": WATCH, "draft": {**WATCH, "branch": "draft"}}
    with space.session(watch=watches, timeout=SECONDS) as session:
        session.pause()
        draft = session.on("draft")  # held, so nobody is asked
        draft.set(A, 2)
        assert (draft.get(A), session.get(A)) == (2, 1)
        assert draft.query(WATCH)["facts"][A]["value"] == 2
        assert come_back(session) == []
        assert space.on("draft").get(A) == 2
        with pytest.raises(NotFound):
            session.on("none")


def test_a_block_that_is_left_waits_until_all_is_decided(space: Space) -> None:
    with space.session() as session:
        session.set(A, 1)
    assert space.get(A) == 1
    assert session.state == "ended"
    with pytest.raises(Unavailable):
        session.set(B, 1)


def test_a_block_that_is_left_offline_names_what_was_not_decided(space: Space) -> None:
    with pytest.raises(Unavailable) as caught, space.session(timeout=0.5) as session:
        session.pause()
        pending = session.set(A, 1)
    assert caught.value.details["locals"] == [1]
    assert pending.status == "unknown"
    with pytest.raises(RoteError):
        pending.wait()


def test_after_an_exception_what_is_not_decided_is_unknown(space: Space) -> None:
    with pytest.raises(KeyError), space.session() as session:
        session.pause()
        pending = session.set(A, 1)
        raise KeyError
    assert pending.status == "unknown"


def test_a_session_that_ends_leaves_no_rows(stores: dict[str, Store], space: Space) -> None:
    with space.session() as session:
        session.set(A, 1)
    port = stores["here"].space(space.did)._port
    assert list(all_sides(port, space.did, "session")) == []


def test_events_say_what_happens_to_the_line(session: Session) -> None:
    session.pause()
    session.resume()
    told = [event["type"] for _, event in zip(range(3), session.events(SECONDS), strict=False)]
    assert told == ["online", "offline", "online"]
    session.close()
    assert [event["type"] for event in session.events(SECONDS)] == ["ended"]


def test_a_session_goes_on_when_what_it_wrote_was_compacted(space: Space, session: Session) -> None:
    # Verdicts are acknowledged many at a time, so those of old versions are told again with a new line.
    session.set(A, 1)
    session.flush(SECONDS)
    session.pause()
    session.set(C, 1)
    space.set(A, 2)
    space.set(B, 2)
    space.compact(before=space.version)
    assert come_back(session) == []
    assert (session.get(A), session.get(B), space.get(C)) == (2, 2, 1)


def test_events_that_nobody_takes_go_the_oldest_first(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "SESSION_EVENTS_MAX", 3)
    for number in range(3):
        session.set(A, number)
        session.flush(SECONDS)
    kept = [(event["type"], event["local"]) for event in session.events(0)]
    assert kept == [("integrated", 2), ("committed", 3), ("integrated", 3)]
    assert session.dropped == 4  # online, and the first two commits


def test_a_store_that_closes_ends_its_sessions() -> None:
    store = rote.open(":memory:")
    session = store.space("s").session()
    store.close()
    assert session.state == "ended"


def test_a_store_lets_go_of_a_session_that_is_closed_on_another_branch(space: Space) -> None:
    space.set(A, 1)
    space.create_branch("draft")
    session = space.session()
    sessions: Any = space._home.sessions
    begun = getattr(sessions, "_sessions", sessions)
    assert session in begun._open
    session.on("draft").on("main").close()
    assert session not in begun._open


def test_a_forked_process_raises_and_leaves_the_session_to_its_own(session: Session) -> None:
    session.set(A, 1)
    session.flush(SECONDS)
    child = os.fork()
    if child == 0:
        raised = 0
        for call in (
            lambda: session.get(A),
            lambda: session.set(A, 2),
            session.flush,
            session.pause,
        ):
            try:
                call()
            except Unavailable as error:
                raised += "fork" in str(error)
        session.close()
        os._exit(raised)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    session.set(A, 3).wait(SECONDS)
    assert session.state == "online"


def test_a_forked_process_waits_for_no_lock_and_for_nobody(offline: Session) -> None:
    # Another thread may hold any lock of the session at the time of a fork.
    pending, frames = offline.set(A, 1), offline.watch(WATCH)
    next(frames)
    transaction = offline.transaction().__enter__()
    transaction.set(B, 1)
    calls: list[Any] = [
        pending.wait,
        pending.cancel,
        lambda: offline.pending,
        lambda: next(offline.events()),
        lambda: next(frames),
        lambda: offline.set(A, 2),
        offline.transaction,
        lambda: transaction.__exit__(None, None, None),
        lambda: offline.update(A, lambda value: value),
    ]
    held = threading.Event()
    is_over = threading.Event()

    def hold() -> None:
        with offline._making._writing, offline._replica.changed:
            held.set()
            is_over.wait(SECONDS)

    holding = threading.Thread(target=hold)
    holding.start()
    assert held.wait(SECONDS)
    child = os.fork()
    if child == 0:
        signal.alarm(int(SECONDS))  # it would wait for ever
        raised = 0
        for call in calls:
            try:
                call()
            except Unavailable as error:
                raised += "fork" in str(error)
        os._exit(raised)
    is_over.set()
    holding.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(calls)
    assert pending.status == "pending"


@pytest.mark.parametrize("timeout", [None, float("inf"), 1e300, 10**400])
def test_a_timeout_may_be_as_long_as_one_likes(space: Space, timeout: Any) -> None:
    with space.session(watch=WATCH, timeout=timeout or SECONDS) as session:
        pending = session.set(A, 1)
        assert pending.wait(timeout).version == 1
        assert pending.cancel(timeout) is False
        assert session.flush(timeout) == []
        assert next(session.events(timeout))["type"] == "online"
        assert next(session.watch(WATCH, timeout=timeout))["to"] == 1


def test_a_commit_that_is_too_large_for_the_server_is_rejected_alone(tmp_path: Path) -> None:
    journal = tmp_path / "j"
    with (
        rote.open(":memory:") as here,
        serving(here, threads=2, commit_bytes=1 << 20) as server,
        rote.open(server.url, token=server.token) as served,
    ):
        space = served.space("s")
        with space.session(watch=WATCH, journal=journal, timeout=SECONDS) as session:
            large, small = session.set(A, "x" * (2 << 20)), session.set(B, 1)
            assert session.flush(SECONDS) == [large]
            assert isinstance(large.error, InvalidInput)
            assert (small.status, session.state) == ("integrated", "online")
        with space.session(watch=WATCH, journal=journal, timeout=SECONDS) as session:
            assert (session.get(A), session.get(B)) == (None, 1)


def test_a_rejection_may_be_asked_for_again_and_again(offline: Session) -> None:
    pending = offline.set(A, 1)
    assert pending.cancel()
    depths = set()
    for _ in range(3):
        with pytest.raises(Withdrawn) as caught:
            pending.wait()
        depths.add(len(caught.traceback))
    assert len(depths) == 1
