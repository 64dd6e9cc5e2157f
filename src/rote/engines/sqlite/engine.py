"""The embedded engine: one SQLite file, any number of threads and processes.

Every thread that reads has a connection of its own. One connection writes; the threads of this
process take turns by a lock, processes by SQLite's own.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from urllib.parse import quote
from weakref import WeakSet

import apsw

from rote.engines.abandoning import Abandoning
from rote.engines.forks import FORKS, hold_at_forks
from rote.engines.inside import Inside
from rote.engines.protocol import OutcomeUnknown, Scrubbed
from rote.engines.rows import ERASED_SPACE, STORE, BranchRow, SpaceRow
from rote.engines.sqlite.backup import remove_abandoned, write_new_file
from rote.engines.sqlite.checkpointer import Checkpointer
from rote.engines.sqlite.connections import connect, is_memory, patiently, use_write_ahead_log
from rote.engines.sqlite.failures import DRIVER_ERRORS, FATAL, translate
from rote.engines.sqlite.location import memory_filename, prepare_file
from rote.engines.sqlite.reader import SqliteReader
from rote.engines.sqlite.schema import APPLICATION_ID, FORMAT, INDEXES, TABLES
from rote.engines.sqlite.writer import SqliteWriter
from rote.errors import Busy, Corrupt, InvalidInput, RoteError, Unavailable
from rote.values.limits import BUSY_SECONDS_MAX, SQLITE_CACHE_KIB, SQLITE_READER_CACHE_KIB


class SqliteEngine:
    """Implements Engine. `path` None keeps everything in memory."""

    is_remote = False

    def __init__(
        self,
        path: Path | None,
        *,
        durability: str = "fsync",
        create: bool = True,
        vfs: str | None = None,
    ) -> None:
        if durability not in ("fsync", "os"):
            raise InvalidInput(f'durability is "fsync" or "os", not {durability!r}')
        self.filename = (
            memory_filename() if path is None else str(prepare_file(path, create=create))
        )
        self._is_memory = path is None
        self._durability = durability
        self._vfs = vfs
        self._forks = len(FORKS)
        self._closed = False
        self._broken = False  # the writing connection could not be replaced
        self._own = _Own()
        self._readers: WeakSet[SqliteReader] = WeakSet()  # all of them, freed with their threads
        self._readers_lock = threading.Lock()
        self._write_lock = threading.RLock()  # so that only its owner can release it
        self._checkpointer = Checkpointer(self._connect)
        self._transaction = _Transaction(self, self._own)
        try:
            self._refuse_foreign()
            self._writer = self._open_writer()
            try:
                _start_log_over(self._writer.connection)
                self._prepare_tables()
            except BaseException:
                self._writer.close()
                raise
        except apsw.Error as error:
            raise translate(error, filename=self.filename) from error
        hold_at_forks(self)

    def now(self) -> None:
        """Return None: processes that share a file share a machine, and the caller has its clock."""

    # -- spaces ------------------------------------------------------------------------------------

    def spaces(self) -> list[SpaceRow]:
        return self.reader().spaces()

    def create_space(self, *, did: str, name: str, seal: bytes, main: BranchRow) -> SpaceRow:
        with Abandoning(self), self._transaction as writes:
            taken = [row for row in writes.spaces() if row.name == name or row.did == did]
            if taken:
                return taken[0]
            connection = writes.connection
            connection.execute(
                "insert into spaces (number, did, name, seal) select 1 + max("
                " (select coalesce(max(number), 0) from spaces),"
                " (select coalesce(max(fence), 0) from sides where space = ? and kind = ?)),"
                " ?, ?, ?",
                (STORE, ERASED_SPACE, did, name, seal),
            )
            number = connection.last_insert_rowid()
            writes.put_branch(number, main)
            return SpaceRow(number, did, name, seal)

    def drop_store_row(self, kind: str, key: str) -> None:
        with Abandoning(self), self._transaction as writes:
            writes.drop_side(STORE, kind, key)

    # -- reading -----------------------------------------------------------------------------------

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
            connection = self._connect(SQLITE_READER_CACHE_KIB)
            reader = SqliteReader(connection, self._reader_failed)
        except apsw.Error as error:
            raise translate(error, filename=self.filename) from error
        with self._readers_lock:
            self._check_open()
            self._readers.add(reader)
        return reader

    def _reader_failed(self, error: Exception) -> Exception:
        if isinstance(error, FATAL):
            self._own.reader = None  # the next call has a new connection
        return translate(error, filename=self.filename)

    # -- writing -----------------------------------------------------------------------------------

    def writer(self, space: int, *, optimistic: bool = False) -> "_Transaction":
        # SQLite has one writer for all spaces of a file, and holding its lock costs nothing.
        return self._transaction

    def begin(self, block: FrameType) -> SqliteWriter:
        """Start the transaction that `end` ends, for the frame that will be inside it."""
        if self._closed or self._broken or self._forks != len(FORKS):
            self._check_open()
        self._own.block = block  # set before the lock is taken, so that a handler sees it
        if not self._write_lock.acquire(timeout=BUSY_SECONDS_MAX):
            raise Busy(f"{self.filename} is held by other threads; try again")
        if self._closed or self._broken:
            self._check_open()
        writer = self._writer
        try:
            if writer.connection.in_transaction:
                writer.rollback()  # left over by a thread that was interrupted twice
            writer.begin()
        except DRIVER_ERRORS as error:
            raise translate(error, filename=self.filename) from error
        return writer

    def abandon(self) -> None:
        if not self._write_lock.acquire(blocking=False):
            self._own.block = None
            return  # another thread's
        try:
            if not self._closed and self._forks == len(FORKS):
                self._writer.rollback()
        except apsw.Error:
            self._broken = True
        finally:
            try:
                while True:
                    self._write_lock.release()
            except RuntimeError:
                self._own.block = None  # the lock is no longer ours

    def end(self, error: BaseException | None) -> None:
        """Commit, or undo what `error` interrupted."""
        try:
            if error is None:
                writer = self._writer
                writer.commit()
                self._checkpointer.after_commit(writer.connection)
        except BaseException as failure:
            error = failure
            raise
        finally:
            if error is not None:
                self._undo(error)
            self._write_lock.release()
            self._own.block = None

    def _undo(self, error: BaseException) -> None:
        """Leave no transaction open; a connection whose state is in doubt is replaced."""
        if not isinstance(error, (*FATAL, OutcomeUnknown)):
            try:
                self._writer.rollback()
                return
            except apsw.Error:
                pass
        try:
            self._writer.connection.close(True)
            self._writer = self._open_writer()
        except (apsw.Error, RoteError):
            # The caller gets the first error; the next call reports this one.
            self._broken = True

    def harden(self) -> None:
        # A checkpoint begins with syncing the log.
        self._checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)

    def settle(self, space: int, version: int, attempt: bytes) -> bool:
        # Emptying the log decides it: a commit that is in the file then is durable, any other is gone.
        self.empty_log()
        rows = self.reader().commits(space, after=version - 1, limit=1)
        return [row.attempt for row in rows if row.version == version] == [attempt]

    def empty_log(self) -> None:
        """Move the whole write-ahead log into the file; raise Busy when a reader is in the way."""
        self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _checkpoint(self, mode: int) -> None:
        def checkpoint() -> None:
            self._check_open()
            connection = self._writer.connection
            patiently(lambda: connection.wal_checkpoint(mode=mode))

        self._alone(checkpoint)

    def _alone(self, action: Callable[[], None]) -> None:
        """Run an action that is not a transaction under the writers' lock.

        Python leaves a lock in one step. It would leave a `with` block of our own in several, and
        an interruption could come between them.
        """
        outer, self._own.block = self._own.block, sys._getframe()
        try:
            with self._write_lock:
                action()
        except apsw.Error as error:
            raise translate(error, filename=self.filename) from error
        finally:
            self._own.block = outer

    # -- keeping -----------------------------------------------------------------------------------

    def scrub(self, *, payloads: bool = False) -> Scrubbed:
        # Pages that were split or freed long ago may still hold copies; only a new file has none.
        def scrub() -> None:
            self._check_open()
            patiently(lambda: _rewrite(self._writer.connection))
            self.empty_log()

        self._alone(scrub)
        return Scrubbed()

    def tidy(self) -> None:
        if not is_memory(self.filename):
            remove_abandoned(Path(self.filename).parent)

    def damage(self) -> list[str]:
        try:
            rows = self.reader().integrity_check()
        except Corrupt as error:
            return [str(error.__cause__)]
        return [] if rows == [("ok",)] else [str(row[0]) for row in rows]

    def backup(self, path: Path) -> None:
        write_new_file(path, self._copy_into)

    def _copy_into(self, part: Path) -> None:
        # The target names its file system: a store in memory would otherwise copy itself into memory.
        target = f"file:{quote(str(part))}?vfs={apsw.vfs_names()[0]}"
        self.reader().copy_into(target)

    def close(self) -> None:
        if not self._closed and self._forks == len(FORKS):
            self._alone(self._close)

    def _close(self) -> None:
        with self._readers_lock:
            self._closed = True
            readers = list(self._readers)
        self._checkpointer.stop()
        # Two connections are not waited for: the reader of this thread, which may be in the middle
        # of a statement, and the writer, whose lock is held.
        own = self._own.reader
        closed = [reader.close(wait=reader is not own) for reader in readers]
        failures = [error for error in (*closed, self._writer.close()) if error is not None]
        if failures:
            raise failures[0]

    def held(self) -> list[object]:
        with self._readers_lock:
            return [self._writer, self._checkpointer.connection, *self._readers]

    # -- connections -------------------------------------------------------------------------------

    def check_usable(self) -> None:
        if self._closed or self._broken or self._forks != len(FORKS):
            self._check_open()
        if self._own.block is not None:
            self._own.refuse()
        if self._write_lock._is_owned():  # type: ignore[attr-defined]  # missing in the stubs
            self.abandon()  # an interrupted call of this thread could not clean up

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed; open it again")
        if self._broken:
            raise Unavailable(f"{self.filename} failed; check the disk, then open it again")
        if self._forks != len(FORKS):
            raise Unavailable("the store was opened before a fork; open it again in this process")

    def _connect(self, cache_kib: int = SQLITE_CACHE_KIB) -> apsw.Connection:
        return connect(
            self.filename, durability=self._durability, vfs=self._vfs, cache_kib=cache_kib
        )

    def _open_writer(self) -> SqliteWriter:
        connection = self._connect()
        if not is_memory(self.filename):
            use_write_ahead_log(connection)
            self._checkpointer.watch(connection)
        return SqliteWriter(connection, _as_it_is)

    def _refuse_foreign(self) -> None:
        """Raise when the file is not a Rote store, before anything in it is changed."""
        connection = self._connect()
        try:
            _check_identity(connection)
        finally:
            connection.close()

    def _prepare_tables(self) -> None:
        connection = self._writer.connection
        if _identity(connection) == (APPLICATION_ID, FORMAT):
            if not _has_indexes(connection):
                with self._transaction:
                    connection.execute(INDEXES)
            return
        with self._transaction:
            if _check_identity(connection):
                return  # another process was first
            connection.execute(TABLES)
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", FORMAT)


def _rewrite(connection: apsw.Connection) -> None:
    """Rewrite the database through a temporary file: a large store does not fit into memory."""
    before = connection.pragma("temp_store")
    connection.pragma("temp_store", 1)
    try:
        connection.execute("vacuum")
    finally:
        connection.pragma("temp_store", before)


class _Own(Inside):
    """The reader of each thread, beside the block in which the thread holds the writers' lock."""

    reader: SqliteReader | None = None


