"""The end of a run: its trace, its recording and its exception agree, whatever fails and whoever is
still under way."""

import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import InvalidInput, LimitExceeded, RoteError, Unavailable
from rote.recordings import recordings
from rote.recordings.recordings import Recording, Replay
from rote.runs.events import RunEvents
from rote.traces import output_shape_hash
from rote.values import canonical, decode
from tests.unit.runs.side_by_side import (
    NAMES,
    PAYLOAD,
    SNAPSHOT,
    WAIT_SECONDS,
    begin,
    told_args,
    until_done_or_waiting,
)

ENTITY = "urn:a:1"


def recorded(path: Path) -> list[dict[str, Any]]:
    return [decode(line) for line in path.read_bytes().splitlines()]


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """Let no file grow beyond a size; the system's error is the same as for a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


# -- calls that are still under way ---------------------------------------------------------------


def test_a_reply_is_recorded_and_told_before_the_run_can_fail_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line of a reply came after the end of its recording: the block raised while another thread
    encoded it."""
    inside, go_on = threading.Event(), threading.Event()

    def slow(line: Any, **more: Any) -> bytes:
        if line["kind"] == "tool":
            inside.set()
            assert go_on.wait(WAIT_SECONDS)
        return canonical(line, **more)

    monkeypatch.setattr(recordings, "canonical", slow)
    file = tmp_path / "r.jsonl"
    run = begin(Recording(file, memory_snapshot_id=SNAPSHOT), folder=tmp_path / "traces")
    with ThreadPoolExecutor(2) as pool, run.event(**NAMES) as event:
        call = pool.submit(event.call, "search", lambda n: n, n=1)
        assert inside.wait(WAIT_SECONDS)
        failing = pool.submit(run.fail, ZeroDivisionError())
        until_done_or_waiting(failing, RunEvents.fail.__code__)
        go_on.set()
        failing.result(WAIT_SECONDS)
        assert call.result(WAIT_SECONDS) == 1
    assert [line["kind"] for line in recorded(file)] == ["recording/1", "tool", "end"]
    assert told_args(run) == [{"n": 1}]
    assert run.trace["metadata"]["recording"] == sha256(file.read_bytes()).hexdigest()


def test_an_event_that_raises_is_over_for_a_call_of_another_thread(tmp_path: Path) -> None:
    """The caller got InvalidInput (a call is still under way) instead of the block's TimeoutError."""
    inside, go_on = threading.Event(), threading.Event()

    def wait() -> str:
        inside.set()
        assert go_on.wait(WAIT_SECONDS)
        return "late"

    file = tmp_path / "r.jsonl"
    run = begin(Recording(file, memory_snapshot_id=SNAPSHOT))
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(TimeoutError, match="mine"), run.event(**NAMES) as event:
            event.call("search", lambda: "soon")
            late = pool.submit(event.call, "search", wait)
            assert inside.wait(WAIT_SECONDS)
            raise TimeoutError("mine")
        go_on.set()
        with pytest.raises(InvalidInput, match="event has ended"):
            late.result(WAIT_SECONDS)
    with run.event(**NAMES) as event:
        event.call("search", lambda: "next")
    run.finish(PAYLOAD)
    assert [line.get("result") for line in recorded(file)[1:-1]] == ["soon", "next"]
    assert [len(event["tool_calls"]) for event in run.trace["events"]] == [1, 1]


def test_an_event_that_is_left_without_an_error_waits_for_its_calls() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        assert go_on.wait(WAIT_SECONDS)

    run = begin()
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(InvalidInput, match="still under way"), run.event(**NAMES) as event:
            call = pool.submit(event.call, "search", wait)
            assert inside.wait(WAIT_SECONDS)
        go_on.set()
        call.result(WAIT_SECONDS)
    run.fail(ZeroDivisionError())
    assert told_args(run) == [{}]


