"""The access log: its lines, and that a slow disk holds up nobody."""

import io
import json
import threading
from pathlib import Path

import pytest

from rote.errors import Unavailable
from rote.server.access_log import AccessLog, Entry, FailedEntry, open_log
from rote.values.server_limits import LOG_LINES_MAX

ENTRY = Entry(
    time="2026-11-18T12:00:00.000000Z", request="0123456789abcdef", peer="127.0.0.1",
    principal="token:reader", proofs=(), method="POST", command="read", space="did:key:z6Mk",
    status=200, code=None, ms=1.5, bytes_in=12, bytes_out=345,
)  # fmt: skip


def never(count: int) -> None:
    raise AssertionError("a line was dropped")


def test_a_line_has_exactly_the_members_of_the_contract(tmp_path: Path) -> None:
    log = open_log(str(tmp_path / "access.log"), dropped=never)
    log.note(ENTRY)
    log.close()
    (line,) = (tmp_path / "access.log").read_text().splitlines()
    assert json.loads(line) == {
        "time": "2026-11-18T12:00:00.000000Z", "request": "0123456789abcdef", "peer": "127.0.0.1",
        "principal": "token:reader", "proofs": [], "method": "POST", "command": "read",
        "space": "did:key:z6Mk", "status": 200, "code": None, "ms": 1.5, "in": 12, "out": 345,
    }  # fmt: skip


def test_a_server_error_is_named(tmp_path: Path) -> None:
    log = open_log(str(tmp_path / "access.log"), dropped=never)
    members = {name: getattr(ENTRY, name) for name in ENTRY.__struct_fields__}
    log.note(FailedEntry(**members, error="Corrupt: a row was changed"))
    log.close()
    assert (
        json.loads((tmp_path / "access.log").read_text())["error"] == "Corrupt: a row was changed"
    )


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    for _ in range(2):
        log = open_log(str(tmp_path / "access.log"), dropped=never)
        log.note(ENTRY)
        log.close()
    assert len((tmp_path / "access.log").read_text().splitlines()) == 2


def test_a_log_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="access log"):
        open_log(str(tmp_path / "no" / "access.log"), dropped=never)


def test_none_writes_nothing_and_needs_no_thread() -> None:
    before = threading.active_count()
    log = open_log("none", dropped=never)
    log.note(ENTRY)
    assert threading.active_count() == before
    log.close()


class StuckSink(io.BytesIO):
    """A disk that takes nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()
        self.written = 0

    def write(self, data: object, /) -> int:
        self.begun.set()
        assert self.go.wait(30)
        self.written += 1
        return 1


def test_a_stuck_disk_drops_lines_and_counts_them_but_holds_up_nobody() -> None:
    dropped: list[int] = []
    sink = StuckSink()
    log = AccessLog(sink, dropped=dropped.append)
    log.note(ENTRY)
    assert sink.begun.wait(30)  # one line is on its way, so the queue is empty
    for _ in range(LOG_LINES_MAX + 5):
        log.note(ENTRY)
    assert sum(dropped) == 5
    sink.go.set()
    log.close()
    assert sink.written == LOG_LINES_MAX + 1


def test_a_full_disk_does_not_end_the_log() -> None:
    class FullSink(io.BytesIO):
        is_full = True

        def write(self, data: object, /) -> int:
            if FullSink.is_full:
                FullSink.is_full = False
                raise OSError(28, "No space left on device")
            kept.append(bytes(data))  # type: ignore[call-overload]
            return 1

    kept: list[bytes] = []
    dropped: list[int] = []
    log = AccessLog(FullSink(), dropped=dropped.append)
    log.note(ENTRY)
    log.note(ENTRY)
    log.close()
    assert sum(dropped) == 1 and len(kept) == 1
