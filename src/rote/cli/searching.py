"""The command that finds records by a question: rote memory search."""

import shlex
from typing import Annotated, Any

import typer

from rote.cli.options import (
    AtOption,
    BranchOptions,
    OnlyKindOption,
    OnlyNamespaceOption,
    memory_of,
    point_of,
    spread_options,
)
from rote.cli.output import print_marked, print_parts, print_rows, say, stdout
from rote.values.limits import SEARCH_LIMIT_MAX

_COLUMNS = ("score", "namespace", "kind", "id", "entry", "time", "excerpt")


@spread_options
def search_records(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A question, as one asks people.")],
    *,
    namespace: OnlyNamespaceOption = None,
    kind: OnlyKindOption = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="May be given again: all of them."),
    ] = None,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=1, max=SEARCH_LIMIT_MAX, help="At most so many."),
    ] = 10,
    at: AtOption = None,
    options: BranchOptions,
) -> None:
    """Find the records that answer a question, best first. Nothing is written.

    Columns: score, namespace, kind, id, number of the entry, time, excerpt.
    """
    filters = {"namespaces": namespace, "kinds": kind, "tags_all": tag}
    point = point_of(at)
    with options.opened_space() as space:
        memory = memory_of(options.view_at(space, point))
        result = memory.search(text, limit=limit, filters=filters)
    options.print_answer(result, lambda: _print_items(result["items"]))


def _print_items(items: list[dict[str, Any]]) -> None:
    if not items:
        say("nothing matches")
    elif stdout().is_terminal:
        for item in items:
            score, *key, entry, time, excerpt = _row(item)
            number = f"entry {entry}" if entry else ""
            print_parts((score, shlex.join(key), number, time), style="bold")
            print_marked(excerpt, item["highlights"], indent="    ")
    else:
        print_rows(_COLUMNS, map(_row, items))


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(item["score"]),
        item["namespace"],
        item["record_kind"],
        item["record_id"],
        "" if item["entry"] is None else str(item["entry"]),
        item["ts_utc"] or "",
        item["excerpt"],
    )
