"""Values in the report of two recorded runs, against a plain look into the two programs."""

from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rote import compare_traces
from rote.recordings.recordings import Recording
from rote.testing.strategies import json_values
from rote.traces.reports import Report, cut_to_difference
from rote.values import canonical
from tests.lanes import examples
from tests.properties.test_traces import ERRORS, play, steps

Program = list[list[dict[str, Any]]]
SHOWN = {
    "tool_result_fingerprint_mismatch": "result",
    "tool_args_mismatch": "args",
    "side_effect_fingerprint_mismatch": "effects",
}


@st.composite
def changed_steps(draw: st.DrawFn, program: Program) -> Program:
    """Draw another program with the same events, whose calls differ here and there."""
    other = deepcopy(program)
    for event in other:
        if draw(st.booleans()):
            event.insert(0, draw(steps()))
        for step in event:
            if draw(st.booleans()):
                step[draw(st.sampled_from(["result", "effects"]))] = draw(json_values(leaves_max=4))
            if draw(st.integers(0, 3)) == 0:
                step["result"] = "x" * draw(st.integers(0, 400)) + draw(st.sampled_from("ab"))
            if draw(st.integers(0, 5)) == 0:
                step["args"] = {"a": draw(st.integers(0, 3))}
            if draw(st.integers(0, 5)) == 0:
                step["error"] = draw(st.sampled_from([None, "ValueError"]))
    return other


def text_of(step: dict[str, Any] | None, part: str) -> str | None:
    """Return what is compared of a part of a step."""
    if step is None:
        return None
    error = step["error"]
    if part == "args":
        value = step["args"]
    elif part == "effects":
        named = step["name"] == "effects" and error is None and step["effects"] is not None
        value = step["effects"] if named else {}
    else:
        value = step["result"]
        if error is not None:
            value = {"error": {"type": error, "message": str(ERRORS[error]("told"))}}
    member = {"/a": value["a"]} if type(value) is dict and "a" in value else {}
    if step["name"] == "parts" and part != "effects":
        value = member
    elif step["name"] == "effects" and part == "effects":
        value = {"": value, **member}
    return canonical(value).decode()


def step_of(program: Program, code: str) -> tuple[dict[str, Any] | None, str]:
    """Return the step that a code tells of, and the part of it."""
    name, *places = code.split(":")
    if name == "model_reply_mismatch":
        replies = [step for event in program for step in event if step["name"] == "model"]
        return dict(enumerate(replies)).get(int(places[0])), "result"
    calls = [step for step in program[int(places[0])] if step["name"] != "model"]
    return calls[int(places[1])], SHOWN[name]


def compared(folder: Path, *programs: Program) -> tuple[Report, Report]:
    """Return the comparison of two runs, with their recordings and without."""
    traces, recordings = [], []
    for number, program in enumerate(programs):
        path = folder / f"{number}.jsonl"
        traces.append(play(Recording(path, memory_snapshot_id="main:0:none"), program)[1])
        recordings.append(path.read_bytes())
    with_values = compare_traces(
        *traces, left_recording=recordings[0], right_recording=recordings[1], level="full"
    )
    return with_values, compare_traces(*traces, level="full")


@settings(max_examples=examples(10, 500), deadline=None)
@given(data=st.data(), left=st.lists(st.lists(steps(), max_size=3), max_size=4))
def test_every_difference_in_what_was_recorded_shows_both_values(
    data: st.DataObject, left: Program
) -> None:
    right = data.draw(changed_steps(left))
    with TemporaryDirectory() as folder:
        report, plain = compared(Path(folder), left, right)
    for failure in report.failures:
        name = failure.code.partition(":")[0]
        values = failure.left_value, failure.right_value
        if name not in (*SHOWN, "model_reply_mismatch"):
            assert values == (None, None)
            continue
        texts = [text_of(*step_of(program, failure.code)) for program in (left, right)]
        cuts = cut_to_difference(texts[0] or "", texts[1] or "", 200)
        expected = [text and cut for text, cut in zip(texts, cuts, strict=True)]
        assert list(values) == expected, failure.code
    assert plain == replace(
        report,
        failures=tuple(
            replace(each, left_value=None, right_value=None) for each in report.failures
        ),
    )
