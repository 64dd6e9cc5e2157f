"""kill -9 of runs that are traced and recorded, at random lines of the code that writes their files.

The partial trace that is left can be read, says that it is cut and holds whole events with all their
links. The recording that is left is a beginning of the whole one. Recovery leaves both alone.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import rote
from rote.traces.partial import read_partial
from rote.values import decode
from tests.faults.children import LEFT, NAME, RIGHT
from tests.faults.run_children import run_told
from tests.faults.test_run_kills import (
    APPLIED,
    DISCARDED,
    NOTHING,
    Processes,
    open_store,
    outcome_of,
    recover_all,
)
from tests.lanes import examples

KILLS = examples(10, 200)
TRACE, RETRIEVAL, PARTIAL = "trace.json", "trace.retrieval.json", "trace.partial.jsonl"
RECORDING, RECORDING_PARTIAL = "recording.jsonl", "recording.jsonl.partial"


@pytest.fixture
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    started.close()


class Whole:
    """The files of a run that nobody killed."""

    def __init__(self, folder: Path) -> None:
        self.trace = decode((folder / TRACE).read_bytes())
        self.retrieval = decode((folder / RETRIEVAL).read_bytes())
        self.calls = _calls_of(folder / RECORDING)


def _calls_of(recording: Path) -> bytes:
    """Return what follows the first line, which names the state that a run began with."""
    return recording.read_bytes().partition(b"\n")[2]


def _files_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _without_run(rows: Any) -> list[dict[str, Any]]:
    return [{**row, "run_id": ""} for row in rows]


def _check_trace(folder: Path, whole: Whole) -> str:
    """Check the trace that a killed run has left; return which it is."""
    if (folder / TRACE).exists():
        trace, retrieval = (decode((folder / name).read_bytes()) for name in (TRACE, RETRIEVAL))
        assert trace["events"] == whole.trace["events"]
        assert trace["output"] == whole.trace["output"]
        assert trace["metadata"]["truncated"] is False
        kind = TRACE
    else:
        trace, retrieval = read_partial((folder / PARTIAL).read_bytes())
        events = trace["events"]
        assert events == whole.trace["events"][: len(events)]
        assert trace["metadata"]["truncated"] is True
        assert trace["metadata"]["model_fixed"] is False
        kind = PARTIAL
    linked = sum(len(event["retrieval_event_ids"]) for event in trace["events"])
    rows = _without_run(whole.retrieval["events"])[:linked]
    assert _without_run(retrieval["events"]) == rows
    replies = trace["metadata"]["model_replies"]
    assert replies == whole.trace["metadata"]["model_replies"][: len(replies)]
    codes = {failure.code for failure in rote.check_trace(trace, retrieval).failures}
    assert codes <= {"trace:model"}
    return kind


def _check_recording(folder: Path, whole: Whole) -> None:
    """Check that the recording of a killed run is a beginning, and under its name the whole."""
    if (folder / RECORDING).exists():
        assert _calls_of(folder / RECORDING) == whole.calls
    else:
        assert whole.calls.startswith(_calls_of(folder / RECORDING_PARTIAL))


@pytest.mark.parametrize("how", ["ends", "raises"])
def test_what_a_killed_run_leaves_can_be_read_and_recovery_leaves_it_alone(
    how: str, tmp_path: Path, processes: Processes
) -> None:
    url, random = str(tmp_path / "memory.db"), Random(20)
    folder = tmp_path / "observability"
    kinds: dict[str, str] = {}
    with open_store(url) as store:
        rote.Memory(store.space(NAME)).put("ops", "fact", "x", {"text": "the vault has the keys"})
        run_told(url, f"{how}-first", "0")
        lines = run_told(url, f"{how}-whole", "0")
        whole = Whole(folder / f"{how}-whole")
        for number in range(KILLS // 2):
            run_id = f"{how}-{number}"
            processes.kill_at(str(random.randint(1, lines)), "told", url, run_id)
            is_begun = any(record.run_id == run_id for record in store.runs())
            if is_begun:
                kinds[run_id] = _check_trace(folder / run_id, whole)
                _check_recording(folder / run_id, whole)
        before = _files_in(folder)
        recover_all(store)
        assert _files_in(folder) == before
        for number in range(KILLS // 2):
            run_id = f"{how}-{number}"
            left = kinds.get(run_id)
            possible = {None: {NOTHING}, PARTIAL: {DISCARDED}, TRACE: {DISCARDED, APPLIED}}[left]
            assert outcome_of(store, run_id) in possible, left
        space = store.space(NAME)
        assert space.get(LEFT) == space.get(RIGHT)
        applied = [run for run in store.runs() if run.state == APPLIED]
        assert len(applied) == sum(commit.key is not None for commit in space.log())
        assert how == "ends" or applied == []
        assert space.verify().ok
    assert PARTIAL in kinds.values()
