"""Commands about traces: trace check, trace compare, trace prune."""

import re
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from rote.bridges.folders import shown_name
from rote.bridges.trace_files import (
    check_trace_file,
    compare_files,
    read_named,
    timeline_of,
    trace_in,
)
from rote.bridges.trace_folders import Pair, compare_trace_folders
from rote.bridges.trace_keeping import find_old_runs, remove_run
from rote.cli.input import can_ask
from rote.cli.loading import LoadingGroup, Place
from rote.cli.options import Options, StoreOptions, YesOption, spread_options
from rote.cli.outcome import cannot_say, confirm, no
from rote.cli.output import (
    compact,
    digits,
    opened_target,
    plural,
    print_json,
    print_line,
    print_rows,
)
from rote.cli.run_traces import trace_named
from rote.errors import InvalidInput
from rote.traces import Failure, Report
from rote.traces.checking import MODEL
from rote.traces.reports import Level, cut_to_difference
from rote.traces.timeline_words import short_hash
from rote.values import Json
from rote.values.limits import TRACE_BYTES_MAX, TRACE_DAYS_MIN, TRACE_READ_BYTES_MAX

_CELL_CHARACTERS_SHOWN = 60
_SIDES = ("code", "where", "left", "right")
_DAYS_MAX = 36_500
_is_hash = re.compile(r"[0-9a-f]{64}").fullmatch
_CUT = "cut: the end of the run is not in the trace, so it cannot be compared"
# From worst to best; the worst status among the pairs is the status of all.
_WORST = ("ineligible", "different", "equivalent")


class _Commands(LoadingGroup):
    places = (Place("show", "rote.cli.showing:show_trace"),)


commands = typer.Typer(
    cls=_Commands, help="What runs did: is it complete, and did two do the same?"
)

TraceArgument = Annotated[
    Path, typer.Argument(metavar="TRACE", help="A trace: X.json, the folder of a run, or its id.")
]
RetrievalOption = Annotated[
    Path | None,
    typer.Option("--retrieval", metavar="FILE", help="Its retrieval trace; else X.retrieval.json."),
]
MaxBytesOption = Annotated[
    int,
    typer.Option(
        "--max-bytes", metavar="N", min=1, max=TRACE_READ_BYTES_MAX, help="What one may have."
    ),
]
HtmlOption = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write a page for a browser to a new file, too."),
]


@commands.command("check")
@spread_options
def check_one(
    trace: TraceArgument,
    *,
    retrieval: RetrievalOption = None,
    max_bytes: MaxBytesOption = TRACE_BYTES_MAX,
    options: StoreOptions,
) -> None:
    """Is a trace complete and fit for a deterministic claim? Exit 1 when it is not."""
    path = _file_of(trace_named(trace, options.store))
    report = check_trace_file(path, retrieval, size_bytes_max=max_bytes)
    options.print_answer(report.to_dict(), lambda: _print_check(report))
    if not report.ok:
        raise no()


def _print_check(report: Report) -> None:
    if report.ok:
        whole = "fit: the trace is complete, so rote trace compare can compare it"
        print_line(f"fit, but {_CUT}" if report.truncated else whole)
        return
    print_line(f"not fit: {_count(report, 'failure')}; {_first(report)}")
    if report.truncated:
        print_line(f"and {_CUT}")
    print_failures(report, ("code", "where", "found", "expected"))


@commands.command("compare")
@spread_options
def compare(
    left: Annotated[Path, typer.Argument(metavar="LEFT", help="A trace, a run, or a folder.")],
    right: Annotated[Path, typer.Argument(metavar="RIGHT", help="The same from another run.")],
    *,
    left_retrieval: Annotated[
        Path | None,
        typer.Option("--left-retrieval", metavar="FILE", help="Of LEFT; else X.retrieval.json."),
    ] = None,
    right_retrieval: Annotated[
        Path | None,
        typer.Option("--right-retrieval", metavar="FILE", help="Of RIGHT; else X.retrieval.json."),
    ] = None,
    left_recording: Annotated[
        Path | None,
        typer.Option("--left-recording", metavar="FILE", help="Of LEFT; else recording.jsonl."),
    ] = None,
    right_recording: Annotated[
        Path | None,
        typer.Option("--right-recording", metavar="FILE", help="Of RIGHT; else recording.jsonl."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Compare writes, model replies and scores too.")
    ] = False,
    html: HtmlOption = None,
    max_bytes: MaxBytesOption = TRACE_BYTES_MAX,
    options: StoreOptions,
) -> None:
    """Did two runs do the same? Exit 1 when not, 2 when they cannot be compared."""
    left, right = trace_named(left, options.store), trace_named(right, options.store)
    if html is not None:
        left, right = _file_of(left), _file_of(right)  # a page shows two runs
    level: Level = "full" if full else "contract"
    if left.is_dir() and right.is_dir():
        if any((left_retrieval, right_retrieval, left_recording, right_recording)):
            raise InvalidInput(
                "the retrieval traces and recordings in folders are found by their names"
            )
        pairs = compare_trace_folders(left, right, level=level, size_bytes_max=max_bytes)
        _end(_show_pairs(list(pairs), options))
        return
    keeps = html is not None
    files = (
        read_named(_file_of(left), left_retrieval, left_recording, keeps_recording=keeps),
        read_named(_file_of(right), right_retrieval, right_recording, keeps_recording=keeps),
    )
    report = compare_files(files, level, max_bytes)
    with nullcontext() if html is None else opened_target(html) as page:
        options.print_answer(report.to_dict(), lambda: _show(report))
        if page is not None:
            from rote.inspector.comparison_report import comparison_report

            page.write(comparison_report(report, *map(timeline_of, files)))
    _end(report.status)


@commands.command("prune")
@spread_options
def prune(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where runs keep their traces.")
    ] = Path("observability"),
    *,
    days: Annotated[
        int,
        typer.Option("--days", metavar="N", min=0, max=_DAYS_MAX, help="What is older goes."),
    ] = TRACE_DAYS_MIN,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: YesOption = False,
    options: Options,
) -> None:
    """Remove old traces; those of deterministic runs stay for 14 days at the least."""
    runs = find_old_runs(folder, days=days, now=time.time())
    size = sum(run.size_bytes for run in runs)
    amount = f"the traces of {plural(len(runs), 'run')} ({digits(size)} bytes)"
    if runs and not dry_run:
        if not yes and can_ask():
            confirm(f"remove {amount} in {folder}, for good?", refusal="nothing was removed")
        for run in runs:
            remove_run(folder, run)
    if options.as_json:
        ids: Json = [shown_name(run.run_id) for run in runs]
        print_json({"runs": ids, "size_bytes": size, "dry_run": dry_run})
        return
    if dry_run:
        for run in runs:
            print_line(run.run_id)
    print_line(f"{amount} {'would go' if dry_run else 'removed'}")


