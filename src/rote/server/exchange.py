"""One request of HTTP, from its head to the end of its answer.

The event loop looks at the head and moves bytes; all else happens on a thread of the pool. The order
of checks is host, origin, route and method, length, who asks, and then what the route checks.
"""

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from rote.access.principals import Principal
from rote.errors import Corrupt, InternalError, LimitExceeded, NotFound, RoteError, Unavailable
from rote.server.access_log import AccessLog, Entry, FailedEntry
from rote.server.messages import NOBODY, Head, Headers, Http, Pieces, Response, Seen, Upload
from rote.server.origins import preflight
from rote.server.pieces import Gone, close_pieces, stepped, until_gone
from rote.server.progress import Progress
from rote.server.requests import check_body_form, head_of, request_id
from rote.server.routes import Found, Route, allowed
from rote.server.statuses import EVERY_ANSWER, NDJSON, NOT_CACHED, error_response
from rote.values.limits import BLOB_PIECE_BYTES
from rote.values.server_limits import DISCARD_BYTES, DISCARD_SECONDS

if TYPE_CHECKING:
    from hashlib import _Hash

    from rote.server.application import Application

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

# Commands that take pages or bytes of another store, and find damage in them.
_TAKES_PAGES = ("copy_in", "sides_in", "foundation_in", "adopt_blob")


