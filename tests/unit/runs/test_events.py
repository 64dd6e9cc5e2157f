"""The events of a run: calls, retrievals, output, and the files that record them."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rote import Effects, ModelConfig, ToolProfile
from rote.errors import InvalidInput, InvalidValue, LimitExceeded
from rote.recordings.recordings import Recording
from rote.runs.events import RunEvents
from rote.values import fingerprint
from rote.values.limits import CALL_BYTES_MAX, EVENT_PARTS_MAX

SEEDED = ModelConfig("acme", "large-1", seed=7)
NAMES = {"role": "planner", "interceptor": "before_tool", "decision_type": "tool_call"}
PAYLOAD = "f" * 64


def begin(**changes: Any) -> RunEvents:
    given: dict[str, Any] = {
        "run_id": "r1",
        "workflow_id": "triage",
        "memory_snapshot_id": "main:0:none",
        "mode": "read_only",
        "model": SEEDED,
        "policy_set_id": "p1",
        "tools": [ToolProfile("search", "1")],
        "folder": None,
        "recording": None,
    }
    return RunEvents(**{**given, **changes})


def retrieval(**ids: str) -> dict[str, Any]:
    return {**ids, "selected_records": []}


def dropped(trace: dict[str, Any]) -> tuple[bool, int]:
    return trace["metadata"]["truncated"], trace["metadata"]["events_dropped"]


def hashed(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def search(query: str) -> list[str]:
    return [query, query]


def test_a_trace_tells_what_was_done_in_order() -> None:
    run = begin()
    with run.event(**NAMES) as event:
        assert event.call("search", search, query="a") == ["a", "a"]
        event.guardrail("pii")
        event.guardrail("pii")
        run.retrieval(retrieval)
    run.retrieval(retrieval)
    run.output({"type": "text", "sections": ["a"]})
    run.finish(PAYLOAD)
    trace = run.trace
    assert trace["events"] == [
        {
            "event_id": "event-0",
            "index": 0,
            "role": "planner",
            "interceptor": "before_tool",
            "decision_type": "tool_call",
            "tool_calls": [
                {
                    "tool_name": "search",
                    "tool_profile_version": "1",
                    "normalization_version": "json-v1",
                    "normalized_args": {"": {"query": "a"}},
                    "tool_result_fingerprint": hashed('{"":["a","a"]}'),
                    "side_effect_required": False,
                    "side_effect_fingerprint": None,
                }
            ],
            "guardrails_triggered": ["pii", "pii"],
            "retrieval_event_ids": ["retrieval-0"],
            "model_calls": 0,
        },
        {
            "event_id": "event-1",
            "index": 1,
            "role": "run",
            "interceptor": "retrieval",
            "decision_type": "retrieve",
            "tool_calls": [],
            "guardrails_triggered": [],
            "retrieval_event_ids": ["retrieval-1"],
            "model_calls": 0,
        },
    ]
    assert trace["output"]["output_type"] == "text"
    assert trace["model_config_id"] == run.model_config_id
    rows = run.retrieval_trace["events"]
    assert [(row["run_id"], row["event_id"], row["retrieval_event_id"]) for row in rows] == [
        ("r1", "event-0", "retrieval-0"),
        ("r1", "event-1", "retrieval-1"),
    ]


def test_a_run_without_output_has_the_output_none() -> None:
    run = begin()
    run.finish(PAYLOAD)
    assert run.trace["output"] == {
        "output_type": "none",
        "output_shape_hash": hashed('{"type":"none"}'),
        "normalization_version": "json-v1",
    }


def test_the_trace_can_be_read_while_the_run_goes_on(tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        run = begin(folder=folder)
        run.retrieval(retrieval)
        assert [event["index"] for event in run.trace["events"]] == [0]
        run.retrieval(retrieval)
        assert len(run.retrieval_trace["events"]) == 2
        run.finish(PAYLOAD)
        assert [event["index"] for event in run.trace["events"]] == [0, 1]
        changed = run.trace
        changed["events"].clear()
        assert len(run.trace["events"]) == 2


# -- calls ----------------------------------------------------------------------------------------


def test_what_a_function_raises_is_recorded_as_its_result_and_raised() -> None:
    def fail() -> None:
        raise error

    error = ValueError("no such page \ud800")
    run = begin()
    with run.event(**NAMES) as event:
        with pytest.raises(ValueError) as caught:
            event.call("search", fail)
        assert event.call("search", search, query="b") == ["b", "b"]
    assert caught.value is error
    failed, went_well = run.trace["events"][0]["tool_calls"]
    assert failed["tool_result_fingerprint"] == fingerprint(
        {"": {"error": {"type": "ValueError", "message": "no such page \\ud800"}}}
    )
    assert went_well["normalized_args"] == {"": {"query": "b"}}
    run.discard()


def test_an_event_that_is_left_by_an_exception_is_told_as_far_as_it_went() -> None:
    run = begin()
    with pytest.raises(KeyError), run.event(**NAMES) as event:
        event.guardrail("pii")
        raise KeyError("x")
    run.retrieval(retrieval)
    events = run.trace["events"]
    assert [event["guardrails_triggered"] for event in events] == [["pii"], []]
    run.discard()


def test_effects_are_fingerprinted_where_the_profile_looks_at_them() -> None:
    looking = ToolProfile("write", "1", side_effect_fingerprint_fields=("/files",))
    run = begin(tools=[looking, ToolProfile("search", "1")])
    with run.event(**NAMES) as event:
        result = event.call("write", lambda: Effects("done", {"files": ["a"], "at": 17}))
        event.call("write", lambda: "done")
        event.call("search", lambda: Effects("done", {"files": ["a"]}))
    assert result == "done"
    first, plain, unlooked = run.trace["events"][0]["tool_calls"]
    assert first["side_effect_required"] is True
    assert first["side_effect_fingerprint"] == hashed('{"/files":["a"]}')
    assert first["tool_result_fingerprint"] == hashed('{"":"done"}')
    assert plain["side_effect_fingerprint"] == hashed("{}")
    assert (unlooked["side_effect_required"], unlooked["side_effect_fingerprint"]) == (False, None)
    run.discard()


@pytest.mark.parametrize(
    "result",
    [object(), float("nan"), {"\u00e9": 1, "e\u0301": 2}, "x" * CALL_BYTES_MAX],
    ids=["stranger", "nan", "keys", "large"],
)
def test_a_result_that_cannot_be_recorded_is_the_failure_of_the_call(result: Any) -> None:
    run = begin()
    words = "the result of the tool search"
    with run.event(**NAMES) as event, pytest.raises((InvalidValue, LimitExceeded), match=words):
        event.call("search", lambda: result)
    assert len(run.trace["events"][0]["tool_calls"]) == 1
    run.discard()


def test_arguments_that_cannot_be_recorded_are_refused_before_anything_is_called() -> None:
    called: list[Any] = []
    run = begin()
    with run.event(**NAMES) as event:
        for args in ({"a": object()}, {"a": {"\u00e9": 1, "e\u0301": 2}}):
            with pytest.raises(InvalidValue, match="the arguments of the tool search cannot be"):
                event.call("search", lambda **args: called.append(args), **args)
        with pytest.raises(InvalidInput, match="function"):
            event.call("search", "search")  # type: ignore[arg-type]
    assert called == []
    assert run.trace["events"][0]["tool_calls"] == []
    run.discard()


def test_what_a_function_does_to_its_arguments_does_not_reach_the_trace() -> None:
    run = begin()
    with run.event(**NAMES) as event:
        event.call("search", lambda items: items.append(5), items=[1])
    assert run.trace["events"][0]["tool_calls"][0]["normalized_args"] == {"": {"items": [1]}}
    run.discard()


def test_a_caller_gets_what_a_replay_will_give() -> None:
    run = begin()
    with run.event(**NAMES) as event:
        result = event.call("search", lambda: (1.0, -0.0))
    assert type(result) is list
    assert [type(item) for item in result] == [int, int]
    run.discard()


def test_the_model_is_asked_but_is_no_tool_call() -> None:
    run = begin()
    with run.event(**NAMES) as event:
        assert event.model(lambda prompt: prompt.upper(), prompt="hello") == "HELLO"
    assert run.trace["events"][0]["tool_calls"] == []
    run.discard()
    run = begin(model=None)
    with run.event(**NAMES) as event, pytest.raises(InvalidInput, match="no model"):
        event.model(str)
    run.discard()


def test_a_tool_without_a_profile_is_refused_by_name() -> None:
    run = begin()
    with run.event(**NAMES) as event, pytest.raises(InvalidInput, match=r"'browse'.*search"):
        event.call("browse", search, query="a")
    run.discard()


# -- order ----------------------------------------------------------------------------------------


def test_events_are_flat() -> None:
    run = begin()
    with run.event(**NAMES):
        with pytest.raises(InvalidInput, match="flat"), run.event(**NAMES):
            pass
        with pytest.raises(InvalidInput, match="still open"):
            run.finish(PAYLOAD)
    with run.event(**NAMES):
        pass
    assert [event["index"] for event in run.trace["events"]] == [0, 1]
    run.finish(PAYLOAD)


def test_an_event_is_used_inside_its_block_and_once() -> None:
    run = begin()
    event = run.event(**NAMES)
    uses: list[Callable[[], object]] = [
        lambda: event.call("search", search, query="a"),
        lambda: event.model(str),
        lambda: event.guardrail("pii"),
    ]
    for _ in range(2):
        for use in uses:
            with pytest.raises(InvalidInput, match="not open"):
                use()
        if event.index < 0:
            with event:
                pass
    with pytest.raises(InvalidInput, match="has been"), event:
        pass
    assert len(run.trace["events"]) == 1
    run.discard()


def test_threads_get_a_clear_error_instead_of_calls_side_by_side() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def wait() -> str:
        inside.set()
        assert go_on.wait(30)
        return "done"

    run = begin()
    with ThreadPoolExecutor(1) as pool:
        event = run.event(**NAMES)
        with event:
            slow = pool.submit(event.call, "search", wait)
            assert inside.wait(30)
            with pytest.raises(InvalidInput, match="one after the other"):
                event.call("search", search, query="a")
            with pytest.raises(InvalidInput, match="flat"), run.event(**NAMES):
                pass
            go_on.set()
            assert slow.result(30) == "done"
            assert event.call("search", search, query="a") == ["a", "a"]
    assert len(run.trace["events"][0]["tool_calls"]) == 2
    run.discard()


def test_a_function_may_retrieve_unless_a_replay_would_miss_it(tmp_path: Path) -> None:
    def remember() -> str:
        run.retrieval(retrieval)
        event.guardrail("pii")
        return "done"

    run = begin()
    with run.event(**NAMES) as event:
        assert event.call("search", remember) == "done"
    assert run.trace["events"][0]["retrieval_event_ids"] == ["retrieval-0"]
    run.discard()

    run = begin(recording=Recording(tmp_path / "r.jsonl", memory_snapshot_id="main:0:none"))
    with run.event(**NAMES) as event:
        with pytest.raises(InvalidInput, match="replay calls no function"):
            event.call("search", remember)
        with pytest.raises(InvalidInput, match="replay calls no function"):
            event.call("search", lambda: event.guardrail("pii"))
        with pytest.raises(InvalidInput, match="would not write"):
            event.call("search", lambda: run.check_replayable("write"))
        run.check_replayable("write")
    assert run.retrieval_trace["events"] == []
    run.discard()


def test_a_retrieval_that_could_not_be_told_takes_no_number() -> None:
    def fail(**ids: str) -> dict[str, Any]:
        raise KeyError("x")

    run = begin()
    with pytest.raises(KeyError):
        run.retrieval(fail)
    run.retrieval(retrieval)
    assert run.trace["events"][0]["retrieval_event_ids"] == ["retrieval-0"]
    run.discard()


# -- what is refused ------------------------------------------------------------------------------


def test_after_its_end_a_run_tells_nothing_more() -> None:
    run = begin()
    with run.event(**NAMES) as event:
        pass
    run.finish(PAYLOAD)
    told = run.trace
    uses: list[Callable[[], object]] = [
        lambda: run.event(**NAMES).__enter__(),
        lambda: run.retrieval(retrieval),
        lambda: run.output({"type": "none"}),
        lambda: run.finish(PAYLOAD),
        lambda: event.guardrail("pii"),
    ]
    for use in uses:
        with pytest.raises(InvalidInput):
            use()
    run.discard()
    assert run.trace == told


def test_a_run_has_one_output() -> None:
    run = begin()
    with pytest.raises(InvalidInput):
        run.output({"type": "unknown"})
    run.output({"type": "none"})
    with pytest.raises(InvalidInput, match="already"):
        run.output({"type": "none"})
    run.discard()


MODELS = {
    "none": (None, True),
    "seeded": (SEEDED, True),
    "guaranteed": (ModelConfig("acme", "m", deterministic_provider=True), True),
    "unfixed": (ModelConfig("acme", "large-1", temperature=0), False),
    "stochastic": (ModelConfig("acme", "large-1", stochastic_unseeded=True), False),
}


@pytest.mark.parametrize("mode", ["off", "read_only", "buffered_write", "live_read_write"])
@pytest.mark.parametrize("model", MODELS)
def test_every_mode_takes_every_model_and_the_trace_says_whether_it_was_fixed(
    mode: str, model: str
) -> None:
    config, is_fixed = MODELS[model]
    run = begin(mode=mode, model=config)
    run.finish(PAYLOAD)
    metadata = run.trace["metadata"]
    assert (metadata["model_fixed"], metadata["replayed"]) == (is_fixed, False)
    assert metadata["model"] == (None if config is None else config.to_dict())
    assert metadata["tools"] == [ToolProfile("search", "1").to_dict()]


def test_the_trace_names_its_model_s_replies_its_payload_and_its_recording(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    run = begin(recording=Recording(path, memory_snapshot_id="main:0:none"))
    with run.event(**NAMES) as event:
        event.model(lambda: {"text": "a"})
        event.call("search", search, query="no model")
    with run.event(**NAMES) as event, pytest.raises(ZeroDivisionError):
        event.model(lambda: 1 // 0)
    soon = run.trace["metadata"]
    run.finish(PAYLOAD)
    metadata = run.trace["metadata"]
    message = "integer division or modulo by zero"
    failed = '{"error":{"message":"' + message + '","type":"ZeroDivisionError"}}'
    assert metadata["model_replies"] == [hashed('{"text":"a"}'), hashed(failed)]
    assert metadata["recording"] == sha256(path.read_bytes()).hexdigest()
    assert (metadata["commit_payload_fingerprint"], metadata["discarded"]) == (PAYLOAD, False)
    # Before the end, what only the end can tell is not there.
    assert soon == {**metadata, "recording": None, "commit_payload_fingerprint": None}


@pytest.mark.parametrize(
    "wrong",
    [
        {"run_id": "../r"},
        {"run_id": ".r"},
        {"run_id": "r" * 101},
        {"workflow_id": ""},
        {"policy_set_id": None},
        {"mode": "write"},
        {"model": "large-1"},
        {"tools": ["search"]},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_no_run_can_be_told_by_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        begin(folder=tmp_path, **wrong)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", list(NAMES))
@pytest.mark.parametrize(
    "wrong", ["", None, "x" * 1_025, "\ud800"], ids=["empty", "none", "long", "surrogate"]
)
def test_an_event_has_names(name: str, wrong: Any) -> None:
    run = begin()
    with pytest.raises(InvalidInput):
        run.event(**{**NAMES, name: wrong})
    run.discard()


def test_an_event_has_so_many_parts_and_no_more() -> None:
    run = begin()
    with run.event(**NAMES) as event:
        for _ in range(EVENT_PARTS_MAX):
            event.guardrail("pii")
        with pytest.raises(LimitExceeded, match="another event"):
            event.guardrail("pii")
    run.discard()
