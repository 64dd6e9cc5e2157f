"""A store on PostgreSQL passes the space suite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rote.opening.keys import FolderKeys
from rote.space import Store
from rote.testing import StoreSettings, open_on
from rote.testing.postgres import Schemas
from rote.testing.space_suite import SharedSpaceSuite

SCHEMAS = Schemas()


@pytest.fixture(autouse=True)
def _schemas() -> Iterator[None]:
    """Take the schemas back at the end of a test, when the fixture of the class has closed all stores."""
    yield
    SCHEMAS.take_back()


class TestPostgresSpace(SharedSpaceSuite):
    def open_store(self, place: Path, settings: StoreSettings) -> Store:
        engine = SCHEMAS.engine(place, read_only=settings.read_only)
        return open_on(engine, settings, keys=FolderKeys(place / "keys"))
