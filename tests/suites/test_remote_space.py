"""A store behind a server passes the space suite: what can be asked of a space can be asked over HTTP."""

from dataclasses import replace
from pathlib import Path

from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import MemoryKeys
from rote.space import Store
from rote.testing import StoreSettings, open_on
from rote.testing.remote import open_behind_server
from rote.testing.space_suite import SpaceSuite


class TestRemoteSpace(SpaceSuite):
    def open_store(self, place: Path, settings: StoreSettings) -> Store:
        return open_behind_server(
            settings,
            lambda ids: open_on(SqliteEngine(None), replace(settings, ids=ids), keys=MemoryKeys()),
        )
