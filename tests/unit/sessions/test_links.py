"""Links in the process do what every link must."""

from collections.abc import Iterator

import pytest

from rote.contract.links import Linker
from rote.contract.sync import OpenSession
from rote.errors import InvalidInput
from rote.opening import open as open_store
from rote.opening.sources import SystemIds
from rote.sessions.links import LocalLinker
from rote.space import Space
from rote.testing.link_suite import LinkSuite


class TestLocalLinks(LinkSuite):
    @pytest.fixture(autouse=True)
    def _store(self) -> Iterator[None]:
        with open_store(":memory:") as store:
            self.space: Space = store.space("s")
            self.linker = self.new_linker()
            yield

    def new_linker(self) -> Linker:
        return LocalLinker(self.space._port, randomness=SystemIds())

    def test_an_ephemeral_session_has_no_link(self) -> None:
        with pytest.raises(InvalidInput):
            self.linker.connect(OpenSession("s", ephemeral=True))
