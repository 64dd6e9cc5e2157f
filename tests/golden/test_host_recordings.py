"""A recording of a host from earlier days is replayed, and written again as it was."""

from pathlib import Path

import pytest

import rote
from rote.errors import InvalidInput, NotFound
from rote.testing.clocks import FixedClock
from rote.testing.sources import SeededIds

GOLDEN = Path(__file__).parent / "recording-1-host.jsonl"


def workflow(host: rote.Host) -> None:
    with host.scope(frame={"limit": 3}) as flow:
        flow.cache.set("monitors", "last_run", {"at": 5, "password": "correct horse"}, 60)
        found = flow.cache.get("monitors", "last_run")["value"]
        flow.frame.set("user.password", found["password"])
        flow.frame.get("user")
        with pytest.raises(InvalidInput):
            flow.frame.set("limit.x", 1)
        with pytest.raises(NotFound):
            flow.store.delete("urn:a:1")


def test_a_golden_recording_of_a_host_is_written_again_by_this_rote(tmp_path: Path) -> None:
    with rote.open(":memory:", clock=FixedClock(), ids=SeededIds(7), key=bytes(32)) as store:
        host = rote.Host("compute-and-store", store=store, redact=["password"])
        with host.record(tmp_path / "r.jsonl"):
            workflow(host)
    assert (tmp_path / "r.jsonl").read_bytes() == GOLDEN.read_bytes()


def test_a_golden_recording_of_a_host_is_replayed() -> None:
    host = rote.Host("compute-and-store", redact=["password"])
    with host.replay(GOLDEN):
        workflow(host)
