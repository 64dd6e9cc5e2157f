"""Commands that look: get, log, history."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from rote.cli.options import (
    SPACE_DEFAULT,
    STORE_DEFAULT,
    IdArgument,
    JsonOption,
    LimitOption,
    SpaceOption,
    StoreOption,
    opened_space,
)
from rote.cli.outcome import no
from rote.cli.output import compact, print_json, print_rows, print_value, say, short
from rote.contract import Commit, Fact
from rote.values import datetime_of, parse_time
from rote.values.limits import INTEGER_MAX

# 2**63 - 1 has 19 digits; a longer number is no version.
_VERSION_DIGITS_MAX = 19
_FACTS_SHOWN = 3


def get_entity(
    id: IdArgument,
    *,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="VERSION|TIME", help="As it was then: 12, or an RFC 3339 time."
        ),
    ] = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Print an entity's value; exit 1 when it does not exist."""
    point = None if at is None else _point(at)
    with opened_space(store, space) as opened:
        state = (opened if point is None else opened.at(point)).read(id)
    if as_json:
        print_json(state.to_dict())
    elif state.exists:
        print_value(state.value)
    if not state.exists:
        if not as_json:
            say(f"{id} does not exist" + ("" if at is None else f" at {at}"))
        raise no()


def log(
    *,
    since: Annotated[
        int, typer.Option("--since", metavar="VERSION", min=0, max=INTEGER_MAX, help="Above this.")
    ] = 0,
    limit: LimitOption = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """List a space's commits, oldest first."""
    with opened_space(store, space) as opened:
        commits = opened.log(since=since, limit=limit)
        if as_json:
            for commit in commits:
                print_json(commit.to_dict())
        else:
            columns = ("version", "at", "author", "facts", "hash")
            print_rows(columns, (_commit_row(commit) for commit in commits))


def history(
    id: IdArgument,
    *,
    limit: LimitOption = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """List what happened to an entity, newest first."""
    with opened_space(store, space) as opened:
        facts = opened.history(id, limit=limit)
    if as_json:
        for fact in facts:
            print_json(fact.to_dict())
    else:
        columns = ("version", "op", "body", "hash")
        print_rows(columns, (_fact_row(fact) for fact in facts))


def _point(text: str) -> int | datetime:
    """A version or a time."""
    if text.isascii() and text.isdigit() and len(text) <= _VERSION_DIGITS_MAX:
        return int(text)
    return datetime_of(parse_time(text))


def _commit_row(commit: Commit) -> Sequence[str]:
    facts = [f"{fact.op} {fact.id}" for fact in commit.facts[:_FACTS_SHOWN]]
    if len(commit.facts) > _FACTS_SHOWN:
        facts.append(f"{len(commit.facts) - _FACTS_SHOWN:,} more")
    event = [] if commit.event is None else [str(commit.event["type"])]
    words = ", ".join([*event, *facts])
    return (str(commit.version), commit.at, commit.author or "", words, short(commit.hash))


def _fact_row(fact: Fact) -> Sequence[str]:
    body = "(erased)" if fact.erased else "" if fact.op == "delete" else compact(fact.body)
    return (str(fact.version), fact.op, body, short(fact.hash))
