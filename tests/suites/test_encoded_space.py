"""A store whose every command and answer passes through bytes passes the space suite: what can be asked of
a space can be asked over a wire."""

from pathlib import Path

import pytest

from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import MemoryKeys
from rote.space import Store
from rote.testing import Encoded, StoreSettings, open_on
from rote.testing.space_suite import SpaceSuite


@pytest.mark.slow
class TestEncodedSpace(SpaceSuite):
    def open_store(self, place: Path, settings: StoreSettings) -> Store:
        return open_on(SqliteEngine(None), settings, keys=MemoryKeys(), layer=Encoded)
