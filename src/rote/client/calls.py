"""A call: one request, sent again where that is safe, until it is answered or its time is over.

connect, send, answer ──> good: the reply         ──> bad: the error that the server has raised
    │                                                  └ 429, 502 to 504: pause, send again
    ├ not sent whole: the server cannot have done it       ──> pause, send again
    ├ an answer of somebody in between: the server may have done it
    └ sent, no answer: it may have done it. What may be repeated is sent again; of the rest, and when
      the time is over, nobody knows
"""

import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct, structs

from rote.client.advice import advice
from rote.client.credentials import Credentials
from rote.client.pool import Now, Pool
from rote.client.replies import Broken, Reply, Take, read_reply
from rote.contract import IdSource
from rote.contract.wire import decode_error
from rote.errors import Denied, InvalidInput, NotFound, RoteError, Unavailable
from rote.values.client_limits import (
    PAUSE_SECONDS_MAX,
    PAUSE_SECONDS_MIN,
    SILENCE_SECONDS_MAX,
)
from rote.values.limits import BLOB_PIECE_BYTES

# `always`: doing it twice is doing it once. `refused`: only when the server says that it did nothing.
Repeat = Literal["always", "refused"]
# What a server refuses before it does anything.
_REFUSALS = frozenset({"too_many_requests", "overloaded", "stopping"})
_AGAIN = frozenset({429, 502, 503, 504})
# Details of refusals of a caller, whatever it asks: they say nothing of an attempt before.
_OF_CALLERS = frozenset({"reason", "needs", "path_rule", "space", "status"})


class Body(Struct, frozen=True):
    """A body that is read from its beginning for each attempt to send it."""

    size: int
    open: Callable[[], Callable[[int], bytes]]  # returns a function that reads so many bytes


class Request(Struct, frozen=True):
    """A request as it is sent, but for who asks."""

    method: str
    target: str
    body: bytes | Body = b""
    headers: Mapping[str, str] = {}
    repeat: Repeat = "always"
    attempt: str | None = None  # the name of a write, for the error when nobody knows its outcome
    is_write: bool = False
    is_long: bool = False  # it may be silent for long, once it was sent
    take: Callable[[], Take] | None = None  # makes what takes the body of a good answer


class Calls:
    """Sends requests to one server. Any thread may."""

    def __init__(
        self, pool: Pool, *, credentials: Credentials, ids: IdSource, seconds: float, now: Now
    ) -> None:
        self.pool = pool
        self.credentials = credentials
        self._ids = ids
        self.seconds = seconds
        self.now = now
        self.has_answered = False  # the server, and as one that speaks HTTP
        self._ended = threading.Event()

    def call(self, request: Request, *, deadline: float | None = None) -> Reply:
        """Return the good reply to a request; raise what the server raises, or Unavailable.

        deadline  None: the time of a call from now on
        """
        until = self.now() + self.seconds if deadline is None else deadline
        return _Call(self, request, until).result()

    def close(self) -> None:
        self._ended.set()
        self.pool.close()

    def pause(self, seconds: float) -> None:
        """Wait, shorter when the store is closed meanwhile."""
        self._ended.wait(seconds)

    def jitter(self, seconds: float) -> float:
        """Return between half and all of some seconds, so that clients do not come back together."""
        return seconds * (0.5 + self._ids.random_bytes(1)[0] / 512)


