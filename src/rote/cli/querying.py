"""Commands that follow links: query, watch."""

import sys
from typing import Annotated, Any

import typer

from rote.cli.input import decode_argument
from rote.cli.options import (
    BRANCH_DEFAULT,
    SPACE_DEFAULT,
    STORE_DEFAULT,
    AtOption,
    BranchOption,
    JsonOption,
    SpaceOption,
    StoreOption,
    opened_space,
    point_of,
)
from rote.cli.output import compact, plural, print_json, print_line, print_rows, print_value, say
from rote.errors import InvalidInput
from rote.values import Json
from rote.values.limits import INTEGER_MAX

# What a selector never starts with, and a query as JSON, in a file or on the standard input does.
_QUERY_STARTS = ("{", "@", "-")

QueryArgument = Annotated[
    str,
    typer.Argument(metavar="QUERY", help="An id, a prefix with *, *; or a whole query as JSON."),
]
FollowOption = Annotated[
    bool, typer.Option("--follow", help="Follow every link, if QUERY is a selector.")
]


def query(
    query: QueryArgument,
    *,
    follow: FollowOption = False,
    values: Annotated[
        bool, typer.Option("--values", help="Print values, links replaced by what they lead to.")
    ] = False,
    at: AtOption = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Print selected entities and those that links lead to."""
    asked = _query_of(query, follow=follow)
    point = None if at is None else point_of(at)
    with opened_space(store, space, branch) as opened:
        view = opened if point is None else opened.at(point)
        result: Any = view.values(asked) if values else view.query(asked)
    if as_json:
        print_json(result)
        return
    if values:
        print_value(result["values"])
    else:
        print_rows(
            ("id", "version", "value"), (_row(id, fact) for id, fact in result["facts"].items())
        )
    _say_what_is_not_there(result)


def watch(
    query: QueryArgument,
    *,
    follow: FollowOption = False,
    since: Annotated[
        int | None,
        typer.Option("--since", metavar="VERSION", min=0, max=INTEGER_MAX, help="From there on."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", metavar="SECONDS", min=0, help="End when nothing comes for so long."
        ),
    ] = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Print what a query finds, and go on as it changes."""
    asked = _query_of(query, follow=follow)
    with opened_space(store, space, branch) as opened:
        for frame in opened.watch(asked, since=since, timeout=timeout):
            if as_json:
                print_json(frame)
            else:
                _print_frame(frame)
            sys.stdout.flush()


def _query_of(text: str, *, follow: bool) -> dict[str, Json]:
    if not text.startswith(_QUERY_STARTS):
        return {"select": {text: {"schema": True} if follow else {}}}
    asked: Any = decode_argument(text)
    if type(asked) is not dict:
        raise InvalidInput("a query is an object with `select`", key="select")
    if follow:
        raise InvalidInput("--follow goes with a selector; a whole query has its schemas")
    return asked


def _row(id: str, fact: dict[str, Any]) -> tuple[str, str, str]:
    return (id, str(fact["version"]), _shown(fact))


def _shown(fact: dict[str, Any]) -> str:
    return "(deleted)" if "deleted" in fact else compact(fact["value"])


def _say_what_is_not_there(result: dict[str, Any]) -> None:
    for id in result.get("missing", ()):
        say(f"missing: {id}")
    _say_what_is_cut(result["truncated"])
    if result["cursor"] is not None:
        say(f'more: repeat the query with "cursor":{compact(result["cursor"])}')


def _say_what_is_cut(cut: dict[str, Any] | None) -> None:
    if cut is not None:
        say(f"truncated by {cut['reason']} at {cut['at']}")


def _print_frame(frame: dict[str, Any]) -> None:
    changes = plural(len(frame["upserts"]) + len(frame["removes"]), "change")
    print_line(f"version {frame['to']}: {changes}", style="bold")
    for upsert in frame["upserts"]:
        print_line(f"+ {upsert['id']} {_shown(upsert)}", style="green")
    for id in frame["removes"]:
        print_line(f"- {id}", style="red")
    sys.stdout.flush()
    _say_what_is_cut(frame.get("truncated"))
