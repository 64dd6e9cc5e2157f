"""PostgreSQL passes the engine suite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rote.engines import Engine
from rote.testing.engine_suite import SharedEngineSuite
from rote.testing.postgres import Schemas

SCHEMAS = Schemas()


@pytest.fixture(autouse=True)
def _schemas() -> Iterator[None]:
    """Take the schemas back at the end of a test, when the fixture of the class has closed all engines."""
    yield
    SCHEMAS.take_back()


class TestPostgresEngine(SharedEngineSuite):
    def make_engine(self, place: Path) -> Engine:
        return SCHEMAS.engine(place)
