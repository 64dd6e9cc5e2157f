"""The report of a comparison: the differences first, then both runs side by side.

Differences come with both values and with what differs in them marked. Events that are the same on
both sides are shown once, folded. Events that differ are shown before the others take room.
"""

from collections.abc import Sequence
from itertools import groupby, zip_longest

from msgspec.json import encode

from rote.inspector.differences import Difference, find_differences
from rote.inspector.html import (
    Html,
    a,
    article,
    code,
    details,
    div,
    h1,
    h2,
    h3,
    header,
    joined,
    main,
    name,
    p,
    section,
    span,
    summary,
    table,
    tbody,
    td,
    th,
    thead,
    tr,
)
from rote.inspector.room import Room, counted, left_out
from rote.inspector.run_parts import (
    Against,
    fact,
    label,
    show_event_parts,
    show_event_title,
    show_marks,
)
from rote.inspector.run_report import page
from rote.inspector.value_pieces import show_difference
from rote.traces.reports import Report
from rote.traces.timeline import Timeline, TimelineEvent
from rote.traces.timeline_words import head_of
from rote.values.limits import REPORT_BYTES_MAX, REPORT_DIFFERENCES_MAX, REPORT_EVENTS_MAX

_STATUSES = {
    "equivalent": "Both runs did the same",
    "different": "The runs differ",
    "ineligible": "The runs cannot be compared",
}
_BEYOND = "Arguments and replies are marked where they differ, also where they are not compared."
# Faults of one side, which make runs ineligible: there is nothing to hold against each other.
_FAULTS = ("trace:", "retrieval:")
_STRETCHES_MAX = 2 * REPORT_EVENTS_MAX
_Pair = tuple[TimelineEvent | None, TimelineEvent | None]


def comparison_report(report: Report, left: Timeline, right: Timeline) -> bytes:
    """Return the page of a comparison."""
    found = find_differences(report.failures, left, right)
    body = main(
        _header(report, left, right),
        None if report.ok else _differences(report, found),
        _heads(left, right),
        _events(left, right, {each.event for each in found}),
        data_page="comparison",
    )
    return page(f"{_STATUSES[report.status]}: {left.run_id}, {right.run_id}", body)


def _header(report: Report, left: Timeline, right: Timeline) -> Html:
    level = "; writes, replies and scores are compared too" if report.level == "full" else None
    return header(
        p("Comparison, ", name(left.workflow_id), class_="eyebrow"),
        h1(_STATUSES[report.status]),
        p("left ", name(left.run_id), ", right ", name(right.run_id), level, class_="sub"),
    )


# -- differences --------------------------------------------------------------------------------------


