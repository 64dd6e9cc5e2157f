"""Values from recordings in the reports of comparisons."""

import io
import tracemalloc
from collections.abc import Iterator
from hashlib import sha256
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote import compare_traces
from rote.errors import InvalidInput
from rote.traces import Report, recorded, reports
from rote.traces.reports import Failure, cut_to_difference
from rote.values import canonical, fingerprint
from tests.lanes import examples
from tests.unit.traces.traces import Change, changed, changing, good_run, recorded_run

CALL = ("trace", "events", 1, "tool_calls", 0)
EFFECT = ("trace", "events", 1, "tool_calls", 1)
OTHER = "0" * 64
OTHER_ANSWER = changed(*CALL, "tool_result_fingerprint", to=OTHER)


def answers(**changes: Any) -> list[dict[str, Any]]:
    """Return the recorded calls of the good run: six of tools, and one of the model before each event.

    changes  other members for calls, by the names t0, t1… of tools and m0, m1… of the model.
    """
    calls: list[dict[str, Any]] = []
    for event in range(3):
        calls.append({"kind": "model", "result": f"reply {event}", **changes.get(f"m{event}", {})})
        for number in (2 * event, 2 * event + 1):
            answer = {"kind": "tool", "result": f"answer {number}"}
            calls.append({**answer, **changes.get(f"t{number}", {})})
    return calls


def compared(left: Any, right: Any, **options: Any) -> Report:
    """Compare two runs with their recordings."""
    given = {
        f"{side}_{part}": made[part]
        for side, made in (("left", left), ("right", right))
        for part in ("retrieval", "recording")
    }
    return compare_traces(left["trace"], right["trace"], **{**given, **options})


def differing(change: Change, **changes: Any) -> tuple[Any, Any]:
    """Return the good run, and another one with other answers."""
    left = recorded_run(good_run("left"), answers())
    return left, recorded_run(changing(change, "right"), answers(**changes))


# -- values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "change", "call", "values"),
    [
        ((*CALL, "tool_result_fingerprint"), OTHER, {"t2": {"result": {"b": 1, "a": [2]}}},
         ('"answer 2"', '{"a":[2],"b":1}')),
        ((*CALL, "tool_result_fingerprint"), OTHER, {"t2": {"result": None}}, ('"answer 2"', "null")),
        ((*CALL, "normalized_args", "", "limit"), 2, {"t2": {"args": {"limit": 2}}},
         ("{}", '{"limit":2}')),
        ((*EFFECT, "side_effect_fingerprint"), OTHER, {"t3": {"effects": {"sent": 1}}},
         ("{}", '{"sent":1}')),
    ],
)  # fmt: skip
def test_a_difference_shows_what_was_recorded(
    path: Any, change: Any, call: Any, values: tuple[str, str]
) -> None:
    left, right = differing(changed(*path, to=change), **call)
    [failure] = compared(left, right).failures
    assert (failure.left_value, failure.right_value) == values
    [mirrored] = compared(right, left).failures
    assert (mirrored.right_value, mirrored.left_value) == values


def test_an_error_is_shown_as_traces_know_it() -> None:
    left, right = differing(OTHER_ANSWER)
    calls = answers()
    place = next(i for i, call in enumerate(calls) if call["result"] == "answer 2")
    calls[place] = {"kind": "tool", "error": {"type": "OSError", "message": "gone"}}
    recorded_run(right, calls)
    [failure] = compared(left, right).failures
    assert failure.right_value == '{"error":{"message":"gone","type":"OSError"}}'


def test_replies_of_the_model_are_counted_by_themselves() -> None:
    runs = differing(lambda run: None, m1={"result": "other"})
    for made, second in zip(runs, ("reply 1", "other"), strict=True):
        replies = ["reply 0", second, "reply 2"]
        made["trace"]["metadata"]["model_replies"] = [fingerprint(each) for each in replies]
    runs[0]["trace"]["metadata"]["model_replies"].pop()
    report = compared(*runs, level="full")
    told = [(each.code, each.left_value, each.right_value) for each in report.failures]
    assert told[0] == ("model_reply_mismatch:1", '"reply 1"', '"other"')
    assert [each[0] for each in told] == ["model_reply_mismatch:1", "model_reply_mismatch:2"]


def test_calls_are_counted_on_each_side() -> None:
    """A run that makes one call more has all later ones at other lines."""
    left, right = differing(OTHER_ANSWER)
    first = right["trace"]["events"][0]["tool_calls"]
    first.append(first[0])
    [added, answered] = compared(left, right).failures
    assert (added.code, added.left_value) == ("tool_count_mismatch:0", None)
    assert (answered.left_value, answered.right_value) == ('"answer 2"', '"answer 3"')


