"""Commands about runs: runs list, runs modes, recover."""

import re
from pathlib import Path
from typing import Annotated

import typer

from rote.cli.loading import LoadingGroup, Place
from rote.cli.options import LimitOption, StoreOptions, spread_options
from rote.cli.output import digits, plural, print_line, print_rows, short
from rote.cli.settings import ConfigOption, no_settings, settings_path
from rote.contract.run_modes import LIVE
from rote.errors import InvalidInput, NotFound
from rote.runs.ledger import RunRecord
from rote.runs.modes import MODES, OFF, READ_ONLY, check_modes
from rote.settings import read_environment
from rote.values import Json
from rote.values.limits import LEASE_SECONDS_DEFAULT
from rote.values.names import told

EnvironmentOption = Annotated[
    str | None,
    typer.Option(
        "--environment", metavar="NAME", envvar="ROTE_ENVIRONMENT", help="One of the settings."
    ),
]

# Runs of these modes make no commit, so what they were says more than their state.
_ENDED: dict[str, str] = {OFF: "read", READ_ONLY: "read", LIVE: "live"}
_is_drawn = re.compile(r"[0-9a-f]{32}").fullmatch


class _Commands(LoadingGroup):
    places = (
        Place("show", "rote.cli.run_details:show_run"),
        Place("replay", "rote.cli.replaying:replay_run"),
    )


runs = typer.Typer(cls=_Commands, help="Runs: what was started here, and what became of it.")


@runs.command("list")
@spread_options
def list_runs(
    *,
    open_only: Annotated[
        bool, typer.Option("--open", help="Only those that have not ended.")
    ] = False,
    limit: LimitOption = None,
    options: StoreOptions,
) -> None:
    """List runs, the newest last."""
    with options.opened_store() as store:
        records = [each for each in store.runs() if not open_only or each.ended_at is None]
    shown = records if limit is None else records[len(records) - min(limit, len(records)) :]
    columns = ("run", "workflow", "mode", "state", "version", "started")
    options.print_answer(
        [record.to_dict() for record in shown], lambda: _print_runs(columns, shown)
    )


def find_run(records: list[RunRecord], run_id: str) -> RunRecord:
    """Return the run with an id, or whose id begins so; NotFound for none, InvalidInput for several."""
    found = [record for record in records if record.run_id == run_id]
    found = found or [record for record in records if record.run_id.startswith(run_id)]
    if not found:
        raise NotFound(f"there is no run {run_id}; rote runs list names all", run_id=run_id)
    if len(found) > 1:
        names = told(record.run_id for record in found)
        raise InvalidInput(f"{len(found):,} runs begin with {run_id}; {names}", run_id=run_id)
    return found[0]


@runs.command("modes")
@spread_options
def show_modes(
    *,
    config: ConfigOption = None,
    environment: EnvironmentOption = None,
    options: StoreOptions,
) -> None:
    """Say which modes of runs an environment enables."""
    modes = check_modes(modes_of(options.store, config, environment))
    named = [mode for mode in MODES if mode in modes]
    answer: Json = {"environment": environment, "modes": list(named)}
    options.print_answer(answer, lambda: print_line(", ".join(named)))


@spread_options
def recover(*, options: StoreOptions) -> None:
    """End the runs whose owners are gone: apply or abort what was pending, discard open buffers."""
    # Opening a store recovers it too; here it must not, so that `ended` has every run that ends.
    with options.opened_store(recover=False) as store:
        ended = store.recover()
        waiting = [record for record in store.runs() if record.ended_at is None]
    answer: Json = {
        "ended": [record.to_dict() for record in ended],
        "going_on": [record.to_dict() for record in waiting],
    }
    options.print_answer(answer, lambda: _print_recovery(ended, waiting))


def _print_recovery(ended: list[RunRecord], waiting: list[RunRecord]) -> None:
    _print_runs(("run", "workflow", "outcome", "version"), ended)
    print_line(f"{plural(len(ended), 'run')} ended, {digits(len(waiting))} going on")
    if waiting:
        print_line(
            "a run whose process is gone can be ended when its lease is over: at the latest"
            f" {LEASE_SECONDS_DEFAULT} seconds later, or the lease_seconds= of its rote.open"
        )


def _print_runs(columns: tuple[str, ...], records: list[RunRecord]) -> None:
    rows = map(_cells, records)
    print_rows(columns, ([cells[column] for column in columns] for cells in rows))


def _cells(record: RunRecord) -> dict[str, str]:
    became = standing(record)
    return {
        "run": _shown_id(record),
        "workflow": record.workflow_id,
        "mode": record.mode,
        "state": became,
        "outcome": became,
        "version": "" if record.version is None else str(record.version),
        "started": _to_the_second(record.started_at),
    }


def modes_of(store: str, config: Path | None, environment: str | None) -> tuple[str, ...] | None:
    """Return the modes that an environment enables; None without one, which means the default."""
    if environment is None:
        return None
    path = settings_path(store, config)
    if path is None:
        raise NotFound("settings are not beside this store; name them with --config")
    if not path.is_file():
        raise no_settings(path)
    return read_environment(path.read_bytes(), environment, place=str(path)).modes


def _shown_id(record: RunRecord) -> str:
    """Return an id that a user chose, or the beginning of a drawn one, which `show` accepts."""
    return short(record.run_id) if _is_drawn(record.run_id) else record.run_id


def _to_the_second(at: str) -> str:
    return f"{at.partition('.')[0]}Z" if "." in at else at


def standing(record: RunRecord) -> str:
    """Return what a run was: read, live or replayed; of one that was to commit, its state and reason,
    such as: commit_aborted (validation_failed)."""
    word = record.state
    if record.ended_at is not None:
        if record.replayed:
            return "replayed"
        word = _ENDED.get(record.mode, word)
    more = "discarded" if record.discarded else record.reason_code
    return word if more is None else f"{word} ({more})"
