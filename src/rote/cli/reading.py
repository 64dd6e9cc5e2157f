"""Commands that look: get, log, history."""

from collections.abc import Sequence
from typing import Annotated

import typer

from rote.cli.graph import Lanes
from rote.cli.options import (
    AtOption,
    BranchOptions,
    IdArgument,
    LimitOption,
    SpaceOptions,
    point_of,
    spread_options,
    view_at,
)
from rote.cli.outcome import no
from rote.cli.output import (
    compact,
    digits,
    print_json,
    print_line,
    print_rows,
    print_value,
    say,
    short,
)
from rote.contract import Branch, Commit, Fact
from rote.errors import Compacted
from rote.space import Space
from rote.values import Json
from rote.values.limits import INTEGER_MAX

_FACTS_SHOWN = 3
# Members of events that name their subject.
_ABOUT = ("source", "name", "id", "before")


@spread_options
def get_entity(id: IdArgument, *, at: AtOption = None, options: BranchOptions) -> None:
    """Print an entity's value; exit 1 when it does not exist."""
    point = point_of(at)
    with options.opened_space() as space:
        state = view_at(space, point).read(id)
    if options.as_json:
        print_json(state.to_dict())
    elif state.exists:
        print_value(state.value)
    else:
        words = "was erased" if state.erased else "does not exist"
        say(f"{id} {words}" + ("" if at is None or state.erased else f" at {at}"))
    if not state.exists:
        raise no()


@spread_options
def log(
    *,
    since: Annotated[
        int | None,
        typer.Option("--since", metavar="VERSION", min=0, max=INTEGER_MAX, help="Above this."),
    ] = None,
    limit: LimitOption = None,
    graph: Annotated[bool, typer.Option("--graph", help="Draw branches and merges.")] = False,
    options: SpaceOptions,
) -> None:
    """List a space's commits on all branches, oldest first."""
    with options.opened_space() as space:
        start = beginning(space) if since is None else since
        commits = space.log(since=start, limit=limit)
        if options.as_json:
            for commit in commits:
                print_json(commit.to_dict())
        elif graph:
            lanes = Lanes(_branches_below(space, start))
            for drawn, commit in lanes.draw(commits):
                words = f"{commit.version}  {commit.branch}  {_words(commit)}  {short(commit.hash)}"
                print_line(f"{drawn}  {words}")
        else:
            columns = ("version", "at", "author", "facts", "hash", "branch")
            print_rows(columns, (_commit_row(commit) for commit in commits))


def beginning(space: Space, since: int = 0) -> int:
    """Return the version to read the log above: `since`, or the last one that was compacted away."""
    return max(since, space.oldest - 1)


def _branches_below(space: Space, since: int) -> list[Branch]:
    """Return the branches that existed at a version, even when that version was compacted away."""
    try:
        return space.at(min(since, space.version)).branches()
    except Compacted:
        branches = space.at(since + 1).branches()
        return [branch for branch in branches if branch.created_version <= since]


@spread_options
def history(id: IdArgument, *, limit: LimitOption = None, options: BranchOptions) -> None:
    """List what happened to an entity, newest first."""
    with options.opened_space() as space:
        facts = space.history(id, limit=limit)
        erasure = _erasure(space, id, facts)
    happened: list[Fact | Commit] = [*facts] if erasure is None else [*facts, erasure]
    happened.sort(key=lambda each: each.version, reverse=True)
    if options.as_json:
        for each in happened[:limit]:
            print_json(each.to_dict() if isinstance(each, Fact) else _erasure_dict(id, each))
    else:
        columns = ("version", "op", "body", "hash")
        print_rows(columns, (_history_row(each) for each in happened[:limit]))


def _erasure(space: Space, id: str, facts: Sequence[Fact]) -> Commit | None:
    """Return the commit that erased the newest fact without content; None when there is none."""
    erased = [index for index, fact in enumerate(facts) if fact.erased]
    if not erased:
        return None
    before = facts[erased[0] - 1].version - 1 if erased[0] else None
    try:
        state = view_at(space, before).read(id)
        return next(space.log(since=state.version - 1, limit=1))
    except Compacted:
        return None


def _commit_row(commit: Commit) -> Sequence[str]:
    author = commit.author or ""
    words = _words(commit)
    return (str(commit.version), commit.at, author, words, short(commit.hash), commit.branch)


def _words(commit: Commit) -> str:
    """Return the event and the facts of a commit in words."""
    facts = [
        f"{fact.op} {fact.id}{' (erased)' if fact.erased else ''}"
        for fact in commit.facts[:_FACTS_SHOWN]
    ]
    if len(commit.facts) > _FACTS_SHOWN:
        facts.append(f"{digits(len(commit.facts) - _FACTS_SHOWN)} more")
    event = []
    if commit.event is not None:
        about = next((commit.event[name] for name in _ABOUT if name in commit.event), "")
        if "ids" in commit.event:
            about = f"{digits(len(commit.event['ids']))} entities, {commit.event['ids'][0]} …"
        reason = f" ({commit.event['reason']})" if "reason" in commit.event else ""
        event.append(f"{commit.event['type']} {about}".rstrip() + reason)
    return ", ".join([*event, *facts])


def _history_row(happened: Fact | Commit) -> Sequence[str]:
    version, hash = str(happened.version), short(happened.hash)
    if isinstance(happened, Fact):
        return (version, happened.op, _body(happened), hash)
    return (version, "erase", _reason(happened), hash)


def _erasure_dict(id: str, commit: Commit) -> dict[str, Json]:
    """Return an erasure in the shape of a fact, with its reason."""
    return {
        "id": id,
        "op": "erase",
        "body": None,
        "salt": None,
        "parent": None,
        "hash": None,
        "version": commit.version,
        "index": None,
        "commit": commit.hash,
        "erased": False,
        "reason": _reason(commit),
    }


def _reason(erasure: Commit) -> str:
    assert erasure.event is not None
    reason: str = erasure.event["reason"]
    return reason


def _body(fact: Fact) -> str:
    if fact.erased:
        return "(erased)"
    if fact.op == "delete":
        return ""
    # A compaction keeps the result of a patch, but not its operations.
    return "(compacted)" if fact.op == "patch" and fact.body is None else compact(fact.body)
