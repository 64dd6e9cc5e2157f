"""The files of a run: in place when it ends, partial before, and small in memory."""

import resource
import stat
import tracemalloc
from pathlib import Path

import pytest

from rote.errors import InvalidInput, NotFound, Unavailable
from rote.recordings.drafts import FileDraft
from rote.recordings.recordings import Recording
from rote.runs.trace_files import TraceFiles
from rote.values import canonical, decode
from tests.lanes import examples
from tests.unit.runs.test_events import NAMES, PAYLOAD, begin, dropped, retrieval, search


def test_files_take_their_places_when_the_run_ends_and_only_their_owner_reads_them(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "observability"
    run = begin(folder=folder)
    run.retrieval(retrieval)
    assert [file for file in (folder / "r1").iterdir() if file.suffix == ".json"] == []
    run.finish(PAYLOAD)
    files = sorted((folder / "r1").iterdir())
    assert [file.name for file in files] == ["trace.json", "trace.retrieval.json"]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]
    assert [stat.S_IMODE(place.stat().st_mode) for place in (folder, folder / "r1")] == [0o700] * 2
    assert [file.read_bytes() for file in files] == [
        canonical(run.trace),
        canonical(run.retrieval_trace),
    ]


def test_traces_of_another_run_of_the_same_id_stay(tmp_path: Path) -> None:
    begin(folder=tmp_path).finish(PAYLOAD)
    files = {file: file.read_bytes() for file in (tmp_path / "r1").iterdir()}
    with pytest.raises(InvalidInput, match="used before") as caught:
        begin(folder=tmp_path)
    assert caught.value.details["argument"] == "run_id"
    assert {file: file.read_bytes() for file in (tmp_path / "r1").iterdir()} == files


def test_a_partial_file_without_a_line_is_no_trace_unless_a_run_is_just_beginning(
    tmp_path: Path,
) -> None:
    """A kill before the first line left it, and the run id could never be used again."""
    partial = tmp_path / "r1" / "trace.partial.jsonl"
    partial.parent.mkdir()
    other = FileDraft(partial, durable=False, partial=partial)
    with pytest.raises(InvalidInput, match="used before"):
        begin(folder=tmp_path)
    other.close()
    assert partial.exists()
    run = begin(folder=tmp_path)
    run.finish(PAYLOAD)
    assert sorted(path.name for path in partial.parent.iterdir()) == [
        "trace.json",
        "trace.retrieval.json",
    ]


def test_the_same_run_is_told_by_the_same_bytes_in_files_and_in_memory(tmp_path: Path) -> None:
    runs = [begin(folder=tmp_path), begin()]
    for run in runs:
        run.retrieval(retrieval)
        run.finish(PAYLOAD)
    assert (tmp_path / "r1" / "trace.json").read_bytes() == canonical(runs[1].trace)


def test_a_discarded_run_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "observability"
    recording = Recording(tmp_path / "r.jsonl", memory_snapshot_id="main:0:none")
    run = begin(folder=folder, recording=recording)
    with run.event(**NAMES) as event:
        event.call("search", search, query="a")
        run.discard()
        run.discard()
    assert [path.name for path in tmp_path.rglob("*")] == ["observability"]
    with pytest.raises(NotFound):
        _ = run.trace


def test_a_trace_that_was_taken_away_is_not_found(tmp_path: Path) -> None:
    run = begin(folder=tmp_path)
    run.finish(PAYLOAD)
    (tmp_path / "r1" / "trace.json").unlink()
    with pytest.raises(NotFound):
        _ = run.trace


def test_a_folder_that_cannot_be_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput):
        begin(folder=tmp_path / "file")
    (tmp_path / "r1" / "trace.retrieval.json").mkdir(parents=True)
    with pytest.raises(InvalidInput, match="folder"):
        begin(folder=tmp_path)
    assert [path.name for path in (tmp_path / "r1").iterdir()] == ["trace.retrieval.json"]


@pytest.mark.parametrize("size", [100, 100_000], ids=["at the end", "on the way"])
def test_a_full_disk_is_told_and_nothing_half_written_stays(size: int, tmp_path: Path) -> None:
    """Files may not grow beyond a few bytes here; the system's error is the same as for a full disk."""
    folder = tmp_path / "observability"
    recording = Recording(tmp_path / "r.jsonl", memory_snapshot_id="main:0:none")
    run = begin(folder=folder, recording=recording)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        with pytest.raises(Unavailable, match="cannot write"):
            with run.event(**NAMES) as event:
                event.call("search", search, query="x" * size)
            run.finish(PAYLOAD)
        run.discard()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.rglob("*")] == ["observability"]


def test_an_event_larger_than_the_cap_is_not_held_and_cut_with_its_retrievals() -> None:
    run = begin(size_bytes_max=20_000)
    run.retrieval(retrieval)
    with run.event(**NAMES) as event:
        for _ in range(30):
            event.call("search", search, query="x" * 1_000)
        run.retrieval(retrieval)
        assert event._to_dict()["tool_calls"] == []
    run.retrieval(retrieval)
    run.finish(PAYLOAD)
    assert [event["index"] for event in run.trace["events"]] == [0]
    assert dropped(run.trace) == (True, 2)
    assert len(run.retrieval_trace["events"]) == 1
    assert run.retrieval_trace["metadata"] == {"truncated": True, "events_dropped": 2}


def test_replies_of_a_model_count_into_the_event_that_holds_them() -> None:
    run = begin(size_bytes_max=20_000)
    with run.event(**NAMES) as event:
        for _ in range(1_000):
            event.model(str)
        assert len(event._replies) < 300
    run.finish(PAYLOAD)
    assert dropped(run.trace) == (True, 1)
    assert run.trace["metadata"]["model_replies"] == []


def test_a_trace_that_cannot_take_its_place_takes_its_retrievals_back(tmp_path: Path) -> None:
    files = TraceFiles(tmp_path, "r1")
    with pytest.raises(InvalidInput, match="there already"):
        files.compose(lambda trace, retrieval: (tmp_path / "r1" / "trace.json").mkdir())
    assert {path.name for path in (tmp_path / "r1").iterdir()} == {
        "trace.json",
        "trace.partial.jsonl",
    }
    files.close()


def test_many_events_are_written_in_little_memory(tmp_path: Path) -> None:
    """The trace is much larger than the memory that the run takes while it writes it."""
    count = examples(2_500, 50_000)
    run = begin(folder=tmp_path, size_bytes_max=200 * count * 4)
    tracemalloc.start()
    try:
        for number in range(count):
            with run.event(**NAMES) as event:
                event.call("search", search, query=str(number))
                event.model(str)
            run.retrieval(retrieval)
        run.finish(PAYLOAD)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = (tmp_path / "r1" / "trace.json").stat().st_size
    assert peak < 200_000 < size / 5
    trace = decode((tmp_path / "r1" / "trace.json").read_bytes())
    assert [event["index"] for event in trace["events"]] == list(range(2 * count))
    assert dropped(trace) == (False, 0)
