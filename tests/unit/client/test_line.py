"""Watches of a store behind a server, on a line that breaks."""

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import rote
from rote.client import line as line_module
from rote.client import watching as watching_module
from rote.client.frames import WaitingFrame
from rote.contract.commands import Watch
from rote.contract.sync import Mark
from rote.errors import Denied, Diverged, NotFound, Unavailable
from rote.server.sync.connection import Connection
from rote.sessions import flow as flow_module
from rote.space import Space
from rote.space.sources import port_of
from rote.testing.frames import Folded
from rote.testing.serving import serving
from tests.breaking import BreakingLine

NOTES: Any = {"select": {"urn:n:*": {}}}
SOON = 30


class Both:
    """A space as it is, and as it is seen over a line that breaks."""

    def __init__(self, space: Space, remote: Space, line: BreakingLine, server: Any) -> None:
        self.space = space
        self.remote = remote
        self.line = line
        self.server = server

    @property
    def sessions(self) -> int:
        count: int = self.server.app.sessions.count
        return count

    def commit(self, value: Any, id: str = "urn:n:1") -> None:
        self.space.set(id, value)


@contextmanager
def both(**options: Any) -> Iterator[Both]:
    with (
        rote.open(":memory:") as store,
        serving(store, allow_hosts=("127.0.0.1",)) as server,
        BreakingLine(server.url) as line,
        rote.open(line.url, token=server.token, **options) as remote,
    ):
        space = store.space("notes")
        yield Both(space, remote.space("notes"), line, server)


@pytest.fixture
def ground() -> Iterator[Both]:
    with both() as found:
        yield found


def test_watches_of_a_space_share_a_session(ground: Both) -> None:
    watches = [ground.remote.watch(NOTES, timeout=SOON) for _ in range(5)]
    assert ground.sessions == 1
    assert [next(watch)["to"] for watch in watches] == [0] * 5
    ground.commit(1)
    frames = [next(watch) for watch in watches]
    assert frames == [frames[0]] * 5
    frames[0]["upserts"][0]["value"] = "mine"
    assert frames[1]["upserts"][0]["value"] == 1


def test_more_watches_than_a_session_has_take_another_line(
    ground: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_module, "SYNC_WATCHES_MAX", 2)
    watches = [ground.remote.watch(NOTES, timeout=SOON) for _ in range(5)]
    assert ground.sessions == 3
    assert [next(watch)["to"] for watch in watches] == [0] * 5


def test_a_watch_that_nobody_holds_ends_and_the_last_one_ends_the_line(ground: Both) -> None:
    first, second = (ground.remote.watch(NOTES, timeout=SOON) for _ in range(2))
    next(first), next(second)
    del first
    gc.collect()
    while ground.server.service.watches.count > 1:
        pass
    second.close()
    while ground.sessions:
        pass
    assert next(ground.remote.watch(NOTES, timeout=SOON))["to"] == 0


def test_a_line_that_breaks_is_mended_and_nothing_is_lost_or_doubled(ground: Both) -> None:
    ground.commit(0)
    watch, folded = ground.remote.watch(NOTES, timeout=SOON), Folded()
    folded.take(next(watch))
    for number in range(5):
        ground.line.cut()
        ground.commit(number, f"urn:n:{number}")
        frame = next(watch)
        assert frame["from"] is not None
        folded.take(frame)
    assert folded.facts == ground.space.query(NOTES)["facts"]


def test_a_line_whose_opening_would_be_too_long_is_mended_and_starts_over(ground: Both) -> None:
    """The server closed each new line of it as a message that is too long, and the watch ended."""
    select: dict[str, Any] = {f"urn:n:{number}:{'x' * 900}": {} for number in range(1_300)}
    watch = ground.remote.watch({"select": select}, timeout=SOON)
    id = next(iter(select))
    ground.commit(1, id)
    assert next(watch)["from"] is None
    ground.line.cut()
    ground.commit(2, id)
    frame = next(watch)
    assert (frame["from"], [each["value"] for each in frame["upserts"]]) == (None, [2])
    ground.commit(3, id)
    assert next(watch)["from"] == 2


def test_a_watch_without_a_frame_is_begun_again_until_the_server_takes_it(
    ground: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's refusal was not looked at, and the watch never got a frame."""
    port, watches = port_of(ground.remote), ground.server.service.watches
    with monkeypatch.context() as patches:
        patches.setattr(flow_module, "SYNC_WINDOW", 0)  # no frame comes
        watching = port.watch(ground.remote.did, Watch(NOTES))
        assert watching.next(0.1) is None
    ((line,),) = ground.remote._port._watches._lines.values()  # type: ignore[attr-defined]
    with monkeypatch.context() as patches:
        patches.setattr(watches, "_watches_max", 0)
        ground.line.cut()
        while line._connection < 2:
            pass
        with suppress(Unavailable):
            watching.next(0)  # it is answered after the watch was refused
    assert watching.next(SOON) is not None


def test_a_waiting_watch_gets_its_frame_after_the_line_was_down(ground: Both) -> None:
    watch = ground.remote.watch(NOTES, timeout=SOON)
    next(watch)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(next(watch)))
    thread.start()
    ground.line.go_down()
    ground.commit(1)
    ground.line.come_back()
    thread.join(SOON)
    assert [each["id"] for each in found[0]["upserts"]] == ["urn:n:1"]


