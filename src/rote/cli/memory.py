"""Commands about memory records: rote memory put, get, append, list, delete, prune, stats, report."""

from collections.abc import Callable
from typing import Annotated, Any

import typer
from msgspec import UNSET, UnsetType

from rote.cli.input import decode_object
from rote.cli.options import (
    BRANCH_DEFAULT,
    SPACE_DEFAULT,
    STORE_DEFAULT,
    AtOption,
    BranchOption,
    JsonOption,
    LimitOption,
    NamespacesOption,
    SpaceOption,
    StoreOption,
    is_there,
    memory_of,
    opened_space,
    point_of,
    scratch_space,
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
from rote.records import Memory
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
KindArgument = Annotated[str, typer.Argument(metavar="KIND", help="The kind of record.")]
RecordArgument = Annotated[str, typer.Argument(metavar="ID", help="The record's id in its kind.")]
PayloadArgument = Annotated[
    str, typer.Argument(metavar="OBJECT", help="A JSON object, @file, or - for stdin.")
]
TtlOption = Annotated[
    str | None,
    typer.Option("--ttl", metavar="SECONDS|never", help="How long it lives after each write."),
]
MetadataOption = Annotated[
    str | None, typer.Option("--metadata", metavar="OBJECT", help="A JSON object, or null.")
]
# A longer number is longer than anything lives.
_TTL_DIGITS_MAX = 20
_COLUMNS = ("kind", "id", "updated", "ttl", "metadata")


@commands.command("put")
def put_record(
    namespace: NamespaceArgument,
    kind: KindArgument,
    id: RecordArgument,
    payload: PayloadArgument,
    *,
    ttl: TtlOption = None,
    metadata: MetadataOption = None,
    namespaces: NamespacesOption = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Store a record whole; makes the store and the space when they are new."""
    body = decode_object(payload)
    living, known = _ttl(ttl), _metadata(metadata)

    def put(opened: Space) -> dict[str, Any]:
        memory = _writable(opened, namespace, namespaces)
        return memory.put(namespace, kind, id, body, living, known)

    written = _write(put, store, space, branch)
    _print_written(written, "created" if written["created"] else "replaced", as_json=as_json)


@commands.command("append")
def append_entry(
    namespace: NamespaceArgument,
    kind: KindArgument,
    id: RecordArgument,
    entry: PayloadArgument,
    *,
    ttl: TtlOption = None,
    metadata: MetadataOption = None,
    namespaces: NamespacesOption = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Add an entry to a record's list of entries; makes the record when it is new."""
    added = decode_object(entry)
    living, known = _ttl(ttl), _metadata(metadata)

    def append(opened: Space) -> dict[str, Any]:
        memory = _writable(opened, namespace, namespaces)
        return memory.append(namespace, kind, id, added, living, known)

    written = _write(append, store, space, branch)
    entries = f"{digits(written['entries'])} " + ("entry" if written["entries"] == 1 else "entries")
    _print_written(written, entries, as_json=as_json)


@commands.command("get")
def get_record(
    namespace: NamespaceArgument,
    kind: KindArgument,
    id: RecordArgument,
    *,
    at: AtOption = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Print a record; exit 1 when there is none, or it has expired."""
    point = None if at is None else point_of(at)
    with opened_space(store, space, branch) as opened:
        result = memory_of(opened, at=point).get(namespace, kind, id, at=point)
    if as_json:
        print_json(result)
    elif result["found"]:
        print_value(result["record"])
    if not result["found"]:
        if not as_json:
            say(f"there is no record {namespace} {kind} {id}" + ("" if at is None else f" at {at}"))
        raise no()


@commands.command("list")
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
        typer.Option("--include", metavar="NAME", help="payload or metadata, with --json."),
    ] = None,
    at: AtOption = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """List records by kind and id, those that match all filters."""
    _check_since(since)
    given = _filters(filters, tags_all=tag, source=source, limit=limit, offset=offset)
    if include and not as_json:
        raise InvalidInput("--include goes with --json; the table has the metadata and no payload")
    members = tuple(include or ()) if as_json else ("metadata",)
    point = None if at is None else point_of(at)
    with opened_space(store, space, branch) as opened:
        result = memory_of(opened, at=point).list(
            namespace, kind, prefix, since, given, at=point, include=members
        )
    if as_json:
        print_json(result)
        return
    print_rows(_COLUMNS, (_item_row(item) for item in result["items"]))
    if "next_offset" in result:
        say(f"more follow: --offset {result['next_offset']}")


@commands.command("delete")
def delete_record(
    namespace: NamespaceArgument,
    kind: KindArgument,
    id: RecordArgument,
    *,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Delete a record; its history stays. Exit 1 when there is none."""
    with opened_space(store, space, branch) as opened:
        result = memory_of(opened).delete(namespace, kind, id)
    if as_json:
        print_json(result)
    elif result["deleted"]:
        print_line(f"deleted {namespace} {kind} {id}")
    else:
        say(f"there is no record {namespace} {kind} {id}")
    if not result["deleted"]:
        raise no()


@commands.command("prune")
def prune_records(
    namespace: Annotated[str | None, typer.Argument(metavar="[NAMESPACE]")] = None,
    *,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Delete the records that have expired."""
    with opened_space(store, space, branch) as opened:
        result = memory_of(opened).prune(namespace)
    if as_json:
        print_json(result)
    else:
        print_line(f"{plural(result['pruned'], 'record')} pruned")


@commands.command("stats")
def show_stats(
    *,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """How many records there are in each namespace, and their size."""
    with opened_space(store, space, branch) as opened:
        result = memory_of(opened).stats()
    if as_json:
        print_json(result)
        return
    rows = [*result["by_namespace"].items(), ("all", result)]
    print_rows(
        ("namespace", "records", "bytes"),
        ((name, counts["records"], counts["bytes"]) for name, counts in rows),
    )


@commands.command("report")
def show_report(
    *,
    soon: Annotated[
        int,
        typer.Option(
            "--soon", metavar="SECONDS", min=0, max=TTL_SECONDS_MAX, help="What counts as soon."
        ),
    ] = 86_400,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """What has expired, what will soon, and how old records are."""
    with opened_space(store, space, branch) as opened:
        result = memory_of(opened).retention_report(soon)
    if as_json:
        print_json(result)
        return
    names = tuple(result["totals"])
    rows = [*result["by_namespace"].items(), ("all", result["totals"])]
    print_rows(
        ("namespace", *names),
        ((name, *(counts[column] for column in names)) for name, counts in rows),
    )
    print_rows(("age", "records"), result["age"].items())


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
    write: Callable[[Space], dict[str, Any]], store: str, space: str, branch: str
) -> dict[str, Any]:
    """Write to a space; what is refused leaves no new one behind."""
    if not is_there(store, space):
        with scratch_space() as scratch:
            write(scratch)
    with opened_space(store, space, branch, create=True) as opened:
        return write(opened)


def _writable(space: Space, namespace: str, namespaces: str | None) -> Memory:
    """The memory to write to; a namespace that nothing is in yet must be meant."""
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


def _print_written(written: dict[str, Any], words: str, *, as_json: bool) -> None:
    if as_json:
        print_json(written)
    else:
        print_line(f"{words} at version {written['version']}")
