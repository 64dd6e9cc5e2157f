"""A server at work: many connections, slow ones among them, runs that were left, and its end."""

import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.contract import PortLayer
from rote.contract.commands import ListBranches
from rote.server import serving as serving_module
from rote.server.pool import Pool
from rote.server.serving import Serving
from rote.testing.serving import serving
from rote.testing.space_suite.run_recovery import expire_leases
from tests.lanes import examples
from tests.wires import Wire

READ = "/v1/spaces/notes/read"
BODY = b'{"ids":["urn:a"]}'
CONNECTIONS = examples(200, 990)


@contextmanager
def served(**options: Any) -> Iterator[Serving]:
    with rote.open(":memory:") as store, serving(store, **options) as server:
        store.space("notes").set("urn:a", {"n": 1})
        yield server


def test_slow_connections_of_every_kind_hold_up_nobody() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * CONNECTIONS + 1_000), hard))
    try:
        with served(queue=CONNECTIONS) as server, ExitStack() as stack:
            server.service.store.space("notes").set("urn:large", "x" * 1_000_000)
            wires = [
                stack.enter_context(Wire(server.url, server.token)) for _ in range(CONNECTIONS)
            ]
            for number, wire in enumerate(wires):
                request = wire.request("POST", READ, BODY)
                large = wire.request("POST", READ, b'{"ids":["urn:large"]}')
                # Silent, in the middle of a head, in the middle of a body, and never reading.
                wire.send((b"", request[:40], request[:-3], large)[number % 4])
            with Wire(server.url, server.token) as other:
                for _ in range(50):
                    assert other.ask("POST", READ, BODY).json["states"][0]["value"] == {"n": 1}
            for wire in wires[2::4]:
                wire.send(BODY[-3:])
                assert wire.reply().status == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_runs_whose_owners_are_gone_are_ended(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_module, "RECOVERY_SECONDS", 0.05)
    with ExitStack() as stack:
        owner = stack.enter_context(rote.open(store_path, lease_seconds=3_600))
        space = owner.space("notes")
        space.set("urn:a", 1)
        run = stack.enter_context(space.run(workflow_id="w", model=None, policy_set_id="p"))
        run.get("urn:a")
        store = stack.enter_context(rote.open(store_path))
        server = stack.enter_context(serving(store))
        wire = stack.enter_context(Wire(server.url, server.token))
        assert [each["ended_at"] for each in wire.command("runs").json["runs"]] == [None]
        expire_leases(owner, space.did)
        for _ in range(100_000):
            if wire.command("runs").json["runs"][0]["ended_at"] is not None:
                break
        else:
            raise AssertionError("the run was never ended")


def test_a_name_that_goes_to_another_space_is_followed(store_path: Path) -> None:
    with (
        rote.open(store_path) as elsewhere,
        rote.open(store_path) as store,
        serving(store) as server,
        Wire(server.url, server.token) as wire,
    ):
        first = elsewhere.space("notes").did
        assert wire.command("space").json["did"] == first
        elsewhere.erase_space("notes", reason="asked", confirm="notes")
        gone = wire.command("space")
        assert (gone.status, gone.body) == (404, wire.command("space").body)
        second = elsewhere.space("notes").did
        assert wire.command("space").json["did"] == second != first
        assert wire.command("commit", {"operations": [
            {"op": "set", "id": "urn:a", "value": 1}]}).status == 200  # fmt: skip
        elsewhere.erase_space("notes", reason="asked", confirm="notes")
        third = elsewhere.space("notes").did
        assert wire.command("read", {"ids": ["urn:a"]}).json["states"][0]["exists"] is False
        assert wire.command("space").json["did"] == third


class Gate(PortLayer):
    """A port whose answers to `branches` wait until they are let through."""

    def __init__(self, port: Any) -> None:
        super().__init__(port)
        self.is_open = threading.Event()
        self.reached = threading.Semaphore(0)

    def answer(self, space: str, command: Any, /) -> Any:
        if isinstance(command, ListBranches):
            self.reached.release()
            self.is_open.wait(30)
        return super().answer(space, command)


def test_a_stopping_server_answers_what_has_begun_and_refuses_the_rest() -> None:
    with rote.open(":memory:") as store, ExitStack() as stack:
        store.space("notes")
        gate = store._port = Gate(store._port)
        server = stack.enter_context(serving(store))
        begun = stack.enter_context(Wire(server.url, server.token))
        idle = stack.enter_context(Wire(server.url, server.token))
        assert idle.command("spaces", space=None).status == 200
        begun.send(begun.request("POST", "/v1/spaces/notes/branches"))
        assert gate.reached.acquire(timeout=30)
        server.stop()
        late = idle.command("spaces", space=None)
        assert (late.status, late.code, late.headers["connection"]) == (503, "stopping", "close")
        gate.is_open.set()
        answer = begun.reply()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert begun.is_closed and idle.is_closed


def test_a_pool_lets_its_threads_end_and_says_whether_they_did() -> None:
    assert Pool(2, waiting_max=1).close() is True


def test_the_library_loads_no_web_server() -> None:
    program = "import rote, sys; print([n for n in ('uvicorn', 'asyncio') if n in sys.modules])"
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert said.stdout == "[]\n"
