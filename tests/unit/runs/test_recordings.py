"""Recordings: their content, what is refused, and the answers of a replay."""

import json
import os
import pickle
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rote import Effects, ModelConfig, ToolProfile
from rote.errors import InvalidInput, NotFound, RecordedError, RoteError, RunAborted
from rote.recordings import recordings
from rote.recordings.recordings import Recording, Replay, RunEnd
from rote.runs.events import Event, RunEvents
from rote.values import canonical, decode
from rote.values.limits import DEPTH_MAX

SNAPSHOT = "main:3:" + "a" * 64
NAMES = {"role": "planner", "interceptor": "before_tool", "decision_type": "tool_call"}
PAYLOAD = "f" * 64
TOOLS = [
    ToolProfile("search", "1", normalized_args_fields=("/query",)),
    ToolProfile("write", "1", side_effect_fingerprint_fields=("",)),
]


def begin(recording: Recording | Replay | None, **changes: Any) -> RunEvents:
    given: dict[str, Any] = {
        "run_id": "r1",
        "workflow_id": "triage",
        "memory_snapshot_id": SNAPSHOT,
        "mode": "read_only",
        "model": ModelConfig("acme", "large-1", seed=7),
        "policy_set_id": "p1",
        "tools": TOOLS,
        "folder": None,
        "recording": recording,
    }
    return RunEvents(**{**given, **changes})


def told(run: RunEvents) -> dict[str, Any]:
    """Return the trace without saying whether it is that of a replay."""
    trace = run.trace
    del trace["metadata"]["replayed"]
    return trace


def fail(**args: Any) -> None:
    raise TimeoutError("too slow")


def never(**args: Any) -> None:
    raise AssertionError("a replay calls nothing")