@pytest.mark.parametrize("kind", ["recording", "none"])
def test_a_function_cannot_give_the_output_that_a_replay_would_miss(
    kind: str, tmp_path: Path
) -> None:
    recording = Recording(tmp_path / "r.jsonl", memory_snapshot_id=SNAPSHOT)
    run = begin(recording if kind == "recording" else None)

    def give() -> None:
        run.output({"type": "none"})

    with run.event(**NAMES) as event:
        with pytest.raises(InvalidInput, match="give the output"):
            event.calls([("search", give, {})])
        if kind == "recording":
            with pytest.raises(InvalidInput, match="give the output"):
                event.call("search", give)
    give()
    run.finish(PAYLOAD)
    recording.discard()


# -- files that cannot be written -----------------------------------------------------------------


def test_a_full_disk_takes_nothing_from_an_error_inside_an_event(tmp_path: Path) -> None:
    """The caller got Unavailable from the end of the event, and never saw its own exception."""
    run = begin(folder=tmp_path)
    with files_end_at(64):
        with pytest.raises(ZeroDivisionError) as raised, run.event(**NAMES):
            raise ZeroDivisionError
        # Whoever catches it learns at the end of the run that an event is missing.
        with pytest.raises(Unavailable, match="cannot write") as failed:
            run.finish(PAYLOAD)
        run.fail(failed.value)
    assert not hasattr(raised.value, "__notes__")
    assert (run.trace["metadata"]["truncated"], run.trace["events"]) == (True, [])
    assert [path.name for path in (tmp_path / "r1").iterdir()] == ["trace.partial.jsonl"]


