"""Bodies that are sent in pieces: who makes the next piece, and what ends them before the last one."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

from rote.server.messages import Pieces
from rote.server.pool import Pool


class Gone(Exception):
    """The client has hung up."""


async def stepped(pieces: Iterator[bytes], pool: Pool) -> AsyncGenerator[bytes, None]:
    """Yield pieces that threads of the pool make, one after the other."""
    try:
        while (piece := await pool.run(next, pieces, None, is_begun=True)) is not None:
            yield piece
    finally:
        await pool.run(close_pieces, pieces, is_begun=True)


async def until_gone(
    pieces: AsyncIterator[bytes], receive: Callable[[], Awaitable[Any]]
) -> AsyncGenerator[bytes, None]:
    """Yield pieces that the event loop waits for; Gone when the client hangs up meanwhile."""
    gone = asyncio.ensure_future(receive())
    try:
        while True:
            step = asyncio.ensure_future(anext(pieces, None))
            await asyncio.wait((step, gone), return_when=asyncio.FIRST_COMPLETED)
            if not step.done():
                step.cancel()
                await asyncio.wait((step,))
                raise Gone
            piece = step.result()
            if piece is None:
                return
            yield piece
    finally:
        gone.cancel()
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()


def close_pieces(pieces: bytes | Pieces) -> None:
    """End a generator of pieces that nobody asks any more."""
    close = getattr(pieces, "close", None)
    if close is not None:
        # A thread that makes a piece now lets it go with the next one, which never comes.
        with suppress(ValueError):
            close()
