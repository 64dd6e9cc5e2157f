"""Processes that open a store of an earlier format."""

import sys
from pathlib import Path

from rote.engines.rows import SegmentRow, VectorRow
from rote.engines.sqlite import SqliteEngine
from tests.faults.children import say, wait_for_the_others


def open_together(path: str) -> None:
    """Upgrade a file as one of many; say its format."""
    wait_for_the_others()
    engine = SqliteEngine(Path(path))
    say(engine.reader().connection.pragma("user_version"))
    engine.close()


def fill_first(path: str) -> None:
    """Upgrade a file, and write what only the newest format has into its first space."""
    engine = SqliteEngine(Path(path))
    fill(engine, engine.spaces()[0].number)
    engine.close()


def fill(engine: SqliteEngine, space: int) -> None:
    with engine.writer(space) as writes:
        writes.put_segment(space, "words/1", SegmentRow(1, 1, 1, b"body"), [("a", b"1")])
        writes.put_vectors(space, "v", [VectorRow(b"h", b"v", b"s")])


if __name__ == "__main__":
    {child.__name__: child for child in (open_together, fill_first)}[sys.argv[1]](*sys.argv[2:])
