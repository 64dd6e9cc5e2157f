"""The application: one request of HTTP after the other, from its head to the end of its answer.

The order of checks is that of the contract: form, host, origin, route and method, length, then who
asks, and all the rest on a thread of the pool.
"""

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

from rote.access.principals import NOBODY, Principal
from rote.errors import InternalError, InvalidInput, LimitExceeded, RoteError, Unavailable
from rote.opening.sources import SystemIds
from rote.server.answering import Service
from rote.server.authentication import Authentication
from rote.server.messages import Head, Http, Pause, Pieces, Response
from rote.server.pool import Pool
from rote.server.routes import Found, Router
from rote.server.statuses import error_response

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Application:
    """An ASGI application. It lives on one event loop."""

    def __init__(
        self, service: Service, authentication: Authentication, router: Router, pool: Pool
    ) -> None:
        self.service = service
        self.authentication = authentication
        self.router = router
        self.pool = pool
        self.limits = service.settings.limits
        self.is_stopping = False
        self.ids = SystemIds()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        await Exchange(self, scope, receive, send).run()


class Gone(Exception):
    """The client has hung up."""


class Exchange:
    """One request and its answer."""

    def __init__(
        self, app: Application, scope: dict[str, Any], receive: Receive, send: Send
    ) -> None:
        self._app = app
        self._cycle = scope["extensions"]["rote"]["cycle"]
        self._receive = receive
        self._send = send
        client = scope["client"]
        self.head = Head(
            method=scope["method"],
            path=scope["raw_path"],
            query=scope["query_string"],
            headers=tuple(scope["headers"]),
            peer=None if client is None else client[0],
        )
        self.principal: Principal = NOBODY

    async def run(self) -> None:
        try:
            response = await self._response()
        except Gone:
            return
        except RoteError as error:
            response = error_response(error)
        except Exception:
            traceback.print_exc(file=sys.stderr)
            response = error_response(InternalError("a bug in Rote; its stack is in the log"))
        await self._answer(response)

    async def _response(self) -> Response:
        app, head = self._app, self.head
        found = app.router.find(head.method, head.path)
        if not self._cycle.more_body:
            message = await self._receive()
            return await app.pool.run(self._whole, found, message["body"])
        self.principal = await app.pool.run(self._enter, found)
        body = await self._body(found)
        return await app.pool.run(self._respond, found, body, is_begun=True)

    # -- on the pool -----------------------------------------------------------------------------------

    def _whole(self, found: Found, body: bytes) -> Response:
        self.principal = self._enter(found)
        return self._respond(found, body)

    def _enter(self, found: Found) -> Principal:
        if found.row.right == "open":
            return NOBODY
        return self._app.authentication.principal(self.head)

    def _respond(self, found: Found, body: bytes) -> Response:
        if found.row.right != "open":
            self._app.authentication.check_body(self.head, sha256(body).digest())
        http = Http(self.head, self.principal, self._app.service, found.names, body)
        return found.route.function(http)

    # -- the body --------------------------------------------------------------------------------------

    async def _body(self, found: Found) -> bytes:
        limit: int = getattr(self._app.limits, found.row.bound)
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await self._next_message()
            parts.append(message["body"])
            size += len(message["body"])
            if size > limit:
                raise LimitExceeded("the body in bytes", size=size, limit=limit)
            more = message["more_body"]
        return b"".join(parts)

    async def _next_message(self) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._app.limits.body_seconds):
                message = await self._receive()
        except TimeoutError:
            raise Unavailable("the body came too slowly; send it again", code="timeout") from None
        if message["type"] == "http.disconnect":
            raise Gone
        return message

    # -- the answer ------------------------------------------------------------------------------------

    async def _answer(self, response: Response) -> None:
        headers = [*response.headers, (b"rote-request", self._request_id())]
        if isinstance(response.body, bytes) and response.status not in (204, 304):
            headers.append((b"content-length", b"%d" % len(response.body)))
        if self._cycle.more_body:
            headers.append((b"connection", b"close"))
        await self._send(
            {"type": "http.response.start", "status": response.status, "headers": headers}
        )
        if isinstance(response.body, bytes):
            await self._send({"type": "http.response.body", "body": response.body})
        else:
            await self._stream(response.body)

    async def _stream(self, pieces: Pieces) -> None:
        while (piece := await self._app.pool.run(next, pieces, None, is_begun=True)) is not None:
            if isinstance(piece, Pause):
                await asyncio.sleep(piece.seconds)
            else:
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    def _request_id(self) -> bytes:
        return self._app.ids.random_bytes(8).hex().encode()


def check_query(head: Head) -> None:
    if head.query:
        raise InvalidInput("a command takes its arguments in the body")