class Exchange:
    """One request and its answer."""

    def __init__(self, app: "Application", scope: Scope, receive: Receive, send: Send) -> None:
        self._app = app
        self._cycle = scope["extensions"]["rote"]["cycle"]  # uvicorn's: whether the body has come
        self._receive = receive
        self._send = send
        self._head: Head = head_of(scope, behind_proxy=app.behind_proxy)
        self._request_id = request_id(self._head, app.ids)
        self._principal = NOBODY
        self._counted: Principal | None = None  # in whose account it is
        self._found: Found | None = None
        self._seen = Seen()
        self._page_headers: Headers = ()  # that let a page of an allowed origin read the answer
        self._held_bytes = 0
        self._in_bytes = self._out_bytes = 0
        self._error: RoteError | None = None

    async def run(self) -> None:
        begun, status = self._app.monotonic(), 0
        try:
            response = await self._response()
            status = response.status
            if self._cycle.more_body and not self._cycle.waiting_for_100_continue:
                await self._discard()
            await self._answer(response)
        except Gone:
            pass
        finally:
            self._app.buffered.release(self._held_bytes)
            if self._counted is not None:
                self._app.accounts.end(self._counted)
            self._note(status, self._app.monotonic() - begun)

    async def _response(self) -> Response:
        try:
            return await self._routed()
        except Gone:
            raise
        except Exception as error:
            return self._note_error(error)

    def _note_error(self, error: Exception) -> Response:
        """Note an error, and return the answer that tells of it."""
        if isinstance(error, RoteError):
            self._error = error
        else:
            self._error = InternalError("a bug in Rote; its stack is on the server's stderr")
            self._error.__cause__ = error
        response = error_response(self._error, status=self._status(self._error))
        if response.status == 500:
            self._app.stacks.line("".join(traceback.format_exception(self._error)).encode())
        return response

    def _status(self, error: RoteError) -> int | None:
        """Return the status of damage that the client has sent, which is no error of the server."""
        is_sent = self._found is not None and self._found.row.name in _TAKES_PAGES
        return 400 if is_sent and isinstance(error, Corrupt) else None

    async def _routed(self) -> Response:
        app, head = self._app, self._head
        self._page_headers = app.origins.check(head)
        routes, names = app.router.at(head.path)
        if head.method == "OPTIONS":
            return self._options(routes)
        self._found = found = app.router.choose(routes, names, head.method)
        size = check_body_form(head, found, app.limits)
        if found.route.is_immediate:
            return found.route.function(self._http(found))
        if app.service.is_stopping and found.row.right != "open":
            raise Unavailable("the server is stopping; ask again later", code="stopping")
        self._count_known()
        if not self._cycle.more_body:
            return await self._whole(found)
        await app.pool_of(found.row).run(self._enter, found)
        if found.route.upload is not None:
            self._hold(BLOB_PIECE_BYTES)
            return await self._upload(found)
        body = await self._body(found, size)
        return await self._run(found, body, is_begun=True)

    def _options(self, routes: dict[str, Route]) -> Response:
        methods = allowed(routes)
        headers: Headers = ((b"allow", ", ".join(methods).encode()),)
        if self._page_headers and self._head.all(b"access-control-request-method"):
            headers += preflight(methods)
        return Response(204, headers)

    def _count_known(self) -> None:
        known = self._app.accounts.known(self._head)
        if known is not None:
            self._count(known)

    def _count(self, principal: Principal) -> None:
        if self._counted is None:
            self._app.accounts.begin(principal)
            self._counted = principal

    # -- on the pool -----------------------------------------------------------------------------------

    def _enter(self, found: Found) -> None:
        """Find out who asks; where the client waits for a word to send its body, also whether it may."""
        app = self._app
        if found.row.right == "open":
            return
        principal = app.authentication.principal(self._head)
        if self._counted is None:
            self._count(principal)
            app.accounts.remember(self._head, principal)
        self._principal = principal
        if self._cycle.waiting_for_100_continue:
            app.service.admission.admit(principal, found.row, found.names.get("space", ""))

    def _enter_and_respond(self, found: Found, body: bytes, progress: Progress | None) -> Response:
        self._enter(found)
        return self._respond(found, body, progress)

    def _respond(self, found: Found, body: bytes, progress: Progress | None) -> Response:
        if found.row.right != "open":
            self._app.authentication.check_body(self._head, lambda: sha256(body).digest())
        http = self._http(found, body, progress)
        try:
            return found.route.function(http)
        except NotFound:
            # Spaces are found by their names without a look; a name may have gone to another one.
            if not http.space or not self._app.service.admission.is_stale(http.space):
                raise
            return found.route.function(http)

    def _http(self, found: Found, body: bytes = b"", progress: Progress | None = None) -> Http:
        tell = None if progress is None else progress.tell
        return Http(
            self._head, self._principal, self._app.service, found.names, self._seen, body, tell
        )

    # -- the body --------------------------------------------------------------------------------------

    async def _whole(self, found: Found) -> Response:
        """Answer a request whose body came with its head, in one step."""
        self._cycle.waiting_for_100_continue = False
        body: bytes = (await self._receive()).get("body", b"")
        self._in_bytes = len(body)
        self._check_size(found, len(body))
        self._hold(len(body))
        if found.route.upload is not None:
            await self._app.pool_of(found.row).run(self._enter, found)
            return await self._upload(found, body)
        return await self._run(found, body, is_begun=False)

    async def _run(self, found: Found, body: bytes, *, is_begun: bool) -> Response:
        function = self._respond if is_begun else self._enter_and_respond
        run, tells = self._app.pool_of(found.row).run, found.row.tells
        if not tells or not self._http(found).accepts(NDJSON):
            return await run(function, found, body, None, is_begun=is_begun)
        progress = Progress()
        work = asyncio.ensure_future(run(function, found, body, progress, is_begun=is_begun))
        return await progress.response(work)

    async def _body(self, found: Found, announced: int | None) -> bytes:
        self._hold(announced or 0)
        parts: list[bytes] = []
        more = True
        while more:
            piece, more = await self._next_piece(found)
            parts.append(piece)
            if announced is None:
                self._hold(len(piece))
        return b"".join(parts)

    async def _next_piece(self, found: Found) -> tuple[bytes, bool]:
        """Return some of the body, and whether there is more."""
        try:
            async with asyncio.timeout(self._app.limits.body_seconds):
                message = await self._receive()
        except TimeoutError:
            raise Unavailable("the body came too slowly; send it again", code="timeout") from None
        if message["type"] == "http.disconnect":
            raise Gone
        self._in_bytes += len(message["body"])
        self._check_size(found, self._in_bytes)
        return message["body"], message["more_body"]

    async def _discard(self) -> None:
        """Read what is on its way of a body that was refused.

        A connection that is closed before takes the answer with it.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                left = DISCARD_BYTES
                while self._cycle.more_body and left > 0 and not self._cycle.disconnected:
                    left -= len((await self._receive()).get("body", b""))

    def _check_size(self, found: Found, size: int) -> None:
        limit: int = getattr(self._app.limits, found.row.bound)
        if size > limit:
            raise LimitExceeded("the body in bytes", size=size, limit=limit)

    async def _upload(self, found: Found, whole: bytes | None = None) -> Response:
        """Hand the body on in pieces, each to a thread that is free for other work in between."""
        run = self._app.pool_of(found.row).run
        assert found.route.upload is not None
        upload = await run(found.route.upload, self._http(found), is_begun=True)
        digest, waiting, more = sha256(), bytearray(whole or b""), whole is None
        try:
            while more or waiting:
                while more and len(waiting) < BLOB_PIECE_BYTES:
                    piece, more = await self._next_piece(found)
                    waiting += piece
                taken = bytes(memoryview(waiting)[:BLOB_PIECE_BYTES])
                del waiting[:BLOB_PIECE_BYTES]
                await run(_take, upload, digest, taken, is_begun=True)
            check = self._app.authentication.check_body
            await run(check, self._head, digest.digest, is_begun=True)
            return await run(upload.finish, is_begun=True)
        except BaseException:
            await asyncio.shield(run(upload.drop, is_begun=True))
            raise

    def _hold(self, size_bytes: int) -> None:
        self._app.buffered.hold(size_bytes)
        self._held_bytes += size_bytes

    # -- the answer ------------------------------------------------------------------------------------

    async def _answer(self, response: Response) -> None:
        if self._cycle.disconnected:
            close_pieces(response.body)
            raise Gone
        body = response.body
        headers = [*response.headers, *EVERY_ANSWER, *self._page_headers]
        if not any(name == b"cache-control" for name, _ in response.headers):
            headers.append(NOT_CACHED)
        headers.append((b"rote-request", self._request_id))
        if self._seen.version is not None:
            headers.append((b"rote-version", b"%d" % self._seen.version))
            headers.append((b"rote-erased", b"%d" % self._seen.erased))
        if isinstance(body, bytes) and response.status not in (204, 304):
            headers.append((b"content-length", b"%d" % len(body)))
        if self._cycle.more_body or self._app.service.is_stopping:
            headers.append((b"connection", b"close"))
        start = {"type": "http.response.start", "status": response.status, "headers": headers}
        await self._send(start)
        if isinstance(body, bytes):
            self._app.buffered.keep(len(body))
            self._held_bytes += len(body)
            self._out_bytes = len(body)
            await self._send({"type": "http.response.body", "body": body})
            await self._cycle.flow.drain()  # it is held until the client has taken most of it
        elif self._head.method == "HEAD":
            close_pieces(body)
            await self._send({"type": "http.response.body", "body": b""})
        else:
            await self._stream(body)

    async def _stream(self, body: Pieces) -> None:
        """Send pieces as they are made; an error before the last one cuts the answer short."""
        assert self._found is not None
        if isinstance(body, AsyncIterator):
            pieces = until_gone(body, self._receive)
        else:
            pieces = stepped(body, self._app.pool_of(self._found.row))
        async with aclosing(pieces):
            try:
                async for piece in pieces:
                    self._out_bytes += len(piece)
                    part = {"type": "http.response.body", "body": piece, "more_body": True}
                    await self._send(part)
                    if self._cycle.disconnected:
                        raise Gone
            except Gone:
                raise
            except Exception as error:
                self._note_error(error)
                return
        await self._send({"type": "http.response.body", "body": b""})

    # -- afterwards ------------------------------------------------------------------------------------

    def _note(self, status: int, seconds: float) -> None:
        app, row = self._app, None if self._found is None else self._found.row
        code = None if self._error is None else self._error.code
        name = None if row is None else row.name
        app.metrics.answered(
            name or "", status, seconds, code=code,
            bytes_in=self._in_bytes, bytes_out=self._out_bytes,
        )  # fmt: skip
        outcome = self._outcome(status)
        if row is not None and row.commits and outcome is not None:
            app.metrics.committed(outcome, seconds)
        if app.log.is_kept:
            self._note_line(app.log, name, status, seconds)

    def _note_line(self, log: AccessLog, name: str | None, status: int, seconds: float) -> None:
        members: dict[str, Any] = {
            "time": self._app.now(),
            "request": self._request_id.decode(),
            "peer": self._head.peer or "",
            "principal": None if self._principal is NOBODY else self._principal.name,
            "proofs": self._principal.proof_ids,
            "method": self._head.method,
            "command": name,
            "space": self._seen.space,
            "status": status,
            "code": None if self._error is None else self._error.code,
            "ms": round(seconds * 1_000, 3),
            "bytes_in": self._in_bytes,
            "bytes_out": self._out_bytes,
        }
        if status == 500:
            error = f"{type(self._error).__name__}: {self._error}"
            log.note(FailedEntry(**members, error=error))
        else:
            log.note(Entry(**members))

    def _outcome(self, status: int) -> str | None:
        """Return what became of a commit; None where an answer says that none was needed."""
        if self._seen.outcome is not None:
            return self._seen.outcome
        if status in (409, 412):
            return "conflict"
        return None if 200 <= status < 300 else "refused"


def _take(upload: Upload, digest: "_Hash", piece: bytes) -> None:
    digest.update(piece)
    upload.take(piece)
