"""Moves the write-ahead log into the database file beside the commits, never inside one.

A thread wakes when the log has grown, and copies it into the file. Few commits are made meanwhile;
the writer copies those between two transactions. The log is empty then and starts over. A log that
starts over often is written in place, which syncs faster than one that grows. Where no commit is
synced, a longer log is faster: a page that many commits wrote is copied once. Past a hard bound the
writer copies the log without the thread.
"""

import threading
from collections.abc import Callable

import apsw

from rote.errors import RoteError
from rote.values.limits import SQLITE_WAL_PAGES_HARD


class Checkpointer:
    """Watches one writing connection; its thread starts at the first need."""

    def __init__(self, open_connection: Callable[[], apsw.Connection], *, pages_soft: int) -> None:
        self._open_connection = open_connection
        self._pages_soft = pages_soft  # of the log, which wake the thread
        # Held while the thread has nothing to do. A plain lock, because an interruption inside an
        # Event can leave it half changed.
        self._rest = threading.Lock()
        self._rest.acquire()
        self._thread: threading.Thread | None = None
        self.connection: apsw.Connection | None = None  # that of the thread
        self._stopped = False
        self._log_pages = 0
        self._copied_pages = 0  # as of the last time the thread was woken
        self._rest_due = False  # the thread has copied; the writer copies the rest

    def watch(self, connection: apsw.Connection) -> None:
        connection.set_wal_hook(self._grown)

    def _grown(self, connection: apsw.Connection, database: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def after_commit(self, connection: apsw.Connection) -> None:
        """Wake the thread or copy the log; the writer calls this between two transactions."""
        pages = self._log_pages
        if self._rest_due:
            self._rest_due = False
            _checkpoint(connection)
            return
        if pages < self._copied_pages:
            self._copied_pages = 0  # the log has started over
        if pages - self._copied_pages < self._pages_soft:
            return
        self._copied_pages = pages
        if pages >= SQLITE_WAL_PAGES_HARD:
            _checkpoint(connection)
        else:
            self._start()
            self._wake()

    def _wake(self) -> None:
        try:
            self._rest.release()
        except RuntimeError:
            return  # awake already, or about to be

    def _start(self) -> None:
        if self._thread is None and not self._stopped:
            self._thread = threading.Thread(target=self._run, name="rote-checkpointer", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            connection = self.connection = self._open_connection()
        except (apsw.Error, RoteError):
            return  # at the hard bound the writer copies without the thread
        try:
            while True:
                self._rest.acquire()
                if self._stopped:
                    return
                _checkpoint(connection)
                self._rest_due = True
        finally:
            self.connection = None
            connection.close()

    def stop(self) -> None:
        self._stopped = True
        self._wake()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _checkpoint(connection: apsw.Connection) -> None:
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.Error:
        # A checkpoint may fail: the log keeps everything until the next one.
        return
