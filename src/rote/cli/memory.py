"""Commands about memory records: rote memory put, get, append, list, delete, prune, stats, report."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from msgspec import UNSET, UnsetType

from rote.cli.input import decode_object
from rote.cli.options import (
    AtOption,
    BranchOptions,
    LimitOption,
    NamespacesOption,
    memory_of,
    point_of,
    scratch_space,
    spread_options,
)
from rote.cli.outcome import no
from rote.cli.output import (
    compact,
    digits,
    plural,
    print_json,
    print_line,
    print_rows,
    print_value,
    say,
)
from rote.errors import InvalidInput
from rote.records.memory import Memory
from rote.space import Space
from rote.values import parse_time
from rote.values.limits import TTL_SECONDS_MAX

commands = typer.Typer(help="Records with metadata, filters and a time to live.")

NamespaceArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAMESPACE", help="session, long_term, daily_log, workflow, ops, or your own."
    ),
]
PayloadArgument = Annotated[
    str, typer.Argument(metavar="OBJECT", help="A JSON object, @file, or - for stdin.")
]
# A number with more digits exceeds every time to live.
_TTL_DIGITS_MAX = 20
_COLUMNS = ("kind", "id", "updated", "ttl", "metadata")


@dataclass(frozen=True, slots=True)
class RecordArguments:
    """Arguments that name a record."""

    namespace: NamespaceArgument
    kind: Annotated[str, typer.Argument(metavar="KIND", help="The kind of record.")]
    id: Annotated[str, typer.Argument(metavar="ID", help="The record's id in its kind.")]

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.namespace, self.kind, self.id)

    def __str__(self) -> str:
        return " ".join(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of a write beside its payload."""

    ttl: Annotated[
        str | None,
        typer.Option("--ttl", metavar="SECONDS|never", help="How long it lives after each write."),
    ] = None
    metadata: Annotated[
        str | None, typer.Option("--metadata", metavar="OBJECT", help="A JSON object, or null.")
    ] = None
    namespaces: NamespacesOption = None


@commands.command("put")
@spread_options
def put_record(
    record: RecordArguments,
    payload: PayloadArgument,
    *,
    write: WriteOptions,
    options: BranchOptions,
) -> None:
    """Store a record whole; makes the store and the space when they are new."""
    written = _write(Memory.put, record, payload, write, options)
    _print_written(written, "created" if written["created"] else "replaced", options)


@commands.command("append")
@spread_options
def append_entry(
    record: RecordArguments,
    entry: PayloadArgument,
    *,
    write: WriteOptions,
    options: BranchOptions,
) -> None:
    """Add an entry to a record's list of entries; makes the record when it is new."""
    written = _write(Memory.append, record, entry, write, options)
    noun = "entry" if written["entries"] == 1 else "entries"
    _print_written(written, f"{digits(written['entries'])} {noun}", options)


@commands.command("get")
@spread_options
def get_record(record: RecordArguments, *, at: AtOption = None, options: BranchOptions) -> None:
    """Print a record; exit 1 when there is none, or it has expired."""
    point = point_of(at)
    with options.opened_space() as space:
        result = memory_of(space, at=point).get(*record.key, at=point)
    if options.as_json:
        print_json(result)
    elif result["found"]:
        print_value(result["record"])
    else:
        say(f"there is no record {record}" + ("" if at is None else f" at {at}"))
    if not result["found"]:
        raise no()


@commands.command("list")
@spread_options
def list_records(
    namespace: NamespaceArgument,
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
    limit: LimitOption = None,
    offset: Annotated[
        int | None, typer.Option("--offset", metavar="N", min=0, help="Leave out so many.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include", metavar="NAME", help="payload, metadata, provenance or flags, with --json."
        ),
    ] = None,
    at: AtOption = None,
    options: BranchOptions,
) -> None:
    """List records by kind and id, those that match all filters."""
    _check_since(since)
    given = _filters(filters, tags_all=tag, source=source, limit=limit, offset=offset)
    if include and not options.as_json:
        raise InvalidInput("--include goes with --json; the table has the metadata and no payload")
    members = tuple(include or ()) if options.as_json else ("metadata",)
    point = point_of(at)
    with options.opened_space() as space:
        result = memory_of(space, at=point).list(
            namespace, kind, prefix, since, given, at=point, include=members
        )
    options.print_answer(result, lambda: _print_list(result))


def _print_list(result: dict[str, Any]) -> None:
    print_rows(_COLUMNS, (_item_row(item) for item in result["items"]))
    if "next_offset" in result:
        say(f"more follow: --offset {result['next_offset']}")


@commands.command("delete")
@spread_options
def delete_record(record: RecordArguments, *, options: BranchOptions) -> None:
    """Delete a record; its history stays. Exit 1 when there is none."""
    with options.opened_space() as space:
        result = memory_of(space).delete(*record.key)
    if options.as_json:
        print_json(result)
    elif result["deleted"]:
        print_line(f"deleted {record}")
    else:
        say(f"there is no record {record}")
    if not result["deleted"]:
        raise no()


