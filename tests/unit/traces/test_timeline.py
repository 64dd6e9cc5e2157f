import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec import UNSET

import rote
from rote import ModelConfig, ToolProfile
from rote.bridges.trace_files import read_timeline
from rote.errors import InvalidInput
from rote.traces.partial import event_lines, start_line
from rote.traces.timeline import Timeline, TimelineCall, make_timeline
from rote.traces.timeline_words import head_of, marks_of
from rote.values import canonical, decode
from rote.values.limits import TRACE_DEPTH_MAX
from tests.lanes import examples
from tests.unit.traces.traces import changed, changing, good_run

MODES = ("off", "read_only", "buffered_write", "live_read_write")
TERMS: dict[str, Any] = {
    "workflow_id": "triage",
    "model": ModelConfig("acme", "large-1", temperature=0),
    "policy_set_id": "p1",
    "mode": "buffered_write",
    "tools": [ToolProfile("search", "1"), ToolProfile("mail", "2", normalized_args_fields=["/to"])],
}
NAMES = {"role": "planner", "interceptor": "before_tool", "decision_type": "tool_call"}
# What an event does, in order: calls of tools and of the model.
Program = list[list[str]]
PROGRAMS = some.lists(
    some.lists(some.sampled_from(["search", "mail", "model"]), max_size=4), max_size=5
)


class Interrupted(Exception):
    pass


def work(run: rote.Run, program: Program, *, ends: bool = True) -> None:
    """Do what a program says; each call has its number in all as argument and in its reply."""
    number = 0
    for position, steps in enumerate(program):
        with run.event(**NAMES) as event:
            for step in steps:
                if step == "model":
                    event.model(lambda n: {"reply": n}, n=number)
                else:
                    event.call(step, lambda n, to: {"result": n}, n=number, to="ada")
                number += 1
            if not ends and position == len(program) - 1:
                raise Interrupted
    run.set("urn:x", {"n": number})


def recorded(folder: Path, program: Program, *, ends: bool = True, **terms: Any) -> Path:
    """Run a program; return the folder of the run."""
    with rote.open(folder / "memory.db", modes=MODES) as store:
        space = store.space("team")
        try:
            with space.run(**{**TERMS, "record": True, "run_id": "monday", **terms}) as run:
                work(run, program, ends=ends)
        except Interrupted:
            assert not ends
    return folder / "observability" / "monday"


def numbers(calls: tuple[TimelineCall, ...]) -> list[tuple[str, int]]:
    """Return what each call was, and its number in all, as its arguments and its reply have it."""
    told = []
    for call in calls:
        args: Any = call.args
        key = "reply" if call.kind == "model" else "result"
        assert call.result == {key: args["n"]}
        told.append(("model" if call.kind == "model" else call.name, args["n"]))
    return told


def expected(program: Program) -> list[list[tuple[str, int]]]:
    number = iter(range(1_000))
    return [[(step, next(number)) for step in steps] for steps in program]


@given(PROGRAMS)
@settings(max_examples=examples(12, 1_000))
def test_every_call_is_in_its_event_with_its_reply(
    tmp_path_factory: pytest.TempPathFactory, program: Program
) -> None:
    place = recorded(tmp_path_factory.mktemp("run"), program)
    run = read_timeline(place / "trace.json")
    assert [numbers(event.calls) for event in run.events] == expected(program)
    assert (run.has_recording, run.rest) == (True, ())


@given(PROGRAMS)
@settings(max_examples=examples(8, 500))
def test_a_trace_that_does_not_tell_of_the_model_puts_it_before_the_next_tool(
    tmp_path_factory: pytest.TempPathFactory, program: Program
) -> None:
    place = recorded(tmp_path_factory.mktemp("run"), program)
    trace: Any = decode((place / "trace.json").read_bytes())
    for event in trace["events"]:
        del event["model_calls"]
    (place / "trace.json").write_bytes(canonical(trace))
    run = read_timeline(place / "trace.json")
    everything = [*(call for event in run.events for call in event.calls), *run.rest]
    assert numbers(tuple(everything)) == [each for steps in expected(program) for each in steps]
    for event, steps in zip(run.events, program, strict=True):
        assert [call.name for call in event.tool_calls] == [s for s in steps if s != "model"]
        assert not event.calls or event.calls[-1].kind == "tool"


def test_a_run_that_raised_tells_how_far_it_came(tmp_path: Path) -> None:
    place = recorded(tmp_path, [["search"], ["model", "mail"]], ends=False)
    run = read_timeline(place / "trace.json")
    assert [numbers(event.calls) for event in run.events] == [
        [("search", 0)], [("model", 1), ("mail", 2)],
    ]  # fmt: skip
    assert run.discarded
    assert run.error == "Interrupted"
    with rote.open(tmp_path / "memory.db", modes=MODES) as store:
        with pytest.raises(Interrupted), store.space("team").run(**TERMS) as long:
            raise type("I" * 300, (Interrupted,), {})
        assert make_timeline(long.trace).error == "I" * 200
    assert "It raised Interrupted, so nothing was written." in marks_of(run)
    trace: Any = decode((place / "trace.json").read_bytes())
    for other in (None, 5, ["x"]):
        trace["metadata"]["error"] = other
        told = make_timeline(trace)
        assert "It raised an error, so nothing was written." in marks_of(told)
    assert dict(head_of(run))["writes"] == "none"


