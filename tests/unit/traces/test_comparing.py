from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote import compare_traces
from rote.errors import InvalidInput, InvalidValue
from rote.traces import Report
from rote.traces.formats import CONTRACT_VERSIONS
from rote.values import canonical
from tests.lanes import examples
from tests.unit.traces.test_checking import PLACES, RULES
from tests.unit.traces.traces import Change, changed, changing, good_run, place, without

EVENT = ("trace", "events", 1)
CALL = (*EVENT, "tool_calls", 0)
EFFECT = (*EVENT, "tool_calls", 1)
ASKED = ("retrieval", "events", 1)
OTHER = "0" * 64


def compared(left: Any, right: Any, level: Any = "contract") -> Report:
    return compare_traces(
        left["trace"], right["trace"],
        left_retrieval=left["retrieval"], right_retrieval=right["retrieval"], level=level,
    )  # fmt: skip


def codes_of(report: Report) -> list[str]:
    return [failure.code for failure in report.failures]


def test_two_runs_that_did_the_same_are_equivalent_whatever_their_ids() -> None:
    report = compared(good_run("left"), good_run("right"))
    assert report.to_dict() == {
        "ok": True, "status": "equivalent", "failures": [], "level": "contract",
    }  # fmt: skip


def drop_last(run: Any) -> None:
    run["trace"]["events"].pop()


def drop_retrieval(run: Any) -> None:
    run["trace"]["events"][1]["retrieval_event_ids"].pop()
    run["retrieval"]["events"].pop()


def move_retrieval(run: Any) -> None:
    moved = run["trace"]["events"][1]["retrieval_event_ids"].pop()
    run["trace"]["events"][2]["retrieval_event_ids"].append(moved)
    run["retrieval"]["events"][1]["event_id"] = run["trace"]["events"][2]["event_id"]


def other_records(run: Any) -> None:
    place(run, *ASKED)["selected_records"][2]["record_id"] = "d"


def equal_scores(run: Any) -> None:
    records = place(run, *ASKED)["selected_records"]
    records[0]["score"] = 1.0
    records.sort(key=lambda record: record["record_id"])
    for rank, record in enumerate(records, 1):
        record["rank"] = rank


def more_calls(run: Any) -> None:
    place(run, *EVENT)["tool_calls"].append(place(run, *CALL))


def fewer_calls_and_another(run: Any) -> None:
    place(run, *EVENT)["tool_calls"].pop()
    place(run, *CALL)["tool_name"] = "find"


def without_effect(run: Any) -> None:
    place(run, *EFFECT).update(side_effect_required=False, side_effect_fingerprint=None)


