"""Commands that move records between a space and files: rote memory export, import, validate."""

from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from rote.bridges import Problem, check_file, import_records, write_export
from rote.cli.input import opened_file
from rote.cli.options import (
    BRANCH_DEFAULT,
    SPACE_DEFAULT,
    STORE_DEFAULT,
    BranchOption,
    JsonOption,
    NamespacesOption,
    SpaceOption,
    StoreOption,
    memory_of,
    namespaces_in,
    opened_space,
)
from rote.cli.outcome import no
from rote.cli.output import opened_target, plural, print_json, print_line, print_rows
from rote.cli.progress import byte_bar, count_bar
from rote.errors import LimitExceeded, NotFound
from rote.opening import open as open_store
from rote.records.profiles import V1_1
from rote.values.limits import COMMIT_BYTES_MAX

# A commit's bytes; escapes can make a text six times as long as what it means.
_KEPT_BYTES_MAX = 6 * COMMIT_BYTES_MAX

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="JSON lines or a JSON array; - for stdin.")
]


def export_memory(
    *,
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="NS", help="Only this one.")
    ] = None,
    format: Annotated[
        str, typer.Option("--format", metavar="jsonl|json", help="Lines, or one array.")
    ] = "jsonl",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="A new file to write it to."),
    ] = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
) -> None:
    """Write all living records to stdout or a file."""
    with opened_space(store, space, branch) as opened, count_bar("exporting records") as advance:
        memory = memory_of(opened)
        if namespace is not None:
            memory.check_namespace(namespace)
        with opened_target(output) as stream:
            count = write_export(
                memory, stream, namespace=namespace, format=format, progress=advance
            )
    if output is not None:
        print_line(f"{plural(count, 'record')} written to {output}")


def import_memory(
    file: FileArgument,
    *,
    batch: Annotated[
        int | None,
        typer.Option("--batch", metavar="N", min=1, help="Commit so many at a time: all or none."),
    ] = None,
    namespaces: NamespacesOption = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Bring in records, all or none; those that are there and differ are replaced."""
    with opened_file(file) as (given, size):
        stream = given
        if batch is None and not _is_there(store, space):
            stream = _rehearsed(given, namespaces)
        with (
            opened_space(store, space, branch, create=True) as opened,
            byte_bar("importing", size) as advance,
        ):
            memory = memory_of(opened, namespaces)
            report = import_records(memory, stream, batch=batch, progress=advance)
    if as_json:
        print_json(report.to_dict())
    else:
        same = report.records - report.changed
        print_line(f"{plural(report.changed, 'record')} imported, {same:,} there before")


def _is_there(store: str, space: str) -> bool:
    try:
        with opened_space(store, space):
            return True
    except NotFound:
        return False


def _rehearsed(stream: BinaryIO, namespaces: str | None) -> BinaryIO:
    """The stream, once more from its beginning, when it can be imported: what is refused should not
    leave a new store behind."""
    if not stream.seekable():
        kept = BytesIO(stream.read(_KEPT_BYTES_MAX + 1))
        if kept.getbuffer().nbytes > _KEPT_BYTES_MAX:
            raise LimitExceeded(
                "what comes in bytes", size=kept.getbuffer().nbytes, limit=_KEPT_BYTES_MAX,
                advice="import it in batches",
            )  # fmt: skip
        stream = kept
    start = stream.tell()
    with open_store(":memory:") as scratch:
        import_records(memory_of(scratch.space("scratch"), namespaces), stream)
    stream.seek(start)
    return stream


def validate_file(
    file: FileArgument,
    *,
    profile: Annotated[str, typer.Option("--profile", metavar="v1|v1.1-…")] = V1_1,
    namespaces: NamespacesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell everything that is wrong with a file of records; exit 1 when there is an error."""
    known = namespaces_in(namespaces)
    failed, count = False, 0

    def found(problems_of: Iterable[tuple[int, list[Problem]]]) -> Iterator[tuple[int, Problem]]:
        nonlocal failed, count
        for number, problems in problems_of:
            count += 1
            failed = failed or any(problem.kind == "error" for problem in problems)
            for problem in problems:
                yield number, problem

    with opened_file(file) as (stream, size), byte_bar("validating", size) as advance:
        checked = check_file(stream, namespaces=known, profile=profile, progress=advance)
        _print_problems(found(checked), as_json=as_json)
    if failed:
        raise no()
    if not as_json:
        print_line(f"ok: {plural(count, 'record')}", style="green")


def _print_problems(numbered: Iterable[tuple[int, Problem]], *, as_json: bool) -> None:
    if as_json:
        for number, problem in numbered:
            print_json({"record": number, **problem.to_dict()})
    else:
        rows = ((p.kind, f"{number}{p.path}", p.message) for number, p in numbered)
        print_rows(("kind", "where", "what"), rows)
