"""Moves the write-ahead log into the database file beside the commits, never inside one.

A thread wakes when the log has grown and copies what it can. Under unbroken load the log would
still never start over, because there is always a newer frame; so past a hard bound the writer
finishes the last few frames itself, between two transactions.
"""

import threading
from collections.abc import Callable

import apsw

from rote.errors import RoteError
from rote.values.limits import SQLITE_WAL_PAGES_HARD, SQLITE_WAL_PAGES_SOFT


class Checkpointer:
    """Watches one writing connection; its thread starts with the first need."""

    def __init__(self, open_connection: Callable[[], apsw.Connection]) -> None:
        self._open_connection = open_connection
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._log_pages = 0
        self._copied_pages = 0  # as of the last time the thread was woken

    def watch(self, connection: apsw.Connection) -> None:
        connection.set_wal_hook(self._grown)

    def _grown(self, connection: apsw.Connection, database: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def after_commit(self, connection: apsw.Connection) -> None:
        """Called by the writer between two transactions."""
        pages = self._log_pages
        if pages < self._copied_pages:
            self._copied_pages = 0  # the log has started over
        if pages - self._copied_pages < SQLITE_WAL_PAGES_SOFT:
            return
        self._copied_pages = pages
        if pages >= SQLITE_WAL_PAGES_HARD:
            _checkpoint(connection)
        else:
            self._start()
            self._wake.set()

    def _start(self) -> None:
        if self._thread is None and not self._stopped:
            self._thread = threading.Thread(target=self._run, name="rote-checkpointer", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            connection = self._open_connection()
        except (apsw.Error, RoteError):
            return  # the writer goes on by itself at the hard bound
        try:
            while True:
                self._wake.wait()
                # Cleared first, so that a wake-up during the checkpoint is not lost.
                self._wake.clear()
                if self._stopped:
                    return
                _checkpoint(connection)
        finally:
            connection.close()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _checkpoint(connection: apsw.Connection) -> None:
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.Error:
        # A checkpoint is never owed to anyone: the log keeps everything until the next one.
        return
