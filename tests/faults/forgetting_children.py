"""The processes of the tests of forgetting: `python -m tests.faults.forgetting_children <what> …`."""

import sys
import threading
from typing import Any, NoReturn

import rote
from rote.engines.postgres.engine import PostgresEngine
from rote.engines.sqlite import backup as backups
from rote.engines.sqlite.engine import SqliteEngine
from tests.faults.children import NAME, open_store, replace, say


def wait_to_be_killed(*_: Any, **named: Any) -> NoReturn:
    say("now")
    threading.Event().wait()
    raise AssertionError("nobody killed this process")


def erase(place: str, tag: str) -> None:
    """Erase the records with a tag, and stop between the commit and the rewrite of the files."""
    for engine in (SqliteEngine, PostgresEngine):
        engine.scrub = wait_to_be_killed  # type: ignore[method-assign]
    with open_store(place) as store:
        rote.Memory(store.space(NAME)).erase(filters={"tags_any": [tag]}, reason="asked to")


def back_up(place: str, target: str) -> None:
    """Make a backup, and stop when its content is written and has no name yet."""
    replace(backups, "_sync", wait_to_be_killed)
    with open_store(place) as store:
        store.backup(target)


if __name__ == "__main__":
    {child.__name__: child for child in (erase, back_up)}[sys.argv[1]](*sys.argv[2:])
