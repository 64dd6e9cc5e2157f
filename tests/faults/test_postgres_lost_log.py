"""A server that lost its last commits: a client must not go on from what it remembers of them."""

from pathlib import Path

import pytest

import rote
from rote.errors import Unavailable, VersionNotFound
from rote.testing.postgres import DURABLE, PostgresServer

# Nothing reaches the disk on its own for as long as a test takes.
LAZY = {**DURABLE, "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}
ID, LOST = "urn:entity:a", "urn:entity:lost"


@pytest.mark.parametrize("others_went_on", [False, True])
def test_a_log_that_went_back_takes_the_memory_of_its_clients_along(
    tmp_path: Path, others_went_on: bool
) -> None:
    server = PostgresServer(LAZY)
    try:
        with rote.open(server.url, keys=tmp_path) as safe:
            safe.space("notes").set(ID, {"n": 0})
        with rote.open(server.url, durability="os", keys=tmp_path) as store:
            space = store.space("notes")
            for number in range(1, 6):
                space.set(ID, {"n": number})
            space.set(LOST, 1)
            assert (space.get(ID), space.get(LOST)) == ({"n": 5}, 1)
            remembered = space.version
            watch = space.watch({"select": {"*": {}}}, timeout=0)
            assert next(watch)["to"] == remembered
            server.kill()
            server.start()
            with rote.open(server.url, keys=tmp_path) as other:
                there = other.space("notes")
                kept = there.version
                if kept == remembered:
                    pytest.skip("the server had written everything to its disk already")
                if others_went_on:
                    for number in range(kept, remembered + 1):
                        there.set("urn:entity:b", number)
                expected = there.get(ID)
            with pytest.raises(Unavailable, match="watch again"):
                next(watch)
            shown = next(space.watch({"select": {"*": {}}}, timeout=0))["upserts"]
            assert LOST not in [upsert["id"] for upsert in shown]
            assert space.get(LOST) is None
            assert space.get(ID) == expected
            space.patch(ID, [{"op": "replace", "path": "/n", "value": 9}])
            assert space.get(ID) == {"n": 9}
            if not others_went_on:
                with pytest.raises(VersionNotFound):
                    space.at(remembered + 1)
            assert space.verify().ok
        with rote.open(server.url, keys=tmp_path) as again:
            assert again.space("notes").verify().ok
    finally:
        server.stop()
