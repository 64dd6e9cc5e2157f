import os
import subprocess
import sys
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote import check_trace
from rote.errors import InvalidValue, LimitExceeded
from rote.traces import documents, reports
from rote.traces.artifacts import _type_of, _typed
from rote.traces.conformance import conform
from rote.traces.reports import Failures
from rote.values import canonical, decode
from rote.values.limits import DEPTH_MAX, TRACE_BYTES_MAX
from tests.lanes import examples
from tests.unit.traces.traces import Change, changed, changing, good_run, place, without

EVENT = ("trace", "events", 1)
CALL = (*EVENT, "tool_calls", 0)
EFFECT = (*EVENT, "tool_calls", 1)
ASKED = ("retrieval", "events", 1)
RECORD = (*ASKED, "selected_records", 1)

TEXTS = [
    ("trace", "run_id"), ("trace", "workflow_id"), ("trace", "memory_snapshot_id"),
    ("trace", "model_config_id"), ("trace", "policy_set_id"),
    (*EVENT, "event_id"), (*EVENT, "role"), (*EVENT, "interceptor"), (*EVENT, "decision_type"),
    (*CALL, "tool_name"), (*CALL, "tool_profile_version"), ("trace", "output", "output_type"),
    (*ASKED, "retrieval_event_id"), (*ASKED, "run_id"), (*ASKED, "event_id"),
    (*ASKED, "policy_id"), (*ASKED, "policy_version"), (*ASKED, "query_normalization_version"),
    (*ASKED, "retrieval_mode"), (*RECORD, "record_id"), (*RECORD, "record_type"),
]  # fmt: skip
HASHES = [
    (*CALL, "tool_result_fingerprint"), (*EFFECT, "side_effect_fingerprint"),
    ("trace", "output", "output_shape_hash"), (*ASKED, "query_fingerprint"),
]  # fmt: skip
VERSIONS = [
    ("trace", "determinism_trace_schema_version"),
    ("trace", "contract_versions", "retrieval_trace"),
    ("trace", "contract_versions", "tool_profile"),
    ("trace", "contract_versions", "buffer_state_machine"),
    ("trace", "contract_versions", "normalization"),
    (*CALL, "normalization_version"), ("trace", "output", "normalization_version"),
    ("retrieval", "retrieval_trace_schema_version"),
]  # fmt: skip
INTEGERS = [
    (*EVENT, "index"), (*ASKED, "candidate_count"), (*RECORD, "rank"),
    ("trace", "metadata", "events_dropped"), ("retrieval", "metadata", "events_dropped"),
]  # fmt: skip
BOOLEANS = [
    (*CALL, "side_effect_required"), ("trace", "metadata", "truncated"),
    ("retrieval", "metadata", "truncated"),
]  # fmt: skip
OBJECTS = [
    ("trace", "contract_versions"), ("trace", "output"), ("trace", "metadata"), EVENT, CALL,
    (*CALL, "normalized_args"), ("retrieval", "metadata"), ASKED, RECORD,
    (*ASKED, "applied_filters"),
]  # fmt: skip
LISTS = [
    ("trace", "events"), (*EVENT, "tool_calls"), (*EVENT, "guardrails_triggered"),
    (*EVENT, "retrieval_event_ids"), ("retrieval", "events"), (*ASKED, "selected_records"),
]  # fmt: skip
METADATA = ("trace", "metadata")
# Members that may be missing.
OPTIONAL_BOOLEANS = [(*METADATA, name) for name in ("model_fixed", "replayed", "discarded")]
OPTIONAL_HASHES = [(*METADATA, name) for name in ("recording", "commit_payload_fingerprint")]
REPLIES = (*METADATA, "model_replies")
SCORE = (*RECORD, "score")
FILTERS = [
    (*ASKED, "applied_filters", name) for name in ("namespace", "tags", "trust", "scope", "ttl")
]
REQUIRED = [
    *TEXTS, *HASHES, *VERSIONS, *INTEGERS, *BOOLEANS, *FILTERS, *LISTS, SCORE, ("trace", "visibility_mode"),
    ("trace", "contract_versions"), ("trace", "output"), ("trace", "metadata"),
    (*CALL, "normalized_args"), ("retrieval", "metadata"), (*ASKED, "applied_filters"),
]  # fmt: skip
# Places whose change breaks a link too, which is reported beside it.
LINKED = {"event_id", "retrieval_event_id", "run_id", "events", "retrieval_event_ids", "record_id"}