def test_a_line_that_stays_down_past_the_time_is_unavailable_and_no_end(ground: Both) -> None:
    for timeout in (0, 0.3):
        watch = ground.remote.watch(NOTES, timeout=timeout)
        next(watch)
        ground.line.go_down()
        with pytest.raises(Unavailable):
            next(watch)
        ground.line.come_back()


def test_a_watch_cannot_begin_without_a_line() -> None:
    with both(timeout=0.5) as ground:
        ground.line.go_down()
        with pytest.raises(Unavailable):
            ground.remote.watch(NOTES)


def test_what_is_written_while_bytes_wait_is_one_frame(ground: Both) -> None:
    watch = ground.remote.watch(NOTES, timeout=SOON)
    next(watch)
    ground.line.hold()
    for number in range(10):
        ground.commit(number)
    ground.line.let_go()
    frame = next(watch)
    assert (frame["from"], frame["to"]) == (0, 10)
    assert frame["upserts"][0]["value"] == 9


def test_a_log_that_has_lost_what_was_seen_is_told(ground: Both) -> None:
    watch = ground.remote.watch(NOTES, timeout=SOON)
    ground.commit(1)
    next(watch)
    (line,) = ground.remote._port._watches._lines[ground.space.did]  # type: ignore[attr-defined]
    line._seen = Mark(1, "0" * 64)
    ground.line.cut()
    with pytest.raises(Diverged):
        for _ in watch:
            pass


def test_a_space_that_is_erased_ends_its_watches_with_the_error(ground: Both) -> None:
    watch = ground.remote.watch(NOTES, timeout=SOON)
    next(watch)
    ground.server.service.store.erase_space("notes", reason="test", confirm="notes")
    with pytest.raises(NotFound):
        for _ in watch:
            pass


def test_a_token_that_ends_ends_the_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    with both() as ground:
        watch = ground.remote.watch(NOTES, timeout=SOON)
        next(watch)
        monkeypatch.setattr(ground.server.app.authentication, "_start_token", b"another")
        with pytest.raises(Denied) as refused:
            next(watch)
        assert refused.value.code == "unauthenticated"


def test_a_server_that_stops_and_comes_back_is_gone_back_to(
    ground: Both,
) -> None:
    watch = ground.remote.watch(NOTES, timeout=SOON)
    next(watch)
    for connection in list(ground.server.app.sessions._connections.values()):
        _end(connection)
    ground.commit(1)
    assert next(watch)["upserts"][0]["value"] == 1


def _end(connection: Connection) -> None:
    loop = connection._ended.get_loop()
    loop.call_soon_threadsafe(connection.end, 1013)


def test_a_closed_store_ends_waiting_watches(ground: Both) -> None:
    watch = ground.remote.watch(NOTES)
    next(watch)
    raised: list[Any] = []

    def wait() -> None:
        try:
            next(watch)
        except Unavailable as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    ground.remote._port.close()
    thread.join(SOON)
    assert len(raised) == 1


def test_a_forked_process_leaves_the_line_to_the_one_that_has_made_it(ground: Both) -> None:
    """Its store closed the connection that it shared with the other one."""
    watch = ground.remote.watch(NOTES, timeout=SOON)
    next(watch)
    port: Any = ground.remote._port
    (line,) = port._watches._lines[ground.space.did]
    with line._changed:  # as a thread may hold it that is not there after the fork
        child = os.fork()
        if child == 0:
            port.close()
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    ground.commit(1)
    assert next(watch)["to"] == 1
    assert line._connection == 1


def test_a_watch_from_a_version_has_a_line_of_its_own(ground: Both) -> None:
    for number in range(3):
        ground.commit(number, f"urn:n:{number}")
    shared, later = (
        ground.remote.watch(NOTES, timeout=SOON),
        ground.remote.watch(NOTES, since=2, timeout=SOON),
    )
    assert ground.sessions == 2
    assert next(shared)["from"] is None
    frame = next(later)
    assert (frame["from"], [each["id"] for each in frame["upserts"]]) == (2, ["urn:n:2"])
    ground.line.cut()
    ground.commit("x", "urn:n:2")
    assert [next(watch)["from"] for watch in (shared, later)] == [3, 3]


def test_versions_and_paths_are_the_servers_to_choose(ground: Both) -> None:
    port = ground.remote._port
    with pytest.raises(Denied):
        port.watch(ground.remote.did, Watch(NOTES, path="urn:n:"))
    watching = port.watch(ground.remote.did, Watch(NOTES))
    with pytest.raises(Denied):
        watching.advance(1)
    assert isinstance(watching, watching_module.RemoteWatching)
    watching.close()
    assert watching.next(0) is None


def test_nothing_has_come_yet() -> None:
    assert WaitingFrame().frame(9) is None