def _file_of(trace: Path) -> Path:
    """Return the file of a trace; for the folder of a run, the trace in it."""
    return trace_in(trace) if trace.is_dir() else trace


def _show(report: Report, name: str = "") -> None:
    """Print the first difference in words, then all of them."""
    of = f" {name}" if name else ""
    if report.ok:
        print_line(f"equivalent{of}")
        return
    if report.status == "ineligible":
        _show_reasons(report, of)
    else:
        _show_differences(f"different{of}:", report)


def _show_reasons(report: Report, of: str) -> None:
    """Print why runs cannot be compared; if only their models are the reason, also what differs."""
    reasons = replace(report, more=0) if report.differences else report
    print_line(f"ineligible{of}: {_count(reasons, 'reason')}; {_first(reasons)}")
    print_failures(reasons, _SIDES)
    if report.differences:
        found = replace(report, status="different", failures=report.differences)
        _show_differences("no proof, but here is what differs:", found)
    elif all(failure.code == MODEL for failure in report.failures):
        beyond = "" if report.level == "full" else "; --full compares replies of the model, too"
        print_line(f"no proof, but nothing differs in what is compared{beyond}")


def _show_differences(words: str, report: Report) -> None:
    print_line(f"{words} {_count(report, 'difference')}; {_first(report)}")
    if report.failures[0].has_values:
        for side, value in zip(("left: ", "right:"), _values(report.failures[0]), strict=True):
            print_line(f"  {side} {value}")
    print_failures(report, _SIDES)


def _show_pairs(pairs: list[Pair], options: Options) -> str:
    statuses: list[str] = [pair.report.status for pair in pairs]
    worst = next(status for status in _WORST if status in statuses)
    if options.as_json:
        told: Json = [
            {"name": pair.name, "left": pair.left, "right": pair.right, **pair.report.to_dict()}
            for pair in pairs
        ]
        print_json({"ok": worst == "equivalent", "status": worst, "pairs": told})
        return worst
    for pair in pairs:
        _show(pair.report, pair.name)
    counts = ", ".join(f"{digits(statuses.count(status))} {status}" for status in reversed(_WORST))
    print_line(f"{plural(len(pairs), 'pair')}: {counts}")
    return worst


def _end(status: str) -> None:
    if status == "different":
        raise no()
    if status == "ineligible":
        raise cannot_say()


def _count(report: Report, noun: str) -> str:
    return plural(len(report.failures) + report.more, noun)


def _first(report: Report) -> str:
    return f"the first: {report.failures[0].message}"


def print_failures(report: Report, columns: tuple[str, ...]) -> None:
    """Print each failure with its place and both values."""
    is_of_one_side = report.status == "ineligible"
    print_rows(columns, (_row(failure, is_of_one_side) for failure in report.failures))
    if report.more:
        print_line(f"and {digits(report.more)} more")


def _row(failure: Failure, is_of_one_side: bool) -> tuple[str, ...]:
    """Return the cells of a failure. A reason of one side has nothing to show of the other one."""
    values = cut_to_difference(*_values(failure), _CELL_CHARACTERS_SHOWN)
    if is_of_one_side:
        values = (
            "" if failure.left is None else values[0],
            "" if failure.right is None else values[1],
        )
    return (failure.code, failure.pointer, *values)


def _values(failure: Failure) -> tuple[str, str]:
    """Return both values as text: from the recordings if they are there, else from the traces."""
    return (
        _shown(failure.left) if failure.left_value is None else failure.left_value,
        _shown(failure.right) if failure.right_value is None else failure.right_value,
    )


def _shown(value: Json) -> str:
    """Return a value as text; the beginning of a hash is enough to tell two apart."""
    return short_hash(value) if isinstance(value, str) and _is_hash(value) else compact(value)
