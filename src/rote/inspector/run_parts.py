"""The parts of a run as HTML: its head, and events with their retrievals, calls and guardrails."""

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, Struct

from rote.inspector.html import (
    Html,
    b,
    code,
    dd,
    details,
    div,
    dl,
    dt,
    h3,
    joined,
    li,
    name,
    p,
    small,
    span,
    summary,
    table,
    tbody,
    td,
    th,
    thead,
    tr,
    ul,
)
from rote.inspector.room import Room
from rote.inspector.value_pieces import Steps, show_difference, show_value
from rote.traces.timeline import (
    Timeline,
    TimelineCall,
    TimelineEvent,
    TimelineRecord,
    TimelineRetrieval,
)
from rote.traces.timeline_words import guardrails_of, head_of, marks_of, retrieval_of, short_hash
from rote.values import Json
from rote.values.limits import REPORT_PARTS_MAX

_SEPARATOR = " · "
_hashes = re.compile(r"[0-9a-f]{64}")


def show_facts(run: Timeline) -> Html:
    """Return the head of a run as a list of terms."""
    facts = head_of(run)[2:]  # workflow and run are the heading of the page
    return dl(*(div(dt(title), dd(fact(value))) for title, value in facts), class_="facts")


def fact(value: str) -> Html:
    """Return a name; of the hashes in it only their beginnings are shown."""
    shown = _hashes.sub(lambda match: short_hash(match[0]), value)
    return name(shown) if shown == value else span(name(shown), title=value)


def show_marks(run: Timeline) -> Html | None:
    marks = marks_of(run)
    return ul(*(li(name(mark)) for mark in marks), class_="marks") if marks else None


def show_event_title(event: TimelineEvent) -> Html:
    """Return the heading of an event: its role, then where and what was decided."""
    rest = joined([name(event.interceptor), _SEPARATOR, name(event.decision_type)])
    return h3(name(event.role), " ", small(rest))


class Against(Struct, frozen=True):
    """The same event of another run, to mark what differs."""

    event: TimelineEvent
    side: Literal[0, 1]  # where this event stands: left, right
    steps: Steps

    def call(self, position: int, call: TimelineCall) -> TimelineCall | None:
        """Return the call at the same place, when it is one of the same tool."""
        found = self.event.calls[position : position + 1]
        return (
            found[0] if found and (found[0].kind, found[0].name) == (call.kind, call.name) else None
        )

    def show(self, value: Json, other: Json) -> Html:
        """Return a value of this side with what differs from the other side's marked."""
        left, right = (value, other) if self.side == 0 else (other, value)
        return show_difference(left, right, self.steps)[self.side]


def show_event_parts(event: TimelineEvent, room: Room, against: Against | None = None) -> Html:
    """Return everything that happened in an event."""
    retrievals = room.fill(
        event.retrievals,
        lambda each: _retrieval(each, room),
        most=REPORT_PARTS_MAX,
        noun="retrieval",
    )
    calls = show_calls(event.calls, room, against)
    guardrails = room.fill(
        guardrails_of(event.guardrails), _guardrail, most=REPORT_PARTS_MAX, noun="guardrail"
    )
    return joined([*retrievals, calls, *guardrails])


def show_calls(calls: Sequence[TimelineCall], room: Room, against: Against | None = None) -> Html:
    places = list(enumerate(calls))
    return joined(
        room.fill(places, lambda each: _call(*each, against), most=REPORT_PARTS_MAX, noun="call")
    )


def _call(position: int, call: TimelineCall, against: Against | None) -> Html:
    """Return a call with its arguments and its reply. What a model was asked is long, and folded."""
    other = None if against is None else against.call(position, call)
    if against is None or other is None:
        asked, replied = show_value(call.args), show_value(_reply_of(call))
    else:
        asked = against.show(call.args, other.args)
        replied = against.show(_reply_of(call), _reply_of(other))
    if call.kind == "model":
        folded = details(summary("asked with ", _names_of(call.args)), asked)
        return _frame(call, folded, _reply(call, replied))
    return _frame(call, div(div(label("arguments"), asked), _reply(call, replied), class_="sides"))


def _frame(call: TimelineCall, *parts: Html | None) -> Html:
    kind = "call failed" if call.error is not UNSET else "call"
    title = p(span(call.kind, class_="kind"), " ", b(name(call.name)), class_="call-name")
    return div(title, *parts, class_=kind)


def _reply(call: TimelineCall, replied: Html) -> Html:
    """Return the result of a call, its error or its fingerprint, and its effects."""
    if call.error is not UNSET:
        title = p("raised", class_="label raised")
    else:
        title = label("reply" if call.kind == "model" else "result")
    return div(
        title,
        replied if call.is_recorded else _fingerprint(call.result_fingerprint),
        *(() if call.effects is UNSET else (label("effects"), show_value(call.effects))),
    )


def _reply_of(call: TimelineCall) -> Json:
    """Return the reply of a recorded call as one value; an error as a text."""
    if call.error is not UNSET:
        return f"{call.error.type}: {call.error.message}"
    return None if call.result is UNSET else call.result


def _fingerprint(hash: object) -> Html:
    shown = short_hash(hash) if isinstance(hash, str) else "not recorded"
    return p("fingerprint ", code(shown), class_="hash")


def label(words: str) -> Html:
    return p(words, class_="label")


def _names_of(args: Json) -> Html:
    """Return the names of arguments, a few of them."""
    names = list(args) if isinstance(args, dict) else []
    shown = [part for each in names[:5] for part in (", ", name(each[:80]))][1:]
    return joined([*shown, "…" if len(names) > 5 else None])


def _retrieval(retrieval: TimelineRetrieval, room: Room) -> Html:
    head = thead(tr(*(th(each, scope="col") for each in ("rank", "record", "type", "score"))))
    rows, more = room.fill(retrieval.records, _record, most=REPORT_PARTS_MAX, noun="record")
    return div(
        p(span("retrieval", class_="kind"), " ", name(retrieval_of(retrieval)), class_="call-name"),
        table(head, tbody(rows), class_="records") if retrieval.records else None,
        more,
        class_="call",
    )


def _record(record: TimelineRecord) -> Html:
    return tr(
        td(f"{record.rank:,}"),
        td(name(record.record_id)),
        td(name(record.record_type)),
        td(str(record.score)),
    )


def _guardrail(triggered: str) -> Html:
    return p(span("guardrail", class_="kind"), " ", name(triggered), class_="call-name")