def program(event: Event, *, live: bool) -> list[Any]:
    """Make calls of every kind; return their results."""

    def use(function: Callable[..., Any]) -> Callable[..., Any]:
        return function if live else never

    given = [
        event.call("search", use(lambda query, at: {"hits": (query, 1.0)}), query="a", at=live),
        event.model(use(lambda prompt: "Hello"), prompt="hi"),
        event.call("write", use(lambda text: Effects(None, {"files": [text]})), text="x"),
    ]
    try:
        event.call("search", use(fail), query="b")
    except TimeoutError as error:
        given.append(str(error))
    return given


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path where the program above is recorded."""
    file = tmp_path / "run.jsonl"
    run = begin(Recording(file, memory_snapshot_id=SNAPSHOT))
    with run.event(**NAMES) as event:
        program(event, live=True)
    run.finish(PAYLOAD)
    return file


def test_a_recording_is_these_lines(path: Path) -> None:
    assert path.read_text().splitlines() == [
        '{"kind":"recording/1","memory_snapshot_id":"' + SNAPSHOT + '"}',
        '{"args":{"at":true,"query":"a"},"kind":"tool","name":"search",'
        '"result":{"hits":["a",1]},"seq":0}',
        '{"args":{"prompt":"hi"},"kind":"model","name":"large-1","result":"Hello","seq":1}',
        '{"args":{"text":"x"},"effects":{"files":["x"]},"kind":"tool","name":"write",'
        '"result":null,"seq":2}',
        '{"args":{"query":"b"},"error":{"message":"too slow","type":"TimeoutError"},'
        '"kind":"tool","name":"search","seq":3}',
        '{"kind":"end","payload_fingerprint":"' + PAYLOAD + '"}',
    ]
    assert path.read_bytes().endswith(b"\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_replay_gives_what_was_given_and_tells_the_same(path: Path, tmp_path: Path) -> None:
    live = begin(Recording(tmp_path / "again.jsonl", memory_snapshot_id=SNAPSHOT))
    with live.event(**NAMES) as event:
        expected = program(event, live=True)
    live.finish(PAYLOAD)
    replay = Replay(path)
    assert replay.memory_snapshot_id == SNAPSHOT
    assert replay.end == RunEnd(payload_fingerprint=PAYLOAD)
    run = begin(replay)
    with run.event(**NAMES) as event:
        assert canonical(program(event, live=False)) == canonical(expected)
    run.finish(PAYLOAD)
    assert told(run) == told(live)
    assert [each.trace["metadata"]["replayed"] for each in (live, run)] == [False, True]
    assert (tmp_path / "again.jsonl").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("mode", ["off", "read_only", "buffered_write"])
def test_an_unfixed_model_is_recorded_and_its_replay_is_fixed(mode: Any, tmp_path: Path) -> None:
    file, model = tmp_path / "r.jsonl", ModelConfig("acme", "large-1", temperature=0)
    traces = []
    for begun in (lambda: Recording(file, memory_snapshot_id=SNAPSHOT), lambda: Replay(file)):
        run = begin(begun(), model=model, mode=mode)
        with run.event(**NAMES) as event:
            event.model(lambda: str(object()))
        run.finish(PAYLOAD)
        traces.append(run.trace)
    first, again = (trace.pop("metadata") for trace in traces)
    assert traces[0] == traces[1]  # with one model_config_id
    assert [(each["model_fixed"], each["replayed"]) for each in (first, again)] == [
        (False, False),
        (True, True),
    ]
    assert first["recording"] == again["recording"] == sha256(file.read_bytes()).hexdigest()
    assert first["model_replies"] == again["model_replies"]
    assert first["model"] == again["model"] == model.to_dict()


# -- differences ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        lambda event: event.call("search", never, query="other"),
        lambda event: event.call("search", never),
        lambda event: event.call("write", never, query="a"),
        lambda event: event.model(never, query="a"),
    ],
    ids=["argument", "missing", "tool", "kind"],
)
def test_a_replay_refuses_the_first_call_that_differs_and_shows_both(
    path: Path, other: Callable[[Event], Any]
) -> None:
    run = begin(Replay(path))
    with run.event(**NAMES) as event:
        with pytest.raises(InvalidInput) as refused:
            other(event)
        assert refused.value.code == "replay_differs"
        assert refused.value.details["recorded"] == 'tool search {"at":true,"query":"a"}'
        assert refused.value.details["made"] in str(refused.value)
        assert refused.value.details["recorded"] in str(refused.value)
        # A program that goes on has left the recording, also with calls that are in it.
        with pytest.raises(InvalidInput, match="leaves the recording"):
            event.model(never, prompt="hi")
    with pytest.raises(InvalidInput, match="leaves the recording"):
        run.finish(PAYLOAD)


def test_arguments_that_the_profile_leaves_out_may_differ_and_so_may_the_seventh_decimal(
    tmp_path: Path,
) -> None:
    recorded = begin(Recording(tmp_path / "r.jsonl", memory_snapshot_id=SNAPSHOT))
    with recorded.event(**NAMES) as event:
        event.call("search", lambda query, at: "found", query=[0.1 + 0.2], at=1)
    recorded.finish(PAYLOAD)
    run = begin(Replay(tmp_path / "r.jsonl"))
    with run.event(**NAMES) as event:
        assert event.call("search", never, query=[0.3], at=2) == "found"
    run.finish(PAYLOAD)


def test_a_call_past_the_end_is_refused(path: Path) -> None:
    run = begin(Replay(path))
    with run.event(**NAMES) as event:
        program(event, live=False)
        with pytest.raises(InvalidInput, match="recorded is the end of the run"):
            event.model(never, prompt="more")
    run.discard()


def test_calls_that_are_left_over_are_told_at_the_end(path: Path) -> None:
    run = begin(Replay(path))
    with pytest.raises(InvalidInput, match=r"search.*the end of the run"):
        run.finish(PAYLOAD)
    assert run.trace["events"] == []


def test_other_writes_abort_a_replay_and_its_trace_is_kept(path: Path, tmp_path: Path) -> None:
    run = begin(Replay(path), folder=tmp_path / "traces")
    with run.event(**NAMES) as event:
        program(event, live=False)
    with pytest.raises(RunAborted) as aborted:
        run.finish("e" * 64)
    assert aborted.value.reason_code == "payload_mismatch"
    assert PAYLOAD in str(aborted.value)
    run.discard()
    assert len(run.trace["events"]) == 1


def test_arguments_are_recorded_as_they_were_before_the_function_changed_them(
    tmp_path: Path,
) -> None:
    run = begin(Recording(tmp_path / "r.jsonl", memory_snapshot_id=SNAPSHOT))
    with run.event(**NAMES) as event:
        event.call("search", lambda query: query.append(5), query=[1])
    run.finish(PAYLOAD)
    run = begin(Replay(tmp_path / "r.jsonl"))
    with run.event(**NAMES) as event:
        event.call("search", never, query=[1])
    run.finish(PAYLOAD)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_the_deepest_values_are_recorded_told_and_replayed(tmp_path: Path) -> None:
    """An argument lies inside the object of arguments, and that inside a line; so does a result."""
    file, most = tmp_path / "r.jsonl", DEPTH_MAX - 1
    seen = []
    for begun in (lambda: Recording(file, memory_snapshot_id=SNAPSHOT), lambda: Replay(file)):
        run = begin(begun())
        with run.event(**NAMES) as event:
            seen.append(event.call("write", lambda text: nested(most), text=nested(most - 1)))
            with pytest.raises(InvalidInput, match="nested deeper"):
                event.call("write", lambda text: 1, text=nested(most))
            with pytest.raises(RoteError, match="nested deeper"):
                event.call("write", lambda text: nested(most + 1), text="too deep")
        run.finish(PAYLOAD)
        seen.append(told(run))
    assert seen[:2] == seen[2:]
    assert seen[0] == nested(most)


# -- recorded errors ------------------------------------------------------------------------------


def replayed(error: Exception, tmp_path: Path) -> Exception:
    """Return the error that a replay raises where `error` was raised."""

    def raise_it() -> None:
        raise error

    raised: list[Exception] = []
    file = tmp_path / "r.jsonl"
    for begun in (lambda: Recording(file, memory_snapshot_id=SNAPSHOT), lambda: Replay(file)):
        run = begin(begun())
        with run.event(**NAMES) as event:
            try:
                event.call("search", raise_it)
            except Exception as caught:
                raised.append(caught)
        run.finish(PAYLOAD)
    assert raised[0] is error
    return raised[1]


@pytest.mark.parametrize(
    "error",
    [ValueError("bad"), KeyError("k"), ConnectionResetError(104, "reset"), StopIteration("x")],
    ids=lambda error: type(error).__name__,
)
def test_a_recorded_built_in_error_is_caught_by_its_kind_and_is_ours(
    error: Exception, tmp_path: Path
) -> None:
    again = replayed(error, tmp_path)
    assert isinstance(again, type(error))
    assert isinstance(again, RecordedError)
    assert (again.code, again.details) == ("recorded_error", {"type": type(error).__name__})
    assert str(again) == str(error)
    assert str(pickle.loads(pickle.dumps(again))) == str(error)


@pytest.mark.parametrize(
    "error",
    [
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        UnicodeEncodeError("ascii", "\xff", 0, 1, "bad"),
        UnicodeTranslateError("\xff", 0, 1, "bad"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_recorded_error_that_a_message_cannot_make_is_its_nearest_base(
    error: Exception, tmp_path: Path
) -> None:
    """`except ValueError` around a tool that decodes caught it in the run, and not in the replay."""
    again = replayed(error, tmp_path)
    assert isinstance(again, UnicodeError)
    assert isinstance(again, RecordedError)
    assert (again.details, str(again)) == ({"type": type(error).__name__}, str(error))
    assert isinstance(pickle.loads(pickle.dumps(again)), UnicodeError)


class _Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


@pytest.mark.parametrize(
    "error",
    [
        ExceptionGroup("several", [ValueError()]),
        json.JSONDecodeError("bad", "{", 0),
        _Odd(),
        NotFound("gone"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_other_recorded_error_is_told_by_its_name(error: Exception, tmp_path: Path) -> None:
    again = replayed(error, tmp_path)
    assert type(again) is RecordedError
    assert again.details["type"] == type(error).__name__


def test_a_name_that_is_no_error_gives_no_error_of_that_kind() -> None:
    for name in ("print", "int", "SystemExit", "KeyboardInterrupt", "__import__", ""):
        assert type(RecordedError.of(name, "x")) is RecordedError


# -- files ----------------------------------------------------------------------------------------


def test_a_recording_is_under_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    run = begin(Recording(file, memory_snapshot_id=SNAPSHOT))
    assert not file.exists()
    run.discard()
    assert list(tmp_path.iterdir()) == []
    run = begin(Recording(file, memory_snapshot_id=SNAPSHOT))
    run.finish(PAYLOAD)
    Replay(file).discard()
    assert list(tmp_path.iterdir()) == [file]


def test_a_recording_replaces_nothing(tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    file.write_text("what was there")
    with pytest.raises(InvalidInput, match="name a new file"):
        Recording(file, memory_snapshot_id=SNAPSHOT)
    assert file.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [file]


def test_a_recording_grows_beside_its_place_and_replaces_no_other_that_does(
    tmp_path: Path,
) -> None:
    file, partial = tmp_path / "r.jsonl", tmp_path / "r.jsonl.partial"
    run = begin(Recording(file, memory_snapshot_id=SNAPSHOT))
    with run.event(**NAMES) as event:
        event.model(str)
        lines = partial.read_bytes().splitlines()
        assert [decode(line)["kind"] for line in lines] == ["recording/1", "model"]
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600
        with pytest.raises(InvalidInput, match="there already"):
            Recording(file, memory_snapshot_id=SNAPSHOT)
        with pytest.raises(InvalidInput, match="it ends in the middle"):
            Replay(partial)
    run.finish(PAYLOAD)
    assert file.read_bytes().splitlines()[:2] == lines
    assert list(tmp_path.iterdir()) == [file]


def test_a_call_that_returns_after_the_run_has_failed_is_in_no_recording(tmp_path: Path) -> None:
    """A thread of its own makes it; the file was closed under its hands."""
    inside, go_on = threading.Event(), threading.Event()

    def wait() -> str:
        inside.set()
        assert go_on.wait(30)
        return "late"

    file = tmp_path / "r.jsonl"
    run = begin(Recording(file, memory_snapshot_id=SNAPSHOT), folder=tmp_path / "traces")
    with ThreadPoolExecutor(1) as pool, run.event(**NAMES) as event:
        event.model(str)
        late = pool.submit(event.model, wait)
        assert inside.wait(30)
        run.fail(ZeroDivisionError())
        go_on.set()
        with pytest.raises(InvalidInput, match="has ended"):
            late.result(30)
    assert [decode(line)["kind"] for line in file.read_bytes().splitlines()] == [
        "recording/1",
        "model",
        "end",
    ]
    assert len(run.trace["metadata"]["model_replies"]) == 1
    assert run.trace["events"][0]["index"] == 0


def test_recordings_beside_each_other_do_not_meet(tmp_path: Path) -> None:
    left_behind = tmp_path / f".rote-{os.getpid()}-0.draft"
    left_behind.write_text("of another time")
    runs = [
        begin(Recording(tmp_path / name, memory_snapshot_id=f"main:0:{name}")) for name in "abc"
    ]
    for run in runs:
        run.finish(PAYLOAD)
    for name in "abc":
        replay = Replay(tmp_path / name)
        assert replay.memory_snapshot_id == f"main:0:{name}"
        replay.discard()
    assert left_behind.read_text() == "of another time"
    assert len(list(tmp_path.iterdir())) == 4


def test_a_place_that_cannot_hold_a_recording_is_refused_at_the_start(tmp_path: Path) -> None:
    for file in (tmp_path, tmp_path / "none" / "r.jsonl"):
        with pytest.raises(InvalidInput):
            Recording(file, memory_snapshot_id=SNAPSHOT)
    assert list(tmp_path.iterdir()) == []


def test_a_recording_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    for file in (tmp_path, tmp_path / "none"):
        with pytest.raises(NotFound):
            Replay(file)


def test_a_recording_that_was_cut_anywhere_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(InvalidInput):
            Replay(path)
    path.write_bytes(whole)
    Replay(path).discard()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"anything", "it has not even a first line"),
        (b"SQLite format 3\0", "it has not even a first line"),
        (b"# Notes\n\nmore\n", "not JSON"),
        (b'{"memory_id":"1"}\n', "`memory_id`"),
        (
            b'{"kind":"recording/1","memory_snapshot_id":"main:0:none"}\n{"args"',
            "it ends in the middle",
        ),
    ],
)
def test_what_was_never_a_recording_is_not_called_a_torn_one(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    """The error said that an empty file ends in the middle, as if a run had not reached its end."""
    file = tmp_path / "r.jsonl"
    file.write_bytes(data)
    with pytest.raises(InvalidInput, match=f"is no recording: .*{reason}"):
        Replay(file)


def test_a_line_that_is_too_long_is_told_as_such(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "RECORDING_LINE_BYTES_MAX", 20)
    with pytest.raises(InvalidInput, match="a line has more than 20 bytes"):
        Replay(path)


def changed(line: int, **members: Any) -> Callable[[list[bytes]], list[bytes]]:
    def change(lines: list[bytes]) -> list[bytes]:
        value = {**decode(lines[line]), **members}
        value = {name: member for name, member in value.items() if member is not ...}
        return [*lines[:line], canonical(value), *lines[line + 1 :]]

    return change


FOREIGN: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "version": changed(0, kind="recording/2"),
    "no snapshot": changed(0, memory_snapshot_id=...),
    "number as snapshot": changed(0, memory_snapshot_id=5),
    "more in the start": changed(0, more=1),
    "no args": changed(1, args=...),
    "list as args": changed(1, args=[]),
    "text as seq": changed(1, seq="0"),
    "seq": changed(1, seq=1),
    "kind": changed(1, kind="other"),
    "no name": changed(1, name=""),
    "no result": changed(1, result=...),
    "result and error": changed(1, error={"type": "a", "message": "b"}),
    "error without a message": changed(4, error={"type": "a"}),
    "more in a call": changed(1, more=1),
    "no hash": changed(5, payload_fingerprint="F" * 64),
    "no end": changed(5, payload_fingerprint=...),
    "two ends": changed(5, error={"type": "ValueError"}),
    "error without a type": changed(5, payload_fingerprint=..., error={}),
    "error with a message": changed(
        5, payload_fingerprint=..., error={"type": "ValueError", "message": "no"}
    ),
    "a call missing": lambda lines: [*lines[:2], *lines[3:]],
    "calls exchanged": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "start twice": lambda lines: [lines[0], *lines],
    "end twice": lambda lines: [*lines, lines[-1]],
    "more after the end": lambda lines: [*lines, b""],
    "no start": lambda lines: lines[1:],
    "spaces": lambda lines: [*lines[:1], lines[1].replace(b":", b": "), *lines[2:]],
    "a key twice": lambda lines: [
        *lines[:1],
        lines[1].replace(b"{", b'{"args":{},', 1),
        *lines[2:],
    ],
    "no object": lambda lines: [*lines[:1], b"[]", *lines[2:]],
    "no JSON": lambda lines: [*lines[:1], b"\xff", *lines[2:]],
    "deep": lambda lines: [*lines[:1], b"[" * 10_000, *lines[2:]],
}


@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_refused(
    path: Path, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    lines = change(path.read_bytes().splitlines())
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    with pytest.raises(InvalidInput, match="is no recording") as refused:
        Replay(path)
    assert isinstance(refused.value, RoteError)
