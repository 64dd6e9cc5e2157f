"""Spaces for tests of sessions: of a store in this process, and of the same store behind a server."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

import rote
from rote.sessions.session import Session
from rote.space import Space, Store
from rote.testing.serving import serving

SECONDS = 20.0
WATCH: dict[str, Any] = {"select": {"urn:*": {}}}
_numbers = count(1)


@pytest.fixture(scope="module")
def stores() -> Iterator[dict[str, Store]]:
    with (
        rote.open(":memory:") as here,
        serving(here, threads=2) as server,
        rote.open(server.url, token=server.token) as served,
    ):
        yield {"here": here, "served": served}


@pytest.fixture(params=["here", "served"])
def space(stores: dict[str, Store], request: pytest.FixtureRequest) -> Space:
    return stores[request.param].space(f"s{next(_numbers)}")


@pytest.fixture
def session(space: Space) -> Iterator[Session]:
    session = space.session(watch=WATCH, timeout=SECONDS)
    yield session
    session.close()


@pytest.fixture
def offline(session: Session) -> Session:
    session.pause()
    return session


def come_back(session: Session) -> list[Any]:
    session.resume()
    return session.flush(SECONDS)
