"""rote.open of a server: what it takes, what it refuses, and what it never asks."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import Denied, InvalidInput, Unavailable
from rote.testing import FixedClock, SeededIds
from rote.testing.keys import seed_of
from rote.testing.serving import serving
from tests.served import Served, served

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(author="kept by the server") as found:
        found.space.set("urn:a", 1)
        yield found


@pytest.mark.parametrize(
    "options",
    [
        {"durability": "os"},
        {"author": "ada"},
        {"keys": "keys"},
        {"schema": "other"},
        {"clock": FixedClock()},
        {"ids": SeededIds()},
        {"key": b"short"},
        {"key": seed_of("ada"), "token": "rote_x"},
        {"token": ""},
        {"token": "two\nlines"},
        {"proofs": [{}]},
        {"key": seed_of("ada"), "proofs": [{}]},
        {"timeout": 0},
        {"timeout": "1"},
        {"modes": ["all"]},
    ],
    ids=" ".join,
)
def test_what_is_no_option_here_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        rote.open(NOWHERE, **options)


@pytest.mark.parametrize(
    "url",
    ["http://", "http://ada:secret@host", "http://host/v1", "http://host:x", "http://host?token=x"],
)
def test_a_server_is_named_by_its_host_and_port_alone(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        rote.open(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("options", [{"token": "x"}, {"proofs": [{}]}, {"timeout": 3}], ids=str)
def test_a_store_of_this_machine_takes_no_option_of_a_server(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="behind a server"):
        rote.open(":memory:", **options)


def test_without_its_extra_a_server_is_not_opened_and_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("rote.opening.remote", "rote.client.links"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    for missing in ("websockets", "websockets.exceptions"):
        monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(Unavailable, match=r"pip install 'rote\[remote\]'"):
        rote.open(NOWHERE)


def test_nothing_is_asked_when_a_store_is_opened() -> None:
    with rote.open(NOWHERE, timeout=0.2) as store:
        assert (store.url, store.read_only) == (NOWHERE, False)
        with pytest.raises(Unavailable):
            store.spaces()


def test_files_and_keys_are_the_servers(server: Served, tmp_path: Path) -> None:
    with rote.open(server.server.url, token=server.server.token) as store:
        for call in (
            lambda: store.backup(tmp_path / "copy.db"),
            lambda: store.copy(server.space.name, server.store, with_key=True),
        ):
            with pytest.raises(Denied) as caught:
                call()
            assert caught.value.code == "not_remote"


def test_the_author_is_who_calls(server: Served) -> None:
    with rote.open(server.server.url, token=server.server.token) as store:
        assert store.space(server.space.name).set("urn:b", 1).author == "kept by the server"


def test_a_read_only_store_refuses_before_it_asks(server: Served) -> None:
    with rote.open(server.server.url, token=server.server.token, read_only=True) as store:
        space = store.space(server.space.name)
        version = space.version
        for write in (
            lambda: space.set("urn:a", 2),
            lambda: space.create_branch("b"),
            lambda: space.put_blob(b"x"),
            lambda: space.erase("urn:a", reason="r"),
            lambda: space.compact(keep=1),
            space.checkpoint,
            lambda: rote.Memory(space).put("ops", "k", "1", {}),
        ):
            with pytest.raises(Denied):
                write()
        assert (space.get("urn:a"), space.version) == (1, version)
        with space.run(workflow_id="w", model=None, policy_set_id="p") as run:
            assert run.get("urn:a") == 1
        assert list(store.runs()) == []


def test_a_space_that_is_not_there_is_made_or_not_found(server: Served) -> None:
    url, token = server.server.url, server.server.token
    with (
        rote.open(url, token=token, create=False) as store,
        pytest.raises(rote.errors.NotFound),
    ):
        store.space("another")
    with rote.open(url, token=token) as store:
        assert store.space("another").version == 0


def test_the_same_calls_make_the_same_history() -> None:
    """Nothing of a transport, an attempt or a session enters a hash."""
    heads = []
    for is_remote in (False, True):
        with (
            rote.open(":memory:", clock=FixedClock(), ids=SeededIds()) as embedded,
            serving(embedded) as found,
            rote.open(found.url, token=found.token) as store,
        ):
            space = (store if is_remote else embedded).space("same")
            space.set("urn:a", {"n": 1.0})
            space.transact([{"op": "patch", "id": "urn:a", "ops": []}], meta={"m": 1}, key="k")
            memory = rote.Memory(space)
            memory.put("ops", "note", "1", {"text": "tea"}, None, {"tags": ["x"]})
            memory.append("session", "log", "2", {"text": "more"})
            space.put_blob(b"bytes" * 1_000, labels=["l"])
            with space.transaction() as tx:
                tx.set("urn:b", tx.get("urn:a"))
            space.create_branch("other").set("urn:c", 1)
            space.merge("other")
            space.erase("urn:c", reason="asked to")
            heads.append((space.did, space.head, space.version))
    assert heads[0] == heads[1]
