from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec import UNSET
from msgspec.structs import replace

from rote.inspector import html
from rote.inspector.comparison_report import comparison_report
from rote.inspector.run_report import run_report
from rote.traces.recorded_calls import Raised
from rote.traces.reports import Failure, Report
from rote.traces.timeline import Timeline, Writes
from rote.values.limits import (
    REPORT_BYTES_MAX,
    REPORT_DIFFERENCES_MAX,
    REPORT_EVENTS_MAX,
    REPORT_PARTS_MAX,
)
from tests.lanes import examples
from tests.unit.inspector.pages import Page, read_page, seen
from tests.unit.inspector.runs import HOSTILE, call, event, full_timeline, timeline

MIB = 1024 * 1024
PLAIN = read_page(run_report(full_timeline("plain text of a tool")))


def different(*codes: str, left: Any = "a", right: Any = "b", more: int = 0) -> Report:
    failures = tuple(Failure(code, "/x", left, right, f"{code} differs") for code in codes)
    return Report(False, "different", failures, more, "contract")


def compared(report: Report, left: Timeline, right: Timeline) -> Page:
    return read_page(comparison_report(report, left, right))


# -- nothing of the data is more than text ------------------------------------------------------------


def check_run_page(text: str) -> None:
    page = read_page(run_report(full_timeline(text)))
    assert page.elements == PLAIN.elements
    shown = seen(text) if len(text) <= 500 else seen(text[:500])
    assert any(name.startswith(shown) for name in page.names)
    assert page.title.startswith(shown)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_tool_or_a_model_said_adds_no_element(text: str) -> None:
    check_run_page(text.replace("\ud800", "").replace("\udfff", "").replace("\udc80", ""))


@given(some.lists(some.sampled_from(HOSTILE) | some.text(), min_size=1).map("".join))
@settings(max_examples=examples(30, 3_000))
def test_no_text_adds_an_element(text: str) -> None:
    storable = text.encode(errors="ignore").decode() or "x"
    check_run_page(storable)


def test_lone_surrogates_in_names_are_shown_by_their_code_points() -> None:
    made = timeline("x", run_id="\udc80", workflow_id="a\ud800b")
    page = read_page(run_report(made))
    assert {"\\u{DC80}", "a\\u{D800}b"} <= set(page.names)


CODES = ("tool_args_mismatch:0:1", "tool_result_fingerprint_mismatch:0:2", "event_mismatch:1:role")
PLAIN_COMPARISON = compared(
    different(*CODES, left="a b", right={"c": "d"}),
    full_timeline("plain text of a tool"),
    full_timeline("another text of a tool"),
)


@given(some.lists(some.sampled_from(HOSTILE), min_size=1).map("".join), some.text())
@settings(max_examples=examples(15, 2_000))
def test_no_text_adds_an_element_to_a_comparison(left: str, right: str) -> None:
    texts = [text.encode(errors="ignore").decode() or "x" for text in (left, right)]
    report = different(*CODES, left=texts[0], right={texts[1]: texts[1]})
    page = compared(report, *map(full_timeline, texts))
    assert page.elements == PLAIN_COMPARISON.elements


