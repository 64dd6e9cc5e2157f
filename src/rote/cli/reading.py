"""Commands that look: get, list, history, spaces."""

from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any

import typer

from rote.cli.changes import body_of, print_operations, why
from rote.cli.naming import IdWords, id_in, shown
from rote.cli.options import (
    AtOption,
    BranchOptions,
    LimitOption,
    StoreOptions,
    point_of,
    spread_options,
)
from rote.cli.outcome import no
from rote.cli.output import (
    compact,
    print_json,
    print_line,
    print_parts,
    print_rows,
    print_value,
    say,
    short,
    stdout,
)
from rote.contract import Commit, Fact, State
from rote.errors import Compacted, InvalidInput
from rote.records.keys import NAMESPACES, ids_under
from rote.space import Space
from rote.values import Json, format_time, micros_of

_VALUE_CHARACTERS_SHOWN = 200  # of a value in a table on a terminal


@spread_options
def get_entity(id: IdWords, *, at: AtOption = None, options: BranchOptions) -> None:
    """Print an entity's value; exit 1 when it does not exist."""
    entity, point = id_in(id), point_of(at)
    with options.opened_space() as space:
        state = options.view_at(space, point).read(entity)
    if options.as_json:
        print_json(state.to_dict())
    elif state.exists:
        print_value(state.value)
    else:
        words = "was erased" if state.erased else "does not exist"
        say(f"{shown(entity)} {words}" + ("" if at is None or state.erased else f" at {at}"))
    if not state.exists:
        raise no()


@spread_options
def list_entities(
    prefix: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PREFIX]", help="What ids start with; or of records: NAMESPACE KIND [ID]."
        ),
    ] = None,
    *,
    limit: LimitOption = None,
    at: AtOption = None,
    options: BranchOptions,
) -> None:
    """List entities by id, records too: id, version, value."""
    start, point = _prefix_in(prefix or []), point_of(at)
    with options.opened_space() as space:
        states = options.view_at(space, point).scan(start, limit=limit)
        if options.as_json:
            for state in states:
                print_json(state.to_dict())
        elif (first := next(states, None)) is not None:
            print_rows(("entity", "version", "value"), map(_state_row, chain([first], states)))
        elif start in NAMESPACES:
            say(f"no id starts with {start}; for its records: rote memory list {start}")


def _prefix_in(words: Sequence[str]) -> str:
    if len(words) > 3:
        raise InvalidInput("a prefix is one word; of records NAMESPACE KIND, or NAMESPACE KIND ID")
    if len(words) < 2:
        return "".join(words)
    return ids_under(words[0], words[1], "".join(words[2:]))


def _state_row(state: State) -> tuple[str, ...]:
    return (shown(state.id), str(state.version), cut(compact(state.value)))


def cut(text: str) -> str:
    """Return the beginning of a long text for a table on a terminal; elsewhere the whole text."""
    if not stdout().is_terminal or len(text) <= _VALUE_CHARACTERS_SHOWN:
        return text
    return f"{text[:_VALUE_CHARACTERS_SHOWN]}…"


@spread_options
def history(id: IdWords, *, limit: LimitOption = None, options: BranchOptions) -> None:
    """List what happened to an entity, newest first: when, who, what and why.

    Columns: version, time, author, operation, body, why, hash.
    """
    entity = id_in(id)
    with options.opened_space() as space:
        facts = space.history(entity, limit=limit)
        erasure = _erasure(space, entity, facts)
    happened: list[Fact | Commit] = [*facts] if erasure is None else [*facts, erasure]
    happened.sort(key=lambda each: each.version, reverse=True)
    told = happened[:limit]
    if options.as_json:
        for each in told:
            print_json(each.to_dict() if isinstance(each, Fact) else _erasure_dict(entity, each))
    elif stdout().is_terminal:
        for each in told:
            _print_happened(each)
    else:
        columns = ("version", "at", "author", "op", "body", "why", "hash")
        print_rows(columns, (_history_row(each) for each in told))


def _erasure(space: Space, id: str, facts: Sequence[Fact]) -> Commit | None:
    """Return the commit that erased the newest fact without content; None when there is none."""
    erased = [index for index, fact in enumerate(facts) if fact.erased]
    if not erased:
        return None
    try:
        view = space.at(facts[erased[0] - 1].version - 1) if erased[0] else space
        return space.commit(view.read(id).version)
    except Compacted:
        return None


def _history_row(happened: Fact | Commit) -> tuple[str, ...]:
    op = happened.op if isinstance(happened, Fact) else "erase"
    body = body_of(happened) if isinstance(happened, Fact) else _reason(happened)
    return (
        str(happened.version), happened.at or "", happened.author or "", op, body,
        why(happened.meta), short(happened.hash),
    )  # fmt: skip


def _print_happened(happened: Fact | Commit) -> None:
    version, at, author, op, body, why, hash = _history_row(happened)
    print_parts((version, at, f"by {author}" if author else "", op, hash), style="bold")
    if isinstance(happened, Fact) and op == "patch" and isinstance(happened.body, list):
        print_operations([each for each in happened.body if isinstance(each, dict)])
    elif body:
        print_line(f"    {body}")
    if why:
        print_line(f"    why {why}")


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
        "at": commit.at,
        "author": commit.author,
        "meta": commit.meta,
        "reason": _reason(commit),
    }


def _reason(erasure: Commit) -> str:
    assert erasure.event is not None
    reason: str = erasure.event["reason"]
    return reason


@spread_options
def list_spaces(*, options: StoreOptions) -> None:
    """List the spaces of a store: name, version, last commit, did."""
    with options.opened_store() as store:
        found = [_summary(space) for space in store.spaces()]
    rows = [(each["name"], str(each["version"]), each["at"] or "", each["did"]) for each in found]
    options.print_answer(
        found, lambda: print_rows(("space", "version", "at", "did"), rows, wraps=())
    )


def _summary(space: Space) -> dict[str, Any]:
    version = space.version
    view = space.at(version)
    return {
        "name": space.name,
        "did": space.did,
        "version": version,
        "head": view.head,
        "at": format_time(micros_of(view.now)) if version else None,
    }
