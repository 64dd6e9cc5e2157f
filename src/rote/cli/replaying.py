"""The command runs replay: would this function do again what a recorded run did?"""

from pathlib import Path
from typing import Annotated, Any

import typer

from rote.bridges.folders import shown_name
from rote.bridges.replays import (
    EntityWrites,
    Original,
    Outcome,
    differing_writes,
    erased_since,
    parting_of,
    read_original,
    reordered_writes,
    replay,
)
from rote.cli.changes import body_of
from rote.cli.functions import described, importing_here, load_function, place_of, split_name
from rote.cli.naming import shown
from rote.cli.options import StoreOptions, find_space, opened_store, spread_options
from rote.cli.outcome import cannot_say, no
from rote.cli.output import compact, plural, print_line, print_pairs, print_rows
from rote.cli.run_details import RunArgument, TracesOption, folder_of
from rote.cli.running import find_run
from rote.cli.tracing import print_failures
from rote.errors import Denied, InvalidInput, RunAborted
from rote.runs.modes import MODES
from rote.space import Space
from rote.traces.reports import Report, cut_to_difference
from rote.values import Json
from rote.values.limits import RECORDED_CHARACTERS_SHOWN

_WRITES = ("entity", "recorded", "now")


@spread_options
def replay_run(
    run_id: RunArgument,
    function: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FUNCTION",
            help="Called with the run; imported from the working folder.",
            show_default=False,
        ),
    ],
    *,
    recording: Annotated[
        Path | None,
        typer.Option("--recording", metavar="FILE", help="Its recording; else beside its trace."),
    ] = None,
    space: Annotated[
        str | None,
        typer.Option("--space", metavar="NAME", help="A copy of its space; else its own."),
    ] = None,
    traces: TracesOption = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the replay as a run: in the ledger, with a trace.")
    ] = False,
    options: StoreOptions,
) -> None:
    """Replay a recorded run with a function; exit 1 where they part, 2 when nobody can say.

    Tools and model are not called: the recording answers. Nothing is written.
    """
    split_name(function)
    place = options.store
    with opened_store(
        place, read_only=not keep, modes=MODES, traces=traces if keep else None
    ) as store:
        if keep and store.read_only:
            raise Denied("the store cannot be written, so no replay is kept; leave out --keep")
        record = find_run(store.runs(), run_id)
        origin = store.run_origin(record)
        folder = folder_of(record.run_id, place, traces)
        if folder is None:
            raise InvalidInput("no traces are beside this store; name their folder with --traces")
        original = read_original(record, str(origin["policy_set_id"]), folder, recording)
        seen = find_space(store, str(origin["space"]) if space is None else space)
        with importing_here() as here:
            outcome = replay(original, seen, load_function(function, here))
        answer = _answer(function, original, seen, outcome)
        if outcome.status != "equal":
            answer["parted"] = _parted(original, seen, outcome, here)
    if keep:
        answer["kept"] = outcome.run.run_id
    options.print_answer(answer, lambda: _print_replay(answer, original, outcome))
    if answer["status"] != "equal":
        raise no() if answer["status"] == "different" else cannot_say()


def _answer(function: str, original: Original, space: Space, outcome: Outcome) -> dict[str, Any]:
    """Return what is told of a replay, for programs and for people."""
    answer: dict[str, Any] = {
        "ok": outcome.status == "equal",
        "status": outcome.status,
        "run_id": original.record.run_id,
        "function": function,
        "recording": shown_name(str(original.recording)),
        "payload_fingerprint": outcome.run.payload_fingerprint,
        "parted": None,
        "report": None if outcome.report is None else outcome.report.to_dict(),
    }
    if outcome.status == "different":
        erased = erased_since(space, outcome.run.memory_snapshot_id)
        if erased is not None:
            # The function may do the same as before and only read less.
            answer |= {"ok": False, "status": "cannot_say"}
            answer["erased"] = {"id": erased[0], "version": erased[1]}
    return answer


