"""The command runs show: one run, what it was, its files, and what to do next."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from rote.bridges.folders import shown_name
from rote.bridges.run_files import files_of, summary_of
from rote.cli.options import SPACE_DEFAULT, STORE_DEFAULT, StoreOptions, spread_options
from rote.cli.outcome import no
from rote.cli.output import compact, plural, print_line, print_pairs
from rote.cli.run_traces import traces_beside
from rote.cli.running import find_run, standing
from rote.contract.run_modes import LIVE
from rote.errors import InvalidInput, NotFound
from rote.opening.engines import locate
from rote.runs.ledger import RunRecord
from rote.traces.artifacts import member, members
from rote.traces.timeline_words import model_words, short_hash

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN_ID", help="Its id, or how it begins.", show_default=False)
]
TracesOption = Annotated[
    Path | None,
    typer.Option("--traces", metavar="DIR", help="Folder of traces; observability by the store."),
]


@spread_options
def show_run(run_id: RunArgument, *, traces: TracesOption = None, options: StoreOptions) -> None:
    """Show one run, its files and what to do next; exit 1 when no id, or several, begin so."""
    with options.opened_store() as store:
        records = store.runs()
        try:
            record = find_run(records, run_id)
        except (NotFound, InvalidInput) as error:
            raise no(str(error)) from None
        shown: dict[str, Any] = {**record.to_dict(), **store.run_origin(record)}
    folder = folder_of(record.run_id, options.store, traces)
    if folder is not None:
        shown |= _files_told(folder)
    shown["next"] = _next_steps(record, shown, options.store, traces)
    options.print_answer(shown, lambda: _print_run(record, shown))


def _files_told(folder: Path) -> dict[str, Any]:
    """Return what is told of the files of a run, also that they cannot be read."""
    name = shown_name(str(folder))
    try:
        files = files_of(folder)
    except OSError as error:
        return {"trace": {"error": f"{name} cannot be read: {error.strerror}"}}
    if not files:
        return {}
    told: dict[str, Any] = {"traces": name, "files": [file.to_dict() for file in files]}
    kept = [file.path for file in files if file.kind in ("trace", "partial trace")]
    if kept:
        told["trace"] = summary_of(kept[0])
    return told


def folder_of(run_id: str, store: str, traces: Path | None) -> Path | None:
    """Return the folder of a run's files: in `traces`, else beside the store, if that is a file."""
    place = traces_beside(store) if traces is None else traces
    return None if place is None else place / run_id


def _next_steps(
    record: RunRecord, shown: dict[str, Any], store: str, traces: Path | None
) -> list[str]:
    """Return the commands that tell more of a run."""
    place = [] if store == STORE_DEFAULT else ["--store", locate(store).shown]
    there = [] if traces is None else ["--traces", str(traces)]
    steps = []
    if "error" not in shown.get("trace", {"error": None}):
        named = [record.run_id, *place] if traces is None else [shown["traces"]]
        steps.append(["rote", "trace", "show", *named])
    kinds = {file["kind"] for file in shown.get("files", ())}
    # After a kill in the last moment, a recording that is whole has not got its name.
    if "recording" in kinds or {"trace", "partial recording"} <= kinds:
        function = ["MODULE:FUNCTION", *there, *place]
        steps.append(["rote", "runs", "replay", record.run_id, *function])
    if record.version is not None:
        space = [] if shown["space"] == SPACE_DEFAULT else ["--space", shown["space"]]
        steps.append(["rote", "show", str(record.version), *space, *place])
    if record.ended_at is None:
        steps.append(["rote", "recover", *place])
    return [shlex.join(step) for step in steps]


def _print_run(record: RunRecord, shown: dict[str, Any]) -> None:
    trace: dict[str, Any] = shown.get("trace", {})
    pairs = [
        ("run", record.run_id),
        ("workflow", record.workflow_id),
        ("mode", record.mode),
        ("state", standing(record)),
        ("wrote", _written_words(record)),
        ("conflicts", compact(shown["conflicts"]) if "conflicts" in shown else ""),
        ("space", f"{shown['space']}, branch {shown['branch']}"),
        ("snapshot", shown["memory_snapshot_id"]),
        ("policy", shown["policy_set_id"]),
        ("validate", record.validate),
        ("commit id", record.commit_id),
        *_trace_pairs(trace),
        ("started", record.started_at),
        ("ended", _ended_words(record, shown)),
    ]
    print_pairs(pairs)
    files = [
        (file["kind"], f"{file['path']} ({plural(file['size_bytes'], 'byte')})")
        for file in shown.get("files", ())
    ]
    for more in (files, [("next", step) for step in shown["next"]]):
        if more:
            print_line("")
            print_pairs(more)


def _ended_words(record: RunRecord, shown: dict[str, Any]) -> str:
    """Return when a run ended. Others have ended one that left only the partial file of its trace."""
    if record.ended_at is None:
        return "not yet, or its process was killed"
    kinds = {file["kind"] for file in shown.get("files", ())}
    if "partial trace" in kinds and "trace" not in kinds:
        return f"{record.ended_at}, without a whole trace: its process was killed or gone"
    return record.ended_at


def _written_words(record: RunRecord) -> str:
    """Return what became of a run's writes; a live run has written at once, in commits of its own."""
    if record.version is not None:
        return f"version {record.version}"
    if record.mode == LIVE:
        return ""
    return "nothing" if record.ended_at is not None else "nothing yet"


def _trace_pairs(trace: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what a trace says of its run; a trace of another program may say less."""
    if "error" in trace or not trace:
        return [("trace", trace.get("error", ""))]
    events = f"{plural(trace['events'], 'event')}, {plural(trace['tool_calls'], 'tool call')}"
    cut = ", and more that the trace does not have" if trace.get("truncated") else ""
    tools = [
        f"{member(tool, 'tool_name')} {member(tool, 'tool_profile_version')}"
        for tool in members(trace, "tools")
    ]
    recording = trace.get("recording")
    return [
        ("model", _model_words(trace) if "model" in trace else ""),
        ("tools", ", ".join(tools)),
        ("events", events + cut),
        ("output", str(trace["output_type"] or "")),
        ("raised", trace.get("raised", "")),
        ("recorded", f"SHA-256 {short_hash(recording)}" if isinstance(recording, str) else ""),
    ]


def _model_words(trace: dict[str, Any]) -> str:
    """Return the model of a run with the settings that somebody has set."""
    words = model_words(trace["model"])
    is_fixed = trace.get("model_fixed") is not False
    return words if is_fixed else f"{words}, not fixed: it may reply otherwise"
