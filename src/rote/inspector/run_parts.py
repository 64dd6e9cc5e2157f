"""The parts of a run as HTML: its head, and events with their retrievals, calls and guardrails."""

import re
from collections.abc import Sequence

from msgspec import UNSET

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
from rote.inspector.value_pieces import show_value
from rote.traces.timeline import (
    Timeline,
    TimelineCall,
    TimelineEvent,
    TimelineRecord,
    TimelineRetrieval,
)
from rote.traces.timeline_words import guardrails_of, head_of, marks_of, retrieval_of, short
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
    shown = _hashes.sub(lambda match: short(match[0]), value)
    return name(shown) if shown == value else span(name(shown), title=value)


def show_marks(run: Timeline) -> Html | None:
    marks = marks_of(run)
    return ul(*map(li, marks), class_="marks") if marks else None


def show_event_title(event: TimelineEvent) -> Html:
    """Return the heading of an event: its role, then where and what was decided."""
    rest = joined([name(event.interceptor), _SEPARATOR, name(event.decision_type)])
    return h3(name(event.role), " ", small(rest))


def show_event_parts(event: TimelineEvent, room: Room) -> Html:
    """Return everything that happened in an event."""
    return joined(
        [
            *room.fill(
                event.retrievals,
                lambda each: _retrieval(each, room),
                most=REPORT_PARTS_MAX,
                noun="retrieval",
            ),
            show_calls(event.calls, room),
            _guardrails(event),
        ]
    )


def show_calls(calls: Sequence[TimelineCall], room: Room) -> Html:
    return joined(room.fill(calls, _call, most=REPORT_PARTS_MAX, noun="call"))


def _call(call: TimelineCall) -> Html:
    """Return a call with its arguments and its reply. What a model was asked is long, and folded."""
    asked = show_value(call.args)
    if call.kind == "model":
        folded = details(summary("asked with ", _names_of(call.args)), asked)
        return _frame(call, folded, _reply(call))
    return _frame(call, div(div(label("arguments"), asked), _reply(call), class_="sides"))


def _frame(call: TimelineCall, *parts: Html | None) -> Html:
    kind = "call failed" if call.error is not UNSET else "call"
    title = p(span(call.kind, class_="kind"), " ", b(name(call.name)), class_="call-name")
    return div(title, *parts, class_=kind)


def _reply(call: TimelineCall) -> Html:
    """Return the result of a call, its error or its fingerprint, and its effects."""
    if call.error is not UNSET:
        title = p("raised", class_="label raised")
    else:
        title = label("reply" if call.kind == "model" else "result")
    return div(
        title,
        show_value(_reply_of(call)) if call.is_recorded else _fingerprint(call.result_fingerprint),
        *(() if call.effects is UNSET else (label("effects"), show_value(call.effects))),
    )


def _reply_of(call: TimelineCall) -> Json:
    """Return the reply of a recorded call as one value; an error as a text."""
    if call.error is not UNSET:
        return f"{call.error.type}: {call.error.message}"
    return None if call.result is UNSET else call.result


def _fingerprint(hash: object) -> Html:
    shown = short(hash) if isinstance(hash, str) else "not recorded"
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


def _guardrails(event: TimelineEvent) -> Html | None:
    triggered = guardrails_of(event.guardrails)
    if not triggered:
        return None
    shown = triggered[:REPORT_PARTS_MAX]
    rest = len(triggered) - len(shown)
    words = [part for each in shown for part in (", ", name(each))][1:]
    more = f", and {rest:,} more" if rest else None
    return p(span("guardrail", class_="kind"), " ", *words, more, class_="call-name")
