"""A recording of a run with calls of adapters, and a pending commit with guards, from earlier days: read, and
written again as they were."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

import rote
from rote.errors import NotFound
from rote.runs.run_rows import PendingCommit
from rote.testing.clocks import FixedClock
from rote.testing.sources import SeededIds
from rote.values import decode

HERE = Path(__file__).parent
GOLDEN = HERE / "recording-1-run-host.jsonl"
PENDING = HERE / "pending-commit-1.jsonl"
TASK: dict[str, Any] = {
    "schema_version": "1.0", "task_id": "t1", "requester_id": "a", "target_agent": "b",
    "task_type": "c", "input": {"token": "correct horse"},
}  # fmt: skip


@contextmanager
def opened() -> Iterator[tuple[rote.Space, rote.Host]]:
    with rote.open(
        ":memory:", clock=FixedClock(), ids=SeededIds(7), key=bytes(32), modes=["buffered_write"]
    ) as store:
        space = store.space("s")
        space.set("urn:a", 1)
        yield space, rote.Host("operator-controlled", space=space, redact=["password", "token"])


def begin(space: rote.Space, **more: Any) -> rote.Run:
    tools = [rote.ToolProfile("cache.get", "1"), rote.ToolProfile("store.get", "1")]
    return space.run(
        workflow_id="w", model=None, policy_set_id="p", mode="buffered_write", tools=tools, **more
    )


def work(run: rote.Run, host: rote.Host) -> None:
    with host.scope(run=run) as flow:
        flow.cache.set("n", "k", {"password": "correct horse"})
        found = flow.cache.get("n", "k")["value"]
        flow.memory.put("ops", "login", "i", found)
        flow.store.set("urn:a", flow.store.get("urn:a") + 1)
        flow.queue.put("q", found)
        flow.agent.send_task(TASK)
        with pytest.raises(NotFound):
            flow.agent.read_result("t1")
        flow.frame.set("done", True)


def test_a_golden_recording_of_a_run_is_written_again_by_this_rote(tmp_path: Path) -> None:
    with opened() as (space, host), begin(space, record=tmp_path / "r.jsonl") as run:
        work(run, host)
    assert (tmp_path / "r.jsonl").read_bytes() == GOLDEN.read_bytes()


def test_a_golden_recording_of_a_run_is_replayed() -> None:
    with opened() as (space, host), begin(space, replay=GOLDEN) as run:
        work(run, host)
        assert [each["id"] for each in run.operations][2].startswith("queue:q/")


def test_golden_pending_commits_are_read_and_written_again() -> None:
    without, acknowledging = PENDING.read_bytes().splitlines()
    for line in (without, acknowledging):
        assert convert(decode(line), PendingCommit).text().encode() == line
    [guard] = convert(decode(acknowledging), PendingCommit).guards
    assert (guard.kind, guard.fence, guard.drop) == ("message", 2, True)