def codes_of(run: Any) -> list[str]:
    report = check_trace(run["trace"], run["retrieval"])
    assert report.ok is (report.status == "valid") is (not report.failures)
    return [failure.code for failure in report.failures]


def pointer_to(path: tuple[str | int, ...]) -> str:
    return "".join(f"/{step}" for step in path[1:])


def assert_told(path: tuple[str | int, ...], change: Change, word: str) -> None:
    """Check for exactly one failure with the code, at the place; linked places may report their links too."""
    run = changing(change)
    report = check_trace(run["trace"], run["retrieval"])
    code = f"{path[0]}:{word}"
    told = [(failure.code, failure.pointer) for failure in report.failures]
    assert told.count((code, pointer_to(path))) == 1, told
    rest = {each for each, _ in told} - {code}
    is_linked = path[-1] in LINKED or path in (EVENT, ASKED)
    assert rest <= ({"trace:link", "retrieval:link", "retrieval:missing"} if is_linked else set())


def name(path: tuple[str | int, ...]) -> str:
    return "/".join(map(str, path))


def test_a_good_trace_is_fit() -> None:
    run = good_run()
    report = check_trace(run["trace"], run["retrieval"])
    assert report.to_dict() == {"ok": True, "status": "valid", "failures": []}
    assert check_trace(canonical(run["trace"]), canonical(run["retrieval"]).decode()) == report


@pytest.mark.parametrize("path", REQUIRED, ids=name)
def test_what_is_missing_is_told(path: tuple[str | int, ...]) -> None:
    assert_told(path, without(*path), "missing")


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_a_text_is_a_text_and_not_empty(path: tuple[str | int, ...]) -> None:
    wrongs: list[Any] = [None, 1, True, ["x"], {}]
    for wrong in wrongs:
        assert_told(path, changed(*path, to=wrong), "type")
    assert_told(path, changed(*path, to=""), "value")


@pytest.mark.parametrize("path", HASHES, ids=name)
def test_a_fingerprint_has_64_lowercase_digits(path: tuple[str | int, ...]) -> None:
    assert_told(path, changed(*path, to=64), "type")
    for wrong in ("", "a" * 63, "a" * 65, "A" * 64, "g" * 64, "a" * 63 + "\n", "a" * 64 + "\n"):
        assert_told(path, changed(*path, to=wrong), "value")


@pytest.mark.parametrize("path", VERSIONS, ids=name)
def test_a_version_is_the_one_that_is_known(path: tuple[str | int, ...]) -> None:
    assert_told(path, changed(*path, to="memory.other.v2"), "version")
    assert_told(path, changed(*path, to=1), "type")


@pytest.mark.parametrize("path", INTEGERS, ids=name)
def test_an_integer_is_neither_true_nor_a_text(path: tuple[str | int, ...]) -> None:
    for wrong in (True, "1", None, 1.5, [1]):
        assert_told(path, changed(*path, to=wrong), "type")


@pytest.mark.parametrize("path", BOOLEANS, ids=name)
def test_a_switch_is_true_or_false(path: tuple[str | int, ...]) -> None:
    for wrong in (0, "true", None):
        assert_told(path, changed(*path, to=wrong), "type")


