"""The worker: a process that loads the driver alone, and runs statements until its host ends.

    host -> worker     marshalled: the settings, then one request at a time
    worker -> host     one letter and JSON: `+` ready, `=` result, `!` error, `x` error after which
                       the host replaces the worker, `c` before a commit

Each frame has its length before it. The worker believes its host, which marshals; the host believes
nothing, and reads JSON. If its host is gone, the worker ends with its input, or by its limit of
processor time.
"""

import marshal
import os
import resource
from json import JSONEncoder
from math import ceil
from time import monotonic
from typing import Any

import apsw

from rote.tiers.sqlite.judge import Refused
from rote.tiers.sqlite.statements import PastLimit, Statements, open_file

_HOST = 0  # the descriptor of the socket
_LENGTH_BYTES = 4
_PIECE_BYTES = 1 << 20
# Seconds of processor time beyond a call's bound, after which the system ends the worker.
_SECONDS_MORE = 2
_MESSAGE_CHARACTERS_MAX = 1_000
# The engine's own words for what is never allowed: virtual tables, and writing to the schema.
_DENIALS = ("no such module", "unsafe use of", "may not be modified", "may not be dropped")
_encoded = JSONEncoder(ensure_ascii=False).encode


def main() -> None:
    """Answer until the host closes its end."""
    settings = marshal.loads(_read() or b"N")
    if settings is None:
        return
    _bound_memory(settings["max_memory_bytes"])
    _write("+")
    statements: Statements | None = None
    while (frame := _read()) is not None:
        try:
            request = marshal.loads(frame)
            if statements is None:
                start = monotonic()
                statements = Statements(open_file(settings, seconds=request["seconds"]))
                request["seconds"] -= monotonic() - start
            _write("=" + _answer(statements, request))
        except Exception as error:
            told = _told(error)
            _write(("x" if _is_spent(told) else "!") + _encoded(told))


def _answer(statements: Statements, request: dict[str, Any]) -> str:
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = ceil(used.ru_utime + used.ru_stime + request["seconds"]) + _SECONDS_MORE
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard == resource.RLIM_INFINITY or seconds <= hard:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))
    allowed = request["allowed"]
    common = (request["sql"], request["params"], None if allowed is None else frozenset(allowed))
    if request["verb"] == "query":
        return statements.query(
            *common,
            seconds=request["seconds"],
            max_rows=request["max_rows"],
            max_result_bytes=request["max_result_bytes"],
        )
    return statements.execute(*common, seconds=request["seconds"], committing=lambda: _write("c"))


def _told(error: Exception) -> dict[str, Any]:
    """Return an error for the host: its code, and its words for people."""
    if isinstance(error, PastLimit):
        return {"code": "limit", "limit": error.limit, "message": error.what, "size": error.size}
    if isinstance(error, apsw.InterruptError):
        return {"code": "limit", "limit": "timeout_seconds"}
    if isinstance(error, apsw.NoMemError | apsw.TooBigError | MemoryError):
        return {"code": "limit", "limit": "max_memory_bytes"}
    # It may quote the whole statement.
    return {"code": _code(error), "message": str(error)[:_MESSAGE_CHARACTERS_MAX]}


def _is_spent(told: dict[str, Any]) -> bool:
    """Whether a worker that tells this may be damaged."""
    is_short = told.get("limit") == "max_memory_bytes"
    return is_short or told["code"] in ("corrupt", "disk_full", "unavailable")


def _code(error: Exception) -> str:
    if isinstance(error, Refused):
        return error.code
    if isinstance(error, UnicodeDecodeError):
        return "not_text"
    if isinstance(error, apsw.BindingsError | KeyError | UnicodeEncodeError | OverflowError):
        return "bad_arguments"
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return "busy"
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return "corrupt"
    if isinstance(error, apsw.FullError):
        return "disk_full"
    if isinstance(error, apsw.SQLError) and any(words in str(error) for words in _DENIALS):
        return "sql_denied"
    is_statements = isinstance(
        error, apsw.SQLError | apsw.ConstraintError | apsw.MismatchError | apsw.RangeError
        | ValueError
    )  # fmt: skip
    return "sql_failed" if is_statements else "unavailable"


def _bound_memory(size_bytes_max: int) -> None:
    """Bound the memory of SQLite, and of the process beyond what it has now."""
    apsw.hard_heap_limit(size_bytes_max // 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123
            pages = int(file.read().split()[0])
    except FileNotFoundError:
        return  # not Linux: the bound of SQLite has to do
    size = pages * resource.getpagesize() + size_bytes_max
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or size <= hard:
        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def _read() -> bytes | None:
    """Return the next frame; None when the host is gone."""
    length = _read_bytes(_LENGTH_BYTES)
    return None if length is None else _read_bytes(int.from_bytes(length, "big"))


def _read_bytes(size: int) -> bytes | None:
    pieces: list[bytes] = []
    while size:
        piece = os.read(_HOST, min(size, _PIECE_BYTES))
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _write(text: str) -> None:
    data = text.encode()
    rest = memoryview(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    while rest:
        rest = rest[os.write(_HOST, rest) :]
