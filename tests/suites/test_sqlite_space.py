"""A store on a SQLite file passes the space suite."""

from pathlib import Path

from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import FolderKeys
from rote.space import Store
from rote.testing import StoreSettings, open_on
from rote.testing.space_suite import SharedSpaceSuite


class TestSqliteSpace(SharedSpaceSuite):
    def open_store(self, place: Path, settings: StoreSettings) -> Store:
        engine = SqliteEngine(place / "memory.db", durability="os")
        return open_on(engine, settings, keys=FolderKeys(place / "memory.db.keys"))
