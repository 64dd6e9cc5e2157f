"""Recordings and partial traces of earlier days are read as they were, and written as they were."""

from pathlib import Path

import pytest

from rote.errors import InvalidInput, RecordedError
from rote.values import decode
from tests.golden import told_runs
from tests.golden.told_runs import FAILED, FOLDER, PARTIALS, RECORDING


def test_a_golden_recording_is_written_again_by_this_rote() -> None:
    assert told_runs.recorded(raises=False) == (FOLDER / RECORDING).read_bytes()
    assert told_runs.recorded(raises=True) == (FOLDER / FAILED).read_bytes()


def test_a_golden_recording_is_replayed(tmp_path: Path) -> None:
    with told_runs.begun(tmp_path, replay=FOLDER / RECORDING) as run:
        told_runs.tell(run, raises=False)
    assert (run.discarded, run.trace["metadata"]["replayed"]) == (True, True)


def test_a_golden_recording_of_a_failed_run_is_replayed(tmp_path: Path) -> None:
    with (
        pytest.raises(RecordedError, match="on Sundays"),
        told_runs.begun(tmp_path, replay=FOLDER / FAILED) as run,
    ):
        told_runs.tell(run, raises=True)
    assert run.trace["metadata"]["discarded"] is True


def test_a_replay_of_a_golden_failed_run_that_raises_nothing_differs(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidInput) as refused,
        told_runs.begun(tmp_path, replay=FOLDER / FAILED) as run,
    ):
        told_runs.tell(run, raises=False)
    assert refused.value.code == "replay_differs"


def test_a_golden_partial_trace_is_written_again_by_this_rote() -> None:
    assert told_runs.cut() == (FOLDER / f"{PARTIALS[-1]}.jsonl").read_bytes()


@pytest.mark.parametrize("name", PARTIALS)
def test_a_golden_partial_trace_is_read_as_it_was(name: str) -> None:
    expected = (FOLDER / f"{name}.json").read_bytes()
    assert told_runs.read((FOLDER / f"{name}.jsonl").read_bytes()) == expected
    read = decode(expected)
    # Look into the answer: the last event is half, so it is left out.
    assert [event["index"] for event in read["trace"]["events"]] == [0, 1]
    assert read["trace"]["metadata"]["truncated"] is True
    assert len(read["retrieval"]["events"]) == 2
