"""The reading half of the engines on a SQLite file: a connection for every thread that reads."""

import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote
from weakref import WeakSet

import apsw

from rote.engines.forks import FORKS
from rote.engines.inside import Inside
from rote.engines.rows import SpaceRow
from rote.engines.sqlite.backup import write_new_file
from rote.engines.sqlite.failures import DRIVER_ERRORS, FATAL, translate
from rote.engines.sqlite.reader import SqliteReader
from rote.errors import Corrupt, Unavailable


class SqliteReading:
    """Reads of a store's file."""

    is_remote = False
    read_only: str | None = None
    _is_memory = False
    _writer: SqliteReader

    def __init__(self, filename: str, *, vfs: str | None) -> None:
        self.filename = filename
        self._vfs = vfs
        self._forks = len(FORKS)
        self._closed = False
        self._broken = False  # the writing connection could not be replaced
        self._own = Own()
        self._readers: WeakSet[SqliteReader] = WeakSet()  # all of them, freed with their threads
        self._readers_lock = threading.Lock()

    def now(self) -> None:
        """Return None: processes that share a file share a machine, and the caller has its clock."""

    def mark(self) -> bytes | None:
        return self.reader().mark()

    def why_not_written(self) -> str | None:
        return self.read_only

    def spaces(self) -> list[SpaceRow]:
        return self.reader().spaces()

    def space(self, name: str) -> SpaceRow | None:
        return self.reader().space(name)

    def leased_spaces(self) -> list[SpaceRow]:
        return self.reader().leased_spaces()

    def reader(self) -> SqliteReader:
        if self._closed or self._broken or self._forks != len(FORKS):
            self._check_open()
        if self._is_memory and self._own.block is not None and self._own.is_inside():
            return self._writer  # nobody else can read memory that is being written
        reader = self._own.reader
        if reader is None:
            reader = self._own.reader = self._new_reader()
            return reader
        # A signal handler may call this in the middle of a statement of the same thread.
        return self._new_reader() if reader.in_use.locked() else reader

    def _new_reader(self) -> SqliteReader:
        try:
            reader = self._make_reader(self._reader_failed)
        except DRIVER_ERRORS as error:
            raise translate(error, filename=self.filename) from error
        with self._readers_lock:
            self._check_open()
            self._readers.add(reader)
        return reader

    def _make_reader(self, failed: Callable[[Exception], Exception]) -> SqliteReader:
        raise NotImplementedError

    def _reader_failed(self, error: Exception) -> Exception:
        if isinstance(error, FATAL):
            self._own.reader = None  # the next call has a new connection
        return translate(error, filename=self.filename)

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed; open it again")
        if self._broken:
            raise Unavailable(f"{self.filename} failed; check the disk, then open it again")
        if self._forks != len(FORKS):
            raise Unavailable("the store was opened before a fork; open it again in this process")

    def _close_readers(self) -> list[apsw.Error]:
        """Close all readers; return their errors.

        The reader of this thread is not waited for: it may be in the middle of a statement.
        """
        with self._readers_lock:
            self._closed = True
            readers = list(self._readers)
        own = self._own.reader
        closed = [reader.close(wait=reader is not own) for reader in readers]
        return [error for error in closed if error is not None]

    def damage(self) -> list[str]:
        try:
            rows = self.reader().integrity_check()
        except Corrupt as error:
            return [str(error.details.get("reason", error))]
        return [] if rows == [("ok",)] else [str(row[0]) for row in rows]

    def backup(self, path: Path) -> None:
        write_new_file(path, self._copy_into)

    def _copy_into(self, part: Path) -> None:
        # The target names its file system: a store in memory would otherwise copy itself into memory.
        target = f"file:{quote(str(part))}?vfs={apsw.vfs_names()[0]}"
        self.reader().copy_into(target)


class Own(Inside):
    """The reader of each thread, beside the block in which the thread holds the writers' lock."""

    reader: SqliteReader | None = None
