"""Writing a new store file: it appears whole and synced under its name, or not at all."""

import fcntl
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import apsw

from rote.engines.sqlite.checksums import can_check, reserve_room, seal
from rote.engines.sqlite.failures import DRIVER_ERRORS, translate
from rote.engines.sqlite.location import make_private
from rote.engines.sqlite.schema import (
    FORMAT_WITH_CHECKSUMS,
    FORMAT_WITH_SEGMENTS,
    bring_up_to_date,
)
from rote.errors import InvalidInput, NotFound, system_failure

# The names that `write_new_file` gives to temporary files.
_is_part = re.compile(r"\..+\.\d+-\d+\.part").fullmatch


def write_new_file(path: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write a file, then give it its name; an existing file is never touched."""
    path = path.absolute()
    # Each backup has a temporary file of its own, so that two backups do not collide.
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        if path.exists():
            raise InvalidInput(f"{path} exists; name a new file")
        if not path.parent.is_dir():
            raise NotFound(f"the folder {path.parent} does not exist; make it first")
        remove_abandoned(path.parent)
        with _held(part):
            try:
                fill(part)
                _add_checksums(part)
                _sync(part)
                # Unlike a rename, this fails when another backup was faster.
                os.link(part, path)
                _sync(path.parent)
            finally:
                part.unlink(missing_ok=True)
    except FileExistsError:
        raise InvalidInput(f"{path} exists; name a new file") from None
    except OSError as error:
        raise system_failure(f"cannot write {path}", error, path) from error


# A temporary file has a lock while its process lives: one that can be locked was left by a kill.


@contextmanager
def _held(part: Path) -> Iterator[None]:
    """Make a temporary file, private and locked; the lock ends with the block or the process."""
    while True:
        part.unlink(missing_ok=True)
        make_private(part)
        file = os.open(part, os.O_RDONLY)
        fcntl.flock(file, fcntl.LOCK_SH)
        if part.exists() and os.path.samestat(os.fstat(file), part.stat()):
            break
        os.close(file)  # removed by another process before it was locked
    try:
        yield
    finally:
        os.close(file)


def remove_abandoned(folder: Path) -> None:
    """Remove temporary files in a folder that backups have left that were killed."""
    for part in folder.glob(".*.part"):
        if not _is_part(part.name):
            continue
        with suppress(OSError):  # of another user, or removed by another process
            file = os.open(part, os.O_RDONLY)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for name in (part.name, f"{part.name}-journal", f"{part.name}-wal"):
                    part.with_name(name).unlink(missing_ok=True)
            finally:
                os.close(file)


class StoreFile:
    """A store that is being written row by row, into an empty file that nobody else opens."""

    def __init__(self, part: Path) -> None:
        self._filename = str(part)

    def __enter__(self) -> Self:
        self._connection = _unguarded(self._filename)
        if can_check():
            reserve_room(self._connection)
        self._connection.execute("begin")
        bring_up_to_date(
            self._connection,
            done=0,
            format=FORMAT_WITH_CHECKSUMS if can_check() else FORMAT_WITH_SEGMENTS,
        )
        return self

    def insert(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Insert rows that have every column of the table, in its order."""
        statement = ""
        for row in rows:
            statement = statement or f"insert into {table} values ({', '.join('?' * len(row))})"
            try:
                self._connection.execute(statement, row)
            except DRIVER_ERRORS as error:
                raise translate(error, filename=self._filename) from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._connection.execute("commit")
        except DRIVER_ERRORS as failure:
            raise translate(failure, filename=self._filename) from failure
        finally:
            self._connection.close(True)


def _add_checksums(part: Path) -> None:
    """Bring a file that nobody else opens to the newest format; each page gets its checksum."""
    if not can_check():
        return
    try:
        connection = _unguarded(str(part))
        try:
            format = connection.pragma("user_version")
            if format < FORMAT_WITH_CHECKSUMS:
                reserve_room(connection)
                bring_up_to_date(connection, done=format, format=FORMAT_WITH_CHECKSUMS)
                connection.execute("vacuum")
        finally:
            connection.close(True)
        seal(part)
    except DRIVER_ERRORS as error:
        raise translate(error, filename=str(part)) from error


def _unguarded(filename: str) -> apsw.Connection:
    """Open a file without journal: when this fails, the file is deleted, and nobody else opens it."""
    connection = apsw.Connection(filename)
    connection.pragma("journal_mode", "off")
    connection.pragma("synchronous", 0)
    return connection


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