DIFFERENCES: list[tuple[list[str], str, Change]] = [
    (["events_length_mismatch"], "/events", drop_last),
    (["event_mismatch:1:role"], "/events/1/role", changed(*EVENT, "role", to="critic")),
    (["event_mismatch:1:interceptor"], "/events/1/interceptor",
     changed(*EVENT, "interceptor", to="after_tool")),
    (["event_mismatch:1:decision_type"], "/events/1/decision_type",
     changed(*EVENT, "decision_type", to="reply")),
    (["tool_count_mismatch:1"], "/events/1/tool_calls", more_calls),
    (["tool_count_mismatch:1", "tool_name_mismatch:1:0"], "/events/1/tool_calls",
     fewer_calls_and_another),
    (["tool_name_mismatch:1:0"], "/events/1/tool_calls/0/tool_name",
     changed(*CALL, "tool_name", to="find")),
    (["tool_args_mismatch:1:0"], "/events/1/tool_calls/0/normalized_args",
     changed(*CALL, "normalized_args", "", "limit", to=2)),
    (["tool_result_fingerprint_mismatch:1:0"], "/events/1/tool_calls/0/tool_result_fingerprint",
     changed(*CALL, "tool_result_fingerprint", to=OTHER)),
    (["side_effect_fingerprint_mismatch:1:1"], "/events/1/tool_calls/1/side_effect_fingerprint",
     changed(*EFFECT, "side_effect_fingerprint", to=OTHER)),
    (["side_effect_fingerprint_mismatch:1:1"], "/events/1/tool_calls/1/side_effect_fingerprint",
     without_effect),
    (["tool_profile_mismatch:1:0"], "/events/1/tool_calls/0/tool_profile_version",
     changed(*CALL, "tool_profile_version", to="2")),
    (["guardrails_mismatch:1"], "/events/1/guardrails_triggered",
     changed(*EVENT, "guardrails_triggered", to=["pii", "length", "length"])),
    (["guardrails_mismatch:1"], "/events/1/guardrails_triggered",
     changed(*EVENT, "guardrails_triggered", to=[])),
    (["retrieval_length_mismatch"], "/events", drop_retrieval),
    (["retrieval_mismatch:1:policy_id"], "/events/1/policy_id", changed(*ASKED, "policy_id", to="x")),
    (["retrieval_mismatch:1:policy_version"], "/events/1/policy_version",
     changed(*ASKED, "policy_version", to="x")),
    (["retrieval_mismatch:1:query_normalization_version"], "/events/1/query_normalization_version",
     changed(*ASKED, "query_normalization_version", to="x")),
    (["retrieval_mismatch:1:query_fingerprint"], "/events/1/query_fingerprint",
     changed(*ASKED, "query_fingerprint", to=OTHER)),
    (["retrieval_mismatch:1:retrieval_mode"], "/events/1/retrieval_mode",
     changed(*ASKED, "retrieval_mode", to="vector_direct")),
    (["retrieval_mismatch:1:event_index"], "/events/1/event_id", move_retrieval),
    (["retrieval_record_order_mismatch:1"], "/events/1/selected_records", other_records),
    (["retrieval_record_order_mismatch:1"], "/events/1/selected_records", equal_scores),
    (["output_mismatch:output_type"], "/output/output_type",
     changed("trace", "output", "output_type", to="text")),
    (["output_mismatch:output_shape_hash"], "/output/output_shape_hash",
     changed("trace", "output", "output_shape_hash", to=OTHER)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("codes", "pointer", "change"),
    DIFFERENCES,
    ids=[f"{d[0][0]} {d[2].__name__}" for d in DIFFERENCES],
)
def test_a_difference_is_told_with_its_code_and_its_place(
    codes: list[str], pointer: str, change: Change
) -> None:
    left, right = good_run("left"), changing(change, "right")
    report = compared(left, right)
    assert (report.ok, report.status, codes_of(report)) == (False, "different", codes)
    assert report.failures[0].pointer == pointer
    assert report.failures[0].left != report.failures[0].right
    # The other way round there is the same difference, with the values exchanged.
    mirrored = compared(right, left)
    assert codes_of(mirrored) == codes
    assert mirrored.failures[0].left == report.failures[0].right
    # The same in text, byte for byte.
    texts = [{key: canonical(part) for key, part in run.items()} for run in (left, right)]
    assert canonical(compared(*texts).to_dict()) == canonical(report.to_dict())


def test_everything_that_differs_is_told_by_index() -> None:
    changes = [
        changed("trace", "events", 2, "role", to="critic"),
        changed("trace", "events", 0, "tool_calls", 1, "tool_name", to="x"),
        changed("trace", "events", 0, "role", to="critic"),
        changed("trace", "output", "output_type", to="x"),
        changed("retrieval", "events", 0, "policy_id", to="x"),
    ]
    right = good_run("right")
    for change in changes:
        change(right)
    assert codes_of(compared(good_run("left"), right)) == [
        "event_mismatch:0:role", "tool_name_mismatch:0:1", "event_mismatch:2:role",
        "retrieval_mismatch:0:policy_id", "output_mismatch:output_type",
    ]  # fmt: skip


ARGUMENTS: list[tuple[str, Any, Any, bool]] = [
    ("key order", {"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ("order inside", {"x": {"a": 1, "b": 2}}, {"x": {"b": 2, "a": 1}}, True),
    ("normal forms of texts", {"a": "caf\u00e9"}, {"a": "cafe\u0301"}, True),
    ("normal forms of keys", {"caf\u00e9": 1}, {"cafe\u0301": 1}, True),
    ("7th decimal", {"a": 0.12345671}, {"a": 0.12345674}, True),
    ("6th decimal", {"a": 0.123456}, {"a": 0.123457}, False),
    ("1 and 1.0", {"a": 1}, {"a": 1.0}, True),
    ("1 and true", {"a": 1}, {"a": True}, False),
    ("0 and false", {"a": [0]}, {"a": [False]}, False),
    ("1 and text", {"a": 1}, {"a": "1"}, False),
    ("absent and null", {}, {"a": None}, False),
    ("list order", {"a": [1, 2]}, {"a": [2, 1]}, False),
    ("case", {"a": "x"}, {"a": "X"}, False),
]


@pytest.mark.parametrize(
    ("left", "right", "same"), [each[1:] for each in ARGUMENTS], ids=[each[0] for each in ARGUMENTS]
)
def test_arguments_are_compared_in_json_v1(left: Any, right: Any, same: bool) -> None:
    runs = [
        changing(changed(*CALL, "normalized_args", to=arguments)) for arguments in (left, right)
    ]
    assert codes_of(compared(*runs)) == ([] if same else ["tool_args_mismatch:1:0"])


def pretty(run: Any) -> Any:
    return {key: orjson.dumps(part, option=orjson.OPT_INDENT_2) for key, part in run.items()}


def test_white_space_and_escapes_in_text_do_not_matter() -> None:
    left, right = good_run("left"), good_run("right")
    text = pretty(right)
    text["trace"] = text["trace"].replace("é".encode(), b"\\u00e9")
    assert compared(left, text).ok


SAME: list[tuple[str, Change]] = [
    ("scores", changed(*ASKED, "selected_records", 0, "score", to=9.5)),
    ("candidates", changed(*ASKED, "candidate_count", to=99)),
    ("filters", changed(*ASKED, "applied_filters", "tags", to=["x"])),
    ("record types", changed(*ASKED, "selected_records", 0, "record_type", to="x")),
    ("unknown members", lambda run: (run["trace"].update(x=1), place(run, *CALL).update(x=1))),
    ("order of guardrails", changed(*EVENT, "guardrails_triggered", to=["length", "pii", "pii"])),
]


@pytest.mark.parametrize("change", [each[1] for each in SAME], ids=[each[0] for each in SAME])
def test_what_may_differ_is_not_told(change: Change) -> None:
    assert compared(good_run("left"), changing(change, "right")).status == "equivalent"


# -- level full ---------------------------------------------------------------------------------------

METADATA = ("trace", "metadata")
SCORES = (*ASKED, "selected_records")


def with_facts(run: str, change: Change = lambda run: None) -> Any:
    """Return a good run that says what it wrote and what its model replied, after a change."""
    made = good_run(run)
    replies = ["1" * 64, "2" * 64]
    made["trace"]["metadata"].update(commit_payload_fingerprint="3" * 64, model_replies=replies)
    change(made)
    return made


FULL: list[tuple[list[tuple[str, str, Any, Any]], Change]] = [
    ([("writes_mismatch", "/metadata/commit_payload_fingerprint", "3" * 64, OTHER)],
     changed(*METADATA, "commit_payload_fingerprint", to=OTHER)),
    ([("writes_mismatch", "/metadata/commit_payload_fingerprint", "3" * 64, None)],
     changed(*METADATA, "commit_payload_fingerprint", to=None)),
    ([("writes_mismatch", "/metadata/commit_payload_fingerprint", "3" * 64, None)],
     without(*METADATA, "commit_payload_fingerprint")),
    ([("model_reply_mismatch:1", "/metadata/model_replies/1", "2" * 64, OTHER)],
     changed(*METADATA, "model_replies", 1, to=OTHER)),
    ([("model_reply_mismatch:1", "/metadata/model_replies/1", "2" * 64, None)],
     changed(*METADATA, "model_replies", to=["1" * 64])),
    ([("model_reply_mismatch:0", "/metadata/model_replies/0", "1" * 64, "2" * 64),
      ("model_reply_mismatch:1", "/metadata/model_replies/1", "2" * 64, "1" * 64),
      ("model_reply_mismatch:2", "/metadata/model_replies/2", None, OTHER)],
     changed(*METADATA, "model_replies", to=["2" * 64, "1" * 64, OTHER])),
    ([("scores_mismatch:1", "/events/1/selected_records", {"b": 1.5}, {"b": 9.5})],
     changed(*SCORES, 0, "score", to=9.5)),
    ([("scores_mismatch:1", "/events/1/selected_records", {"b": 1.5}, {"b": 1.500000001})],
     changed(*SCORES, 0, "score", to=1.500000001)),
]  # fmt: skip


@pytest.mark.parametrize(("told", "change"), FULL)
def test_what_the_contract_leaves_out_is_told_by_the_full_level(told: Any, change: Change) -> None:
    left, right = with_facts("left"), with_facts("right", change)
    assert compared(left, right).status == "equivalent"
    report = compared(left, right, "full")
    assert report.status == "different"
    assert [(each.code, each.pointer, each.left, each.right) for each in report.failures] == told
    mirrored = compared(right, left, "full")
    assert codes_of(mirrored) == codes_of(report)
    assert [each.right for each in mirrored.failures] == [each.left for each in report.failures]


def test_a_report_says_its_level() -> None:
    left, right = (
        with_facts("left"),
        with_facts("right", changed(*METADATA, "model_replies", to=[])),
    )
    for level in ("contract", "full"):
        assert compared(left, left, level).to_dict() == {
            "ok": True, "status": "equivalent", "failures": [], "level": level,
        }  # fmt: skip
        assert compared(left, right, level).level == level
        ineligible = changing(changed("trace", "workflow_id", to="other"))
        assert compared(left, ineligible, level).to_dict()["level"] == level


@pytest.mark.parametrize("level", ["", "Full", "strict", None, 1, True, ["full"], {}])
def test_an_unknown_level_is_refused(level: Any) -> None:
    with pytest.raises(InvalidInput, match="there are contract, full"):
        compared(good_run(), good_run(), level)


def test_scores_are_compared_at_9_decimals_and_of_records_on_both_sides() -> None:
    right = good_run("right")
    for number, score in enumerate((1.5 + 4e-10, 1.0 + 4e-10, 1.0 - 4e-10)):
        place(right, *SCORES, number)["score"] = score
    assert compared(good_run("left"), right, "full").ok
    other_records(right)
    assert codes_of(compared(good_run("left"), right, "full")) == [
        "retrieval_record_order_mismatch:1"
    ]


def test_traces_that_tell_nothing_of_writes_and_replies_agree_in_them() -> None:
    assert compared(good_run("left"), good_run("right"), "full").ok


# -- a run and its replay -----------------------------------------------------------------------------


def of_an_unfixed_model(run: str, **metadata: Any) -> Any:
    return changing(
        lambda made: made["trace"]["metadata"].update(model_fixed=False, **metadata), run
    )


def test_a_run_of_an_unfixed_model_compares_with_its_replay_alone() -> None:
    """Both had the same replies. Another run had replies of its own, which prove nothing."""
    recorded, replayed = of_an_unfixed_model("left", recording="a" * 64), good_run("right")
    replayed["trace"]["metadata"].update(recording="a" * 64, replayed=True)
    for level in ("contract", "full"):
        assert compared(recorded, replayed, level).status == "equivalent"
        assert compared(replayed, recorded, level).status == "equivalent"
    for other in ("b" * 64, None):
        replayed["trace"]["metadata"]["recording"] = other
        report = compared(recorded, replayed)
        assert (report.status, codes_of(report)) == ("ineligible", ["trace:model"])
        assert report.failures[0].message.startswith("left: the model may reply otherwise")
    neither = [of_an_unfixed_model(name) for name in ("left", "right")]
    assert codes_of(compared(*neither)) == ["trace:model", "trace:model"]
    nulls = [of_an_unfixed_model(name, recording=None) for name in ("left", "right")]
    assert codes_of(compared(*nulls)) == ["trace:model", "trace:model"]


def test_a_replay_may_fail_nothing_else() -> None:
    recorded = of_an_unfixed_model("left", recording="a" * 64)
    replayed = of_an_unfixed_model("right", recording="a" * 64, replayed=True)
    recorded["trace"]["visibility_mode"] = replayed["trace"]["visibility_mode"] = "live_read_write"
    assert codes_of(compared(recorded, replayed)) == ["trace:mode", "trace:mode"]
    recorded["trace"]["visibility_mode"] = replayed["trace"]["visibility_mode"] = "read_only"
    replayed["trace"]["events"][0]["role"] = "critic"
    assert compared(recorded, replayed).status == "different"


# -- what cannot be compared --------------------------------------------------------------------------

ENVELOPE = {
    "workflow_id": "other", "model_config_id": "other", "policy_set_id": "other",
    "memory_snapshot_id": "main:8:x", "visibility_mode": "read_only",
}  # fmt: skip


@pytest.mark.parametrize("field", ENVELOPE)
def test_runs_of_something_else_are_ineligible(field: str) -> None:
    right = changing(changed("trace", field, to=ENVELOPE[field]), "right")
    report = compared(good_run("left"), right)
    assert (report.ok, report.status) == (False, "ineligible")
    assert codes_of(report) == [f"envelope_mismatch:{field}"]
    assert report.failures[0].pointer == f"/{field}"
    assert report.failures[0].right == ENVELOPE[field]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (("trace", "determinism_trace_schema_version"), "determinism_trace_schema_version"),
        (("retrieval", "retrieval_trace_schema_version"), "retrieval_trace_schema_version"),
        *(
            (("trace", "contract_versions", name), "contract_versions")
            for name in CONTRACT_VERSIONS
        ),
    ],
)
def test_other_versions_are_ineligible(path: tuple[str, ...], field: str) -> None:
    report = compared(good_run("left"), changing(changed(*path, to="memory.x.v2"), "right"))
    assert report.status == "ineligible"
    assert codes_of(report) == [f"{path[0]}:version", f"envelope_mismatch:{field}"]


def test_all_reasons_are_told() -> None:
    left = changing(without("trace", "workflow_id"), "left")
    right = changing(changed("trace", "policy_set_id", to="p2"), "right")
    right["trace"]["metadata"]["truncated"] = True
    right["retrieval"]["metadata"]["truncated"] = True
    right["trace"]["events"][0]["role"] = "critic"
    report = compared(left, right)
    assert report.status == "ineligible"
    assert codes_of(report) == [
        "trace:missing", "trace:truncated", "retrieval:truncated", "envelope_mismatch:policy_set_id",
    ]  # fmt: skip
    assert [failure.message.partition(":")[0] for failure in report.failures[:3]] == [
        "left", "right", "right",
    ]  # fmt: skip


@pytest.mark.parametrize("part", ["trace", "retrieval"])
def test_truncated_traces_are_ineligible_even_when_they_are_the_same(part: str) -> None:
    run = changing(changed(part, "metadata", "truncated", to=True))
    report = compared(run, run)
    assert (report.status, codes_of(report)) == ("ineligible", [f"{part}:truncated"] * 2)


def test_a_retrieval_trace_on_one_side_only_is_ineligible() -> None:
    runs = [good_run("left"), good_run("right")]
    for run in runs:
        run["retrieval"]["events"] = []
        for event in run["trace"]["events"]:
            event["retrieval_event_ids"] = []
    assert compared(*runs).ok
    runs[1]["retrieval"] = None
    report = compared(*runs)
    assert (report.status, codes_of(report)) == ("ineligible", ["retrieval:missing"])
    runs[0]["retrieval"] = None
    assert compared(*runs).ok


@pytest.mark.parametrize("name", ["left", "right"])
def test_a_retrieval_trace_that_is_missing_is_asked_for_by_its_parameter(name: str) -> None:
    runs = {side: good_run(side) for side in ("left", "right")}
    runs[name]["retrieval"] = None
    report = compared(runs["left"], runs["right"])
    advice = f"; give it as {name}_retrieval=run.retrieval_trace"
    assert [(failure.code, failure.message) for failure in report.failures] == [
        ("retrieval:missing", f"{name}: the trace has retrieval events, so its retrieval trace is"
         f" needed too{advice}"),
        ("retrieval:missing", f"{name}: there is no retrieval trace, and the other side has one"
         f"{advice}"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change", [rule[2] for rule in RULES], ids=[f"{rule[0]}, {rule[1]}" for rule in RULES]
)
def test_no_pair_of_the_same_bad_traces_passes(change: Change) -> None:
    run = changing(change)
    assert compared(run, run).status == "ineligible"


@pytest.mark.parametrize("path", [path for path in PLACES if type(path[-1]) is str], ids=str)
def test_no_pair_of_the_same_incomplete_traces_passes(path: tuple[str | int, ...]) -> None:
    if path == ("retrieval",) or "normalized_args" in path[:-1]:
        return
    run = changing(without(*path)) if path != ("trace",) else {"trace": {}, "retrieval": None}
    report = compared(run, run)
    assert (report.ok, report.status) == (False, "ineligible")


def test_text_that_cannot_be_read_is_an_error() -> None:
    run = good_run()
    with pytest.raises(InvalidValue):
        compare_traces(b"{", run["trace"])


# -- generated ----------------------------------------------------------------------------------------

CHANGES: list[Callable[[Any], object]] = [each[2] for each in DIFFERENCES]


@settings(max_examples=examples(60, 5_000))
@given(st.lists(st.sampled_from(range(len(CHANGES))), max_size=4), st.booleans())
def test_two_runs_are_equivalent_exactly_when_nothing_was_changed(
    chosen: list[int], is_text: bool
) -> None:
    left, right = good_run("left"), good_run("right")
    for number in dict.fromkeys(chosen):
        try:
            CHANGES[number](right)
        except (IndexError, KeyError):
            return  # an earlier change removed the place of this one
    if is_text:
        right = {key: canonical(part) for key, part in right.items()}
    report = compared(left, right)
    assert report.ok is (not chosen)
    assert canonical(report.to_dict()) == canonical(compared(left, right).to_dict())
