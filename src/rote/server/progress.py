"""Progress of long work, as lines that a client reads while it goes on."""

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec

from rote.contract.wire import encode_error
from rote.errors import RoteError, Unavailable
from rote.server.messages import Response
from rote.server.statuses import NDJSON
from rote.values.server_limits import PROGRESS_SECONDS

_LINES = ((b"content-type", NDJSON),)


class Progress:
    """The progress of one command. `tell` is called on the pool, all else on the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._told: tuple[str, float] = (
            "",
            0.0,
        )  # the phase of the last line, and when it was made
        self._untold: bytes | None = None  # a line that came too soon after the last one
        self._is_gone = False

    def tell(self, what: str, done: int, total: int) -> None:
        if self._is_gone:
            raise Unavailable("the client has hung up", code="cancelled")
        phase, told_at = self._told
        now = time.monotonic()
        line = msgspec.json.encode({"progress": [what, done, total]}) + b"\n"
        if what == phase and now - told_at < PROGRESS_SECONDS:
            self._untold = line
            return
        self._told, self._untold = (what, now), None
        self._loop.call_soon_threadsafe(self._lines.put_nowait, line)

    async def response(self, work: asyncio.Future[Response]) -> Response:
        """Return the answer: an error that comes before the work has begun has its own status."""
        first = asyncio.ensure_future(self._lines.get())
        await asyncio.wait((work, first), return_when=asyncio.FIRST_COMPLETED)
        if not first.done():
            first.cancel()
            return Response(200, _LINES, _last(work.result()))
        return Response(200, _LINES, self._pieces(first.result(), work))

    async def _pieces(self, line: bytes, work: asyncio.Future[Response]) -> AsyncIterator[bytes]:
        try:
            yield line
            while not work.done():
                following = asyncio.ensure_future(self._lines.get())
                try:
                    await asyncio.wait((work, following), return_when=asyncio.FIRST_COMPLETED)
                    if following.done():
                        yield following.result()
                finally:
                    following.cancel()
            while not self._lines.empty():
                yield self._lines.get_nowait()
            if self._untold is not None:
                yield self._untold  # how far it came
            try:
                yield _last(work.result())
            except RoteError as error:
                yield encode_error(error) + b"\n"
        finally:
            self._is_gone = True


def _last(response: Response) -> bytes:
    assert isinstance(response.body, bytes)
    return b'{"result":%b}\n' % response.body
