"""Stores for tests of the async face, and the threads that it may have left."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import rote.aio

SECONDS_MAX = 20.0
OURS = ("rote-aio", "rote-lookout", "rote-session")
A = "urn:test:a"
B = "urn:test:b"


def on_a_store(
    path: Path | str, body: Callable[["rote.aio.Store"], Coroutine[Any, Any, None]], **options: Any
) -> None:
    """Run a coroutine function with an open store, in a loop of its own; leave no thread behind."""
    others = threading.enumerate()  # of servers that tests share, for example

    async def main() -> None:
        async with rote.aio.open(path, **options) as store:
            await body(store)

    asyncio.run(main())
    assert_no_new_threads(others)


def assert_no_new_threads(others: Sequence[threading.Thread]) -> None:
    for thread in threading.enumerate():
        if thread not in others and thread.name.startswith(OURS):
            thread.join(SECONDS_MAX)
            assert not thread.is_alive(), thread.name
