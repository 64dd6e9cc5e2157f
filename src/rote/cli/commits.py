"""Commands about commits: log, show."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Annotated

import typer

from rote.cli.changes import body_of, print_operations, why, words_of
from rote.cli.graph import Lanes, mirrored
from rote.cli.naming import id_in, shown
from rote.cli.options import (
    LimitOption,
    Point,
    SpaceOptions,
    point_of,
    spread_options,
)
from rote.cli.output import (
    compact,
    print_json,
    print_line,
    print_pairs,
    print_parts,
    print_rows,
    print_value,
    short,
    stdout,
)
from rote.contract import Branch, Commit, Fact
from rote.errors import InvalidInput
from rote.space import Space
from rote.values import Json

_COLUMNS = ("version", "at", "author", "facts", "why", "hash", "branch")


@spread_options
def log(
    id: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]", help="Only of this entity, or of this record: NAMESPACE KIND ID."
        ),
    ] = None,
    *,
    author: Annotated[
        str | None, typer.Option("--author", metavar="NAME", help="Only by this author.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="VERSION|TIME", help="Later than this.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="VERSION|TIME", help="Not later than this.")
    ] = None,
    limit: LimitOption = None,
    oldest: Annotated[bool, typer.Option("--oldest", help="Oldest first.")] = False,
    graph: Annotated[bool, typer.Option("--graph", help="Draw branches and merges.")] = False,
    options: SpaceOptions,
) -> None:
    """List a space's commits on all branches, newest first: when, who, what and why.

    Columns: version, time, author, what happened, why, hash, branch.
    """
    entity = id_in(id) if id else None
    low, high = point_of(since, is_start=True), point_of(until)
    if graph and (entity is not None or author is not None):
        raise InvalidInput("--graph draws every commit; leave ID and --author out")
    with options.opened_space() as space:
        above, below = _version(options, space, low), _version(options, space, high)
        commits = space.log(
            since=above,
            before=None if below is None else below + 1,
            limit=None if entity or author else limit,
            newest=not oldest,
        )
        chosen = (
            commit
            for commit in commits
            if (author is None or commit.author == author)
            and (entity is None or _is_about(commit, entity))
        )
        if graph:
            _print_graph(space, islice(chosen, limit), is_oldest_first=oldest)
        else:
            _print_log(islice(chosen, limit), as_json=options.as_json)


def _version(options: SpaceOptions, space: Space, point: Point | None) -> int | None:
    return point if point is None or type(point) is int else options.view_at(space, point).version


def _is_about(commit: Commit, entity: str) -> bool:
    event = commit.event or {}
    return (
        any(fact.id == entity for fact in commit.facts)
        or event.get("id") == entity
        or entity in event.get("ids", ())
    )


def _print_log(commits: Iterable[Commit], *, as_json: bool) -> None:
    if as_json:
        for commit in commits:
            print_json(commit.to_dict())
    elif stdout().is_terminal:
        for commit in commits:
            place = (f"by {commit.author}" if commit.author else "", f"on {commit.branch}")
            print_parts((str(commit.version), commit.at, *place, short(commit.hash)), style="bold")
            print_parts(words_of(commit), indent="    ")
            print_parts([f"why {why(commit.meta)}" if why(commit.meta) else ""], indent="    ")
    else:
        print_rows(_COLUMNS, (_row(commit) for commit in commits))


def _row(commit: Commit) -> tuple[str, ...]:
    words = ", ".join(words_of(commit))
    return (
        str(commit.version), commit.at, commit.author or "", words, why(commit.meta),
        short(commit.hash), commit.branch,
    )  # fmt: skip


# -- the graph -------------------------------------------------------------------------------------


def _print_graph(space: Space, commits: Iterable[Commit], *, is_oldest_first: bool) -> None:
    """Print the graph. Lanes are drawn from the oldest commit on, so newest first takes them all."""
    if is_oldest_first:
        drawn: Iterable[tuple[str, Commit]] = _drawn(space, iter(commits))
    else:
        found = _drawn(space, reversed(list(commits)))
        drawn = reversed([(mirrored(lanes), commit) for lanes, commit in found])
    for lanes, commit in drawn:
        words = f"{commit.version}  {commit.branch}  {', '.join(words_of(commit))}"
        print_line(f"{lanes}  {words}  {short(commit.hash)}")


def _drawn(space: Space, commits: Iterator[Commit]) -> Iterator[tuple[str, Commit]]:
    """Yield commits that come oldest first, each with its lanes."""
    first = next(commits, None)
    if first is not None:
        yield from Lanes(_branches_below(space, first.version)).draw(chain([first], commits))


def _branches_below(space: Space, version: int) -> list[Branch]:
    """Return the branches that existed before a version; the state before it may be compacted away."""
    branches = space.at(version).branches()
    return [branch for branch in branches if branch.created_version < version]


# -- one commit ------------------------------------------------------------------------------------


@spread_options
def show_commit(
    version: Annotated[
        str,
        typer.Argument(metavar="VERSION", help="A version; or a time, for the newest one then."),
    ],
    *,
    options: SpaceOptions,
) -> None:
    """Show a commit: when, who, why, and each fact with its value or its patch."""
    point = point_of(version)
    with options.opened_space() as space:
        found = _version(options, space, point)
        commit = space.commit(found or 0)
    options.print_answer(commit.to_dict(), lambda: _print_commit(commit))


def _print_commit(commit: Commit) -> None:
    print_pairs(
        [
            ("version", str(commit.version)),
            ("at", commit.at),
            ("author", commit.author or ""),
            ("why", why(commit.meta)),
            ("branch", commit.branch),
            ("event", "" if commit.event is None else compact(commit.event)),
            ("key", commit.key or ""),
            ("hash", commit.hash),
            ("previous", commit.previous or ""),
        ]
    )
    for fact in commit.facts:
        print_line("")
        print_fact(fact)


def print_fact(fact: Fact) -> None:
    """Print a fact with the value that it has set, or with the operations of its patch."""
    print_line(f"{fact.op} {shown(fact.id)}", style="bold")
    body: Json = fact.body
    if fact.op == "set" and not fact.erased:
        print_value(body)
    elif isinstance(body, list) and not fact.erased:
        print_operations([each for each in body if isinstance(each, dict)])
    elif words := body_of(fact):
        print_line(f"    {words}")
