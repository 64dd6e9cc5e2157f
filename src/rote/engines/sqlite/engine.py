"""The embedded engine: one SQLite file, any number of threads and processes.

Every thread that reads has a connection of its own. One connection writes; the threads of this
process take turns by a lock, processes by SQLite's own.
"""

import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import FrameType, TracebackType

import apsw

from rote.engines.abandoning import Abandoning
from rote.engines.forks import FORKS, hold_at_forks
from rote.engines.protocol import OutcomeUnknown, Scrubbed
from rote.engines.rows import ERASED_SPACE, STORE, BranchRow, SpaceRow
from rote.engines.sqlite.backup import remove_abandoned
from rote.engines.sqlite.checkpointer import Checkpointer
from rote.engines.sqlite.checksums import can_check, is_checked, reserve_room
from rote.engines.sqlite.connections import connect, is_memory, patiently, use_write_ahead_log
from rote.engines.sqlite.failures import DRIVER_ERRORS, FATAL, translate
from rote.engines.sqlite.identity import format_of, identity_of, no_database
from rote.engines.sqlite.location import memory_filename, prepare_file
from rote.engines.sqlite.looking import making_way
from rote.engines.sqlite.reader import SqliteReader
from rote.engines.sqlite.reading import Own, SqliteReading
from rote.engines.sqlite.schema import (
    APPLICATION_ID,
    FORMAT_WITH_CHECKSUMS,
    FORMAT_WITH_SEGMENTS,
    bring_up_to_date,
)
from rote.engines.sqlite.writer import SqliteWriter
from rote.errors import Busy, Corrupt, InvalidInput, RoteError
from rote.values.limits import (
    BUSY_SECONDS_MAX,
    SQLITE_CACHE_KIB,
    SQLITE_READER_CACHE_KIB,
    SQLITE_WAL_PAGES_SOFT,
)


class SqliteEngine(SqliteReading):
    """Implements Engine. `path` None keeps everything in memory."""

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
        super().__init__(
            memory_filename() if path is None else str(prepare_file(path, create=create)), vfs=vfs
        )
        self._is_memory = path is None
        self._durability = durability
        self._write_lock = threading.RLock()  # so that only its owner can release it
        self._checkpointer = Checkpointer(
            self._connect, pages_soft=SQLITE_WAL_PAGES_SOFT[durability]
        )
        self._transaction = _Transaction(self, self._own)
        try:
            with nullcontext() if path is None else making_way(self.filename):
                try:
                    self._refuse_foreign(create=create)
                except Corrupt:
                    # A file that others made just now: this time its first page is seen.
                    self._refuse_foreign(create=create)
                if path is not None and can_check() and _is_empty(self.filename):
                    self._make_checked_file()
                self._writer: SqliteWriter = self._open_writer()
            try:
                _start_log_over(self._writer.connection)
                self._prepare_tables()
            except BaseException:
                self._writer.close()
                raise
        except apsw.NotADBError as error:
            raise no_database(self.filename, error, vfs=vfs) from error
        except DRIVER_ERRORS as error:
            raise translate(error, filename=self.filename) from error
        hold_at_forks(self)

    # -- spaces ------------------------------------------------------------------------------------

    def create_space(self, *, did: str, name: str, seal: bytes, main: BranchRow) -> SpaceRow:
        with Abandoning(self), self._transaction as writes:
            taken = writes.space(name) or writes.space(did)
            if taken is not None:
                return taken
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

    def _make_reader(self, failed: Callable[[Exception], Exception]) -> SqliteReader:
        return SqliteReader(self._connect(SQLITE_READER_CACHE_KIB), failed)

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

    def close(self) -> None:
        if not self._closed and self._forks == len(FORKS):
            self._alone(self._close)

    def _close(self) -> None:
        self._closed = True
        self._checkpointer.stop()
        # The writer is not waited for: its lock is held.
        failures = [*self._close_readers(), *filter(None, [self._writer.close()])]
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

    def _refuse_foreign(self, *, create: bool) -> None:
        """Raise when the file is not a Rote store, before anything in it is changed."""
        connection = self._connect()
        try:
            if not format_of(connection) and not (create or self._is_memory):
                raise InvalidInput(f"{self.filename} is not a Rote store; name another file")
        finally:
            connection.close()

    def _make_checked_file(self) -> None:
        """Make the tables of an empty file together with its first page.

        So nobody finds a file with room for checksums that does not say its format. The file has no
        write-ahead log yet: every later connection sees the room in the file itself, as the shim
        must.
        """
        connection = self._connect()
        try:
            reserve_room(connection)
            patiently(lambda: connection.execute("begin immediate"))
            if _is_empty(self.filename):  # no other process was first
                bring_up_to_date(connection, done=0, format=FORMAT_WITH_CHECKSUMS)
            connection.execute("commit")
        finally:
            connection.close()

    def _prepare_tables(self) -> None:
        connection = self._writer.connection
        format = FORMAT_WITH_CHECKSUMS if is_checked(connection) else FORMAT_WITH_SEGMENTS
        if identity_of(connection) == (APPLICATION_ID, format):
            return
        with self._transaction:
            done = format_of(connection)  # another process may have been first
            if done < format:
                bring_up_to_date(connection, done=done, format=format)


def _is_empty(filename: str) -> bool:
    return Path(filename).stat().st_size == 0


def _rewrite(connection: apsw.Connection) -> None:
    """Rewrite the database through a temporary file: a large store does not fit into memory."""
    before = connection.pragma("temp_store")
    connection.pragma("temp_store", 1)
    try:
        connection.execute("vacuum")
    finally:
        connection.pragma("temp_store", before)


class _Transaction:
    """A `with` block around begin and end."""

    __slots__ = ("_engine", "_own")

    def __init__(self, engine: SqliteEngine, own: Own) -> None:
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
