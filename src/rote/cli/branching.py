"""Commands about branches: branch create, list and delete, merge, diff."""

from functools import partial
from typing import Annotated, Any

import typer

from rote.cli.changes import print_operations
from rote.cli.input import decode_argument
from rote.cli.naming import id_in, shown
from rote.cli.options import (
    AtOption,
    BranchOptions,
    KeyOption,
    SpaceOptions,
    check_key_option,
    point_of,
    spread_options,
    version_in,
)
from rote.cli.outcome import Commands, no
from rote.cli.output import (
    compact,
    plural,
    print_json,
    print_line,
    print_rows,
    short,
)
from rote.cli.writing import newest_before, words_if_repeated
from rote.contract import DELETE, Branch, Change, MergeResult, State
from rote.errors import InvalidInput
from rote.space import Space
from rote.values import check_branch_name

branch = typer.Typer(cls=Commands, help="Make, list and delete branches.")

_Name = Annotated[str, typer.Argument(metavar="NAME", help="A branch.")]
_STYLES = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


@branch.command("create")
@spread_options
def create(
    name: _Name,
    *,
    at: AtOption = None,
    key: KeyOption = None,
    options: BranchOptions,
) -> None:
    """Make a branch of --branch, as it is or as it was; nothing is copied."""
    _check(name, key)
    point = point_of(at)
    with options.opened_space() as space:
        newest = newest_before(space, key)
        space.create_branch(name, at=point, key=key)
        [made] = [found for found in space.branches() if found.name == name]
    words = f"branch {name} of {made.parent} at version {made.fork_version}"
    repeated = words_if_repeated(key, made.created_version, newest)
    options.print_answer(made.to_dict(), lambda: print_line(repeated or words))


@branch.command("list")
@spread_options
def list_branches(*, options: SpaceOptions) -> None:
    """List all branches, deleted ones too, in the order in which they were made."""
    with options.opened_space() as space:
        found = space.branches()
    columns = ("branch", "parent", "fork", "created", "head", "")
    options.print_answer(
        [each.to_dict() for each in found], lambda: print_rows(columns, map(_branch_row, found))
    )


def _branch_row(branch: Branch) -> tuple[str, ...]:
    return (
        branch.name,
        branch.parent or "",
        str(branch.fork_version),
        str(branch.created_version),
        str(branch.head_version),
        "deleted" if branch.deleted else "",
    )


@branch.command("delete")
@spread_options
def delete(name: _Name, *, key: KeyOption = None, options: SpaceOptions) -> None:
    """End a branch: it stays readable, its name is not used again."""
    _check(name, key)
    with options.opened_space() as space:
        newest = newest_before(space, key)
        commit = space.delete_branch(name, key=key)
    words = f"branch {name} deleted at version {commit.version} ({short(commit.hash)})"
    repeated = words_if_repeated(key, commit.version, newest)
    options.print_answer(commit.to_dict(), lambda: print_line(repeated or words))


@spread_options
def merge(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The branch to take from.")],
    *,
    on_conflict: Annotated[
        str,
        typer.Option(
            "--on-conflict",
            metavar="STRATEGY",
            help="What to do where both have changed an entity: fail, ours, theirs, latest, paths.",
        ),
    ] = "fail",
    resolutions: Annotated[
        str | None,
        typer.Option("--resolutions", metavar="JSON", help="{id: value}: JSON, @file or -."),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", metavar="ID", help="Resolve a conflict by deleting; repeatable."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")] = False,
    key: KeyOption = None,
    options: BranchOptions,
) -> None:
    """Bring what SOURCE has changed into --branch; exit 1 when there are conflicts."""
    _check(source, key)
    settled = _resolutions(resolutions, delete or [])
    with options.opened_space() as space:
        newest = newest_before(space, key)
        result = space.merge(
            source, on_conflict=on_conflict, resolutions=settled, dry_run=dry_run, key=key
        )
    made = result.commit
    repeated = None if made is None else words_if_repeated(key, made.version, newest)
    if options.as_json:
        print_json(result.to_dict())
    elif repeated is not None:
        print_line(repeated)
    else:
        _print_merge(result, source, options.branch)
    if result.status == "conflict":
        raise no()


@spread_options
def diff(
    other: Annotated[
        str | None,
        typer.Argument(
            metavar="[OTHER]",
            help="A branch, or --branch at a version or a time; as it is now, unless said.",
        ),
    ] = None,
    *,
    at: AtOption = None,
    options: BranchOptions,
) -> None:
    """Say what turns --branch into OTHER: + added, - removed, ~ changed, with the patch.

    With --at alone: what has changed since then.
    """
    if other is None and at is None:
        raise InvalidInput("name what to compare with; or with --at since when changes count")
    point = point_of(at)
    with options.opened_space() as space:
        after = _other(space, other, options)
        changes = options.view_at(space, point).diff(after)
    for change in changes:
        options.print_answer(change.to_dict(), partial(_print_change, change))


def _other(space: Space, other: str | None, options: BranchOptions) -> str | Space:
    """Return the branch, or the view of this branch, that a text names."""
    if other is None:
        return space
    is_branch = any(row.name == other for row in space.branches())
    if is_branch and version_in(other) is not None:
        raise InvalidInput(
            f"{other} is a version, and a branch; for the branch turn it round:"
            f" rote diff {options.branch} --branch {other}"
        )
    try:
        return other if is_branch else options.view_at(space, point_of(other))
    except InvalidInput:
        return (
            other  # neither a version nor a time; the comparison says that there is no such branch
        )


def _check(name: str, key: str | None) -> None:
    check_branch_name(name)
    check_key_option(key)


def _resolutions(argument: str | None, deleted: list[str]) -> dict[str, Any]:
    given: Any = {} if argument is None else decode_argument(argument)
    if not isinstance(given, dict):
        raise InvalidInput("resolutions are an object from ids to values: put { } around them")
    settled = {id_in([name]): value for name, value in given.items()}
    gone = [id_in([name]) for name in deleted]
    both = sorted(settled.keys() & set(gone))
    if both:
        raise InvalidInput(
            f"{shown(both[0])} has a value in --resolutions and --delete; give one of them"
        )
    return {**settled, **dict.fromkeys(gone, DELETE)}


def _print_merge(result: MergeResult, source: str, target: str) -> None:
    if result.status == "nothing":
        print_line(f"nothing to merge: {target} has everything of {source}")
    elif result.status == "conflict":
        print_line(f"{plural(len(result.conflicts), 'conflict')}; nothing was merged", style="red")
        columns = ("entity", "base", f"ours ({target})", f"theirs ({source})")
        print_rows(
            columns,
            (
                (shown(each.id), *(_told(state) for state in (each.base, each.ours, each.theirs)))
                for each in result.conflicts
            ),
            wraps=columns[1:],
        )
    else:
        words = f"{source} into {target}: {plural(len(result.merged), 'change')}"
        if result.commit is None:
            print_line(f"would merge {words}")
        else:
            place = f"at version {result.commit.version} ({short(result.commit.hash)})"
            print_line(f"merged {words} {place}", style="green")
        for id in result.merged:
            print_line(f"  {shown(id)}")


def _told(state: State) -> str:
    return compact(state.value) if state.exists else "(absent)"


def _print_change(change: Change) -> None:
    mark, style = _STYLES[change.kind]
    value = {"added": change.after, "removed": change.before}.get(change.kind)
    words = "" if change.kind == "changed" else f" {compact(value)}"
    print_line(f"{mark} {shown(change.id)}{words}", style=style)
    print_operations(change.patch or ())
