"""Processes with stores whose pages have checksums, or cannot have them."""

import sys
from pathlib import Path

import rote
from rote.engines.sqlite import SqliteEngine, checksums
from rote.errors import Unavailable
from tests.faults.children import say, wait_for_the_others


def make_together(path: str) -> None:
    """Make a new store as one of many; say its format."""
    wait_for_the_others()
    engine = SqliteEngine(Path(path))
    say(engine.reader().connection.pragma("user_version"))
    engine.close()


def without_shim(*paths: str) -> None:
    """Be a Rote whose apsw has no shim; say what becomes of a new store and of each format."""
    checksums._EXTENSION = Path("missing")
    for path in paths:
        try:
            with rote.open(path) as store:
                store.space("files").set("urn:a", 1)
                store.backup(Path(f"{path}.copy"))
                say("works")
        except Unavailable as error:
            say("install" in str(error))


if __name__ == "__main__":
    {child.__name__: child for child in (make_together, without_shim)}[sys.argv[1]](*sys.argv[2:])
