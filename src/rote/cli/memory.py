"""Commands about memory records: rote memory put, append, update, delete, touch, prune, stats, report."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from msgspec import UNSET, UnsetType

from rote.cli.input import decode_object, decode_operations
from rote.cli.loading import LoadingGroup, Place
from rote.cli.options import (
    AtOption,
    BranchOptions,
    KeyOption,
    NamespacesOption,
    Options,
    memory_of,
    point_of,
    scratch_space,
    spread_options,
)
from rote.cli.outcome import no
from rote.cli.output import digits, plural, print_json, print_line, print_rows
from rote.errors import InvalidInput
from rote.records.memory import Memory
from rote.space import Space
from rote.values.limits import TTL_SECONDS_MAX


class _Commands(LoadingGroup):
    places = (
        Place("get", "rote.cli.recalling:get_record"),
        Place("list", "rote.cli.recalling:list_records"),
        Place("search", "rote.cli.searching:search_records"),
        Place("show", "rote.cli.recalling:show_record"),
        Place("history", "rote.cli.recalling:show_history"),
        Place("erase", "rote.cli.erasing:erase_records"),
        Place("export", "rote.cli.bridging:export_memory"),
        Place("import", "rote.cli.bridging:import_memory"),
        Place("validate", "rote.cli.bridging:validate_file"),
    )


commands = typer.Typer(cls=_Commands, help="Records with metadata, filters and a time to live.")

NamespaceArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAMESPACE", help="session, long_term, daily_log, workflow, ops, or your own."
    ),
]
PayloadArgument = Annotated[
    str, typer.Argument(metavar="OBJECT", help="A JSON object, @file, or - for stdin.")
]
TtlOption = Annotated[
    str | None,
    typer.Option(
        "--ttl",
        metavar="SECONDS|never",
        help="How long it lives after each write; its history stays.",
    ),
]
# A number with more digits exceeds every time to live.
_TTL_DIGITS_MAX = 20


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
        return shlex.join(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of a write beside its payload."""

    ttl: TtlOption = None
    metadata: Annotated[
        str | None, typer.Option("--metadata", metavar="OBJECT", help="A JSON object, or null.")
    ] = None
    namespaces: NamespacesOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionOptions:
    """Options that make a write happen once, or only on a known version."""

    key: KeyOption = None
    if_version: Annotated[
        int | None,
        typer.Option(
            "--if-version",
            metavar="VERSION",
            min=0,
            help="Only if the record was last written then; 0: only if there is none.",
        ),
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        return {"key": self.key, "if_version": self.if_version}


@commands.command("put")
@spread_options
def put_record(
    record: RecordArguments,
    payload: PayloadArgument,
    *,
    write: WriteOptions,
    condition: ConditionOptions,
    options: BranchOptions,
) -> None:
    """Store a record whole; makes the store and the space when they are new."""
    written = _write(Memory.put, record, payload, write=write, condition=condition, options=options)
    _print_written(written, "created" if written["created"] else "replaced", options)


@commands.command("append")
@spread_options
def append_entry(
    record: RecordArguments,
    entry: PayloadArgument,
    *,
    write: WriteOptions,
    condition: ConditionOptions,
    options: BranchOptions,
) -> None:
    """Add an entry to a record's list of entries; makes the record when it is new."""
    written = _write(
        Memory.append, record, entry, write=write, condition=condition, options=options
    )
    noun = "entry" if written["entries"] == 1 else "entries"
    _print_written(written, f"{digits(written['entries'])} {noun}", options)


@commands.command("update")
@spread_options
def update_record(
    record: RecordArguments,
    *,
    payload: Annotated[
        str | None,
        typer.Option("--payload", metavar="OBJECT", help="A new payload: JSON, @file, or -."),
    ] = None,
    patch: Annotated[
        str | None,
        typer.Option(
            "--patch", metavar="ARRAY", help="Patch operations on the payload: JSON, @file, or -."
        ),
    ] = None,
    metadata: Annotated[
        str | None,
        typer.Option("--metadata", metavar="OBJECT", help="Members to replace; null removes one."),
    ] = None,
    ttl: TtlOption = None,
    condition: ConditionOptions,
    options: BranchOptions,
) -> None:
    """Change parts of a record; what is not given stays."""
    changes: Any = {
        "payload": UNSET if payload is None else decode_object(payload),
        "patch": UNSET if patch is None else decode_operations(patch),
        "metadata": _metadata(metadata),
        "ttl_seconds": _ttl(ttl),
    }
    with options.opened_space() as space:
        result = memory_of(space).update(*record.key, **(changes | condition.given))
    _print_written(result, "updated", options)


@commands.command("delete")
@spread_options
def delete_record(
    record: RecordArguments, *, condition: ConditionOptions, options: BranchOptions
) -> None:
    """Delete a record; its history stays. Exit 1 when there is none."""
    with options.opened_space() as space:
        result = memory_of(space).delete(*record.key, **condition.given)
    if not result["deleted"]:
        raise absent(record, result, options)
    options.print_answer(result, lambda: print_line(f"deleted {record}"))


@commands.command("touch")
@spread_options
def touch_record(record: RecordArguments, *, options: BranchOptions) -> None:
    """Note that a record was used; exit 1 when there is none. Nothing else notes it."""
    with options.opened_space() as space:
        result = memory_of(space).touch(*record.key)
    if not result["found"]:
        raise absent(record, result, options)
    _print_written(result, f"used {plural(result['access_count'], 'time')}", options)


def absent(
    record: RecordArguments, result: dict[str, Any], options: Options, *, words: str = ""
) -> typer.Exit:
    """Return the exit to raise for a record that is not there; print or say so."""
    if options.as_json:
        print_json(result)
        return no()
    return no(f"there is no record {record}{words}")


@commands.command("prune")
@spread_options
def prune_records(
    namespace: Annotated[str | None, typer.Argument(metavar="[NAMESPACE]")] = None,
    *,
    options: BranchOptions,
) -> None:
    """Delete the records that have expired; their history stays, see memory erase."""
    with options.opened_space() as space:
        result = memory_of(space).prune(namespace)
    words = f"{plural(result['pruned'], 'record')} pruned"
    options.print_answer(result, lambda: print_line(words))


@commands.command("stats")
@spread_options
def show_stats(*, at: AtOption = None, options: BranchOptions) -> None:
    """Count the records in each namespace, and their bytes."""
    point = point_of(at)
    with options.opened_space() as space:
        result = memory_of(options.view_at(space, point)).stats()
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
    at: AtOption = None,
    options: BranchOptions,
) -> None:
    """Count the records that have expired, that will soon, and by age."""
    point = point_of(at)
    with options.opened_space() as space:
        view = options.view_at(space, point)
        result = memory_of(view).retention_report(soon, namespace, kind)
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


def _write(
    verb: Callable[..., dict[str, Any]],
    record: RecordArguments,
    payload: str,
    *,
    write: WriteOptions,
    condition: ConditionOptions,
    options: BranchOptions,
) -> dict[str, Any]:
    """Write to a record with put or append; a refused write leaves no new space behind."""
    given = (decode_object(payload), _ttl(write.ttl), _metadata(write.metadata))

    def written(space: Space) -> dict[str, Any]:
        memory = _writable(space, record.namespace, write.namespaces)
        return verb(memory, *record.key, *given, **condition.given)

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


def _metadata(text: str | None) -> Any:
    return UNSET if text is None else decode_object(text, member="source", or_null=True)


def _print_written(written: dict[str, Any], words: str, options: BranchOptions) -> None:
    options.print_answer(written, lambda: print_line(f"{words} at version {written['version']}"))