@pytest.mark.parametrize("text", [text for text in HOSTILE if "<" in text and "&lt;" not in text])
def test_a_hole_would_be_seen(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Without escaping, the same check finds what each text would do."""
    monkeypatch.setattr(html, "escape", lambda content: content)
    with pytest.raises(AssertionError):
        check_run_page(text)


# -- a page says what happened ------------------------------------------------------------------------


def test_a_page_tells_everything_of_a_run() -> None:
    calls = (
        call("large-1", "model", args={"messages": ["Hello?"]}, result="Good day.\nAda"),
        call("search", args={"query": "keys"}, result={"hits": 2}, effects={"sent": True}),
        call("mail", result=UNSET, error=Raised("TimeoutError", "no answer")),
        call("old", result=UNSET),
    )
    page = read_page(run_report(timeline("x", events=[event(0, "planner", *calls)])))
    assert page.names[-30:].count("planner") >= 3
    assert "Good day.\nAda" in page.blocks
    assert '{"query": "keys"}' in page.blocks
    assert '{"hits": 2}' in page.blocks
    assert '{"sent": true}' in page.blocks
    assert "TimeoutError: no answer" in page.blocks
    assert "fingerprint aaaaaaaaaaaa…" in page.text
    assert "planner ×2" in page.text
    assert "2 of 7 candidates" in page.text
    assert "Writes, version 3" in page.text
    for sentence in ("It raised x", "It is a replay", "3 more events", "is not fixed"):
        assert sentence in page.text


def test_a_run_without_anything_has_a_page() -> None:
    page = read_page(run_report(timeline("x", writes=None, discarded=False, replayed=False)))
    assert "0 events" in page.text


def test_differences_come_first_with_both_values() -> None:
    sides = [
        timeline(
            side,
            events=[
                event(i, "x", call("read", args={"n": i, "who": who if i == 1 else "x"}))
                for i in range(3)
            ],
        )
        for side, who in (("monday", "Ada"), ("tuesday", "Bob"))
    ]
    page = compared(different("tool_args_mismatch:1:0"), *sides)
    assert page.codes == ["tool_args_mismatch:1:0"]
    assert page.blocks[:2] == ['{"n": 1, "who": "Ada"}', '{"n": 1, "who": "Bob"}']
    assert page.text.index("Event 1 · read") < page.text.index("Both runs")
    assert "event 0: the same on both sides" in page.text
    assert "event 2: the same on both sides" in page.text


def test_the_first_event_that_differs_comes_first() -> None:
    model = call("large", "model", result="yes")
    sides = [
        timeline(
            side,
            events=[
                event(0, "x"),
                event(1, "x", replace(model, result=side)),
                event(2, "x", call("y")),
            ],
        )
        for side in ("monday", "tuesday")
    ]
    codes = (
        "tool_name_mismatch:2:0",
        "retrieval_record_order_mismatch:0",
        "output_mismatch:output_type",
    )
    page = compared(different(*codes, "model_reply_mismatch:0"), *sides)
    assert page.codes == [codes[1], "model_reply_mismatch:0", codes[0], codes[2]]
    assert "Event 1 · large" in page.text
    assert page.blocks[2:4] == ["monday", "tuesday"]


def test_values_that_no_recording_has_are_shown_as_the_report_has_them() -> None:
    sides = [timeline(side, events=[event(0, "x", call("y", result=UNSET))]) for side in "ab"]
    report = different("tool_result_fingerprint_mismatch:0:0", left="1" * 64, right="2" * 64)
    assert compared(report, *sides).blocks[:2] == ["1" * 64, "2" * 64]


def test_runs_that_cannot_be_compared_are_still_shown_side_by_side() -> None:
    failure = Failure("envelope_mismatch:workflow_id", "/workflow_id", "a", "b", "they differ")
    report = Report(False, "ineligible", (failure,))
    page = compared(report, timeline("a", events=[event(0, "x")]), timeline("b"))
    assert "The runs cannot be compared" in page.text
    assert "there is no such event" in page.text


def test_what_differs_is_marked_also_where_runs_cannot_be_compared() -> None:
    """Runs of models without a seed cannot be, and people want to see why one went another way."""
    sides = [
        timeline(side, events=[event(0, "x"), event(1, "x", call("y", args={"q": f"on {side}"}))])
        for side in ("monday", "tuesday")
    ]
    report = Report(False, "ineligible", (Failure("trace:model", "/x", False, None, "no seed"),))
    content = comparison_report(report, *sides)
    assert b"<mark>monday</mark>" in content
    assert b"<mark>tuesday</mark>" in content
    assert "event 0: the same on both sides" in read_page(content).text


def test_runs_of_unfixed_models_show_their_reasons_and_then_what_differs() -> None:
    sides = [
        timeline(side, events=[event(0, "x"), event(1, "x", call("y", args={"q": side}))])
        for side in ("monday", "tuesday")
    ]
    reason = Failure("trace:model", "/x", False, None, "no seed")
    found = different("tool_args_mismatch:1:0").failures
    page = compared(Report(False, "ineligible", (reason,), 3, differences=found), *sides)
    assert page.codes == ["trace:model", "tool_args_mismatch:1:0"]
    for words in (
        "1 reason",
        "4 differences",
        "This is no proof",
        "event 0: the same on both sides",
    ):
        assert words in page.text


def test_what_is_not_compared_is_marked_too() -> None:
    """The words of a model are not compared, and yet nobody may read that they were the same."""
    sides = [
        timeline(side, events=[event(0, "x"), event(1, "x", call("large", "model", result=side))])
        for side in ("monday", "tuesday")
    ]
    content = comparison_report(Report(True, "equivalent", level="contract"), *sides)
    assert b"<mark>tuesday</mark>" in content
    assert "also where they are not compared." in read_page(content).text


def test_equivalent_runs_have_a_page_without_differences() -> None:
    sides = [timeline(side, events=[event(i, "x") for i in range(4)]) for side in "ab"]
    page = compared(Report(True, "equivalent", level="full"), *sides)
    assert page.codes == []
    assert "Both runs did the same" in page.text
    assert "events 0 to 3: the same on both sides" in page.text


# -- bounds -------------------------------------------------------------------------------------------

LONG = "long \u202e<b>" * (MIB // 10)
SIZE_MAX = REPORT_BYTES_MAX


def long_run(name: str, count: int = 10_000, *, differing: int | None = None) -> Timeline:
    """Return a run of many events; one in five hundred has values of a megabyte."""

    def one(index: int) -> Any:
        text = LONG if index % 500 == 7 else "x"
        args = {"text": text, "n": -index if index == differing else index}
        return event(index, "x", call("y", args=args, result={"text": text}))

    return timeline(name, events=[one(index) for index in range(count)])


def test_a_long_run_has_a_page_of_bounded_size() -> None:
    content = run_report(long_run("a"))
    page = read_page(content)
    assert len(content) < SIZE_MAX
    assert "10,000 events" in page.text
    assert "9,000 more events not shown" in page.text
    assert f"cut, {len(LONG) + len('{_n_:7,_text_:__}'):,} characters in all" in page.text
    assert '"n": 9999' in page.text


def test_the_event_that_differs_is_shown_however_long_the_runs_are() -> None:
    sides = long_run("a"), long_run("b", differing=7_777)
    content = comparison_report(different("tool_args_mismatch:7777:0"), *sides)
    page = read_page(content)
    assert len(content) < SIZE_MAX
    assert page.text.count('"n": 7777') == page.text.count('"n": -7777') == 2
    assert "events 7,778 to 9,999: the same on both sides" in page.text


def test_runs_that_differ_everywhere_have_a_page_of_bounded_size() -> None:
    codes = [f"tool_args_mismatch:{index}:0" for index in range(0, 10_000, 2)]
    content = comparison_report(different(*codes, more=5), long_run("a"), long_run("b"))
    shown = content.count(b"data-code")
    assert len(content) < SIZE_MAX
    assert 0 < shown <= REPORT_DIFFERENCES_MAX
    assert f"{5_005 - shown:,} more differences not shown".encode() in content
    assert b"more events not shown" in content


def test_names_of_any_length_fit() -> None:
    long = "\u202e" * (MIB // 4)
    events = [event(index, long, call(long)) for index in range(REPORT_EVENTS_MAX)]
    content = run_report(timeline(long, events=events))
    assert len(content) < SIZE_MAX
    assert "… (524,289 characters)</title>".encode() in content
    assert b"more events not shown" in content


def test_one_event_of_many_parts_fits() -> None:
    made = event(0, "x", *[call("y", result=LONG) for _ in range(10_000)])
    made = replace(made, retrievals=made.retrievals * 500, guardrails=tuple(map(str, range(5_000))))
    content = run_report(timeline("x", events=[made] * REPORT_EVENTS_MAX))
    assert len(content) < SIZE_MAX
    assert b"9,800 more calls not shown" in content
    assert b"300 more retrievals not shown" in content
    assert b"4,800 more guardrails not shown" in content


UNSEEN = "\u202e"
# More than a page shows of each, but not many more: the test takes as long as they are many.
EVENTS = some.sampled_from((0, 1, REPORT_EVENTS_MAX + 100))
COUNTS = some.sampled_from((0, 1, REPORT_PARTS_MAX + 10))
SIZES = some.sampled_from((0, 1, 600))


@some.composite
def hostile_timelines(draw: some.DrawFn) -> Timeline:
    """Draw a run of which any part may be many, and any text long and unseen."""

    def words() -> str:
        return draw(some.sampled_from(("x", UNSEEN))) * draw(SIZES)

    made = [call(words(), kind, args={words(): words()}, result=words(), effects=words())
            for kind in ("tool", "model")]  # fmt: skip
    calls = tuple(made * draw(COUNTS))
    one = event(0, words())
    one = replace(one, calls=calls, retrievals=one.retrievals * draw(COUNTS))
    one = replace(one, guardrails=tuple(f"{n}{UNSEEN * 600}" for n in range(draw(COUNTS))))
    events = [replace(one, index=index) for index in range(draw(EVENTS))]
    facts = ({"op": "set", "id": words(), "body": words()},) * draw(COUNTS)
    return timeline(words(), events=events, rest=calls, writes=Writes(1, facts))


@given(hostile_timelines(), hostile_timelines())
@settings(max_examples=examples(3, 30), deadline=None)
def test_no_run_has_a_page_beyond_its_bound(left: Timeline, right: Timeline) -> None:
    assert len(run_report(left)) < SIZE_MAX
    codes = [f"event_mismatch:{index}:role" for index in range(600)]
    report = different(*codes, left=UNSEEN * 9_000, right=f"x{UNSEEN}" * 9_000)
    assert len(comparison_report(report, left, right)) < SIZE_MAX


def test_guardrails_take_room() -> None:
    """Nine megabytes of trace gave a page of a hundred and ten."""
    made = replace(event(0, "x"), guardrails=tuple(f"{n}{UNSEEN * 600}" for n in range(200)))
    content = run_report(timeline("x", events=[made] * REPORT_EVENTS_MAX))
    assert len(content) < SIZE_MAX
    assert b"more guardrails not shown" in content


def test_two_long_values_are_cut_where_they_differ() -> None:
    sides = [
        timeline(
            side, events=[event(0, "x", call("y", args={"text": "a" * MIB + side + "z" * MIB}))]
        )
        for side in ("left", "right")
    ]
    page = compared(different("tool_args_mismatch:0:0"), *sides)
    assert "aaaleftzzz" in page.blocks[0]
    assert "aaarightzzz" in page.blocks[1]
    assert len(page.blocks[0]) < 3_000