class _Call:
    """One call and its attempts."""

    def __init__(self, calls: Calls, request: Request, deadline: float) -> None:
        self._calls = calls
        self._pool = calls.pool
        self._request = request
        self._deadline = deadline
        self._is_sent = False  # whether an attempt was sent whole and the server has not answered
        self._is_renewed = False

    def result(self) -> Reply:
        pause = PAUSE_SECONDS_MIN
        while True:
            least = 0.0
            try:
                bearer = self._bearer()
                reply = self._exchange(bearer)
                if reply.is_good:
                    if self._request.is_write:
                        reply.details = self._details(is_open=True)
                    return reply
                failure = self._error_of(reply)
                if self._is_worth_renewing(failure, bearer):
                    continue
                if not self._may_repeat_after(reply, failure):
                    raise self._judged(failure)
                least = float(reply.number(b"retry-after") or 0)
            except (OSError, Broken) as error:
                failure = self._lost(error)
                self._pool.check_usable()
                if isinstance(error, ssl.SSLCertVerificationError):
                    raise failure from None  # it will be the same one the next time
                if self._request.repeat != "always" and self._is_sent:
                    raise failure from None
            wait = max(self._calls.jitter(pause), least)
            if self._calls.now() + wait >= self._deadline:
                raise self._judged(failure)
            self._calls.pause(wait)
            self._pool.check_usable()
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def _bearer(self) -> str | None:
        """Return what says who calls; it may have to be asked for in the time of the call."""
        try:
            return self._calls.credentials.bearer(self._deadline)
        except Unavailable as error:
            raise self._unavailable(str(error), code=error.code) from error
        except RoteError as error:
            raise self._judged(error) from None

    # -- one attempt -----------------------------------------------------------------------------------

    def _exchange(self, bearer: str | None) -> Reply:
        connection = self._pool.take(self._deadline)
        try:
            reply = self._answer(connection, bearer)
        except BaseException:
            self._pool.drop(connection)
            raise
        if reply.is_kept:
            self._pool.give_back(connection)
        else:
            self._pool.drop(connection)
        return reply

    def _answer(self, connection: socket.socket, bearer: str | None) -> Reply:
        request = self._request

        def before() -> None:
            connection.settimeout(SILENCE_SECONDS_MAX if request.is_long else self._left())

        try:
            self._send(connection, bearer)
        except ConnectionError as error:
            # A server that refuses a long body answers, and closes before it has read all of it.
            try:
                reply = read_reply(connection, before)
            except (OSError, Broken):
                raise error from None
            if reply.is_good:
                raise
            return structs.replace(reply, is_kept=False)
        was_sent, self._is_sent = self._is_sent, True
        reply = read_reply(connection, before, request.take and request.take())
        self._is_sent = was_sent
        self._calls.has_answered = True
        return reply

    def _left(self) -> float:
        left = self._deadline - self._calls.now()
        if left <= 0:
            raise TimeoutError("the time is over")
        return left

    def _send(self, connection: socket.socket, bearer: str | None) -> None:
        request = self._request
        connection.settimeout(self._left())
        head = self._head(bearer)
        if isinstance(request.body, bytes):
            connection.sendall(head + request.body)
            return
        read = request.body.open()
        connection.sendall(head)
        while piece := read(BLOB_PIECE_BYTES):
            if request.is_long:
                connection.settimeout(SILENCE_SECONDS_MAX)
            connection.sendall(piece)

    def _head(self, bearer: str | None) -> bytes:
        request = self._request
        size = len(request.body) if isinstance(request.body, bytes) else request.body.size
        lines = [f"{request.method} {request.target} HTTP/1.1\r\nhost: {self._pool.address.named}"]
        if bearer is not None:
            lines.append(f"authorization: Bearer {bearer}")
        if request.method != "GET":
            lines.append(f"content-length: {size}")
        lines += [f"{name}: {value}" for name, value in request.headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    # -- what went wrong -------------------------------------------------------------------------------

    def _is_worth_renewing(self, failure: RoteError, bearer: str | None) -> bool:
        if failure.code != "unauthenticated" or self._is_renewed:
            return False
        self._is_renewed = True
        return self._calls.credentials.renew(bearer)

    def _may_repeat_after(self, reply: Reply, failure: RoteError) -> bool:
        if reply.status not in _AGAIN or failure.code == "cancelled":
            return False
        # An error that says what it has done is an answer.
        is_refusal = failure.code in _REFUSALS
        return is_refusal or (self._request.repeat == "always" and not failure.details)

    def _error_of(self, reply: Reply) -> RoteError:
        """Return the error that an answer tells of."""
        try:
            error = decode_error(reply.body)
        except InvalidInput:
            pass  # of a proxy, or of no server of Rote
        else:
            return _for_a_program(error)
        shown, status = self._pool.address.shown, reply.status
        message = f"{shown} answers with status {status}, and not as a server of Rote"
        if status in (401, 403):
            return Denied(message, status=status)
        # Somebody in between refuses a request before it is passed on, and fails afterwards.
        self._is_sent = self._is_sent or not 400 <= status < 500
        return Unavailable(message)

    def _lost(self, error: Exception) -> Unavailable:
        """Return the error of a line that broke, or of time that is over."""
        address = self._pool.address.shown
        is_late = isinstance(error, TimeoutError)
        if is_late:
            what = f"the server {address} did not answer in time"
        else:
            what = f"the server {address} cannot be reached: {error}"
            what += advice(
                error,
                is_tls=self._pool.address.is_tls,
                has_answered=self._calls.has_answered,
            )
        return self._unavailable(what, code="timeout" if is_late else None)

    def _judged(self, failure: RoteError) -> RoteError:
        """Return an error for the caller: after an attempt without an answer nobody knows."""
        is_open = self._is_sent and self._request.is_write
        if not is_open or failure.details.get("outcome") == "unknown":
            return failure
        if isinstance(failure, Unavailable):
            return self._unavailable(str(failure), code=failure.code)
        if isinstance(failure, Denied | NotFound) and failure.details.keys() & _OF_CALLERS:
            failure.details |= self._details(
                is_open=True
            )  # the attempt before may have been let in
        return failure

    def _unavailable(self, what: str, *, code: str | None) -> Unavailable:
        request = self._request
        if request.is_write and self._is_sent:
            what += "; it may have done it all the same"
            if request.attempt is not None:
                what += ", space.settle(error.details['attempt']) tells"
        return Unavailable(what, code=code, **self._details(is_open=self._is_sent))

    def _details(self, *, is_open: bool) -> dict[str, Any]:
        """Return what an error about the server says.

        is_open  whether a write may have been done
        """
        request = self._request
        details: dict[str, Any] = {"server": self._pool.address.shown}
        if request.is_write:
            details["outcome"] = "unknown" if is_open else "not_sent"
            if request.attempt is not None:
                details["attempt"] = request.attempt
        return details


def _for_a_program(error: RoteError) -> RoteError:
    """Return the error of a server in words for who calls it by the library."""
    if error.code == "unauthenticated" and error.details.get("reason") == "missing":
        return Denied(
            "the server asks who calls: give rote.open a token= or a key=, and the command line"
            " ROTE_TOKEN or ROTE_KEY_FILE",
            code=error.code,
            **error.details,
        )
    return error
