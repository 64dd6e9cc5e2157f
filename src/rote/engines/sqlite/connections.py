"""Opening and configuring a connection to a store's file."""

import sys
import time
from collections.abc import Callable
from typing import TypeVar

import apsw

from rote.engines.sqlite.checksums import checked
from rote.errors import InternalError, Unavailable
from rote.values.limits import BUSY_SECONDS_MAX, SQLITE_CACHE_KIB, SQLITE_WAL_BYTES_KEPT

# Older releases can lose acknowledged commits when several connections checkpoint and write.
SQLITE_VERSION_MIN = (3, 51, 3)

_Answer = TypeVar("_Answer")

SYNCHRONOUS = {"fsync": 2, "os": 1}


def connect(
    filename: str,
    *,
    durability: str = "fsync",
    vfs: str | None,
    cache_kib: int = SQLITE_CACHE_KIB,
    read_only: bool = False,
    unshared: bool = False,
) -> apsw.Connection:
    """Return a connection after reading every setting back.

    With `unshared` the index of the log is in the memory of this connection alone.
    """
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < SQLITE_VERSION_MIN:
        raise Unavailable(f"SQLite {apsw.sqlite_lib_version()} is too old; upgrade apsw")
    mode = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    flags = mode | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOMUTEX
    connection = apsw.Connection(filename, flags=flags, vfs=checked(vfs))
    if read_only:
        # Closing the last connection would otherwise try to empty the log.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    if unshared:
        connection.pragma("locking_mode", "exclusive")  # before the first look at the file
    # The plan depends on the statement alone; otherwise SQLite plans range reads anew for every value.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.set_busy_timeout(BUSY_SECONDS_MAX * 1000)
    for name, value in _settings(durability, cache_kib).items():
        _set(connection, name, value)
    return connection


def patiently(action: Callable[[], _Answer]) -> _Answer:
    """Repeat an action that SQLite gives up at once when another process is in the way, for as long
    as a busy writer would wait."""
    deadline = time.monotonic() + BUSY_SECONDS_MAX
    while True:
        try:
            return action()
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def is_memory(filename: str) -> bool:
    return "vfs=memdb" in filename


def use_write_ahead_log(connection: apsw.Connection) -> None:
    """Switch the file to WAL mode; it stays so."""
    mode = patiently(lambda: connection.pragma("journal_mode", "wal"))
    if mode != "wal":
        raise Unavailable(f"{connection.filename}: this file system cannot hold a write-ahead log")


def _settings(durability: str, cache_kib: int) -> dict[str, int]:
    return {
        "synchronous": SYNCHRONOUS[durability],
        # On macOS only this reaches the platters.
        "fullfsync": int(sys.platform == "darwin" and durability == "fsync"),
        "cache_size": -cache_kib,
        # Under mmap an I/O error would be a SIGBUS.
        "mmap_size": 0,
        "temp_store": 2,
        "trusted_schema": 0,
        "cell_size_check": 1,
        "journal_size_limit": SQLITE_WAL_BYTES_KEPT,
        # Checkpoints are made beside the commits, see checkpointer.py.
        "wal_autocheckpoint": 0,
    }


def _set(connection: apsw.Connection, name: str, value: int) -> None:
    connection.pragma(name, value)
    actual = connection.pragma(name)
    # Some builds, and databases in memory, have no mmap and return nothing.
    if actual not in (value, None):
        raise InternalError(f"SQLite kept {name} at {actual} instead of {value}")