@pytest.mark.parametrize("path", OPTIONAL_BOOLEANS, ids=name)
def test_a_switch_that_may_be_missing_is_true_or_false(path: tuple[str | int, ...]) -> None:
    wrongs: list[Any] = [0, 1, "false", None, [], {}]
    for wrong in wrongs:
        assert_told(path, changed(*path, to=wrong), "type")


@pytest.mark.parametrize("path", OPTIONAL_HASHES, ids=name)
def test_a_fingerprint_that_may_be_missing_has_64_digits_or_is_null(
    path: tuple[str | int, ...],
) -> None:
    wrongs: list[Any] = [0, False, [], {}]
    for wrong in wrongs:
        assert_told(path, changed(*path, to=wrong), "type")
    for text in ("", "A" * 64, "a" * 65):
        assert_told(path, changed(*path, to=text), "value")


def test_replies_are_a_list_of_fingerprints() -> None:
    wrongs: list[Any] = [None, "a" * 64, {}, 1]
    for wrong in wrongs:
        assert_told(REPLIES, changed(*REPLIES, to=wrong), "type")
    assert_told((*REPLIES, 1), changed(*REPLIES, to=["a" * 64, 5]), "type")
    assert_told((*REPLIES, 1), changed(*REPLIES, to=["a" * 64, ""]), "value")


def test_an_unfixed_model_is_refused_with_what_to_do() -> None:
    run = changing(changed(*METADATA, "model_fixed", to=False))
    [failure] = check_trace(run["trace"], run["retrieval"]).failures
    assert (failure.code, failure.pointer) == ("trace:model", "/metadata/model_fixed")
    assert (failure.left, failure.right) == (False, True)
    for advice in ("a seed", "deterministic_provider=True", "compare it with its replay"):
        assert advice in failure.message


def test_a_report_says_that_a_trace_is_cut() -> None:
    for part in ("trace", "retrieval"):
        run = changing(changed(part, "metadata", "truncated", to=True))
        report = check_trace(run["trace"], run["retrieval"])
        told = {"ok": True, "status": "valid", "failures": [], "truncated": True}
        assert report.to_dict() == told


@pytest.mark.parametrize("path", [*OBJECTS, *LISTS], ids=name)
def test_a_container_is_of_its_kind(path: tuple[str | int, ...]) -> None:
    other: Any = {} if path in LISTS else []
    for wrong in (other, "x", 1, None):
        assert_told(path, changed(*path, to=wrong), "type")


@pytest.mark.parametrize("wrong", [None, True, "1", [1]])
def test_a_score_is_a_number(wrong: Any) -> None:
    assert_told(SCORE, changed(*SCORE, to=wrong), "type")


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 10**400])
def test_a_score_is_finite(wrong: Any) -> None:
    assert_told(SCORE, changed(*SCORE, to=wrong), "value")


@pytest.mark.parametrize(
    "wrong", [*({"x"}, b"x", object(), (1, {2}), {1: 2}), "\ud800", 2**64, float("nan")]
)
def test_data_that_is_no_value_is_told_where_it_is(wrong: Any) -> None:
    run = changing(changed(*CALL, "normalized_args", to={"a": wrong}))
    [failure] = check_trace(run["trace"], run["retrieval"]).failures
    assert failure.code == "trace:value"
    assert failure.pointer.startswith(f"{pointer_to(CALL)}/normalized_args/a")


@pytest.mark.parametrize("whole", [None, [], b"[]", 1, True, object(), float("nan")])
def test_what_is_no_object_is_no_trace(whole: Any) -> None:
    run = good_run()
    assert "trace:type" in [f.code for f in check_trace(whole, run["retrieval"]).failures]
    if whole is not None:
        assert "retrieval:type" in [f.code for f in check_trace(run["trace"], whole).failures]


