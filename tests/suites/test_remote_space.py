"""A store behind a server passes the space suite: what can be asked of a space can be asked over HTTP."""

from dataclasses import replace
from pathlib import Path

import pytest

from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import FolderKeys, MemoryKeys
from rote.space import Store
from rote.testing import StoreSettings, open_on
from rote.testing.postgres import Schemas
from rote.testing.remote import open_behind_server
from rote.testing.space_suite import SpaceSuite
from tests.suites.local_only import LOCAL

SCHEMAS = Schemas()


class RemoteSuite(SpaceSuite):
    """The suite without what is for a store in this process."""


for reason, names in LOCAL.items():
    for name in names:
        assert hasattr(SpaceSuite, name), f"the suite has no {name}: {reason}"
        setattr(RemoteSuite, name, None)


class TestRemoteSpace(RemoteSuite):
    def open_store(self, place: Path, settings: StoreSettings) -> Store:
        return open_behind_server(
            settings,
            lambda ids: open_on(SqliteEngine(None), replace(settings, ids=ids), keys=MemoryKeys()),
        )


@pytest.mark.slow
class TestRemotePostgresSpace(RemoteSuite):
    def open_store(self, place: Path, settings: StoreSettings) -> Store:
        return open_behind_server(
            settings,
            lambda ids: open_on(
                SCHEMAS.engine(place), replace(settings, ids=ids), keys=FolderKeys(place / "keys")
            ),
        )