class _Transaction:
    """A `with` block around begin and end."""

    __slots__ = ("_engine", "_own")

    def __init__(self, engine: SqliteEngine, own: "_Own") -> None:
        self._engine = engine
        self._own = own

    def __enter__(self) -> SqliteWriter:
        if self._own.block is not None:
            self._own.refuse()
            self._engine.abandon()  # left over: a lock taken twice is not free after one release
        try:
            return self._engine.begin(sys._getframe(1))
        except BaseException:
            self._engine.abandon()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._engine.end(error)
        except DRIVER_ERRORS as failure:
            raise translate(failure, filename=self._engine.filename) from failure
        except BaseException:
            self._engine.abandon()
            raise
        if error is not None and isinstance(error, DRIVER_ERRORS):
            raise translate(error, filename=self._engine.filename) from error


def _has_indexes(connection: apsw.Connection) -> bool:
    return bool(
        connection.execute(
            "select 1 from sqlite_schema where type = 'index' and name = 'commits_with_event'"
        ).fetchall()
    )


def _start_log_over(connection: apsw.Connection) -> None:
    """Move what a stopped process left in the log into the file, before anything is written.

    After a failed sync the system may still show frames that are not on the disk. Commits appended
    behind such frames would be lost with them. When other connections are using the log, it cannot
    start over and stays as it is.
    """
    connection.set_busy_timeout(0)
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except (apsw.BusyError, apsw.LockedError):
        pass
    finally:
        connection.set_busy_timeout(BUSY_SECONDS_MAX * 1000)


def _as_it_is(error: Exception) -> Exception:
    """Return the driver's error itself: `end` must see what happened to the connection."""
    return error


def _identity(connection: apsw.Connection) -> tuple[int, int]:
    return connection.pragma("application_id"), connection.pragma("user_version")


def _check_identity(connection: apsw.Connection) -> bool:
    """Whether the file is a store already; raises when it is something else."""
    # In one transaction, since another process may be making the tables just now.
    with connection:
        identity = _identity(connection)
        tables = connection.execute("select 1 from sqlite_schema limit 1").fetchall()
    if identity == (APPLICATION_ID, FORMAT):
        return True
    if tables or identity != (0, 0):
        raise _foreign(connection.filename, *identity)
    return False


def _foreign(filename: str, application: int, format: int) -> InvalidInput | Unavailable:
    if application == APPLICATION_ID:
        return Unavailable(
            f"{filename} has format {format}, this Rote knows {FORMAT}; upgrade Rote"
        )
    return InvalidInput(f"{filename} is a database, but not a Rote store; name another file")