RULES: list[tuple[str, str, Change]] = [
    ("live", "trace:mode", changed("trace", "visibility_mode", to="live_read_write")),
    ("unfixed model", "trace:model", changed(*METADATA, "model_fixed", to=False)),
    ("not even replayed", "trace:model",
     lambda run: place(run, *METADATA).update(model_fixed=False, replayed=False)),
    ("no mode", "trace:mode", changed("trace", "visibility_mode", to="READ_ONLY")),
    ("index", "trace:index", changed(*EVENT, "index", to=2)),
    ("index twice", "trace:index", changed("trace", "events", 2, "index", to=1)),
    ("index below 0", "trace:index", changed("trace", "events", 0, "index", to=-1)),
    ("no index", "trace:index", changed("trace", "events", 0, "index", to=1e20)),
    ("fewer than none", "trace:value", changed("trace", "metadata", "events_dropped", to=-1)),
    ("effect without need", "trace:value", changed(*CALL, "side_effect_fingerprint", to="a" * 64)),
    ("need without effect", "trace:value", changed(*EFFECT, "side_effect_fingerprint", to=None)),
    ("effect not needed", "trace:value", changed(*EFFECT, "side_effect_required", to=False)),
    ("quietly cut", "trace:value", changed("trace", "metadata", "events_dropped", to=3)),
    ("quietly cut", "retrieval:value", changed("retrieval", "metadata", "events_dropped", to=3)),
    ("quietly cut", "trace:value", changed("trace", "metadata", "events_dropped", to=3.0)),
    ("event id twice", "trace:link", changed("trace", "events", 2, "event_id", to="run-1/0")),
    ("named twice", "trace:link",
     changed("trace", "events", 2, "retrieval_event_ids", to=["run-1/retrieval/0"])),
    ("named, not there", "trace:link",
     changed("trace", "events", 2, "retrieval_event_ids", to=["run-1/retrieval/9"])),
    ("row is gone", "trace:link", without(*ASKED)),
    ("not named", "retrieval:link", changed(*EVENT, "retrieval_event_ids", to=[])),
    ("row twice", "retrieval:link",
     lambda run: run["retrieval"]["events"].append(deepcopy(run["retrieval"]["events"][0]))),
    ("other event", "retrieval:link", changed(*ASKED, "event_id", to="run-1/2")),
    ("other run", "retrieval:link", changed(*ASKED, "run_id", to="run-2")),
    ("no retrieval trace", "retrieval:missing", changed("retrieval", to=None)),
    ("more than there are", "retrieval:value", changed(*ASKED, "candidate_count", to=2)),
    ("more than there are", "retrieval:value", changed(*ASKED, "candidate_count", to=2.0)),
    ("fewer than none", "retrieval:value", changed(*ASKED, "candidate_count", to=-1)),
    ("record twice", "retrieval:value", changed(*ASKED, "selected_records", 2, "record_id", to="a")),
    ("rank", "retrieval:order", changed(*RECORD, "rank", to=3)),
    ("rank from 1", "retrieval:order", changed(*ASKED, "selected_records", 0, "rank", to=0)),
    ("score order", "retrieval:order", changed(*RECORD, "score", to=2.5)),
    ("id order", "retrieval:order", changed(*RECORD, "record_id", to="d")),
    ("score order at 9 decimals", "retrieval:order",
     changed(*ASKED, "selected_records", 2, "score", to=1.000000001)),
    ("reversed", "retrieval:order", lambda run: place(run, *ASKED)["selected_records"].reverse()),
    ("guardrail", "trace:value", changed(*EVENT, "guardrails_triggered", to=[""])),
    ("guardrail", "trace:type", changed(*EVENT, "guardrails_triggered", to=[1])),
    ("equal keys", "trace:value",
     changed(*CALL, "normalized_args", to={"caf\u00e9": 1, "cafe\u0301": 2})),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "change"),
    [rule[1:] for rule in RULES],
    ids=[f"{rule[0]}, {rule[1]}" for rule in RULES],
)
def test_a_broken_rule_is_told_with_its_code_alone(code: str, change: Change) -> None:
    run = changing(change)
    assert set(codes_of(run)) == {code}
    # The same for a trace that comes as text.
    text = {key: None if part is None else canonical(part) for key, part in run.items()}
    assert codes_of(text) == codes_of(run)


