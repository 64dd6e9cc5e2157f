"""Links over a wire: a session with its desk at a server, one WebSocket each.

    connect ──> hello, session.open ──> send, from any thread ──> the server
                                   <── receive, from one ────────

A link mends nothing. How the server has closed says what is to be done then.
"""

import threading
from contextlib import ExitStack, suppress
from socket import SHUT_RDWR
from typing import Any

import msgspec
from msgspec import Raw, Struct
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection

from rote.client.calls import Calls
from rote.client.sockets import NEVER_AGAIN, OPENING_IDS, code_of, connect, open_session
from rote.contract import sync as wire
from rote.contract.links import Decided, Done, LinkRequest, Message, Refused, Then, ended
from rote.contract.verdicts import Verdict, decode_verdict
from rote.errors import Busy, Denied, InvalidInput, Unavailable
from rote.values.client_limits import LINE_CLOSE_SECONDS, LINE_LOOK_SECONDS
from rote.values.session_limits import LINK_COMMITS_MAX, LINK_REQUESTS_MAX

_BROKEN = (WebSocketException, OSError, EOFError)
_COMMITS = (wire.Transact, wire.Abandon)
_AUTH = (wire.AUTH_FAILED, wire.ACCESS_WITHDRAWN)
_AT_ONCE = (wire.STOPPED, wire.TOO_SLOW, wire.TAKEN_OVER)


class _Told(Struct):
    """The answer to any request but a commit."""

    version: int | None = None


