"""A store on PostgreSQL passes the space suite."""

from pathlib import Path

from rote.opening.keys import FolderKeys
from rote.space import Store
from rote.testing import StoreSettings, open_on
from rote.testing.postgres import postgres_engine
from rote.testing.space_suite import SharedSpaceSuite


class TestPostgresSpace(SharedSpaceSuite):
    def open_store(self, place: Path, settings: StoreSettings) -> Store:
        return open_on(postgres_engine(place), settings, keys=FolderKeys(place / "keys"))
