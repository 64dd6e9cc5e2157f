"""Commands that look at memory records: rote memory get, list, show, history."""

import shlex
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from rote.cli.changes import why
from rote.cli.input import decode_object
from rote.cli.memory import RecordArguments, absent
from rote.cli.options import (
    AtOption,
    BranchOptions,
    LimitOption,
    memory_of,
    point_of,
    spread_options,
    time_option,
)
from rote.cli.output import (
    compact,
    print_line,
    print_pairs,
    print_parts,
    print_rows,
    print_value,
    say,
    stdout,
)
from rote.cli.reading import cut
from rote.contract import Fact
from rote.errors import InvalidInput
from rote.records.envelope import Envelope, life_of, text_of, time_text
from rote.records.filters import parse_filters
from rote.records.memory import Memory
from rote.space import Space
from rote.values import parse_time
from rote.values.limits import HISTORY_LIMIT_MAX, INTEGER_MAX, LIST_LIMIT_MAX

_COLUMNS = ("namespace", "kind", "id", "updated", "ttl", "metadata", "text")
# A patch of these alone notes that a record was used, and says nothing new.
_TOUCHED = ("/metadata", "/metadata/access_count", "/metadata/last_accessed")


@spread_options
def get_record(record: RecordArguments, *, at: AtOption = None, options: BranchOptions) -> None:
    """Print a record; exit 1 when there is none, or it has expired."""
    point = point_of(at)
    with options.opened_space() as space:
        result = memory_of(options.view_at(space, point)).get(*record.key)
    if not result["found"]:
        raise absent(record, result, options, words="" if at is None else f" at {at}")
    options.print_answer(result, lambda: print_value(result["record"]))


# -- list ------------------------------------------------------------------------------------------


@spread_options
def list_records(
    namespace: Annotated[
        str | None, typer.Argument(metavar="[NAMESPACE]", help="All of them, unless one is named.")
    ] = None,
    *,
    kind: Annotated[str | None, typer.Option("--kind", metavar="KIND")] = None,
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="TEXT", help="What ids start with.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="May be given again: all of them."),
    ] = None,
    source: Annotated[str | None, typer.Option("--source", metavar="TEXT")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Changed at this time or later.")
    ] = None,
    filters: Annotated[
        str | None,
        typer.Option("--filters", metavar="OBJECT", help="Any filters, as a JSON object."),
    ] = None,
    newest: Annotated[bool, typer.Option("--newest", help="The last changed first.")] = False,
    limit: LimitOption = None,
    offset: Annotated[
        int | None, typer.Option("--offset", metavar="N", min=0, help="Leave out so many.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include",
            metavar="NAME",
            help="payload, metadata, provenance, flags or version; with --json.",
        ),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option("--order", metavar="id|created|updated", help="What it is sorted by."),
    ] = None,
    descending: Annotated[
        bool, typer.Option("--descending", help="The other way round: by time, newest first.")
    ] = False,
    at: AtOption = None,
    options: BranchOptions,
) -> None:
    """List records by namespace, kind and id, those that match all filters.

    Columns: namespace, kind, id, last change, time to live, metadata, text.
    """
    if include and not options.as_json:
        raise InvalidInput("--include goes with --json; the table has the metadata and the text")
    if newest and (order is not None or descending):
        raise InvalidInput("--newest is --order updated --descending; give one of them")
    given = _filters(filters, tags_all=tag, source=source, limit=limit, offset=offset)
    arguments: dict[str, Any] = {
        "kind": kind,
        "id_prefix": prefix,
        "updated_since": time_option("--since", since, is_start=True),
        "include": tuple(include or ()) if options.as_json else ("payload", "metadata"),
        "order": "updated" if newest else order or "id",
        "descending": newest or descending,
    }
    point = point_of(at)
    with options.opened_space() as space:
        memory = memory_of(options.view_at(space, point))
        named = memory.namespaces if namespace is None else (namespace,)
        result = _list(memory, named, given, arguments)
    options.print_answer(result, lambda: _print_list(result))


def _list(
    memory: Memory,
    namespaces: tuple[str, ...],
    filters: dict[str, Any],
    arguments: dict[str, Any],
) -> dict[str, Any]:
    """List the records of some namespaces, as the memory lists those of one."""
    asked = parse_filters(filters, None)
    offset, limit = asked.offset, asked.limit
    # As many of each as a page of all of them may need, and one to see whether more follow.
    needed = None if limit is None else offset + limit + 1
    wanted = {"offset": None, "limit": None if (needed or 0) > LIST_LIMIT_MAX else needed}
    items = [
        {"namespace": namespace, **item}
        for namespace in namespaces
        for item in memory.list(namespace, filters={**filters, **wanted}, **arguments)["items"]
    ]
    order, is_reversed = arguments["order"], arguments["descending"]
    if order != "id":
        items.sort(key=lambda item: parse_time(item[f"{order}_at"]), reverse=is_reversed)
    elif is_reversed:
        items.sort(key=lambda item: item["namespace"], reverse=True)
    if limit is None:
        return {"items": items[offset:]}
    end = offset + limit
    more = {"next_offset": end} if limit and end < len(items) else {}
    return {"items": items[offset:end], **more}


def _filters(text: str | None, **options: Any) -> dict[str, Any]:
    """Return the filters of a JSON object and those of options; no filter comes from both."""
    given = {} if text is None else decode_object(text, member="source")
    for name, value in options.items():
        if value is None:
            continue
        if given.get(name) is not None:
            option = "--tag" if name == "tags_all" else f"--{name}"
            raise InvalidInput(f"{option} and {name} in --filters are one filter; give it once")
        given[name] = value
    return given