def _parted(original: Original, space: Space, outcome: Outcome, here: str) -> dict[str, Json]:
    """Return where a replay left the recorded run: at a call, by an error, a write, or in its trace."""
    error = outcome.error
    if error is None or outcome.report is not None:
        return {"by": "trace"}
    parting = parting_of(error)
    if isinstance(parting, RunAborted):
        writes = differing_writes(original, space, outcome.run)
        told = {"by": "writes", "message": str(parting), "entities": [*map(_told_writes, writes)]}
        order = None if writes else reordered_writes(original, space, outcome.run)
        return told if order is None else {**told, "recorded": order[0], "made": order[1]}
    if parting is not None:
        calls = {name: parting.details.get(name) for name in ("recorded", "made")}
        return {"by": "call", "message": str(parting), **calls, "at": place_of(parting, here)}
    return {"by": "error", "message": described(error), "at": place_of(error, here)}


def _told_writes(writes: EntityWrites) -> dict[str, Json]:
    recorded = writes.recorded
    return {
        "id": writes.id,
        "recorded": None
        if recorded is None
        else [f"{f.op} {body_of(f)}".rstrip() for f in recorded],
        "made": [_operation_words(operation) for operation in writes.made],
    }


def _operation_words(operation: dict[str, Any]) -> str:
    body = operation.get("ops", operation.get("value"))
    return operation["op"] if operation["op"] == "delete" else f"{operation['op']} {compact(body)}"


# -- for people ------------------------------------------------------------------------------------


def _print_replay(answer: dict[str, Any], original: Original, outcome: Outcome) -> None:
    if answer["status"] == "equal":
        print_line(f"equal: {_equal_words(answer, original, outcome)}", style="green")
    else:
        _print_parting(answer, outcome.report)
    if "erased" in answer:
        id, version = answer["erased"]["id"], answer["erased"]["version"]
        print_line(
            f"cannot say: {shown(id)} was erased since, in version {version}; whether the function"
            " would have done the same with it, nobody can tell"
        )
    if "kept" in answer:
        print_line(f"kept as the run {answer['kept']}")


def _equal_words(answer: dict[str, Any], original: Original, outcome: Outcome) -> str:
    trace: Any = outcome.run.trace
    calls = sum(len(event["tool_calls"]) for event in trace["events"])
    amount = f"{plural(len(trace['events']), 'event')}, {plural(calls, 'tool call')}"
    if original.adapter_calls:
        amount += f", {plural(original.adapter_calls, 'adapter call')}"
    end = "the same writes" if outcome.error is None else f"and {described(outcome.error)}, as then"
    return f"{answer['function']} did what the run {answer['run_id']} did: {amount}, {end}"


def _print_parting(answer: dict[str, Any], report: Report | None) -> None:
    parted = answer["parted"]
    place = f" at {parted['at']}" if parted.get("at") else ""
    match parted["by"]:
        case "call":
            print_line(f"different: it leaves the recording{place}", style="red")
            both = _cut(parted["recorded"], parted["made"])
            print_pairs(list(zip(("recorded", "now"), both, strict=True)))
        case "error":
            print_line(f"different: it raised {parted['message']}{place}", style="red")
        case "writes" if "made" in parted:
            words = (
                "different: the calls are the same, and it would write the same in another order"
            )
            print_line(words, style="red")
            both = _cut(*("; ".join(map(shown, parted[name])) for name in ("recorded", "made")))
            print_pairs(list(zip(("recorded", "now"), both, strict=True)))
        case "writes":
            words = "different: the calls are the same, and it would write something else"
            print_line(words, style="red")
            print_rows(_WRITES, map(_writes_row, parted["entities"]), wraps=_WRITES[1:])
    if report is not None:
        print_line(
            f"{answer['status'].replace('_', ' ')}: {report.failures[0].message}", style="red"
        )
        print_failures(report, ("code", "where", "recorded", "now"))


def _writes_row(entity: dict[str, Any]) -> tuple[str, str, str]:
    recorded, made = entity["recorded"], entity["made"]
    then = "(not known)" if recorded is None else "; ".join(recorded) or "nothing"
    return (shown(entity["id"]), *_cut(then, "; ".join(made) or "nothing"))


def _cut(recorded: str, made: str) -> tuple[str, str]:
    return cut_to_difference(recorded, made, RECORDED_CHARACTERS_SHOWN)
