"""The command trace show: a run as a timeline, on a terminal or as a page."""

from pathlib import Path
from typing import Annotated

import typer
from msgspec import UNSET
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size

from rote.bridges.trace_files import read_timeline, trace_in
from rote.cli.naming import shown
from rote.cli.options import StoreOptions, opened_store, spread_options
from rote.cli.output import (
    compact,
    indented,
    print_line,
    print_pairs,
    printable,
    say,
    stdout,
    write_page,
)
from rote.cli.run_traces import trace_named
from rote.cli.tracing import HtmlOption, RetrievalOption, TraceArgument
from rote.errors import NotFound, RoteError
from rote.runs.identities import commit_id
from rote.traces.timeline import Timeline, TimelineCall, TimelineEvent, TimelineRetrieval, Writes
from rote.traces.timeline_words import guardrails_of, head_of, marks_of, retrieval_of, short_hash
from rote.values import Json

_INDENT = " " * 4
_DEEPER = " " * 8
# Where no terminal sets a width.
_LINE_CHARACTERS = 200

FullOption = Annotated[bool, typer.Option("--full", help="Show values whole.")]
RecordingOption = Annotated[
    Path | None,
    typer.Option("--recording", metavar="FILE", help="Its recording; else recording.jsonl."),
]


@spread_options
def show_trace(
    trace: TraceArgument,
    *,
    retrieval: RetrievalOption = None,
    recording: RecordingOption = None,
    html: HtmlOption = None,
    full: FullOption = False,
    options: StoreOptions,
) -> None:
    """Show a run as a timeline: its events with calls, replies, retrievals and writes."""
    path = trace_named(trace, options.store)
    run = read_timeline(trace_in(path) if path.is_dir() else path, retrieval, recording)
    run = replace(run, writes=_writes(run, options))
    if html is not None:
        from rote.inspector.run_report import run_report

        write_page(html, run_report(run))
    options.print_answer(run.to_dict(), lambda: _Printer(full).print_run(run))


def _writes(run: Timeline, options: StoreOptions) -> Writes | None:
    """Return what a run has written, where the store that has its commit is at hand."""
    try:
        with opened_store(options.store, read_only=True) as store:
            made = commit_id(run.run_id, run.memory_snapshot_id, run.policy_set_id)
            found = [each for each in store.runs() if each.commit_id == made]
            if not found:
                return None
            if found[0].version is None:
                return None if found[0].ended_at is None else Writes(None, ())
            space = store.space(str(store.run_origin(found[0])["space"]))
            commit = space.commit(found[0].version)
    except NotFound:
        return None
    except RoteError as error:
        say(f"what the run wrote is not shown: {error}")
        return None
    facts = ({"op": fact.op, "id": fact.id, "body": fact.body} for fact in commit.facts)
    return Writes(commit.version, tuple(facts))


class _Printer:
    """Prints a timeline in lines; values are cut to a line unless they are to be whole."""

    def __init__(self, full: bool) -> None:
        console = stdout()
        self._full = full
        self._width = console.width if console.is_terminal else _LINE_CHARACTERS

    def print_run(self, run: Timeline) -> None:
        print_pairs(head_of(run))
        for mark in marks_of(run):
            print_line(mark, style="yellow")
        for event in run.events:
            self._print_event(event)
        if run.rest:
            self._print_title("calls that no event of the trace has")
            self._print_calls(run.rest)
        if run.writes is not None and run.writes.version is not None:
            self._print_title(f"writes of version {run.writes.version}")
            for fact in run.writes.facts:
                self._print_value(_INDENT, f"{fact['op']} {shown(str(fact['id']))}", fact["body"])

    def _print_event(self, event: TimelineEvent) -> None:
        names = f"{event.role}  {event.interceptor}  {event.decision_type}"
        self._print_title(f"event {event.index}  {names}")
        for retrieval in event.retrievals:
            self._print_retrieval(retrieval)
        self._print_calls(event.calls)
        for guardrail in guardrails_of(event.guardrails):
            self._print_line(f"{_INDENT}guardrail {guardrail}")

    def _print_retrieval(self, retrieval: TimelineRetrieval) -> None:
        self._print_line(f"{_INDENT}retrieval {retrieval_of(retrieval)}")
        for record in retrieval.records:
            words = f"{record.rank}  {record.score}  {record.record_id}  {record.record_type}"
            self._print_line(f"{_DEEPER}{words}")

    def _print_calls(self, calls: tuple[TimelineCall, ...]) -> None:
        for call in calls:
            self._print_value(_INDENT, f"{call.kind} {call.name}", call.args)
            if call.error is not UNSET:
                words = f"{_DEEPER}raised {call.error.type}: {call.error.message}"
                self._print_line(words, style="red")
            elif call.is_recorded:
                self._print_value(_DEEPER, "→", call.result)
            elif call.result_fingerprint is not UNSET:
                self._print_line(f"{_DEEPER}→ fingerprint {short_hash(call.result_fingerprint)}")
            if call.effects is not UNSET:
                self._print_value(_DEEPER, "effects", call.effects)

    def _print_title(self, text: str) -> None:
        print_line("")
        self._print_line(text, style="bold")

    def _print_value(self, indent: str, words: str, value: Json) -> None:
        """Print a value behind some words on one line; a whole one on lines of its own."""
        if not self._full:
            text = compact(value)
            print_line(_cut(f"{indent}{words} {text}", self._width, size=len(text)))
            return
        print_line(f"{indent}{words}")
        text = value if isinstance(value, str) else indented(value)
        for line in text.split("\n"):
            print_line(f"{indent}{_INDENT}{line}")

    def _print_line(self, text: str, *, style: str = "") -> None:
        print_line(text if self._full else _cut(text, self._width), style=style)


def _cut(text: str, width: int, *, size: int | None = None) -> str:
    """Return a text that fits on a line; one that is cut says how long the value in it is."""
    beginning = printable(text[: width + 1])
    if len(text) <= width and cell_len(beginning) <= width:
        return beginning
    tail = "…" if size is None else f"… ({size:,} characters)"
    if len(tail) > width // 2:
        tail = "…"
    return set_cell_size(beginning, width - len(tail)).rstrip() + tail
