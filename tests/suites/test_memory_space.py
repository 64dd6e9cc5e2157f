"""A store in memory passes the space suite, so that tests may use it in place of any other. The quick lane
has it behind a server: test_remote_space.py."""

from pathlib import Path

import pytest

from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import MemoryKeys
from rote.space import Store
from rote.testing import StoreSettings, open_on
from rote.testing.space_suite import SpaceSuite


@pytest.mark.slow
class TestMemorySpace(SpaceSuite):
    def open_store(self, place: Path, settings: StoreSettings) -> Store:
        return open_on(SqliteEngine(None), settings, keys=MemoryKeys())