ALLOWED: list[tuple[str, Change]] = [
    ("off", changed("trace", "visibility_mode", to="off")),
    ("read_only", changed("trace", "visibility_mode", to="read_only")),
    ("no events", lambda run: run.update(
        trace={**run["trace"], "events": []}, retrieval={**run["retrieval"], "events": []})),
    ("unknown members", lambda run: (
        run["trace"].update(extra=1), place(run, *CALL).update(extra={}),
        place(run, *RECORD).update(position=3), run["retrieval"]["metadata"].update(more=None))),
    ("truncated", changed("trace", "metadata", to={"truncated": True, "events_dropped": 9})),
    ("facts about the run", lambda run: place(run, *METADATA).update(
        model_fixed=True, replayed=True, recording="a" * 64, discarded=True,
        commit_payload_fingerprint="b" * 64, model_replies=["c" * 64, "d" * 64],
        model={"seed": 7}, tools=[{"tool_name": "search"}])),
    ("no facts about the run", lambda run: place(run, *METADATA).update(
        recording=None, commit_payload_fingerprint=None, model_replies=[])),
    ("replayed replies", lambda run: place(run, *METADATA).update(model_fixed=False, replayed=True)),
    ("scores equal at 9 decimals", changed(*ASKED, "selected_records", 2, "score", to=1.0000000001)),
    ("integers as scores", changed(*ASKED, "selected_records", 0, "score", to=2)),
    ("another mode of retrieval", changed(*ASKED, "retrieval_mode", to="graph_walk")),
    ("filters of any form", changed(*ASKED, "applied_filters", "tags", to=["x", {"any": 1}])),
    ("no arguments", changed(*CALL, "normalized_args", to={})),
    ("1.0 is 1", changed(*EVENT, "index", to=1.0)),
    ("as many as there were", changed(*ASKED, "candidate_count", to=3)),
    ("nothing found", lambda run: place(run, *ASKED).update(selected_records=[], candidate_count=0)),
    ("arguments that are not normal", changed(*CALL, "normalized_args", to={"cafe\u0301": 1})),
]  # fmt: skip


@pytest.mark.parametrize("change", [each[1] for each in ALLOWED], ids=[each[0] for each in ALLOWED])
def test_what_is_allowed_is_not_told(change: Change) -> None:
    run = changing(change)
    assert codes_of(run) == []
    assert codes_of({key: canonical(part) for key, part in run.items()}) == []


def test_1_point_0_in_text_is_1() -> None:
    run = good_run()
    text = canonical(run["trace"]).replace(b'"index":1', b'"index":1.0')
    assert check_trace(text, run["retrieval"]).ok


def test_a_trace_without_retrievals_needs_no_retrieval_trace() -> None:
    run = good_run()
    for event in run["trace"]["events"]:
        event["retrieval_event_ids"] = []
    assert check_trace(run["trace"]).ok


@pytest.mark.parametrize("part", ["trace", "retrieval"])
def test_a_large_artifact_must_say_that_it_is_truncated(part: str) -> None:
    run = good_run()
    run[part]["padding"] = "x" * TRACE_BYTES_MAX
    assert codes_of(run) == [f"{part}:size"]
    run[part]["metadata"]["truncated"] = True
    assert codes_of(run) == []
    run[part]["metadata"]["truncated"] = False
    larger = 2 * TRACE_BYTES_MAX
    assert check_trace(run["trace"], run["retrieval"], size_bytes_max=larger).ok


def test_the_size_of_text_is_that_of_the_text() -> None:
    trace = canonical(good_run()["trace"])
    spaces = b" " * (TRACE_BYTES_MAX - len(trace))
    retrieval = good_run()["retrieval"]
    assert check_trace(trace + spaces, retrieval).ok
    [failure] = check_trace(trace + spaces + b" ", retrieval).failures
    assert (failure.code, failure.left) == ("trace:size", TRACE_BYTES_MAX + 1)