@pytest.mark.parametrize("side", ["left", "right"])
def test_one_recording_shows_its_side(side: str) -> None:
    runs = differing(OTHER_ANSWER)
    other = "right" if side == "left" else "left"
    report = compared(*runs, **{f"{other}_recording": None})
    [told] = report.to_dict()["failures"]
    assert (told[f"{side}_value"], told[f"{other}_value"]) == ('"answer 2"', None)


def test_without_recordings_a_report_has_no_values() -> None:
    left, right = differing(OTHER_ANSWER)
    report = compared(left, right, left_recording=None, right_recording=None)
    [told] = report.to_dict()["failures"]
    assert sorted(told) == ["code", "left", "message", "pointer", "right"]
    # Values are left out where a difference has none, not for all.
    left, right = differing(OTHER_ANSWER)
    right["trace"]["events"][0]["role"] = "critic"
    told = compared(left, right).to_dict()["failures"]
    assert ["left_value" in each for each in told] == [False, True]


def test_a_recording_may_be_bytes_text_lines_or_a_file() -> None:
    left, right = differing(OTHER_ANSWER)
    data = left["recording"]
    expected = canonical(compared(left, right).to_dict())
    lines = data.splitlines(keepends=True)
    for form in (data.decode(), lines, iter(lines), io.BytesIO(data)):
        assert canonical(compared(left, right, left_recording=form).to_dict()) == expected


def test_a_difference_that_is_only_counted_needs_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = differing(OTHER_ANSWER)
    right["trace"]["events"][0]["role"] = "critic"
    monkeypatch.setattr(reports, "TRACE_FAILURES_MAX", 1)
    report = compared(left, right)
    assert ([each.code for each in report.failures], report.more) == (["event_mismatch:0:role"], 1)


def test_a_call_that_the_recording_lacks_has_no_value() -> None:
    left, right = differing(OTHER_ANSWER)
    recorded_run(right, answers()[:2])
    [failure] = compared(left, right).failures
    assert (failure.left_value, failure.right_value) == ('"answer 2"', None)


# -- long values --------------------------------------------------------------------------------------


def long_values(left: Any, right: Any) -> Failure:
    runs = differing(OTHER_ANSWER, t2={"result": right})
    recorded_run(runs[0], answers(t2={"result": left}))
    [failure] = compared(*runs).failures
    return failure


def test_long_values_are_cut_where_they_differ() -> None:
    failure = long_values(["x" * 5_000, "left", "y" * 900], ["x" * 5_000, "right", "y" * 900])
    assert failure.left_value is not None and failure.right_value is not None
    assert failure.left_value == "…" + "x" * 47 + '","' + "left" + '","' + "y" * 143 + "…"
    assert failure.right_value.startswith("…" + "x" * 47 + '","' + "right")
    # No room is left unused: what fits is whole.
    whole = long_values("x" * 180 + "left", "x" * 180 + "right")
    assert (whole.left_value, whole.right_value) == (
        '"' + "x" * 180 + 'left"', '"' + "x" * 180 + 'right"',
    )  # fmt: skip
    end = long_values("x" * 300 + "left", "x" * 300 + "right")
    assert end.right_value == "…" + "x" * 194 + 'right"'
    short = long_values("a" * 300, "b" * 198)
    assert (short.left_value, short.right_value) == ('"' + "a" * 199 + "…", '"' + "b" * 198 + '"')


def test_past_what_is_held_the_beginning_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "RECORDED_CHARACTERS_HELD_MAX", 1_000)
    failure = long_values("x" * 5_000 + "left", "x" * 5_000 + "right")
    assert failure.left_value == failure.right_value == '"' + "x" * 199 + "…"
    # What comes after is shown as well.
    left, right = differing(OTHER_ANSWER, t2={"result": "x" * 1_200}, t5={"result": "y" * 300})
    changed("trace", "events", 2, "tool_calls", 1, "tool_result_fingerprint", to=OTHER)(right)
    [first, second] = compared(left, right).failures
    assert (first.right_value, second.right_value) == (
        '"' + "x" * 199 + "…", '"' + "y" * 199 + "…",
    )  # fmt: skip


TEXT = st.text(alphabet="ab", max_size=300)


@settings(max_examples=examples(200, 5_000))
@given(common=TEXT, left=TEXT, right=TEXT, characters=st.integers(4, 60))
def test_a_cut_shows_that_two_texts_differ(
    common: str, left: str, right: str, characters: int
) -> None:
    left, right = common + left, common + right
    cuts = cut_to_difference(left, right, characters)
    assert (cuts[0] == cuts[1]) is (left == right)
    for cut, text in zip(cuts, (left, right), strict=True):
        assert cut.strip("…") in text
        assert len(cut.strip("…")) <= characters
        assert cut.startswith("…") or text.startswith(cut.rstrip("…"))
        assert cut.endswith("…") or text.endswith(cut.lstrip("…"))


