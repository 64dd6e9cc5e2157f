"""A line: one WebSocket to `/v1/sync`, with an ephemeral session for watches of one space.

    thread of the line   connect ──> hello ──> session.open ──> messages ──┐ it breaks
                            ^                                              │
                            └────────── pause, as long as there are watches┘
    threads of readers   wait for frames, and ask how far the space has come

When the line is mended, the session says what its watches have seen, so that they go on from there.
"""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from socket import SHUT_RDWR
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection

from rote.client.calls import Calls
from rote.client.frames import WaitingFrame
from rote.client.sockets import NEVER_AGAIN, OPENING_IDS, code_of, connect, open_session
from rote.contract import sync as wire
from rote.errors import InternalError, RoteError, Unavailable
from rote.values.client_limits import (
    LINE_CLOSE_SECONDS,
    LINE_LOOK_SECONDS,
    PAUSE_SECONDS_MAX,
    PAUSE_SECONDS_MIN,
)
from rote.values.sync_limits import (
    SYNC_FIRST_BYTES_MAX,
    SYNC_WATCHES_MAX,
    SYNC_WINDOW,
)

_AUTH_BYTES_MAX = 4_096  # room in an opening for who calls


class Watched:
    """One watch on a line."""

    def __init__(self, query: Any, since: int | None = None) -> None:
        self.query = query
        self.waiting = WaitingFrame(since)
        self.is_held = since is not None  # the line holds its fold at the version it has seen
        self.is_begun = False  # the server has taken it once
        self.ring: Callable[[], None] | None = None  # called when something has come

    def rings(self) -> None:
        ring = self.ring
        if ring is not None:
            ring()