def test_all_failures_are_listed() -> None:
    run = good_run()
    del run["trace"]["workflow_id"]
    run["trace"]["events"][1]["index"] = 5
    del run["trace"]["events"][1]["role"]
    run["retrieval"]["events"][0]["candidate_count"] = "3"
    run["trace"]["visibility_mode"] = "live_read_write"
    assert sorted(codes_of(run)) == [
        "retrieval:type", "trace:index", "trace:missing", "trace:missing", "trace:mode",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("member", "wrong"), [("run_id", "run-2"), ("event_id", "run-1/none"), ("event_id", "run-2/1")]
)
def test_a_retrieval_event_without_its_id_is_linked_too(member: str, wrong: str) -> None:
    """The event's other links were not checked."""
    run = changing(changed(*ASKED, member, to=wrong))
    del place(run, *ASKED)["retrieval_event_id"]
    report = check_trace(run["trace"], run["retrieval"])
    assert [(failure.code, failure.pointer) for failure in report.failures] == [
        ("retrieval:missing", "/events/1/retrieval_event_id"),
        ("retrieval:link", f"/events/1/{member}"),
        ("trace:link", "/events/1/retrieval_event_ids/0"),
    ]


NAN = float("nan")


def test_what_is_no_value_is_told_at_each_place() -> None:
    """The first one hid all others, and keys that become one."""
    run = good_run()
    for event in run["trace"]["events"]:
        event["tool_calls"][0]["normalized_args"] = {"a": NAN}
    place(run, *EFFECT)["normalized_args"] = {"caf\u00e9": 1, "cafe\u0301": 2}
    place(run, *EFFECT)["extra"] = object()
    run["trace"]["events"][2]["zone"] = {1: 2}
    run["trace"]["zone"] = [2**64]
    for event in run["retrieval"]["events"]:
        event["zone"] = NAN
    report = check_trace(run["trace"], run["retrieval"])
    assert sorted((failure.code, failure.pointer) for failure in report.failures) == [
        ("retrieval:value", "/events/0/zone"),
        ("retrieval:value", "/events/1/zone"),
        ("trace:value", "/events/0/tool_calls/0/normalized_args/a"),
        ("trace:value", "/events/1/tool_calls/0/normalized_args/a"),
        ("trace:value", "/events/1/tool_calls/1/extra"),
        ("trace:value", "/events/1/tool_calls/1/normalized_args/caf\u00e9"),
        ("trace:value", "/events/2/tool_calls/0/normalized_args/a"),
        ("trace:value", "/events/2/zone"),
        ("trace:value", "/zone/0"),
    ]


def test_arguments_where_none_are_expected_must_be_values_too() -> None:
    """Arguments of calls have a rule of their own, which looks at calls only."""
    odd = [{"normalized_args": {"a": NAN}}]
    for event in (EVENT, ASKED):
        for name in ("tool_calls", "others"):
            if (*event, name) == (*EVENT, "tool_calls"):
                continue
            run = changing(changed(*event, name, to=odd))
            [failure] = check_trace(run["trace"], run["retrieval"]).failures
            assert failure.code == f"{event[0]}:value"
            assert failure.pointer == f"/events/1/{name}/0/normalized_args/a"


def test_a_retrieval_trace_that_is_missing_is_asked_for_by_its_parameter() -> None:
    [failure] = check_trace(good_run()["trace"]).failures
    assert failure.message == (
        "the trace has retrieval events, so its retrieval trace is needed too;"
        " give it as retrieval=run.retrieval_trace"
    )


def test_a_failure_shows_what_is_there_and_what_must_be() -> None:
    run = changing(changed(*EVENT, "role", to=5))
    [failure] = check_trace(run["trace"], run["retrieval"]).failures
    assert (failure.left, failure.right) == (5, "a text that is not empty")
    assert failure.message == "/events/1/role must be a text that is not empty"


