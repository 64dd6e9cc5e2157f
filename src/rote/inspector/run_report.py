"""The report of a run: one file that needs nothing else, and that no data can make do anything.

It has no script. Its policy allows nothing but its own style sheet, by that sheet's hash.
"""

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files

from rote.inspector.html import (
    Html,
    b,
    div,
    document,
    h1,
    h2,
    header,
    li,
    main,
    name,
    ol,
    p,
    section,
    span,
)
from rote.inspector.room import Room, counted, left_out
from rote.inspector.run_parts import (
    show_calls,
    show_event_parts,
    show_event_title,
    show_facts,
    show_marks,
)
from rote.inspector.value_pieces import show_value
from rote.traces.timeline import Timeline, TimelineCall, TimelineEvent, Writes
from rote.values import Json
from rote.values.limits import REPORT_BYTES_MAX, REPORT_EVENTS_MAX, REPORT_PARTS_MAX


def run_report(run: Timeline) -> bytes:
    """Return the page of a run."""
    body = main(
        header(
            p("Run ", name(run.run_id), class_="eyebrow"),
            h1(name(run.workflow_id)),
            show_marks(run),
        ),
        show_facts(run),
        _events(run.events),
        _rest(run.rest) if run.rest else None,
        _writes(run.writes) if run.writes and run.writes.version is not None else None,
        data_page="run",
    )
    return page(f"{run.workflow_id} {run.run_id}", body)


def _events(events: Sequence[TimelineEvent]) -> Html:
    """Return the events; of too many, those of the beginning and those of the end."""
    rooms = Room(REPORT_BYTES_MAX * 5 // 8).halves()
    half = min((len(events) + 1) // 2, REPORT_EVENTS_MAX // 2)
    first = _fitting(events[:half], rooms[0])
    last = _fitting(events[half:][-half:][::-1], rooms[1])[::-1]
    gap = left_out(len(events) - len(first) - len(last), "event")
    parts = [*first, *([] if gap is None else [li(gap)]), *last]
    return section(h2(counted(len(events), "event")), ol(*parts, class_="events"))


def _fitting(events: Sequence[TimelineEvent], room: Room) -> list[Html]:
    made = []
    for event in events:
        if room.is_full:
            break
        made.append(_event(event, room))
    return made


def _event(event: TimelineEvent, room: Room) -> Html:
    number = room.take(span(f"{event.index:,}", class_="number"))
    title = room.take(show_event_title(event))
    body = div(title, show_event_parts(event, room), class_="body")
    return li(number, body, class_="event", id=f"event-{event.index}")


def _rest(calls: Sequence[TimelineCall]) -> Html:
    """Return the recorded calls that no event of the trace has: those of an event that did not end."""
    room = Room(REPORT_BYTES_MAX // 16)
    return section(h2("Calls that no event of the trace has"), show_calls(calls, room))


def _writes(writes: Writes) -> Html:
    room = Room(REPORT_BYTES_MAX // 16)
    shown = room.fill(writes.facts, _fact, most=REPORT_PARTS_MAX, noun="write")
    return section(h2(f"Writes, version {writes.version:,}"), *shown)


def _fact(fact: dict[str, Json]) -> Html:
    title = p(
        span(str(fact["op"]), class_="kind"), " ", b(name(str(fact["id"]))), class_="call-name"
    )
    return div(title, show_value(fact["body"]), class_="call")


def page(title: str, body: Html) -> bytes:
    """Return a whole file."""
    css = style_sheet()
    allowed = b64encode(sha256(css.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    )
    return document(title=title, body=body, css=css, policy=policy).encode()


@cache
def style_sheet() -> str:
    return files("rote.inspector").joinpath("static", "report.css").read_text()
