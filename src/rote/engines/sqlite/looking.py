"""The engine that looks at a file and changes nothing: no byte of it, and no file beside it.

SQLite would make two files beside a store that is only read: the log, and the memory that processes
share. So how a connection is made depends on what is there:

    log and shared memory    others are writing, or were killed. SQLite reads both and writes neither;
                             it sees every later commit
    a log alone              somebody has copied a store. The log is read without shared memory
    no log                   the store was closed. The file is read as if it could not change

In the last two cases SQLite notices no other process. The reader then compares the marks of the
files after every statement. When they have changed, it connects anew and asks once more.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote
from weakref import WeakSet

import apsw

from rote.engines.forks import FORKS, hold_at_forks
from rote.engines.protocol import ASKED_FOR, refused_write
from rote.engines.rows import BranchRow
from rote.engines.sqlite.connections import connect
from rote.engines.sqlite.failures import DRIVER_ERRORS, translate
from rote.engines.sqlite.identity import format_of, identity_of, no_database
from rote.engines.sqlite.location import prepare_file
from rote.engines.sqlite.reader import SqliteReader
from rote.engines.sqlite.reading import SqliteReading
from rote.engines.sqlite.schema import APPLICATION_ID, FORMAT_WITH_SEGMENTS
from rote.errors import Busy, Corrupt, InvalidInput, Unavailable
from rote.values.limits import LOOKS_MAX, SQLITE_READER_CACHE_KIB, WAKE_SECONDS_MAX

# Of the store, its log and its shared memory: device, inode, size and time of change; None where one
# is missing.
_Status = tuple[int, int, int, int] | None
_SIZE = 2
Mark = tuple[_Status, _Status, _Status]
_GONE: Mark = (None, None, None)  # the mark of a connection that was closed

# The file system of SQLite that takes no locks; it needs none where nobody else is.
_NO_LOCKS = next((name for name in apsw.vfs_names() if name.endswith("-none")), None)
_readers: "WeakSet[LookingReader]" = WeakSet()  # of this process
# A signal handler may open a store while its own thread makes a connection.
_connecting = threading.RLock()


def _renew_lock() -> None:
    """Make the lock anew in a child: the thread that held it at the fork does not exist there."""
    global _connecting  # noqa: PLW0603 - one lock for the whole process
    _connecting = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def making_way(filename: str) -> Iterator[None]:
    """Let a connection that writes be made; readers of this process connect anew afterwards.

    All connections of a process share what SQLite knows of a file: after one that must not write to
    the shared memory, none could. And one without locks would drop the locks of the others.
    """
    with _connecting:
        for reader in list(_readers):
            reader.let_go(filename)
        yield


class SqliteLook(SqliteReading):
    """Implements Engine for a file that nothing is written to."""

    def __init__(self, path: Path, *, why: str = ASKED_FOR, vfs: str | None = None) -> None:
        self.read_only = why
        super().__init__(str(prepare_file(path, create=False)), vfs=vfs)
        try:
            self._check_identity()
        except apsw.NotADBError as error:
            raise no_database(self.filename, error, vfs=vfs) from error
        except DRIVER_ERRORS as error:
            raise translate(error, filename=self.filename) from error
        hold_at_forks(self)

    def _check_identity(self) -> None:
        reader = LookingReader(self.filename, lambda error: error, vfs=self._vfs)
        try:
            if not format_of(reader.connection):
                raise InvalidInput(f"{self.filename} is not a Rote store; name another file")
        finally:
            reader.close()

    def _make_reader(self, failed: Callable[[Exception], Exception]) -> SqliteReader:
        return LookingReader(self.filename, failed, vfs=self._vfs)

    def check_usable(self) -> None:
        self._check_open()

    def abandon(self) -> None:
        """Do nothing: this engine holds no lock."""

    def held(self) -> list[object]:
        with self._readers_lock:
            return list(self._readers)

    def close(self) -> None:
        if not self._closed and self._forks == len(FORKS):
            for error in self._close_readers():
                raise translate(error, filename=self.filename) from error

    # -- writes, all refused -----------------------------------------------------------------------

    def create_space(self, *, did: str, name: str, seal: bytes, main: BranchRow) -> NoReturn:
        self._refuse()

    def drop_store_row(self, kind: str, key: str) -> NoReturn:
        self._refuse()

    def writer(self, space: int, *, optimistic: bool = False) -> NoReturn:
        self._refuse()

    def harden(self) -> NoReturn:
        self._refuse()

    def settle(self, space: int, version: int, attempt: bytes) -> NoReturn:
        self._refuse()

    def scrub(self, *, payloads: bool = False) -> NoReturn:
        self._refuse()

    def tidy(self) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise refused_write(self.read_only or "")


class LookingReader(SqliteReader):
    """The reads of one connection that may write nothing."""

    is_audit = True

    def __init__(
        self, filename: str, failed: Callable[[Exception], Exception], *, vfs: str | None
    ) -> None:
        self._filename = filename
        self._vfs = vfs
        self._forks = len(FORKS)
        with _connecting:
            super().__init__(self._connected(), failed)
            _readers.add(self)

    def _connected(self) -> apsw.Connection:
        mark = _mark_of(self._filename)
        self._file, log, shared = mark
        self._mark = (
            None if log and shared else mark
        )  # of the files, where SQLite does not watch them
        self._wants_mark = self._mark is None
        if self._mark is None:
            connection = _connect(self._filename, "?readonly_shm=1", vfs=self._vfs)
        elif log is None or log[_SIZE] == 0:
            connection = _connect(self._filename, "?immutable=1", vfs=self._vfs)
        else:
            connection = _connect(self._filename, vfs=_NO_LOCKS, unshared=True)
        application, format = identity_of(connection)
        self._is_up_to_date = application == APPLICATION_ID and format >= FORMAT_WITH_SEGMENTS
        if not self._is_up_to_date:
            self._by_event = ""  # there may be no such index
        return connection

    def let_go(self, filename: str) -> None:
        """Close the connection, because a writer opens the file."""
        if self._forks != len(FORKS) or not self._is_of(filename):
            return
        # A signal handler may open the file in the middle of a statement of the same thread.
        if self.in_use.acquire(timeout=WAKE_SECONDS_MAX):
            self._mark = _GONE
            try:
                self.close()
            finally:
                self.in_use.release()

    def _is_of(self, filename: str) -> bool:
        """Whether a file is the one that is looked at, which may have another name by now."""
        other, own = _status(filename), _status(self._filename)
        return other is not None and other[:_SIZE] in [
            each[:_SIZE] for each in (self._file, own) if each is not None
        ]

    def _look_for_commits(self) -> object:
        return super()._look_for_commits() if self._mark is None else _mark_of(self._filename)

    def _all(
        self,
        sql: str,
        bindings: tuple[Any, ...],
        take: Callable[[Iterable[Any]], list[Any]] | None = None,
    ) -> list[Any]:
        for _ in range(LOOKS_MAX):
            if self._mark is _GONE:
                self._connect_anew()
            try:
                rows = super()._all(sql, bindings, take)
            except (Corrupt, Unavailable):
                if not self._is_changed():
                    raise
            else:
                if not self._is_changed():
                    return rows
                self._mark = _GONE
        raise Busy(f"{self._filename} is opened and closed all the time; try again")

    def _is_changed(self) -> bool:
        return self._mark is not None and self._mark != _mark_of(self._filename)

    def _connect_anew(self) -> None:
        try:
            with _connecting, self.in_use:
                self.close()
                self._use(self._connected())
                self._line = ()
        except DRIVER_ERRORS as error:
            raise self._failed(error) from error


def _connect(
    filename: str, options: str = "", *, vfs: str | None, unshared: bool = False
) -> apsw.Connection:
    return connect(
        f"file:{quote(filename)}{options}",
        vfs=vfs,
        cache_kib=SQLITE_READER_CACHE_KIB,
        read_only=True,
        unshared=unshared,
    )


def _mark_of(filename: str) -> Mark:
    return _status(filename), _status(filename + "-wal"), _status(filename + "-shm")


def _status(path: str) -> _Status:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