def killed(folder: Path, program: Program) -> Path:
    """Run a program in a process that is killed inside its last event."""
    child = os.fork()
    if not child:
        try:
            with rote.open(folder / "memory.db", modes=MODES) as store:
                space = store.space("team")
                with space.run(**TERMS, record=True, run_id="monday") as run:
                    work(run, program[:-1])
                    event = run.event(**NAMES).__enter__()
                    event.call("search", lambda n, to: {"result": n}, n=99, to="ada")
                    os.kill(os.getpid(), 9)
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    return folder / "observability" / "monday"


def test_a_run_that_was_killed_tells_its_events_and_the_calls_after_them(tmp_path: Path) -> None:
    place = killed(tmp_path, [["model", "search"], ["search"]])
    with (place / "recording.jsonl.partial").open("ab") as file:
        file.write(b'{"args":{"n":100,"to":"a')  # what a kill in the middle of a write leaves
    run = read_timeline(place / "trace.partial.jsonl")
    assert [numbers(event.calls) for event in run.events] == [[("model", 0), ("search", 1)]]
    assert numbers(run.rest) == [("search", 99)]
    assert "The trace is cut: the run did not come to its end." in marks_of(run)


def test_a_trace_that_was_cut_takes_no_recording_that_it_does_not_name(tmp_path: Path) -> None:
    """Only the trace of a run that has not ended may be without the name of its recording."""
    place = recorded(tmp_path, [["search"], ["mail"]])
    trace: Any = decode((place / "trace.json").read_bytes())
    trace["events"].pop()
    trace["metadata"].update(truncated=True, events_dropped=1, recording=None)
    (place / "trace.json").write_bytes(canonical(trace))
    assert not read_timeline(place / "trace.json").has_recording
    with pytest.raises(InvalidInput, match="the trace names none"):
        read_timeline(place / "trace.json", recording=place / "recording.jsonl")


def test_a_replay_tells_the_replies_of_its_recording(tmp_path: Path) -> None:
    program = [["model", "search"], ["mail"]]
    place = recorded(tmp_path, program)
    with rote.open(tmp_path / "memory.db", modes=MODES) as store:
        replay = place / "recording.jsonl"
        with store.space("team").run(**TERMS, replay=replay, run_id="tuesday") as run:
            work(run, program)
    path = tmp_path / "observability" / "tuesday" / "trace.json"
    assert not read_timeline(path).has_recording
    assert any("--recording names one" in mark for mark in marks_of(read_timeline(path)))
    told = read_timeline(path, recording=replay)
    assert [numbers(event.calls) for event in told.events] == expected(program)
    assert told.replayed


def test_without_a_recording_the_trace_tells_what_it_has(tmp_path: Path) -> None:
    place = recorded(tmp_path, [["search", "model", "mail"]])
    (place / "recording.jsonl").unlink()
    run = read_timeline(place / "trace.json")
    search, mail = run.events[0].calls
    assert (search.args, mail.args) == ({"n": 0, "to": "ada"}, {"/to": "ada"})
    assert (search.result, search.error, search.is_recorded) == (UNSET, UNSET, False)
    assert isinstance(search.result_fingerprint, str)
    assert "There is no recording, so results are shown as fingerprints." in marks_of(run)


def test_errors_effects_and_retrievals_are_told(tmp_path: Path) -> None:
    def fail() -> None:
        raise TimeoutError("no answer")

    def send(to: str) -> rote.Effects:
        return rote.Effects("sent", {"mail": to})

    with rote.open(tmp_path / "memory.db", modes=MODES) as store:
        space = store.space("team")
        rote.Memory(space).put("long_term", "fact", "keys", {"text": "Keys are in the vault."})
        with space.run(**TERMS, record=True, run_id="monday") as run, run.event(**NAMES) as event:
            run.retrieve({"query": "keys", "budget": {"max_excerpt_tokens": 50}})
            event.call("mail", send, to="ada")
            with pytest.raises(TimeoutError):
                event.call("search", fail)
            event.guardrail("pii")
    told = read_timeline(tmp_path / "observability" / "monday" / "trace.json")
    [event_told] = told.events
    sent, failed = event_told.calls
    assert (sent.result, sent.effects) == ("sent", {"mail": "ada"})
    assert failed.error is not UNSET
    assert (failed.error.type, failed.error.message) == ("TimeoutError", "no answer")
    [retrieval] = event_told.retrievals
    assert [(each.rank, each.record_type) for each in retrieval.records] == [(1, "fact")]
    assert retrieval.records[0].score > 0
    assert event_told.guardrails == ("pii",)
    assert dict(head_of(told))["model"] == "acme large-1, temperature 0"