def test_values_in_a_report_are_short_and_not_those_of_the_caller() -> None:
    run = changing(changed(*EVENT, "role", to={"a": [1]}))
    [failure] = check_trace(run["trace"], run["retrieval"]).failures
    run["trace"]["events"][1]["role"]["a"].append(2)
    assert failure.left == {"a": [1]}
    run = changing(changed(*EVENT, "role", to=["x" * 5_000_000]))
    [failure] = check_trace(run["trace"], run["retrieval"]).failures
    assert len(canonical(failure.left)) < 2_000


def test_a_report_is_bounded_and_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "TRACE_FAILURES_MAX", 100)
    run = good_run()
    run["trace"]["events"] = [[]] * 110
    report = check_trace(run["trace"], {**run["retrieval"], "events": []})
    assert (len(report.failures), report.more) == (100, 10)
    assert report.to_dict()["more"] == 10


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[1,]", b'{"a":1,"a":2}', b"\xff", b'"\\ud800"', b"NaN", b"\xef\xbb\xbf{}",
     b"[" * 1_000 + b"]" * 1_000, b"1" * 5_000],
)  # fmt: skip
def test_text_that_is_no_json_cannot_be_read(text: bytes) -> None:
    run = good_run()
    for arguments in ((text, None), (run["trace"], text)):
        with pytest.raises((InvalidValue, LimitExceeded)):
            check_trace(*arguments)


def test_cycles_and_depth_are_told_and_not_followed() -> None:
    cycle: Any = {}
    cycle["a"] = cycle
    deep: Any = {}
    for _ in range(DEPTH_MAX):
        deep = {"a": deep}
    for arguments in (cycle, deep):
        run = changing(changed(*CALL, "normalized_args", to=arguments))
        assert codes_of(run) == ["trace:value"]
    assert check_trace(cycle).status == "invalid"


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3),
              st.sampled_from(["read_only", "json-v1", "a" * 64, "run-1/0", b"x"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip


def every_place(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner: Any = value.items() if type(value) is dict else []
    inner = enumerate(value) if type(value) is list else inner
    return [path, *(each for key, part in inner for each in every_place(part, (*path, key)))]


PLACES = [path for path in every_place(good_run()) if path]


@settings(max_examples=examples(120, 20_000))
@given(path=st.sampled_from([*PLACES, *OPTIONAL_BOOLEANS, *OPTIONAL_HASHES, REPLIES]), junk=JUNK)
def test_junk_at_any_place_never_crashes_and_both_ways_to_judge_agree(
    path: tuple[str | int, ...], junk: Any
) -> None:
    """The typed decoder, which is fast, and the walk, which finds the reason, judge the same."""
    run = changing(changed(*path, to=junk))
    try:
        check_trace(run["trace"], run["retrieval"])
    except InvalidValue:
        assert len(path) == 1  # the whole is a text that cannot be read
        assert isinstance(junk, str | bytes)
        return
    kinds: dict[str, Any] = {
        "trace": documents.DeterminismTrace,
        "retrieval": documents.RetrievalTrace,
    }
    for part, kind in kinds.items():
        try:
            data = canonical(run[part])
        except InvalidValue:
            continue
        failures = Failures()
        conform(decode(data), _type_of(kind), "", part, failures)
        assert (_typed(data, kind) is None) is (len(failures) > 0)


def test_a_report_is_the_same_under_every_hash_seed() -> None:
    script = (
        "from rote import check_trace, canonical;"
        "from tests.unit.traces.traces import good_run;"
        "r = good_run(); r['trace']['events'] = [{}, r['trace']['events'][0]];"
        "r['retrieval']['events'][1] = {};"
        "print(canonical(check_trace(r['trace'], r['retrieval']).to_dict()).decode())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True, timeout=60,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(said) == 1
    assert "trace:missing" in said.pop()