def _differences(report: Report, found: Sequence[Difference]) -> Html:
    noun = "difference" if report.status == "different" else "reason"
    room = Room(REPORT_BYTES_MAX // 2)
    shown = room.fill(found, _difference, most=REPORT_DIFFERENCES_MAX, noun=noun, more=report.more)
    return section(h2(counted(len(found) + report.more, noun)), *shown)


def _difference(difference: Difference) -> Html:
    """Return a difference: where, what, and both values side by side."""
    left, right = show_difference(difference.left, difference.right)
    sides = div(_side("left", left), _side("right", right), class_="sides")
    is_fault = difference.code.startswith(_FAULTS)
    return article(
        h3(_place(difference)),
        p(name(difference.message), " ", code(difference.code), class_="message"),
        None if is_fault else sides,
        class_="call",
        data_code=difference.code,
    )


def _place(difference: Difference) -> Html:
    if difference.event is None:
        return span("The run")
    link = a(f"Event {difference.event:,}", href=f"#event-{difference.event}")
    return joined([link, " · " if difference.subject else None, name(difference.subject)])


def _side(title: str, *parts: Html | None) -> Html:
    return div(label(title), *parts, class_="side")


# -- both runs ----------------------------------------------------------------------------------------


def _heads(left: Timeline, right: Timeline) -> Html:
    """Return what both runs began and ended with."""
    head = thead(tr(*(th(each, scope="col") for each in ("", "left", "right"))))
    heads = zip(head_of(left), head_of(right), strict=True)
    rows = (
        tr(th(title, scope="row"), td(fact(before)), td(fact(after)), class_=_state(before, after))
        for (title, before), (_, after) in heads
    )
    marks = show_marks(left), show_marks(right)
    notes = div(_side("left", marks[0]), _side("right", marks[1]), class_="sides")
    return section(
        h2("Both runs"),
        table(head, tbody(*rows), class_="heads"),
        notes if any(marks) else None,
    )


def _state(before: str, after: str) -> str:
    return "same" if before == after else "differs"


def _events(left: Timeline, right: Timeline, differing: set[int | None]) -> Html:
    """Return the events side by side; those that are the same on both sides once, and folded.

    An event may differ in what is not compared, such as the words of a model.
    """
    pairs = list(zip_longest(left.events, right.events))
    ranks = [_rank(pair, index in differing) for index, pair in enumerate(pairs)]
    shown = _Shown(pairs, ranks, Room(REPORT_BYTES_MAX // 2))
    stretches = [
        ([index for index, _ in group], is_same)
        for is_same, group in groupby(enumerate(ranks), key=lambda each: each[1] == _SAME)
    ]
    # Stretches come by turns, so all events that differ and have room are in the first ones.
    first, rest = stretches[:_STRETCHES_MAX], stretches[_STRETCHES_MAX:]
    more = left_out(sum(len(indexes) for indexes, _ in rest), "event")
    parts = [shown.stretch(*each) for each in first]
    words = p(_BEYOND, class_="sub")
    beyond = _LOOKS_DIFFERENT in ranks
    return section(h2("Event by event"), words if beyond else None, *parts, more)


# Events in the order in which they take room.
_DIFFERENT, _LOOKS_DIFFERENT, _SAME = range(3)


def _rank(pair: _Pair, is_different: bool) -> int:
    if is_different or None in pair:
        return _DIFFERENT
    return _SAME if encode(pair[0]) == encode(pair[1]) else _LOOKS_DIFFERENT


class _Shown:
    """The events that there is room for: those that differ first, then the others in order."""

    def __init__(self, pairs: Sequence[_Pair], ranks: Sequence[int], room: Room) -> None:
        self._made: dict[int, Html] = {}
        order = sorted(range(len(pairs)), key=lambda index: ranks[index])
        for index in order[:REPORT_EVENTS_MAX]:
            if room.is_full:
                break
            make = _single if ranks[index] == _SAME else _pair
            self._made[index] = make(index, pairs[index], room)

    def stretch(self, indexes: Sequence[int], is_same: bool) -> Html:
        """Return neighbouring events that all differ, or that are all the same."""
        made = [self._made[index] for index in indexes if index in self._made]
        parts = joined([*made, left_out(len(indexes) - len(made), "event")])
        if not is_same:
            return parts
        numbers = f"event {indexes[0]:,}"
        if len(indexes) > 1:
            numbers = f"events {indexes[0]:,} to {indexes[-1]:,}"
        return details(summary(f"{numbers}: the same on both sides"), parts, class_="same")


def _pair(index: int, pair: _Pair, room: Room) -> Html:
    left, right = pair
    before = _event(left, room, None if right is None else Against(right, 0))
    after = _event(right, room, None if left is None else Against(left, 1))
    return _numbered(
        index,
        div(_side("left", before), _side("right", after), class_="sides body"),
    )


def _single(index: int, pair: _Pair, room: Room) -> Html:
    return _numbered(index, div(_event(pair[0], room), class_="body"))


def _event(event: TimelineEvent | None, room: Room, against: Against | None = None) -> Html:
    if event is None:
        return p("there is no such event", class_="cut")
    title = room.take(show_event_title(event))
    return joined([title, show_event_parts(event, room, against)])


def _numbered(index: int, body: Html) -> Html:
    number = span(f"{index:,}", class_="number")
    return div(number, body, class_="event", id=f"event-{index}")
