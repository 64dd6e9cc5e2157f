"""A few connections for all threads of a process.

The pool notices a lost connection when it is taken or given back, and replaces it. It keeps no
counter of connections that are lent: it counts the connections that exist, so a connection that an
interrupted thread dropped counts no more.

The lock is a plain one, which Python takes and enters in one step. A Condition takes its lock
inside a function, and an interruption at the end of that function would leave the lock taken for
ever.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from rote.engines.forks import FORKS, hold_at_forks
from rote.engines.postgres.connections import Session, Target
from rote.errors import Busy, Unavailable
from rote.values.limits import BUSY_SECONDS_MAX, POSTGRES_CONNECTIONS_MAX, WAKE_SECONDS_MAX


class _Coming:
    """A connection that is being made; it counts like a finished one."""

    __slots__ = ("__weakref__",)


class Pool:
    """Lends sessions, each to one thread at a time."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._forks = len(FORKS)
        self._closed = False
        self._idle: deque[Session] = deque()
        self._open: WeakSet[Session | _Coming] = WeakSet()
        self._mutex = threading.Lock()
        self._bells: deque[threading.Lock] = deque()  # each held until its thread is woken
        hold_at_forks(self)

    def held(self) -> list[object]:
        with self._mutex:
            return list(self._open)

    def check_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed; open it again")
        if self._forks != len(FORKS):
            raise Unavailable("the store was opened before a fork; open it again in this process")

    def take(self) -> Session:
        """Return a session that is ready; raise Busy when all are lent for too long."""
        self.check_open()
        deadline = time.monotonic() + BUSY_SECONDS_MAX
        crowded = False  # the server accepts no more connections than are lent
        while True:
            coming, bell = _Coming(), threading.Lock()
            with self._mutex:
                session = self._fresh()
                if session is not None:
                    return session
                # Iterated, since `len` may still count a connection that was dropped at a bad moment.
                there = sum(1 for _ in self._open)
                waits = there >= (1 if crowded else POSTGRES_CONNECTIONS_MAX)
                if waits:
                    if time.monotonic() > deadline:
                        raise Busy("all connections of this process are in use; try again")
                    bell.acquire()
                    self._bells.append(bell)
                else:
                    self._open.add(coming)
            if not waits:
                try:
                    return self._connect(coming)
                except Busy:
                    if there == 0:
                        raise
                    crowded = True
                    continue
            self._listen(bell)
            crowded = False
            self.check_open()

    def _listen(self, bell: threading.Lock) -> None:
        """Wait for a ring, but return without one now and then: the thread that was to ring may
        have been interrupted. Leave no bell behind that nobody listens to."""
        rang = False
        try:
            rang = bell.acquire(timeout=WAKE_SECONDS_MAX)
        finally:
            if not rang:
                with self._mutex:
                    if bell in self._bells:
                        self._bells.remove(bell)
                    else:
                        self._ring()  # this thread missed the ring; the next one may need it

    def _connect(self, coming: _Coming) -> Session:
        try:
            session = self.target.connect()
            with self._mutex:
                self._open.add(session)
            return session
        finally:
            with self._mutex:
                self._open.discard(coming)
                self._ring()

    def give_back(self, session: Session, error: BaseException | None) -> None:
        """Keep a session for the next thread, unless its state is in doubt."""
        interrupted = error is not None and not isinstance(error, Exception)
        with self._mutex:
            if self._closed or interrupted or not session.is_idle or session.only_reads:
                if session.closed or session.only_reads:
                    # The cause that ended this connection most likely ended the others too. And
                    # when this server writes no more, another server may.
                    self._drop_idle()
                self._drop(session)
            else:
                self._idle.append(session)
            self._ring()

    @contextmanager
    def lent(self) -> Iterator[Session]:
        session = self.take()
        try:
            yield session
        except BaseException as error:
            self.give_back(session, error)
            raise
        self.give_back(session, None)

    def rows(self, text: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of one statement, on any session; the statement may run twice.

        Only running it may show that the session has lost its connection.
        """
        session = self.take()
        try:
            rows = session.rows(text, values)
        except BaseException as error:
            if not self.was_gone(session, error):
                raise
        else:
            self.give_back(session, None)
            return rows
        with self.lent() as session:
            return session.rows(text, values)

    def was_gone(self, session: Session, error: BaseException) -> bool:
        """Give a session back after an error, and return whether it had lost its connection."""
        gone = isinstance(error, Unavailable) and session.closed
        self.give_back(session, error)
        return gone

    def close(self) -> None:
        if self._closed or self._forks != len(FORKS):
            return
        with self._mutex:
            self._closed = True
            self._drop_idle()
            while self._bells:
                self._ring()

    def _ring(self) -> None:
        """Wake the thread that has waited longest."""
        if self._bells:
            self._bells.popleft().release()

    def _fresh(self) -> Session | None:
        while self._idle:
            session = self._idle.pop()
            if session.is_fresh:
                return session
            self._drop(session)
        return None

    def _drop_idle(self) -> None:
        while self._idle:
            self._drop(self._idle.pop())

    def _drop(self, session: Session) -> None:
        self._open.discard(session)
        session.close()
