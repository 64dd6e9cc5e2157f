"""One connection of `/v1/sync`: hello, then one session, until either side ends it.

    messages ──> in their turn: hello, session.open, watch.*, acks of steps
             ├─> one after the other: commits, acks of verdicts, session.close (decisions.py)
             └─> beside each other: calls, on threads of the pool

The event loop moves messages; parsing of large ones, rights, and the store are on threads.
"""

import asyncio
import traceback
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Raw
from uvicorn.protocols.utils import ClientDisconnected

from rote.access.encoding import to_base64url
from rote.access.refusals import unauthenticated
from rote.contract import sync as wire
from rote.errors import (
    Denied,
    InternalError,
    InvalidInput,
    NotFound,
    RoteError,
    SessionExpired,
    SessionRevoked,
    Unavailable,
)
from rote.server.access_log import Entry, FailedEntry
from rote.server.messages import Headers, Seen
from rote.server.parameters import parameters
from rote.server.requests import head_of, request_id
from rote.server.statuses import EVERY_ANSWER, NOT_CACHED, error_response, status_of
from rote.server.sync.calls import answer_call
from rote.server.sync.decisions import Asked, Decisions, Finished
from rote.server.sync.session import Session
from rote.server.sync.socket import STOPPING
from rote.values import format_time
from rote.values.sync_limits import (
    SYNC_CALLS_MAX,
    SYNC_CHALLENGE_SECONDS,
    SYNC_HELLO_SECONDS,
    SYNC_OPEN_SECONDS,
    SYNC_PARSED_AT_ONCE_BYTES,
    SYNC_TRANSACTS_MAX,
    SYNC_WATCHES_MAX,
    SYNC_WINDOW,
)

if TYPE_CHECKING:
    from rote.server.application import Application
    from rote.server.exchange import Receive, Scope, Send

PATH = b"/v1/sync"