class Stage:
    """A store in memory that keeps traces, and its runs."""

    def __init__(self, store: rote.Store, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.space = store.space("stage")

    def begin(self, **changes: Any) -> rote.Run:
        given: dict[str, Any] = {
            "workflow_id": "w",
            "model": None,
            "policy_set_id": "p",
            "mode": "buffered_write",
            "tools": [rote.ToolProfile("search", "1")],
            "run_id": "r1",
        }
        return self.space.run(**{**given, **changes})

    def check_failed(self, run: rote.Run, error: BaseException) -> dict[str, Any]:
        """Check that ledger and trace tell of a run that failed without a recording; return the trace."""
        trace: dict[str, Any] = decode((self.folder / run.run_id / "trace.json").read_bytes())
        assert trace == run.trace
        names = {path.name for path in (self.folder / run.run_id).iterdir()}
        assert names == {"trace.json", "trace.retrieval.json"}
        metadata, kind = trace["metadata"], type(error).__name__
        assert (metadata["discarded"], metadata["truncated"]) == (True, False)
        assert (metadata["recording"], metadata["commit_payload_fingerprint"]) == (None, None)
        assert trace["output"]["output_type"] == "error"
        assert trace["output"]["output_shape_hash"] == output_shape_hash(
            {"type": "error", "error": kind}
        )
        assert (run.discarded, self.space.get(ENTITY)) == (True, None)
        return trace


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    modes = ("read_only", "buffered_write", "live_read_write")
    with rote.open(":memory:", modes=modes, traces=tmp_path / "traces") as store:
        yield Stage(store, tmp_path / "traces")


def folder_is_gone(file: Path) -> None:
    shutil.rmtree(file.parent)


def name_is_taken(file: Path) -> None:
    file.write_text("of others")


def partial_is_replaced(file: Path) -> None:
    partial = file.with_name(file.name + ".partial")
    partial.unlink()
    partial.write_text("of others")


@pytest.mark.parametrize("change", [folder_is_gone, name_is_taken, partial_is_replaced])
@pytest.mark.parametrize("how", ["ends", "raises"])
def test_a_recording_that_cannot_take_its_place_is_no_success(
    change: Callable[[Path], None], how: str, stage: Stage, tmp_path: Path
) -> None:
    """The trace said that all went well and named a recording that was not there, or that had taken
    the place of another file."""
    file = tmp_path / "calls" / "r.jsonl"
    file.parent.mkdir()
    run = stage.begin(record=file)
    expected: Any = ZeroDivisionError if how == "raises" else RoteError
    with pytest.raises(expected) as raised, run:
        with run.event(**NAMES) as event:
            event.call("search", lambda: 1)
        run.set(ENTITY, 1)
        change(file)
        if how == "raises":
            raise ZeroDivisionError
    trace = stage.check_failed(run, raised.value)
    assert len(trace["events"][0]["tool_calls"]) == 1
    assert how == "ends" or "has no recording" in raised.value.__notes__[0]
    left = [path.read_text() for path in (tmp_path / "calls").rglob("*")]
    assert left == ([] if change is folder_is_gone else ["of others"])


@pytest.mark.parametrize("how", ["raises", "goes on"])
def test_a_recording_that_is_full_does_not_take_the_trace_with_it(
    how: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "RECORDING_CALLS_MAX", 2)
    run = stage.begin(record=True)
    with pytest.raises(LimitExceeded) as raised, run:
        for number in range(4):
            with run.event(**NAMES) as event:
                try:
                    event.call("search", lambda n: n, n=number)
                except LimitExceeded:
                    if how == "raises":
                        raise
    trace = stage.check_failed(run, raised.value)
    made = 3 if how == "raises" else 4
    assert [len(event["tool_calls"]) for event in trace["events"]] == [1] * made


# -- names and numbers ----------------------------------------------------------------------------


def test_the_folder_of_traces_is_its_owner_s_alone_whoever_makes_it(stage: Stage) -> None:
    """The recording made it, with the rights of any folder."""
    with stage.begin(record=True):
        pass
    assert [path.stat().st_mode & 0o777 for path in (stage.folder, stage.folder / "r1")] == [
        0o700,
        0o700,
    ]


@pytest.mark.parametrize("name", ["trace.json", "trace.retrieval.json", "trace.partial.jsonl"])
def test_a_recording_is_no_file_of_its_trace(name: str, stage: Stage, tmp_path: Path) -> None:
    (stage.folder / "r1").mkdir(parents=True)
    (tmp_path / "link").symlink_to(stage.folder)
    for folder in (stage.folder, tmp_path / "link"):
        with pytest.raises(InvalidInput, match="record=True"):
            stage.begin(record=folder / "r1" / name)
    assert list((stage.folder / "r1").iterdir()) == []
    with stage.begin(record=stage.folder / "r1" / "recording.jsonl"):
        pass
    Replay(stage.folder / "r1" / "recording.jsonl").discard()


def test_a_live_run_has_no_payload_to_be_compared(stage: Stage) -> None:
    """The run has written already; the trace had the fingerprint of writing nothing."""
    with stage.begin(mode="live_read_write") as run:
        run.set(ENTITY, 1)
    assert run.trace["metadata"]["commit_payload_fingerprint"] is None


class Nameless(type):
    @property
    def __name__(cls) -> Any:  # type: ignore[override]
        raise RuntimeError("it has none")


class Odd(type):
    __name__ = 5  # type: ignore[assignment]


class NamelessError(Exception, metaclass=Nameless): ...


class OddError(Exception, metaclass=Odd): ...


@pytest.mark.parametrize("error", [NamelessError(), OddError()], ids=["nameless", "odd"])
def test_an_exception_is_told_by_the_name_that_its_class_was_given(
    error: Exception, stage: Stage
) -> None:
    def fail() -> None:
        raise error

    run = stage.begin(record=True)
    raised = None
    try:
        with run, run.event(**NAMES) as event:
            event.call("search", fail)
    except Exception as caught:
        raised = caught
    assert raised is error
    call, end = recorded(stage.folder / "r1" / "recording.jsonl")[1:]
    assert call["error"]["type"] == end["error"]["type"]
    assert end["error"]["type"] in ("NamelessError", "OddError")
    assert run.trace["output"]["output_type"] == "error"


@pytest.mark.parametrize("how", ["ends", "raises"])
def test_a_recording_that_changes_while_it_is_replayed_is_refused_at_the_end(
    how: str, tmp_path: Path
) -> None:
    file = tmp_path / "r.jsonl"

    def end(run: RunEvents) -> None:
        with run.event(**NAMES) as event:
            event.call("search", lambda: "what it was")
        if how == "raises":
            run.fail(ZeroDivisionError())
        else:
            run.finish(PAYLOAD)

    end(begin(Recording(file, memory_snapshot_id=SNAPSHOT)))
    replay = Replay(file)
    with file.open("r+b") as changed:
        changed.write(file.read_bytes().replace(b"what it was", b"what it is "))
    with pytest.raises(InvalidInput, match="changed while it was replayed"):
        end(begin(replay))