# -- one pass, bounded --------------------------------------------------------------------------------


def test_of_a_long_recording_only_what_is_shown_is_held() -> None:
    left, right = differing(OTHER_ANSWER)
    *lines, end = left["recording"].splitlines(keepends=True)

    def streamed() -> Iterator[bytes]:
        yield from lines
        for number in range(1_000):
            yield TOOL % canonical(f"{number}" + "x" * 10_000)
        yield end

    hasher = sha256()
    for line in streamed():
        hasher.update(line)
    left["trace"]["metadata"]["recording"] = hasher.hexdigest()
    tracemalloc.start()
    try:
        [failure] = compared(left, right, left_recording=streamed()).failures
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert failure.left_value == '"answer 2"'
    assert peak < 1_000_000


# -- what does not fit --------------------------------------------------------------------------------


def refused(left: Any, right: Any, **options: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        compared(left, right, **options)
    return str(caught.value)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("is_different", [True, False])
def test_a_recording_of_another_run_is_refused_also_where_it_shows_nothing(
    side: str, is_different: bool
) -> None:
    left, right = differing(OTHER_ANSWER if is_different else lambda run: None)
    other = {"left": left, "right": right}[side]
    data = other["recording"]
    digest = sha256(data).hexdigest()
    said = f"{side}_recording is not the recording of its trace: its SHA-256 is "
    for wrong in (b"", data[:-1], data + b"\n", data[: len(data) // 2], b"\xff\x00", "\ud800"):
        told = refused(left, right, **{f"{side}_recording": wrong})
        assert told.startswith(said)
        assert told.endswith(f", and the trace names {digest}")
    for nothing in (None, "absent"):
        if nothing is None:
            other["trace"]["metadata"]["recording"] = None
        else:
            del other["trace"]["metadata"]["recording"]
        assert refused(left, right).endswith("its trace: the trace names none")


START = b'{"kind":"recording/1","memory_snapshot_id":"main:0:none"}\n'
TOOL = b'{"args":{},"kind":"tool","name":"n","result":%s,"seq":0}\n'
TWO = START + 2 * (TOOL % b"1")  # the third call is the one that is shown
NO_RECORDINGS = [
    b"{", b"[]\n", b"1\n", b"\xff\n", b'{"kind":1}\n', b"{}\n", b'{"kind":"end"}\n', TWO[1:],
    START + b"{\n", START + b"\n", START + b'{"kind":"tool"', TWO + b'{"args":{},"kind":"tool"}\n',
    *(TWO + TOOL % wrong for wrong in (
        b"NaN", b"[" * 100 + b"]" * 100, b"[" * 100_000, b'"\xff"', b'{"a":1,"a":1}', b'"\\ud800"')),
]  # fmt: skip


@pytest.mark.parametrize("data", NO_RECORDINGS)
def test_what_is_no_recording_is_refused_even_if_the_trace_names_it(data: bytes) -> None:
    left, right = differing(OTHER_ANSWER)
    left["trace"]["metadata"]["recording"] = sha256(data).hexdigest()
    said = refused(left, right, left_recording=data)
    refusal = "left_recording is not the recording of its trace: a line is not of a recording: "
    assert said.startswith(refusal)


def test_nothing_is_no_recording() -> None:
    left, right = differing(lambda run: None)
    left["trace"]["metadata"]["recording"] = sha256(b"").hexdigest()
    assert refused(left, right, left_recording=b"").endswith(": it is empty")


@pytest.mark.parametrize("wrong", [5, True, object(), io.BytesIO, ["text"], [b"x", None], {"a": 1}])
def test_what_holds_no_lines_is_refused(wrong: Any) -> None:
    left, right = differing(lambda run: None)
    assert "left_recording" in refused(left, right, left_recording=wrong)


def test_lines_are_bounded_in_number_and_length(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = differing(lambda run: None)
    longest = max(map(len, left["recording"].splitlines(keepends=True)))
    monkeypatch.setattr(recorded, "RECORDING_LINE_BYTES_MAX", longest)
    assert compared(left, right).ok
    monkeypatch.setattr(recorded, "RECORDING_LINE_BYTES_MAX", longest - 1)
    assert "a line in bytes" in refused(left, right)
    endless = (START for _ in count())
    monkeypatch.setattr(recorded, "_LINES_MAX", 100)
    refused(left, right, left_recording=endless)


def test_traces_that_cannot_be_compared_need_no_recording() -> None:
    left, right = differing(changed("trace", "workflow_id", to="other"))
    assert compared(left, right, left_recording=b"of another run").status == "ineligible"
