"""PostgreSQL passes the engine suite."""

from pathlib import Path

from rote.engines import Engine
from rote.testing.engine_suite import SharedEngineSuite
from rote.testing.postgres import postgres_engine


class TestPostgresEngine(SharedEngineSuite):
    def make_engine(self, place: Path) -> Engine:
        return postgres_engine(place)
