"""Links over a wire do what every link must, and say what is to be done when their line has ended."""

from collections.abc import Iterator

import pytest

import rote
from rote.client.links import WireLinker
from rote.client.port import RemotePort
from rote.contract.links import Linker
from rote.contract.sync import OpenSession
from rote.errors import InvalidInput
from rote.space import Space, Store
from rote.space.sources import port_of_store
from rote.testing.link_suite import LinkSuite
from rote.testing.serving import serving


def linker_of(store: Store) -> WireLinker:
    port = port_of_store(store)
    assert isinstance(port, RemotePort)
    return WireLinker(port._calls)


class TestWireLinks(LinkSuite):
    @pytest.fixture(autouse=True)
    def _store(self) -> Iterator[None]:
        with (
            rote.open(":memory:") as store,
            serving(store) as server,
            serving(store) as other,
            rote.open(server.url, token=server.token) as near,
            rote.open(other.url, token=other.token) as far,
        ):
            self.space: Space = store.space("s")
            self.linker = linker_of(near)
            self.far = linker_of(far)
            yield

    def new_linker(self) -> Linker:
        return self.far

    def test_an_ephemeral_session_has_no_link(self) -> None:
        with pytest.raises(InvalidInput):
            self.linker.connect(OpenSession("s", ephemeral=True))
