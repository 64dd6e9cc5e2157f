"""SQLite passes the engine suite, on a file and in memory."""

from pathlib import Path

from rote.engines import Engine
from rote.engines.sqlite import SqliteEngine
from rote.testing.engine_suite import EngineSuite, SharedEngineSuite


class TestSqliteEngine(SharedEngineSuite):
    def make_engine(self, place: Path) -> Engine:
        return SqliteEngine(place / "memory.db", durability="os")


class TestSqliteEngineInMemory(EngineSuite):
    def make_engine(self, place: Path) -> Engine:
        return SqliteEngine(None)