def edited(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def edit(place: Path) -> None:
        path = place / "recording.jsonl"
        path.write_bytes(change(path.read_bytes()))

    return edit


def unended(place: Path) -> Path:
    """Put the partial trace of a run into the place of its trace; return its path."""
    trace: Any = decode((place / "trace.json").read_bytes())
    fields = {key: part for key, part in trace.items() if key not in ("events", "output")}
    lines = [event_lines(canonical(event), (), ()) for event in trace["events"]]
    (place / "trace.json").unlink()
    path = place / "trace.partial.jsonl"
    path.write_bytes(start_line(fields, trace["metadata"]) + b"".join(lines))
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b'"result":0', b'"result":1'),
        lambda data: data[:-20],
        lambda data: data + b"\n",
        lambda data: b"",
        lambda data: b"{}",
        lambda data: b"\xff\n",
    ],
)
def test_a_recording_of_other_bytes_is_refused_when_named_and_else_not_used(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    place = recorded(tmp_path, [["search"]])
    edited(change)(place)
    assert not read_timeline(place / "trace.json").has_recording
    with pytest.raises(InvalidInput, match=r"recording.jsonl is not the recording of its trace: "):
        read_timeline(place / "trace.json", recording=place / "recording.jsonl")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data.replace(b'"name":"search"', b'"name":"sear"'), "it calls 'sear' where"),
        (lambda data: data.replace(b"main:", b"other:"), "it began at other:"),
        (lambda data: data.replace(b'"kind":"tool"', b'"kind":"model"'), "asks the model less often"),
        (lambda data: data.replace(b'"args":{', b'"args":[{').replace(b'},"kind":"t', b'}],"kind":"t'),
         "a line is not of a recording"),
        (lambda data: data.replace(b"recording/1", b"recording/2"), "a line is not of a recording"),
        (lambda data: data.replace(b'{"kind":"end"', b"{x"), "a line is not of a recording"),
        (lambda data: b"", "it is empty"),
    ],
)  # fmt: skip
def test_a_recording_of_another_run_is_found_out_when_the_trace_is_partial(
    tmp_path: Path, change: Callable[[bytes], bytes], said: str
) -> None:
    """A partial trace names no digest, so that only its calls can tell."""
    place = recorded(tmp_path, [["search"], ["model", "search"]])
    path = unended(place)
    assert read_timeline(path).has_recording
    edited(change)(place)
    assert not read_timeline(path).has_recording
    with pytest.raises(InvalidInput, match=said):
        read_timeline(path, recording=place / "recording.jsonl")


def test_a_recording_that_is_too_long_is_shown_as_far_as_it_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = recorded(tmp_path, [["search"], ["search"], ["search"]])
    first: Any = decode((place / "recording.jsonl").read_bytes().splitlines()[1])
    size = sum(len(canonical(first[part])) for part in ("args", "result"))
    monkeypatch.setattr("rote.traces.timeline.RECORDING_SHOWN_BYTES_MAX", size)
    run = read_timeline(place / "trace.json")
    assert [call.is_recorded for event in run.events for call in event.calls] == [
        True,
        False,
        False,
    ]
    assert "The recording is long: the last results are shown as fingerprints." in marks_of(run)


@pytest.mark.parametrize(
    "change",
    [
        changed("trace", "events", 1, "role", to=5),
        changed("trace", "metadata", to={}),
        changed("retrieval", "events", 0, "candidate_count", to="x"),
    ],
)
def test_a_trace_that_is_not_in_order_is_refused(change: Callable[[Any], object]) -> None:
    made = changing(change)
    with pytest.raises(
        InvalidInput, match=r"the trace is not in order: .*; rote trace check lists"
    ):
        make_timeline(made["trace"], made["retrieval"])


def test_a_trace_of_others_is_shown_with_what_it_tells() -> None:
    made = good_run()
    run = make_timeline(made["trace"])
    assert [len(event.calls) for event in run.events] == [2, 2, 2]
    assert [event.retrievals for event in run.events] == [(), (), ()]
    assert dict(head_of(run))["model"] == "not told, dddddddddddd…"
    assert dict(head_of(run))["writes"] == "not told"


def test_a_timeline_is_json(tmp_path: Path) -> None:
    run: Timeline = read_timeline(recorded(tmp_path, [["model", "search"]]) / "trace.json")
    told: Any = decode(canonical(run.to_dict()))
    assert told["events"][0]["calls"][0] == {
        "kind": "model", "name": "large-1", "args": {"n": 0}, "result": {"reply": 0},
    }  # fmt: skip
    assert told["run_id"] == "monday"


def test_a_model_of_any_depth_is_shown() -> None:
    """A comparison takes it, and a timeline failed."""
    made = good_run()
    deep: Any = 1
    for _ in range(TRACE_DEPTH_MAX - 4):
        deep = [deep]
    made["trace"]["metadata"]["model"] = {"provider_name": deep}
    assert dict(head_of(make_timeline(made["trace"])))["model"].startswith("[[[")
