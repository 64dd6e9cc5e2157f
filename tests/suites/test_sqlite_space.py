"""A store on a SQLite file passes the space suite."""

from collections import defaultdict
from pathlib import Path

from rote.engines.sqlite import SqliteEngine, SqliteLook
from rote.opening.keys import MemoryKeys
from rote.space import Store
from rote.testing import StoreSettings, open_on
from rote.testing.space_suite import SharedSpaceSuite

# By place, and not in its folder: to sync a file takes longer than most tests.
KEYS: defaultdict[Path, MemoryKeys] = defaultdict(MemoryKeys)


class TestSqliteSpace(SharedSpaceSuite):
    def open_store(self, place: Path, settings: StoreSettings) -> Store:
        file = place / "memory.db"
        engine = SqliteLook(file) if settings.read_only else SqliteEngine(file, durability="os")
        return open_on(engine, settings, keys=KEYS[place])
