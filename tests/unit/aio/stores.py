"""Stores for tests of the async face, and the threads that it may have left."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import rote.aio

SECONDS_MAX = 20.0
A = "urn:test:a"
B = "urn:test:b"


def on_a_store(
    path: Path, body: Callable[["rote.aio.Store"], Coroutine[Any, Any, None]], **options: Any
) -> None:
    """Run a coroutine function with an open store, in a loop of its own; leave no thread behind."""

    async def main() -> None:
        async with rote.aio.open(path, **options) as store:
            await body(store)

    asyncio.run(main())
    assert_no_threads_are_left()


def assert_no_threads_are_left() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith(("rote-aio", "rote-lookout")):
            thread.join(SECONDS_MAX)
            assert not thread.is_alive(), thread.name
