"""Commands that follow links: query, watch."""

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from rote.cli.input import decode_argument
from rote.cli.naming import id_in, shown
from rote.cli.options import AtOption, SpaceOptions, point_of, spread_options
from rote.cli.output import compact, plural, print_json, print_line, print_rows, print_value, say
from rote.errors import InvalidInput
from rote.records.keys import ids_under
from rote.values import Json, format_time, micros_of
from rote.values.limits import INTEGER_MAX

# A whole query (JSON, @file or -) starts with one of these; a selector never does.
_QUERY_STARTS = ("{", "[", '"', "@", "-")

QueryArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="QUERY",
        help="An id, a prefix with *, *; a record: NAMESPACE KIND ID; or a whole query as JSON.",
    ),
]
# There is no default, so that --branch is noticed beside a branch in the query.
QueryBranchOption = Annotated[
    str | None, typer.Option("--branch", metavar="NAME", help="A branch's name.")
]
FollowOption = Annotated[
    bool, typer.Option("--follow", help="Follow every link, if QUERY is a selector.")
]


@spread_options
def query(
    query: QueryArgument,
    *,
    follow: FollowOption = False,
    values: Annotated[
        bool, typer.Option("--values", help="Print values, links replaced by what they lead to.")
    ] = False,
    since: Annotated[
        int | None,
        typer.Option("--since", metavar="VERSION", help="Of a wildcard, what was written later."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="Selected entities for each page.")
    ] = None,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="TEXT", help="The next page, as it was told.")
    ] = None,
    at: AtOption = None,
    options: SpaceOptions,
    branch: QueryBranchOption = None,
) -> None:
    """Print selected entities and those that links lead to."""
    point = point_of(at)
    moment = format_time(micros_of(point)) if isinstance(point, datetime) else point
    given = {"since": since, "limit": limit, "cursor": cursor, "at": moment, "branch": branch}
    asked = _query_of(query, follow=follow, **given)
    with options.opened_space() as space:
        result: Any = space.values(asked) if values else space.query(asked)
    options.print_answer(result, lambda: _print_result(result, values=values))


def _print_result(result: dict[str, Any], *, values: bool) -> None:
    if values:
        print_value(result["values"])
    else:
        print_rows(
            ("id", "version", "value"), (_row(id, fact) for id, fact in result["facts"].items())
        )
    _say_what_is_not_there(result)


@spread_options
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
    options: SpaceOptions,
    branch: QueryBranchOption = None,
) -> None:
    """Print what a query finds, and go on as it changes."""
    asked = _query_of(query, follow=follow, branch=branch)
    with options.opened_space() as space:
        for frame in space.watch(asked, since=since, timeout=timeout):
            if options.as_json:
                print_json(frame)
            else:
                if since is not None and frame["from"] is None:
                    say(f"from the start: what was shown at {since} may have been erased")
                _print_frame(frame)
            sys.stdout.flush()


def _query_of(words: Sequence[str], *, follow: bool, **options: Json) -> dict[str, Json]:
    """Return the query with the options added; nothing may be said by both."""
    text = words[0] if len(words) == 1 and " " not in words[0] else _selector(words)
    asked: dict[str, Json] = {"select": {text: {"schema": True} if follow else {}}}
    if text.startswith(_QUERY_STARTS):
        given: Any = decode_argument(text)
        if type(given) is not dict:
            raise InvalidInput("a query is an object with `select`", key="select")
        if follow:
            raise InvalidInput("--follow goes with a selector; a whole query has its schemas")
        asked = given
    for name, value in options.items():
        if value is not None and asked.get(name) is not None:
            raise InvalidInput(f"--{name} and {name} in the query are one thing; give it once")
        if value is not None:
            asked[name] = value
    if asked.get("branch") is None and (branch := os.environ.get("ROTE_BRANCH")):
        asked["branch"] = branch
    return asked


def _selector(words: Sequence[str]) -> str:
    """Return the selector of a record, or of all whose ids begin so; a query as JSON as it is."""
    if words[0].startswith(_QUERY_STARTS):
        return " ".join(words)
    if words[-1].endswith("*") and len(words) == 3:
        return ids_under(words[0], words[1], words[2][:-1]) + "*"
    return id_in(words)


def _row(id: str, fact: dict[str, Any]) -> tuple[str, str, str]:
    return (shown(id), str(fact["version"]), _shown(fact))


def _shown(fact: dict[str, Any]) -> str:
    return "(deleted)" if "deleted" in fact else compact(fact["value"])


def _say_what_is_not_there(result: dict[str, Any]) -> None:
    for id in result.get("missing", ()):
        say(f"missing: {shown(id)}")
    _say_what_is_cut(result["truncated"])
    if result["cursor"] is not None:
        say(f"more follow: --cursor {result['cursor']}")


def _say_what_is_cut(cut: dict[str, Any] | None) -> None:
    if cut is not None:
        say(f"truncated by {cut['reason']} at {cut['at']}")


def _print_frame(frame: dict[str, Any]) -> None:
    changes = plural(len(frame["upserts"]) + len(frame["removes"]), "change")
    print_line(f"version {frame['to']}: {changes}", style="bold")
    for upsert in frame["upserts"]:
        sign, style = ("-", "red") if "deleted" in upsert else ("+", "green")
        print_line(f"{sign} {shown(upsert['id'])} {_shown(upsert)}", style=style)
    for id in frame["removes"]:
        print_line(f"- {shown(id)}", style="red")
    sys.stdout.flush()
    _say_what_is_cut(frame.get("truncated"))