@commands.command("prune")
@spread_options
def prune_records(
    namespace: Annotated[str | None, typer.Argument(metavar="[NAMESPACE]")] = None,
    *,
    options: BranchOptions,
) -> None:
    """Delete the records that have expired."""
    with options.opened_space() as space:
        result = memory_of(space).prune(namespace)
    words = f"{plural(result['pruned'], 'record')} pruned"
    options.print_answer(result, lambda: print_line(words))


@commands.command("stats")
@spread_options
def show_stats(*, options: BranchOptions) -> None:
    """Count the records in each namespace, and their bytes."""
    with options.opened_space() as space:
        result = memory_of(space).stats()
    options.print_answer(result, lambda: _print_counts(result, result, ("records", "bytes")))


@commands.command("report")
@spread_options
def show_report(
    *,
    soon: Annotated[
        int,
        typer.Option(
            "--soon", metavar="SECONDS", min=0, max=TTL_SECONDS_MAX, help="What counts as soon."
        ),
    ] = 86_400,
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="NS", help="Count only this one.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Count only this one; may be given again."),
    ] = None,
    options: BranchOptions,
) -> None:
    """Count the records that have expired, that will soon, and by age."""
    with options.opened_space() as space:
        result = memory_of(space).retention_report(soon, namespace, kind)
    options.print_answer(result, lambda: _print_retention(result))


def _print_retention(result: dict[str, Any]) -> None:
    totals = result["totals"]
    _print_counts(result, totals, tuple(totals))
    print_rows(("age", "records"), result["age"].items())


def _print_counts(result: dict[str, Any], totals: dict[str, Any], names: tuple[str, ...]) -> None:
    rows = [*result["by_namespace"].items(), ("all", totals)]
    print_rows(
        ("namespace", *names),
        ((name, *(counts[column] for column in names)) for name, counts in rows),
    )


def _filters(text: str | None, **options: Any) -> dict[str, Any]:
    """The filters of a JSON object and those of options; no filter comes from both."""
    given = {} if text is None else decode_object(text, member="source")
    for name, value in options.items():
        if value is None:
            continue
        if given.get(name) is not None:
            option = "--tag" if name == "tags_all" else f"--{name}"
            raise InvalidInput(f"{option} and {name} in --filters are one filter; give it once")
        given[name] = value
    return given


def _write(
    verb: Callable[..., dict[str, Any]],
    record: RecordArguments,
    payload: str,
    write: WriteOptions,
    options: BranchOptions,
) -> dict[str, Any]:
    """Write to a record with put or append; a refused write leaves no new space behind."""
    given = (decode_object(payload), _ttl(write.ttl), _metadata(write.metadata))

    def written(space: Space) -> dict[str, Any]:
        memory = _writable(space, record.namespace, write.namespaces)
        return verb(memory, *record.key, *given)

    if not options.is_there():
        with scratch_space() as scratch:
            written(scratch)
    with options.opened_space(create=True) as space:
        return written(space)


def _writable(space: Space, namespace: str, namespaces: str | None) -> Memory:
    """Return the memory to write to; a new namespace must be named in --namespaces too."""
    memory = memory_of(space, namespaces)
    if namespace not in memory.namespaces:
        raise InvalidInput(
            f"there is no namespace {namespace!r:.80}; there are {', '.join(memory.namespaces)};"
            " name a new one in --namespaces too",
            argument="namespace",
        )
    return memory


def _ttl(text: str | None) -> int | UnsetType | None:
    if text is None:
        return UNSET
    if text == "never":
        return None
    seconds = int(text) if text.isascii() and text.isdigit() and len(text) < _TTL_DIGITS_MAX else 0
    if not 1 <= seconds <= TTL_SECONDS_MAX:
        raise InvalidInput(
            f"--ttl takes seconds from 1 to {TTL_SECONDS_MAX:,}, or never, not {text!r:.80}"
        )
    return seconds


def _check_since(text: str | None) -> None:
    try:
        if text is not None:
            parse_time(text)
    except InvalidInput as error:
        raise InvalidInput(f"--since: {error}", **error.details) from None


def _metadata(text: str | None) -> Any:
    return UNSET if text is None else decode_object(text, member="source", or_null=True)


def _item_row(item: dict[str, Any]) -> tuple[str, ...]:
    ttl, metadata = item["ttl_seconds"], item["metadata"]
    return (
        item["record_kind"],
        item["record_id"],
        item["updated_at"],
        "" if ttl is None else str(ttl),
        "" if metadata is None else compact(metadata),
    )


def _print_written(written: dict[str, Any], words: str, options: BranchOptions) -> None:
    options.print_answer(written, lambda: print_line(f"{words} at version {written['version']}"))
