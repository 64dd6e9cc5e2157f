"""The processes of the tests of packed indexes: `python -m tests.faults.packed_children <what> <place>`."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rote.engines import Engine
from rote.engines.postgres.engine import PostgresEngine
from rote.engines.postgres.writer import PostgresWriter
from rote.engines.sqlite import SqliteEngine
from rote.engines.sqlite.writer import SqliteWriter
from rote.kernel.reading import segments
from rote.opening.keys import FolderKeys
from rote.space import Space
from rote.testing import StoreSettings, open_on
from rote.testing.packed_words import BOUNDS, PackedWords
from tests.faults.children import replace, say, wait_for_the_others

NAME = "notes"


@contextmanager
def open_space(place: str) -> Iterator[Space]:
    """Open the space of a store in a folder, or on PostgreSQL at `url schema folder`."""
    url, _, rest = place.rpartition(" ")
    engine: Engine
    if url:
        address, schema = url.split(" ")
        engine, folder = PostgresEngine(address, schema=schema, durability="os"), Path(rest)
    else:
        engine, folder = SqliteEngine(Path(place) / "memory.db", durability="os"), Path(place)
    settings = StoreSettings(indexes=(PackedWords(),))
    with open_on(engine, settings, keys=FolderKeys(folder / "keys")) as store:
        yield store.space(NAME)


def _stop_in(method: str, *, when: int) -> None:
    """Let this process wait to be killed at the end of a certain call of a writer, inside its block."""
    calls = 0
    for kind in (SqliteWriter, PostgresWriter):
        original: Any = getattr(kind, method)

        def stopping(*arguments: Any, original: Any = original) -> None:
            nonlocal calls
            original(*arguments)
            calls += 1
            if calls == when:
                say("now")
                threading.Event().wait()

        setattr(kind, method, stopping)


def write(space: Space) -> None:
    for number in range(60):
        space.set(f"urn:{number}", {"text": f"red secret{number}x"})


def flush(place: str) -> None:
    """Stop when a commit has written a segment and is not durable yet."""
    _stop_in("put_segment", when=3)
    with open_space(place) as space:
        write(space)


def merge(place: str) -> None:
    """Stop when a merge has dropped the old segments and not yet written the new one."""
    _stop_in("drop_segments", when=1)
    with open_space(place) as space:
        write(space)


def erase(place: str) -> None:
    """Stop when an erasure has replaced the first of several segments."""
    with open_space(place) as space:
        write(space)
        _stop_in("put_segment", when=1)
        space.erase(ids=["urn:1", "urn:40"], reason="asked to")


def many(place: str, writer: str, count: str) -> None:
    """Write together with other processes."""
    with open_space(place) as space:
        wait_for_the_others()
        for number in range(int(count)):
            space.set(f"urn:{number % 31}", {"text": f"red {writer}{number}"})


if __name__ == "__main__":
    for name, bound in BOUNDS.items():
        replace(segments, name, bound)
    {child.__name__: child for child in (flush, merge, erase, many)}[sys.argv[1]](*sys.argv[2:])