class WireLinker:
    """Implements contract.Linker on a store behind a server."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def connect(self, opening: wire.OpenSession) -> "WireLink":
        wire.check_request(opening)
        if opening.ephemeral:
            raise InvalidInput("a link is for a session that lasts; leave ephemeral out")
        try:
            self._calls.pool.check_usable()
        except Unavailable as error:
            raise ended("stop", str(error)) from None
        credentials = self._calls.credentials
        bearer = credentials.bearer()
        try:
            return self._connect(opening, bearer)
        except Denied as refused:
            if refused.code != "unauthenticated" or not credentials.renew(bearer):
                raise
        return self._connect(opening, credentials.bearer())

    def _connect(self, opening: wire.OpenSession, bearer: str | None) -> "WireLink":
        shown = self._calls.pool.address.shown
        try:
            with ExitStack() as ending:
                socket = ending.enter_context(connect(self._calls))
                welcome, opened = open_session(self._calls, socket, opening, bearer)
                bytes_max = welcome.limits.message_bytes
                return WireLink(
                    self._calls, socket, bearer, opened, ending.pop_all(), bytes_max=bytes_max
                )
        except _BROKEN as lost:
            if code_of(lost) in NEVER_AGAIN:
                raise InvalidInput(
                    f"the server {shown} does not take this opening: {lost}"
                ) from lost
            raise Unavailable(
                f"the server {shown} cannot be reached: {lost}", server=shown
            ) from lost


class WireLink:
    """Implements contract.Link."""

    def __init__(
        self,
        calls: Calls,
        socket: ClientConnection,
        bearer: str | None,
        opened: wire.Opened,
        ending: ExitStack,
        *,
        bytes_max: int,
    ) -> None:
        """
        ending     closes the connection
        bytes_max  of a message: of a larger one the server closes the connection
        """
        self._bytes_max = bytes_max
        self._calls = calls
        self._socket = socket
        self._bearer = bearer
        self._ending = ending
        self._opened = opened
        self._mutex = threading.Lock()  # of what is sent, and of the end
        self._last_id = OPENING_IDS
        self._flying: dict[int, type[Any]] = {}  # kinds of requests that are not answered, by id
        self._commits = 0  # of these
        self._end: Unavailable | None = None
        self._parts: list[wire.Sync] = []  # of a step that has not come whole

    @property
    def opened(self) -> wire.Opened:
        return self._opened

    def send(self, request: LinkRequest) -> int:
        kind = type(request)
        with self._mutex:
            self._check_open()
            others = len(self._flying) - self._commits
            is_commit = kind in _COMMITS
            if self._commits >= LINK_COMMITS_MAX if is_commit else others >= LINK_REQUESTS_MAX:
                raise Busy("too many requests of this session are unanswered; receive first")
            id = self._last_id + 1
            data = wire.encode_request(request, id)
            if len(data) > self._bytes_max:
                raise InvalidInput(
                    f"a commit of {len(data)} bytes is more than the {self._bytes_max} that this server"
                    " takes; write less at once"
                )
            self._last_id = id
            self._flying[id] = kind
            self._commits += is_commit
            try:
                self._socket.send(data, text=True)
            except _BROKEN as lost:
                raise self._ended_by(lost) from lost
            return id

    def receive(self, timeout: float | None = None) -> Message | None:
        deadline = None if timeout is None else self._calls.now() + timeout
        while True:
            self._check_usable()
            left = LINE_LOOK_SECONDS
            if deadline is not None:
                left = min(left, max(deadline - self._calls.now(), 0))
            try:
                data = self._socket.recv(timeout=left, decode=False)
            except TimeoutError:
                if deadline is not None and self._calls.now() >= deadline:
                    return None
                continue
            except _BROKEN as lost:
                with self._mutex:
                    self._check_open()
                    raise self._ended_by(lost) from lost
            try:
                message = self._taken(wire.decode_from_server(data))
            except Unavailable as unreadable:
                with self._mutex:
                    self._check_open()
                    raise self._ended_by(unreadable) from unreadable
            if message is not None:
                return message

    def close(self) -> None:
        if not self._mutex.acquire(timeout=LINE_CLOSE_SECONDS):
            with suppress(OSError):  # whoever sends waits for a server that takes no byte
                self._socket.socket.shutdown(SHUT_RDWR)
            self._mutex.acquire()
        try:
            self._end = self._end or ended("stop", "the link was closed")
        finally:
            self._mutex.release()
        self._ending.close()

    # -- messages ----------------------------------------------------------------------------------

    def _taken(self, message: wire.Answer | wire.Push | None) -> Message | None:
        """Return what a message of the server says; None for a part of a step, and for a push that this
        client does not know."""
        match message:
            case wire.Answer():
                return self._answered(message)
            case wire.Sync():
                self._parts.append(message)
                if message.more:
                    return None
                parts, self._parts = self._parts, []
                return wire.joined(parts)
            case _:
                return message

    def _answered(self, answer: wire.Answer) -> Message:
        with self._mutex:
            kind = self._flying.pop(answer.id, None)
            self._commits -= kind in _COMMITS
        if kind is None:
            raise wire.unreadable(f"it answers request {answer.id}, which nobody has sent")
        if answer.error is not None:
            return Refused(answer.id, wire.failure_of(answer))
        if kind in _COMMITS:
            return Decided(answer.id, _verdict_of(answer.ok))
        return Done(answer.id, wire.decode_ok(answer.ok, _Told).version)

    # -- its end -----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._end is not None:
            raise self._end

    def _check_usable(self) -> None:
        """Raise when the link has ended; end it when its store is closed."""
        self._check_open()
        try:
            self._calls.pool.check_usable()
        except Unavailable as error:
            with self._mutex:
                self._end = self._end or ended("stop", str(error))
            self._check_open()

    def _ended_by(self, lost: Exception) -> Unavailable:
        """Return the error of a line that has ended, from now on."""
        shown = self._calls.pool.address.shown
        self._end = ended(
            self._then(code_of(lost)), f"the line to the server {shown} is down: {lost}"
        )
        return self._end

    def _then(self, code: int | None) -> Then:
        if code in _AUTH:
            return "auth" if self._calls.credentials.renew(self._bearer) else "stop"
        if code in _AT_ONCE:
            return "back"
        return "stop" if code == wire.CLOSED or code in NEVER_AGAIN else "later"


def _verdict_of(ok: Raw) -> Verdict:
    try:
        return decode_verdict(ok)
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise wire.unreadable(error) from None
