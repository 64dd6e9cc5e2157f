"""Sessions that stall: however long they do, each holds no more than its two steps, and nobody waits."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rote.opening import open as open_store
from rote.values.limits import MIB
from rote.values.sync_limits import SYNC_WINDOW
from tests.lanes import examples
from tests.server_processes import ServerProcess
from tests.syncs import SyncLine

STALLED = examples(10, 100)
READERS = 2
ROUNDS = examples(20, 400)
ENTITIES = 5
TEXT = "x" * 10_000
STEP_BYTES = ENTITIES * len(TEXT)
# What a server takes besides: buffers of connections, what it keeps of the space.
BESIDES = 8 * MIB
WATCHES: Any = {"all": {"select": {"*": {}}}}


def test_a_session_that_stalls_holds_two_steps_and_slows_nobody(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with ExitStack() as ending:
        store = ending.enter_context(open_store(path, durability="os"))
        space = store.space("notes")
        server = ending.enter_context(ServerProcess(path))
        lines = [ending.enter_context(SyncLine(server.url)) for _ in range(STALLED + READERS)]
        for line in lines:
            line.sit("notes", server.token, watches=WATCHES)
            line.take()
        stalled, readers = lines[:STALLED], lines[STALLED:]

        def write_all(number: int) -> int:
            """Write all entities, and return when the readers have them."""
            operations = [
                {"op": "set", "id": f"urn:e:{each}", "value": f"{number} {TEXT}"}
                for each in range(ENTITIES)
            ]
            version = space.transact(operations).version
            for reader in readers:
                while reader.take()["to"] < version:
                    pass
            return version

        for number in range(SYNC_WINDOW):
            write_all(number)
        before = server.memory_bytes
        for number in range(ROUNDS):
            head = write_all(number)
        grown = server.memory_bytes - before
        # Queues would hold STALLED * ROUNDS steps.
        assert grown < STALLED * SYNC_WINDOW * STEP_BYTES + BESIDES
        for line in stalled:
            waiting = [line.push() for _ in range(SYNC_WINDOW)]
            line.ask("ack", to=waiting[-1]["to"])
            assert line.take()["to"] == head, "what happened meanwhile is one step"
