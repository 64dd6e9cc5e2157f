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
    time_option,
)
from rote.cli.output import print_marked, print_parts, print_rows, say, stdout
from rote.errors import InvalidInput
from rote.questions import ENGLISH, LANGUAGES, NO_LANGUAGE
from rote.retrieval.words.analyser import analyse
from rote.values.limits import SEARCH_LIMIT_MAX

_COLUMNS = ("score", "namespace", "kind", "id", "entry", "time", "excerpt")


@spread_options
def search_records(
    text: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT", help="A question, as one asks people, in quotes.", show_default=False
        ),
    ],
    *,
    namespace: OnlyNamespaceOption = None,
    kind: OnlyKindOption = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="May be given again: all of them."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="TIME", help="Those with this time or a later one."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="TIME", help="Those with this time or an earlier one."),
    ] = None,
    language: Annotated[
        str,
        typer.Option(
            "--language", metavar="|".join(LANGUAGES), help="none: every word counts, as it is."
        ),
    ] = ENGLISH,
    min_share: Annotated[
        float,
        typer.Option("--min-share", metavar="X", help="The least share of the best score, 0 to 1."),
    ] = 0.0,
    no_context: Annotated[
        bool, typer.Option("--no-context", help="Entries lend their neighbours no words.")
    ] = False,
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
    question = _question(text)
    filters = {
        "namespaces": namespace,
        "kinds": kind,
        "tags_all": tag,
        "after": time_option("--after", after, is_start=True),
        "before": time_option("--before", before, is_start=False),
    }
    point = point_of(at)
    with options.opened_space() as space:
        memory = memory_of(options.view_at(space, point))
        result = memory.search(
            question,
            limit=limit,
            filters=filters,
            language=language,
            context=not no_context,
            min_share=min_share,
        )
    items = result["items"]
    options.print_answer(
        result, lambda: _print_items(items) if items else _say_none(question, language)
    )


def _question(words: list[str]) -> str:
    if len(words) > 1:
        raise InvalidInput(f"put the question in quotes: {shlex.quote(' '.join(words))}")
    return words[0]


def _say_none(question: str, language: str) -> None:
    if any(analyse(question, language)):
        say("nothing matches")
    elif any(analyse(question, NO_LANGUAGE)):
        say(f"nothing matches: no word of the question counts; --language {NO_LANGUAGE} counts all")
    else:
        say("nothing matches: the question has no word")


def _print_items(items: list[dict[str, Any]]) -> None:
    if stdout().is_terminal:
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