class Line:
    """The watches of a space on one connection. Any thread may ask."""

    def __init__(self, calls: Calls, space: str, *, seen: wire.Mark | None = None) -> None:
        """seen  what the only watch holds already"""
        self._is_shared = seen is None
        self._calls = calls
        self._space = space
        self._changed = threading.Condition(threading.RLock())
        self._watches: dict[str, Watched] = {}
        self._names = 0
        self._leaving: deque[str] = deque()  # also from a finalizer, so nothing is locked for it
        self._seen = seen  # what all held watches have seen
        self._reached = 0
        self._steps = 0  # that have come
        self._parts: list[wire.Sync] = []
        self._socket: ClientConnection | None = None  # while the session is open
        self._connection = 0  # how often a session was opened
        self._last_id = 0
        self._answers: dict[int, wire.Answer | None] = {}  # None: it has not come yet
        self._begun_again: int | None = None  # the request for watches that were begun before
        self._failure: RoteError | None = None  # why the line will not be mended
        self._trouble: RoteError | None = None  # why it is down
        self._is_closed = False
        self._thread: threading.Thread | None = None

    @property
    def is_over(self) -> bool:
        return self._is_closed or self._failure is not None

    @property
    def has_room(self) -> bool:
        return self._is_shared and len(self._watches) < SYNC_WATCHES_MAX

    # -- for readers -----------------------------------------------------------------------------------

    def begin(self, watched: Watched) -> str | None:
        """Begin a watch and return its name; None when the line has just ended.

        Raise what the server says of it, or Unavailable.
        """
        deadline = self._calls.now() + self._calls.seconds
        with self._changed:
            if self._is_closed:
                return None
            self._names += 1
            name = str(self._names)
            self._watches[name] = watched
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rote-line", daemon=True)
                self._thread.start()
        try:
            # A line that is mended meanwhile has it already; asking twice is asking once.
            self._ask(wire.AddWatches({name: watched.query}), deadline)
            watched.is_begun = True
        except BaseException:
            self.leave(name)
            raise
        return name

    def leave(self, name: str) -> None:
        """End a watch, from anywhere."""
        self._leaving.append(name)

    def reach(self, deadline: float | None) -> int:
        """Return a version, not older than this call, up to which every frame has come.

        Unavailable when the line is down at the deadline.
        """
        while True:
            with self._changed:
                before, connection = self._steps, self._connection
            answer = self._ask(wire.AddWatches({}), deadline)
            with self._changed:
                # A server with two steps on their way does not look further.
                if connection == self._connection and self._steps - before < SYNC_WINDOW:
                    found = wire.decode_ok(answer, wire.Reached)
                    self._reached = max(self._reached, found.version)
                    return self._reached

    def wait(self, watched: Watched, reached: int, deadline: float | None) -> dict[str, Any] | None:
        """Return the next frame of a watch; None when the time is over."""
        with self._changed:
            while True:
                self._check()
                frame = watched.waiting.frame(max(reached, self._reached))
                if frame is not None:
                    return frame
                left = None if deadline is None else deadline - self._calls.now()
                if left is not None and left <= 0:
                    return None
                self._changed.wait(left)

    def take(self, watched: Watched) -> dict[str, Any] | None:
        """Return what has come for a watch; None when nothing has."""
        with self._changed:
            self._check()
            return watched.waiting.frame(self._reached)

    def _check(self) -> None:
        self._calls.pool.check_usable()
        if self._failure is not None:
            raise self._failure
        if self._is_closed:
            raise Unavailable("the store is closed; open it again")

    def _ask(self, request: wire.Request, deadline: float | None) -> bytes:
        """Return the answer to a request, which may be sent again.

        deadline  until when the line may be down; an answer has the time of a call
        """
        while True:
            with self._changed:
                while self._socket is None:
                    self._check()
                    self._wait_until(deadline)
                self._check()
                connection = self._connection
                id = self._send(request)
            answered_by = self._calls.now() + self._calls.seconds
            with self._changed:
                try:
                    while self._is_awaited(id, connection):
                        self._check()
                        self._wait_until(answered_by)
                    is_same = self._connection == connection
                    answer = self._answers.get(id) if is_same else None
                finally:
                    if self._connection == connection:
                        self._answers.pop(id, None)
            if answer is None:
                continue
            if answer.error is not None:
                raise wire.failure_of(answer)
            return bytes(answer.ok)

    def _is_awaited(self, id: int, connection: int) -> bool:
        is_open = self._socket is not None and self._connection == connection
        return is_open and self._answers.get(id) is None

    def _wait_until(self, deadline: float | None) -> None:
        left = None if deadline is None else deadline - self._calls.now()
        if left is not None and left <= 0:
            trouble = self._trouble or Unavailable(
                f"the server {self._calls.pool.address.shown} did not answer in time",
                code="timeout",
            )
            raise trouble
        self._changed.wait(left)

    def _send(self, request: wire.Request) -> int:
        self._last_id += 1
        id = self._last_id
        self._answers[id] = None
        socket = self._socket
        if socket is not None:
            with suppress(WebSocketException, OSError):  # the thread of the line sees it, too
                socket.send(wire.encode_request(request, id), text=True)
        return id

    def close(self) -> None:
        """End the line and the waits of its readers."""
        if not self._changed.acquire(timeout=LINE_CLOSE_SECONDS):
            stuck = self._socket  # whoever sends waits for a server that takes no byte
            if stuck is not None:
                with suppress(OSError):
                    stuck.socket.shutdown(SHUT_RDWR)
            self._changed.acquire()
        try:
            self._is_closed = True
            socket = self._socket
            self._end_waits()
        finally:
            self._changed.release()
        if socket is not None:
            with suppress(WebSocketException, OSError):
                socket.close()

    def _end_waits(self) -> None:
        """Let all readers see that the line is over."""
        self._changed.notify_all()
        for watched in self._watches.values():
            watched.rings()

    # -- the thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._mend()
        except Exception as error:
            failure = InternalError("the line has failed by a bug in Rote, please report it")
            failure.__cause__ = error
            self._fail(failure)

    def _mend(self) -> None:
        """Open the line as often as it breaks."""
        pause, is_renewed = PAUSE_SECONDS_MIN, False
        while not self._is_over():
            bearer: str | None = None
            opened = self._connection
            try:
                bearer = self._calls.credentials.bearer()
                self._converse(bearer)
                continue
            except (WebSocketException, OSError, EOFError) as lost:
                error: RoteError = self._lost(lost)
                if code_of(lost) in NEVER_AGAIN:
                    self._fail(error)
            except RoteError as refused:
                error = refused
                if refused.code == "unauthenticated" and not is_renewed:
                    is_renewed = self._calls.credentials.renew(bearer)
                    if is_renewed:
                        continue
                if not isinstance(refused, Unavailable):
                    self._fail(refused)
            with self._changed:
                if self._connection > opened:
                    pause, is_renewed = PAUSE_SECONDS_MIN, False
                self._trouble = error
                self._changed.notify_all()
            if not self._is_over():
                self._calls.pause(self._calls.jitter(pause))
                pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def _is_over(self) -> bool:
        """Whether nobody needs the line any more."""
        with self._changed:
            self._let_leave()
            if not self._watches:
                self._is_closed = True
            is_closed = self._is_closed or self._calls.pool.is_closed
            return is_closed or self._failure is not None

    def _fail(self, error: RoteError) -> None:
        with self._changed:
            self._failure = error
            self._end_waits()

    def _lost(self, error: Exception) -> Unavailable:
        shown = self._calls.pool.address.shown
        return Unavailable(f"the line to the server {shown} is down: {error}", server=shown)

    def _converse(self, bearer: str | None) -> None:
        """Open a session and take its messages until the line breaks, or nobody needs it."""
        with connect(self._calls) as socket:
            try:
                self._open(socket, bearer)
                while not self._is_over():
                    self._next(socket)
            finally:
                with self._changed:
                    self._socket = None
                    self._parts = []
                    self._changed.notify_all()

    def _open(self, socket: ClientConnection, bearer: str | None) -> None:
        """Say hello, open the session with the watches that are held, and add the others."""
        with self._changed:
            opening = self._opening()
            if (
                len(wire.encode_request(opening, OPENING_IDS))
                > SYNC_FIRST_BYTES_MAX - _AUTH_BYTES_MAX
            ):
                # A server takes no long message before it knows who sends it: all watches start over.
                for watched in self._watches.values():
                    watched.is_held = False
                opening = self._opening()
        open_session(self._calls, socket, opening, bearer)
        with self._changed:
            self._last_id = OPENING_IDS
            self._answers = {}
            self._socket = socket
            self._trouble = None
            self._connection += 1
            more = {
                name: each.query
                for name, each in self._watches.items()
                if each.is_begun and not each.is_held
            }
            self._begun_again = self._send(wire.AddWatches(more)) if more else None
            self._changed.notify_all()

    def _opening(self) -> wire.OpenSession:
        """Return the opening of a session with the watches that are held."""
        held = {name: each.query for name, each in self._watches.items() if each.is_held}
        seen = self._seen if held else None
        return wire.OpenSession(self._space, ephemeral=True, watches=held, seen=seen)

    def _next(self, socket: ClientConnection) -> None:
        """Take the next message, if one comes before long."""
        try:
            data = socket.recv(timeout=LINE_LOOK_SECONDS, decode=False)
        except TimeoutError:
            return
        message = wire.decode_from_server(data)
        with self._changed:
            match message:
                case wire.Answer():
                    if message.id == self._begun_again and message.error is not None:
                        raise wire.failure_of(message)
                    if message.id in self._answers:
                        self._answers[message.id] = message
                    self._changed.notify_all()
                case wire.Sync():
                    self._parts.append(message)
                    if not message.more:
                        self._step()

    def _step(self) -> None:
        """Take in a step whose last part has come, and acknowledge it."""
        parts, self._parts = self._parts, []
        step = wire.joined(parts)
        for name, part in step.watches.items():
            watched = self._watches.get(name)
            if watched is not None:
                watched.waiting.take_in(step.to, part, step.states)
                watched.is_held = True
                watched.rings()
        self._seen = wire.Mark(step.to, step.hash)
        self._reached = max(self._reached, step.to)
        self._steps += 1
        self._answers.pop(self._send(wire.Ack(to=step.to)), None)
        self._changed.notify_all()

    def _let_leave(self) -> None:
        gone = []
        while self._leaving:
            name = self._leaving.popleft()
            if self._watches.pop(name, None) is not None:
                gone.append(name)
        if gone and self._watches and self._socket is not None:
            self._answers.pop(self._send(wire.RemoveWatches(gone)), None)
