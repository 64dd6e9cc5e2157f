"""Malformed requests: none is an error of the server, none stores anything, none leaves anything."""

from pathlib import Path

from rote.values.limits import MIB
from tests.faults.malformed import Attack
from tests.lanes import examples
from tests.server_processes import ServerProcess

COUNT = examples(10_000, 1_000_000)
FILES_OF_A_THREAD = 3
GROWTH_BYTES_MAX = 16 * MIB


def stored(server: ServerProcess) -> object:
    """Return what tells whether anything was stored."""
    with server.wire() as wire:
        return wire.command("space").json, wire.command("spaces", space=None).json


def test_malformed_requests_leave_the_server_as_it_was(store_path: Path) -> None:
    with ServerProcess(store_path) as server:
        with server.wire() as wire:
            wire.command("space_create", {"name": "notes"}, space=None)
            wire.command("commit", {"operations": [{"op": "set", "id": "urn:a", "value": 1}]})
        before = stored(server)
        attack = Attack(server.url, server.token, seed=23)
        attack.send(COUNT // 10)
        threads, files, memory = server.threads, server.files, server.memory_bytes
        attack.send(COUNT - COUNT // 10)
        assert stored(server) == before
        told = sum(attack.statuses.values())
        assert told > COUNT // 2, attack.statuses
        assert not [status for status in attack.statuses if status >= 500], attack.statuses
        assert {400, 401, 404, 405, 414, 415, 421, 431} <= attack.statuses.keys()
        assert server.threads == threads
        # A thread of the pool opens its files when it first reads.
        assert server.files <= files + FILES_OF_A_THREAD * threads
        assert server.memory_bytes - memory < GROWTH_BYTES_MAX