class Ended(Exception):
    """The connection is to be closed with a code; None when the client has closed it."""

    def __init__(self, code: int | None, reason: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.reason = reason


class Connection:
    """A connection and its session."""

    def __init__(
        self, app: "Application", scope: "Scope", receive: "Receive", send: "Send"
    ) -> None:
        self._app = app
        self._receive = receive
        self._send_event = send
        self._socket: Any = scope["extensions"]["rote"]["socket"]
        self._head = head_of({**scope, "method": "GET"}, behind_proxy=app.behind_proxy)
        self._request_id = request_id(self._head, app.ids)
        self._writing = asyncio.Lock()
        self._is_over = False  # nothing is sent any more
        self._is_heard = False  # hello was answered
        self._challenge: tuple[str, float] | None = None  # and when it ends
        self._session: Session | None = None
        self._calls: dict[int, asyncio.Task[None]] = {}  # by the ids of their requests
        self._beside: set[asyncio.Task[None]] = set()  # steps, and the word that ends a session
        self._room_for_calls = asyncio.Semaphore(SYNC_CALLS_MAX)
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._in_bytes = self._out_bytes = 0
        self._status = 101
        self._error: RoteError | None = None

    # -- its life --------------------------------------------------------------------------------------

    async def run(self) -> None:
        begun = self._app.monotonic()
        try:
            if await self._is_let_in():
                await self._converse()
        finally:
            self._note(self._app.monotonic() - begun)

    async def _is_let_in(self) -> bool:
        """Accept the connection, or answer why not."""
        app, head = self._app, self._head
        try:
            app.origins.check(head)
            if head.path != PATH:
                raise NotFound("there is no such route; see /v1/openapi.json")
            app.authentication.check_no_secret(head)
            parameters(head)
            if app.service.is_stopping:
                raise Unavailable("the server is stopping; ask again later", code="stopping")
        except RoteError as error:
            self._error = error
            await self._refuse(error)
            return False
        await self._receive()  # the word that it connects
        await self._send_event({"type": "websocket.accept", "headers": self._headers()})
        return True

    def _headers(self) -> Headers:
        return (*EVERY_ANSWER, (b"rote-request", self._request_id))

    async def _refuse(self, error: RoteError) -> None:
        response = error_response(error)
        self._status = response.status
        headers = [*response.headers, *self._headers(), NOT_CACHED]
        start = "websocket.http.response.start"
        await self._send_event({"type": start, "status": response.status, "headers": headers})
        await self._send_event({"type": "websocket.http.response.body", "body": response.body})

    async def _converse(self) -> None:
        reading = asyncio.ensure_future(self._read())
        code: int | None = wire.INTERNAL
        reason = ""
        try:
            await asyncio.wait({reading, self._ended}, return_when=asyncio.FIRST_COMPLETED)
            (self._ended if self._ended.done() else reading).result()
        except Ended as error:
            code, reason = error.code, error.reason
        except Exception as error:
            self._note_bug(error)
        finally:
            self._is_over = True
            reading.cancel()
            if self._session is not None:
                self._app.sessions.remove(self._session)
                self._session.close()
            for task in (*self._calls.values(), *self._beside):
                task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await reading
            if code is not None:
                await self._close(code, reason)

    async def _close(self, code: int, reason: str) -> None:
        with suppress(Exception):  # the client has gone meanwhile
            await self._send_event({"type": "websocket.close", "code": code, "reason": reason})

    def end(self, code: int | None, reason: str = "") -> None:
        """Close the connection, from any place on the loop; without a code the client has gone."""
        self._is_over = True
        if not self._ended.done():
            self._ended.set_exception(Ended(code, reason))
            self._ended.exception()  # it was looked at, also if nobody waits for it any more

    def revoke(self, error: Exception) -> None:
        """End the session, which may not go on because of an error."""
        if not isinstance(error, RoteError):
            self._note_bug(error)
            self.end(wire.INTERNAL)
            return
        self._beside.add(asyncio.ensure_future(self._revoke(error)))

    async def _revoke(self, error: RoteError) -> None:
        """Say why the session ends, and end; nothing is sent in between."""
        if error.code == "unauthenticated":
            self.end(wire.AUTH_FAILED, "the credential has ended")
            return
        if isinstance(error, SessionRevoked):
            code, revoked = wire.TAKEN_OVER, wire.Revoked("taken_over")
        elif isinstance(error, SessionExpired):
            code, revoked = wire.TAKEN_OVER, wire.Revoked("expired")
        else:
            code, revoked = wire.ACCESS_WITHDRAWN, wire.Revoked("access")
        with suppress(Ended):
            await self.send(wire.encode_push(revoked), is_last=True)
        self.end(code, revoked.reason)

    # -- messages --------------------------------------------------------------------------------------

    async def send(self, data: bytes, *, is_last: bool = False) -> None:
        """Send a message; return when the client has taken most of it. Ended when it has gone."""
        async with self._writing:
            if self._is_over:
                return
            self._is_over = is_last
            self._app.buffered.keep(len(data))
            self._out_bytes += len(data)
            try:
                await self._send_event({"type": "websocket.send", "text": data.decode()})
                await self._socket.writable.wait()
            except (ClientDisconnected, RuntimeError):  # uvicorn's, once it has closed
                self.end(None)
                raise Ended(None) from None
            finally:
                self._app.buffered.release(len(data))

    async def _next(self) -> tuple[wire.Envelope, int]:
        """Return the next request and its size in bytes; Ended when there is none."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            raise Ended(None)
        if message["type"] == STOPPING:
            await self._say_closing()
        text = message.get("text")
        if text is None:
            raise Ended(wire.BINARY, "send text")
        data = text.encode()
        self._in_bytes += len(data)
        if len(data) <= SYNC_PARSED_AT_ONCE_BYTES:
            envelope = wire.read_envelope(data)
        else:
            self._app.buffered.hold(len(data))
            try:
                run = self._app.pool_of_sessions.run
                envelope = await run(wire.read_envelope, data, is_begun=True)
            finally:
                self._app.buffered.release(len(data))
        decisions = self._decisions
        flying = self._calls.keys() | (set() if decisions is None else decisions.ids)
        if envelope is None or envelope.id in flying:
            raise Ended(wire.UNANSWERABLE, "send JSON objects, each with an id of its own")
        return envelope, len(data)

    async def _say_closing(self) -> None:
        """Answer what was read, say that the server goes down, and end."""
        await self.send(wire.encode_push(wire.Closing()))
        if self._calls:
            await asyncio.wait(list(self._calls.values()))
        if self._decisions is not None:
            await self._decisions.drain()
        raise Ended(wire.STOPPED, "the server stops")

    async def _read(self) -> None:
        """Answer requests until the connection ends; the first two have their times."""
        try:
            async with asyncio.timeout(SYNC_HELLO_SECONDS):
                while not self._is_heard:
                    await self._take(*await self._next())
            async with asyncio.timeout(SYNC_OPEN_SECONDS):
                while self._session is None:
                    await self._take(*await self._next())
        except TimeoutError:
            raise Ended(wire.TOO_SLOW, "open a session sooner") from None
        self._socket.take_large_messages()
        while True:
            await self._take(*await self._next())

    @property
    def _decisions(self) -> Decisions | None:
        return None if self._session is None else self._session.decisions

    async def _take(self, envelope: wire.Envelope, size_bytes: int) -> None:
        """Answer a request, or begin to."""
        try:
            if self._decisions is not None:
                await self._decisions.confirm()
            request = envelope.request()
            if isinstance(request, wire.Call) and self._session is not None:
                await self._begin_call(envelope.id, request)
                return
            if self._decisions is not None and isinstance(request, Asked) and _is_decided(request):
                self._acknowledge(request)
                await self._decisions.put(envelope.id, request, size_bytes)
                return
            ok = await self._answer(request)
        except RoteError as error:
            await self.send(wire.encode_failure(envelope.id, error))
            if isinstance(error, SessionRevoked | SessionExpired) and self._session is not None:
                await self._revoke(error)
            _end_after(error)
            return
        except (Ended, asyncio.CancelledError):
            raise
        except Exception as error:
            await self.send(wire.encode_failure(envelope.id, self._note_bug(error)))
            return
        await self.send(wire.encode_ok(envelope.id, ok))
        if isinstance(request, wire.OpenSession):
            self._begin_session()
        if isinstance(request, wire.CloseSession):
            raise Ended(wire.CLOSED)

    async def _answer(self, request: wire.Request) -> Any:
        session = self._session
        if isinstance(request, wire.Hello):
            return self._greet(request)
        if isinstance(request, wire.OpenSession):
            return await self._open(request)
        if session is None:
            raise _out_of_turn("open a session first")
        match request:
            case wire.Ack():
                self._acknowledge(request)
                return {}
            case wire.SetWatches() | wire.AddWatches() | wire.RemoveWatches():
                return await session.watch(request)
            case wire.CloseSession():
                return {}
            case wire.Transact() | wire.Abandon():
                raise _out_of_turn("an ephemeral session makes no commits")
        raise InternalError("a request without an answer")

    def _acknowledge(self, request: wire.Request) -> None:
        if self._session is not None and isinstance(request, wire.Ack):
            self._session.acknowledge(request.to)

    # -- hello and session.open ------------------------------------------------------------------------

    def _greet(self, request: wire.Hello) -> wire.Welcome:
        if self._is_heard:
            raise _out_of_turn("hello was said")
        if request.protocol != wire.PROTOCOL:
            raise InvalidInput(
                f"this server speaks {wire.PROTOCOL}",
                code="unsupported_protocol",
                supported=[wire.PROTOCOL],
            )
        self._is_heard = True
        app = self._app
        challenge = to_base64url(app.ids.random_bytes(32))
        self._challenge = challenge, app.monotonic() + SYNC_CHALLENGE_SECONDS
        ends = app.service.admission.now() + SYNC_CHALLENGE_SECONDS * 1_000_000
        return wire.Welcome(
            wire.PROTOCOL, app.service.home.did, challenge, format_time(ends), self._bounds()
        )

    def _bounds(self) -> wire.Bounds:
        return wire.Bounds(
            message_bytes=self._app.limits.commit_bytes,
            calls=SYNC_CALLS_MAX,
            transacts=SYNC_TRANSACTS_MAX,
            watches=SYNC_WATCHES_MAX,
            window=SYNC_WINDOW,
        )

    async def _open(self, request: wire.OpenSession) -> wire.Opened:
        if not self._is_heard:
            raise _out_of_turn("say hello first")
        if self._session is not None:
            raise _out_of_turn("a connection has one session")
        challenge, self._challenge = self._challenge, None
        is_fresh = challenge is not None and self._app.monotonic() < challenge[1]
        session = await self._app.pool_of_sessions.run(
            self._let_in, request, challenge[0] if challenge and is_fresh else None
        )
        if request.ephemeral and (request.session is not None or request.token is not None):
            raise InvalidInput(
                "an ephemeral session is not opened again; leave session and token out",
                argument="ephemeral",
            )
        self._app.sessions.add(session, self)
        try:
            opened = await session.open(request, self._app)
        except BaseException:
            self._app.sessions.remove(session)
            session.close()
            raise
        self._session = session
        return opened

    def _let_in(self, request: wire.OpenSession, challenge: str | None) -> Session:
        """Find out who opens a session, and whether they may read; runs on the pool."""
        service = self._app.service
        opener = self._app.authentication.of_session(
            request.auth, challenge=challenge, peer=self._head.peer
        )
        port = service.enter(opener.principal, "watch", request.space, Seen())
        if opener.space is not None and opener.space != port.space:
            raise unauthenticated("wrong_audience")
        return Session(opener, port, asked=request.space, watches=service.watches, send=self.send)

    def _begin_session(self) -> None:
        """Let the session send steps and decide commits: its opening was answered."""
        session = self._session
        assert session is not None
        self._beside.add(asyncio.ensure_future(self._go_on(session.step_on())))
        if session.decisions is not None:
            decide = session.decisions.decide_on(self._tell)
            self._beside.add(asyncio.ensure_future(self._go_on(decide)))
        self._app.sessions.hold(session)

    async def _tell(self, data: bytes) -> None:
        """Send the answer to a commit; a step may have waited for it."""
        await self.send(data)
        if self._session is not None:
            self._session.stir()

    async def _go_on(self, work: Coroutine[Any, Any, None]) -> None:
        """Do work of the session; what ends that ends the connection."""
        try:
            await work
        except Ended:
            pass
        except Finished:
            self.end(wire.CLOSED)
        except (NotFound, Denied) as error:
            await self._revoke(error)
        except RoteError as error:
            self._error = error
            self.end(wire.TRY_LATER if isinstance(error, Unavailable) else wire.INTERNAL)
        except Exception as error:
            self._note_bug(error)
            self.end(wire.INTERNAL)

    # -- calls -----------------------------------------------------------------------------------------

    async def _begin_call(self, id: int, call: wire.Call) -> None:
        await self._room_for_calls.acquire()
        task = asyncio.ensure_future(self._call(id, call))
        self._calls[id] = task

        def ended(_: object) -> None:
            self._room_for_calls.release()
            self._calls.pop(id, None)

        task.add_done_callback(ended)

    async def _call(self, id: int, call: wire.Call) -> None:
        app, session = self._app, self._session
        assert session is not None
        begun, error, answer = app.monotonic(), None, b""
        try:
            answer = await answer_call(app, session, call)
            data = wire.encode_ok(id, Raw(answer))
        except RoteError as raised:
            error = raised
        except Exception as raised:
            error = self._note_bug(raised)
        status = 200 if error is None else status_of(error)
        if error is not None:
            data = wire.encode_failure(id, error)
        code = None if error is None else error.code
        app.metrics.answered(
            call.command, status, app.monotonic() - begun, code=code, bytes_out=len(data)
        )
        with suppress(Ended):
            await self.send(data)
        if error is not None and error.details.get("reason") == "token":
            self.revoke(error)

    # -- afterwards ------------------------------------------------------------------------------------

    def _note_bug(self, error: Exception) -> InternalError:
        found = InternalError("a bug in Rote; its stack is on the server's stderr")
        found.__cause__ = error
        self._error = found
        self._app.stacks.line("".join(traceback.format_exception(found)).encode())
        return found

    def _note(self, seconds: float) -> None:
        app, session = self._app, self._session
        principal = None if session is None else session.opener.principal
        code = None if self._error is None else self._error.code
        app.metrics.answered(
            "hello", self._status, seconds, code=code,
            bytes_in=self._in_bytes, bytes_out=self._out_bytes,
        )  # fmt: skip
        members: dict[str, Any] = {
            "time": app.now(),
            "request": self._request_id.decode(),
            "peer": self._head.peer or "",
            "principal": None if principal is None else principal.name,
            "proofs": () if principal is None else principal.proof_ids,
            "method": "GET",
            "command": "hello",
            "space": None if session is None else session.space,
            "status": self._status,
            "code": code,
            "ms": round(seconds * 1_000, 3),
            "bytes_in": self._in_bytes,
            "bytes_out": self._out_bytes,
        }
        if isinstance(self._error, InternalError):
            cause = self._error.__cause__ or self._error
            app.log.note(FailedEntry(**members, error=f"{type(cause).__name__}: {cause}"))
        else:
            app.log.note(Entry(**members))


def _out_of_turn(message: str) -> InvalidInput:
    return InvalidInput(message, code="out_of_turn")


def _is_decided(request: Asked) -> bool:
    """Whether a request takes its turn among those that the desk decides."""
    if isinstance(request, wire.Ack):
        return request.verdicts is not None or request.basis is not None
    return True


def _end_after(error: RoteError) -> None:
    """End the connection after an error that nothing can follow."""
    ends = {
        "unauthenticated": wire.AUTH_FAILED,
        "unsupported_protocol": wire.NO_COMMON_PROTOCOL,
        "too_many_requests": wire.TOO_MANY,
    }
    if error.code in ends:
        raise Ended(ends[error.code], error.code)
