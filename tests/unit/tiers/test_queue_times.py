"""Leases and delays by the clock of the store, to the microsecond."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import rote
from rote.contract.commands import AwaitCommit, PutSide
from rote.engines.sqlite.reader import SqliteReader
from rote.space.sources import port_of
from rote.testing.clocks import FixedClock
from rote.testing.intercepting import intercept
from rote.values import parse_time

Q = "alerts"


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def host(clock: FixedClock) -> Iterator[rote.Host]:
    with rote.open(":memory:", clock=clock) as store:
        yield rote.Host("network-restricted", store=store, queue={"lease_seconds": 10})


def test_a_lease_lives_until_its_end_and_not_at_it(host: rote.Host, clock: FixedClock) -> None:
    host.queue.put(Q, 1)
    first = host.queue.take(Q)["message"]
    assert first["leased_until"] == "2026-01-01T12:00:10.000000Z"
    clock.move(seconds=9.999999)
    assert host.queue.take(Q)["message"] is None
    clock.move(seconds=0.000001)
    assert host.queue.take(Q)["message"]["tries"] == 2


def test_a_delay_and_an_extension_end_as_they_say(host: rote.Host, clock: FixedClock) -> None:
    host.queue.put(Q, 1)
    first = host.queue.take(Q)["message"]
    clock.move(seconds=5)
    longer = host.queue.extend(Q, first["id"], first["lease"])
    assert longer == {"leased_until": "2026-01-01T12:00:15.000000Z"}
    host.queue.nack(Q, first["id"], first["lease"], 2.5)
    assert host.queue.depth(Q) == {"ready": 0, "leased": 1, "dead": 0}
    clock.move(seconds=2.499999)
    assert host.queue.take(Q)["message"] is None
    clock.move(seconds=0.000001)
    assert host.queue.take(Q, lease_seconds=0.5)["message"]["leased_until"] == (
        "2026-01-01T12:00:08.000000Z"
    )


def test_a_waiting_take_gets_what_falls_due() -> None:
    with rote.open(":memory:") as store:
        host = rote.Host("network-restricted", store=store)
        host.queue.put(Q, "leased")
        host.queue.put(Q, "delayed")
        host.queue.take(Q, lease_seconds=0.05)
        message = host.queue.take(Q)["message"]
        host.queue.nack(Q, message["id"], message["lease"], 0.1)
        taken = [host.queue.take(Q, None, 30)["message"]["payload"] for _ in range(2)]
    assert taken == ["leased", "delayed"]


def test_a_waiting_take_that_lost_a_message_gets_it_when_its_lease_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two takers were woken by one put; the one that got the message dies."""
    with rote.open(":memory:") as store:
        host, other = (rote.Host("network-restricted", store=store) for _ in range(2))
        host.queue.put(Q, "once")
        met: list[Any] = []

        def meet(space: str, command: PutSide, answer: Any) -> Any:
            if not met:
                met.append(None)
                met.append(other.queue.take(Q, lease_seconds=0.05)["message"])
            return answer(command)

        intercept(monkeypatch, port_of(store.space("default")), PutSide, meet)
        message = host.queue.take(Q, 1, 60)["message"]
    assert (message["payload"], message["tries"], met[1]["tries"]) == ("once", 2, 1)
    # It came when the lease of the other had ended, and not at the end of the wait.
    ended, taken = (parse_time(each["leased_until"]) for each in (met[1], message))
    assert taken - ended < 40_000_000


def test_a_waiting_take_runs_no_statement_while_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[object] = []
    looks: list[int] = []  # the statements before each look at the head, once it waits
    waits, has_looked = threading.Event(), threading.Event()
    head = SqliteReader.head

    def counted(self: SqliteReader, space: int) -> Any:
        if waits.is_set():
            looks.append(len(statements))
            if len(looks) == 10:
                has_looked.set()
        return head(self, space)

    def watch(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, statements.append)

    def wait(space: str, command: AwaitCommit, answer: Any) -> Any:
        waits.set()
        return answer(command)

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, watch])
    monkeypatch.setattr(SqliteReader, "head", counted)
    with rote.open(tmp_path / "memory.db") as store:
        host = rote.Host("network-restricted", store=store)
        intercept(monkeypatch, port_of(store.space("default")), AwaitCommit, wait)
        taken: list[Any] = []
        taker = threading.Thread(target=lambda: taken.append(host.queue.take(Q, None, 30)))
        taker.start()
        assert has_looked.wait(30)
        host.queue.put(Q, "woken")
        taker.join()
    assert taken[0]["message"]["payload"] == "woken"
    assert looks[:10] == [looks[0]] * 10
    assert 0 < looks[0] < len(statements)