def _print_list(result: dict[str, Any]) -> None:
    rows = map(_item_row, result["items"])
    if stdout().is_terminal:
        for *key, updated, ttl, metadata, text in rows:
            lives = f"lives {ttl} s" if ttl else ""
            print_parts((shlex.join(key), updated, lives), style="bold")
            for line in filter(None, (text, metadata)):
                print_line(f"    {line}")
    else:
        print_rows(_COLUMNS, rows)
    if "next_offset" in result:
        say(f"more follow: --offset {result['next_offset']}")


def _item_row(item: dict[str, Any]) -> tuple[str, ...]:
    ttl, metadata = item["ttl_seconds"], item["metadata"]
    return (
        item["namespace"],
        item["record_kind"],
        item["record_id"],
        item["updated_at"],
        "" if ttl is None else str(ttl),
        "" if metadata is None else compact(metadata),
        cut(text_of(item["payload"])),
    )


# -- one record and its past -----------------------------------------------------------------------


@spread_options
def show_record(record: RecordArguments, *, at: AtOption = None, options: BranchOptions) -> None:
    """Show a record with who wrote it, when and why; exit 1 when there is none."""
    point = point_of(at)
    with options.opened_space() as space:
        view = options.view_at(space, point)
        memory = memory_of(view)
        found = memory.get(*record.key, include=("version",))
        # Of what is shown: others may write it meanwhile, and whoever has not seen that must not
        # be told its version.
        seen = found.pop("version")
        written = _last_written(view, memory.entity_id(*record.key), until=seen or INTEGER_MAX)
    result = {**found, **_about(written), "if_version": seen}
    if not found["found"]:
        raise absent(
            record, result, options, words=_fate(written, "" if at is None else f" at {at}")
        )
    options.print_answer(result, lambda: _print_record(record, result))


def _last_written(view: Space, entity: str, *, until: int) -> Fact | None:
    """Return the newest fact of a record that says something new; of what is left if all only note
    that it was used."""
    newest: Fact | None = None
    for fact in islice(view.facts(entity), HISTORY_LIMIT_MAX):
        if fact.version <= until:
            newest = newest or fact
            if not _is_touch(fact):
                return fact
    return newest


def _is_touch(fact: Fact) -> bool:
    body: Any = fact.body if fact.op == "patch" else None
    return bool(body) and all(operation["path"] in _TOUCHED for operation in body)


def _about(fact: Fact | None) -> dict[str, Any]:
    """Return who wrote a fact, when and why."""
    names = ("version", "at", "author", "op", "meta", "commit")
    return {name: None if fact is None else getattr(fact, name) for name in names}


def _fate(last: Fact | None, when: str) -> str:
    """Return why a record is not there, as far as its newest fact tells."""
    if last is None:
        return when
    if last.erased:
        return f"{when}: it was erased"
    if last.op != "delete":
        return f"{when}: it has expired, or holds no record"
    by = f" by {last.author}" if last.author else ""
    because = f" ({why(last.meta)})" if last.meta is not None else ""
    return f"{when}: it was deleted in version {last.version}, at {last.at}{by}{because}"


def _if_other(newest: int, version: int) -> str:
    """Return the version that --if-version takes, where a use was noted after the last change."""
    return "" if newest == version else f"{newest} (its use was noted then)"


def _print_record(record: RecordArguments, result: dict[str, Any]) -> None:
    envelope: Envelope = result["record"]
    life = life_of(envelope)
    expires = None if life is None else life.expires
    metadata = envelope["metadata"]
    print_pairs(
        [
            ("record", str(record)),
            ("version", str(result["version"])),
            ("if-version", _if_other(result["if_version"], result["version"])),
            ("at", result["at"] or envelope["updated_at"]),
            ("author", result["author"] or ""),
            ("why", why(result["meta"])),
            ("created", envelope["created_at"]),
            ("expires", "" if expires is None else time_text(expires)),
            ("metadata", "" if metadata is None else compact(metadata)),
        ]
    )
    print_value(envelope["payload"])


@spread_options
def show_history(
    record: RecordArguments,
    *,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=0, max=HISTORY_LIMIT_MAX, help="At most so many."),
    ] = 20,
    at: AtOption = None,
    options: BranchOptions,
) -> None:
    """List what a record said, newest first: when, who, what and why.

    Columns: version, time, author, operation, the text after it, why.
    """
    point = point_of(at)
    with options.opened_space() as space:
        # Both answers are of one state.
        view = options.view_at(space, space.version if point is None else point)
        memory = memory_of(view)
        items = memory.history(*record.key, limit=limit)["items"]
        facts = view.history(memory.entity_id(*record.key), limit=limit)
    told = [
        {**item, "meta": fact.meta, "erased": fact.erased}
        for item, fact in zip(items, facts, strict=True)
    ]
    options.print_answer({"items": told}, lambda: _print_history(told))


def _print_history(items: list[dict[str, Any]]) -> None:
    rows: Iterator[tuple[str, ...]] = map(_history_row, items)
    if not stdout().is_terminal:
        print_rows(("version", "at", "author", "op", "text", "why"), rows)
        return
    for version, at, author, op, text, because in rows:
        print_parts((version, at, f"by {author}" if author else "", op), style="bold")
        print_line(f"    {text or '(nothing)'}")
        if because:
            print_line(f"    why {because}")


def _history_row(item: dict[str, Any]) -> tuple[str, ...]:
    record = item["record"]
    text = "" if record is None else text_of(record["payload"])
    if item["erased"]:
        text = "(erased)"
    return (
        str(item["version"]), item["at"] or "", item["author"] or "", item["op"], text,
        why(item["meta"]),
    )  # fmt: skip
