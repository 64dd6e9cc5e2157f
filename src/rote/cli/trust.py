"""Commands about trust in the data: verify, checkpoint, backup."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rote.cli.input import decode_file
from rote.cli.naming import shown
from rote.cli.options import (
    SPACE_DEFAULT,
    Options,
    OutputOption,
    SpaceOptions,
    StoreOptions,
    find_space,
    spread_options,
)
from rote.cli.outcome import cannot_say, no, tell_error
from rote.cli.output import (
    digits,
    plural,
    print_json,
    print_line,
    print_rows,
    print_value,
    short,
)
from rote.cli.progress import bar, spinner
from rote.contract import UNDECIDED, Fault, VerifyReport
from rote.errors import RoteError
from rote.space import Space, Store
from rote.space.store import every_space
from rote.values import canonical


@spread_options
def verify(
    *,
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="FILE", help="A checkpoint that the log must extend."),
    ] = None,
    space: Annotated[
        str | None,
        typer.Option(
            "--space", metavar="NAME", envvar="ROTE_SPACE", help="Only this space, by name or did."
        ),
    ] = None,
    options: StoreOptions,
) -> None:
    """Recompute the whole chain of every space; exit 1 when anything is not as it was written."""
    checkpoint: Any = None if against is None else decode_file(against)
    with options.opened_store() as store:
        chosen = every_space(store) if space is None else [find_space(store, space)]
        if space is None and checkpoint is not None:
            chosen = [_space_of(checkpoint, store)]
        verdicts = {_verify(each, checkpoint, options) for each in chosen}
        if not chosen and not options.as_json:
            print_line("there are no spaces, and nothing to verify")
    # One fault makes the answer no, whatever else cannot be decided.
    if False in verdicts:
        raise no()
    if None in verdicts:
        raise cannot_say()


def _space_of(checkpoint: Any, store: Store) -> Space:
    """Return the space that a checkpoint names; the default one if it names none of this store."""
    named = checkpoint.get("space") if isinstance(checkpoint, dict) else None
    found = [space for space in store.spaces() if space.did == named]
    return found[0] if found else find_space(store, SPACE_DEFAULT)


def _verify(space: Space, checkpoint: Any, options: Options) -> bool | None:
    """Verify a space and print the report; return whether it is ok, None when nobody can say."""
    try:
        with bar() as advance:
            progress = None if advance is None else partial(advance, "verifying")
            report = space.verify(against=checkpoint, progress=progress)
    except RoteError as error:
        if checkpoint is not None:
            raise
        error.args = (f"space {space.name}: {error}",)
        tell_error(error)  # the other spaces may be whole
        return None
    answer = {"space": space.name, **report.to_dict()}
    options.print_answer(answer, lambda: print_report(report, space.name))
    return None if _is_undecided(report) else report.ok


@spread_options
def checkpoint(*, output: OutputOption = None, options: SpaceOptions) -> None:
    """Sign the head of a space; keep the answer elsewhere, for `rote verify --against`."""
    with options.opened_space() as space:
        signed = space.checkpoint()
    if output is not None:
        # An older checkpoint proves more than a newer one, so no file is overwritten.
        with output.open("xb") as file:
            file.write(canonical(signed) + b"\n")
    if options.as_json:
        print_json(signed)
    elif output is None:
        print_value(signed)
    else:
        print_line(f"checkpoint of version {signed['version']} written to {output}")


@spread_options
def backup(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A new file.")],
    *,
    options: StoreOptions,
) -> None:
    """Copy the whole store to a new file, while others go on writing."""
    with options.opened_store() as store, spinner(f"copying {store.url}"):
        store.backup(path)
    size = path.stat().st_size
    words = f"backup of {store.url} written to {path} ({plural(size, 'byte')})"
    options.print_answer({"path": str(path), "size_bytes": size}, lambda: print_line(words))


def print_report(report: VerifyReport, space: str) -> None:
    checked = f"{plural(report.commits, 'commit')} and {plural(report.facts, 'fact')} checked"
    checked += f", {digits(report.erased)} of them erased" if report.erased else ""
    if report.oldest > 1:
        checked += f"; history begins with version {report.oldest}"
    place = f"space {space}, version {report.version}"
    if report.ok:
        head = "" if report.head is None else f", head {short(report.head)}"
        print_line(f"ok: {place}{head}; {checked}", style="green")
        _print_found("warning", report.warnings)
        return
    if _is_undecided(report):
        print_line(f"cannot say: {place}; {checked}", style="yellow")
    else:
        faults = plural(len(report.faults), "fault")
        print_line(f"not ok: {place}; {faults}; {checked}", style="red")
    _print_found("fault", report.faults)
    _print_found("warning", report.warnings)


def _print_found(noun: str, found: Sequence[Fault]) -> None:
    if not found:
        return
    print_rows(
        ("kind", "version", "entity or row", noun),
        (
            (
                fault.kind,
                "" if fault.version is None else str(fault.version),
                shown(fault.id or ""),
                fault.message,
            )
            for fault in found
        ),
    )


def _is_undecided(report: VerifyReport) -> bool:
    """Whether every fault is that the data to decide by is gone."""
    return bool(report.faults) and all(fault.kind == UNDECIDED for fault in report.faults)
