"""Commands that move records between a space and files: rote memory export, import, validate."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from rote.bridges import (
    MarkdownReport,
    Problem,
    check_file,
    export_markdown,
    import_markdown,
    import_records,
    is_markdown_path,
    validate_markdown,
    write_export,
)
from rote.bridges.daily_logs import NAMESPACE as DAILY_LOG
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
from rote.errors import InvalidInput, LimitExceeded, NotFound
from rote.opening import open as open_store
from rote.records import Memory
from rote.records.profiles import V1_1
from rote.values.limits import COMMIT_BYTES_MAX

# A commit's bytes; escapes can make a text six times as long as what it means.
_KEPT_BYTES_MAX = 6 * COMMIT_BYTES_MAX
_MARKDOWN = "markdown"

FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="JSON lines or a JSON array, - for stdin; a folder or a .md file is Markdown.",
    ),
]


def export_memory(
    *,
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="NS", help="Only this one.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="Only records of this one.")
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="jsonl|json|retrieval|markdown",
            help="Lines, one array, lines for retrieve, or daily logs in a folder.",
        ),
    ] = "jsonl",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE|DIR", help="A new file to write it to, or the folder."
        ),
    ] = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Write all living records to stdout or a file; as Markdown, the daily logs to a folder."""
    if as_json and output is None:
        raise InvalidInput("--json tells of what is written to -o")
    folder = _folder(namespace, output) if format == _MARKDOWN else None
    with opened_space(store, space, branch) as opened, count_bar("exporting records") as advance:
        memory = memory_of(opened)
        if folder is not None:
            report = export_markdown(memory, folder, kind=kind, progress=advance)
        else:
            if namespace is not None:
                memory.check_namespace(namespace)
            with opened_target(output) as stream:
                count = write_export(
                    memory, stream, namespace=namespace, kind=kind, format=format, progress=advance
                )
    if as_json:
        print_json({"records": count} if folder is None else report.to_dict())
    elif folder is not None:
        same = report.records - report.written
        print_line(f"{plural(report.written, 'file')} written to {folder}, {same:,} there before")
    elif output is not None:
        print_line(f"{plural(count, 'record')} written to {output}")


def _folder(namespace: str | None, output: Path | None) -> Path:
    if output is None:
        raise InvalidInput("Markdown goes to a folder: -o DIR")
    if namespace not in (None, DAILY_LOG):
        raise InvalidInput(f"what leaves as Markdown is {DAILY_LOG}; export {namespace} as JSON")
    return output


def import_memory(
    file: FileArgument,
    *,
    batch: Annotated[
        int | None,
        typer.Option("--batch", metavar="N", min=1, help="Commit so many at a time: all or none."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and count, but write nothing.")
    ] = False,
    namespaces: NamespacesOption = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Bring in records, all or none; those that are there and differ are replaced."""
    # What is refused should not leave a new store behind.
    rehearse = batch is None and not dry_run and not _is_there(store, space)
    if _is_markdown(file):
        path = Path(file)
        path.stat()  # a file that is missing is told before a store is made
        if rehearse:
            with _scratch(namespaces) as scratch:
                import_markdown(scratch, path)
        with (
            opened_space(store, space, branch, create=not dry_run) as opened,
            count_bar("importing files") as count,
        ):
            memory = memory_of(opened, namespaces)
            made = import_markdown(memory, path, batch=batch, dry_run=dry_run, progress=count)
        _print_markdown_report(made, dry_run=dry_run, as_json=as_json)
        return
    with opened_file(file) as (given, size):
        stream = _rehearsed(given, namespaces) if rehearse else given
        with (
            opened_space(store, space, branch, create=not dry_run) as opened,
            byte_bar("importing", size) as advance,
        ):
            memory = memory_of(opened, namespaces)
            report = import_records(memory, stream, batch=batch, dry_run=dry_run, progress=advance)
    if as_json:
        print_json(report.to_dict())
    else:
        _print_counts(report.records, report.changed, dry_run=dry_run)


def _print_markdown_report(report: MarkdownReport, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(report.to_dict())
        return
    print_rows(("kind", "where", "what"), (_row(problem) for problem in report.warnings))
    print_rows(
        ("namespace", "kind", "records", "changed"),
        (
            (made.namespace, made.record_kind, f"{made.records:,}", f"{made.changed:,}")
            for made in report.made
        ),
    )
    _print_counts(report.records, report.changed, dry_run=dry_run)


def _print_counts(records: int, changed: int, *, dry_run: bool) -> None:
    done = "would be imported" if dry_run else "imported"
    print_line(f"{plural(changed, 'record')} {done}, {records - changed:,} there before")


def _is_there(store: str, space: str) -> bool:
    try:
        with opened_space(store, space):
            return True
    except NotFound:
        return False


def _rehearsed(stream: BinaryIO, namespaces: str | None) -> BinaryIO:
    """The stream, once more from its beginning, when it can be imported."""
    if not stream.seekable():
        kept = BytesIO(stream.read(_KEPT_BYTES_MAX + 1))
        if kept.getbuffer().nbytes > _KEPT_BYTES_MAX:
            raise LimitExceeded(
                "what comes in bytes", size=kept.getbuffer().nbytes, limit=_KEPT_BYTES_MAX,
                advice="import it in batches",
            )  # fmt: skip
        stream = kept
    start = stream.tell()
    with _scratch(namespaces) as scratch:
        import_records(scratch, stream)
    stream.seek(start)
    return stream


@contextmanager
def _scratch(namespaces: str | None) -> Iterator[Memory]:
    """A memory to try things in."""
    with open_store(":memory:") as store:
        yield memory_of(store.space("scratch"), namespaces)


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

    def found() -> Iterator[tuple[int | None, Problem]]:
        nonlocal failed, count
        for records, number, problems in _checked(file, known, profile):
            count += records
            failed = failed or any(problem.kind == "error" for problem in problems)
            for problem in problems:
                yield number, problem

    _print_problems(found(), as_json=as_json)
    if failed:
        raise no()
    if not as_json:
        print_line(f"ok: {plural(count, 'record')}", style="green")


def _checked(
    file: str, namespaces: Iterable[str], profile: str
) -> Iterator[tuple[int, int | None, list[Problem]]]:
    """How many records were looked at, the number of the one in a JSON file, and its problems."""
    if _is_markdown(file):
        with count_bar("validating files") as count:
            found = validate_markdown(Path(file), namespaces=namespaces, profile=profile)
            for done, (records, problems) in enumerate(found, start=1):
                count(done)
                yield records, None, problems
        return
    with opened_file(file) as (stream, size), byte_bar("validating", size) as advance:
        checked = check_file(stream, namespaces=namespaces, profile=profile, progress=advance)
        for number, problems in checked:
            yield 1, number, problems


def _is_markdown(file: str) -> bool:
    return file != "-" and is_markdown_path(Path(file))


def _print_problems(numbered: Iterable[tuple[int | None, Problem]], *, as_json: bool) -> None:
    if as_json:
        for number, problem in numbered:
            record = {} if number is None else {"record": number}
            print_json({**record, **problem.to_dict()})
    else:
        rows = (_row(problem, number) for number, problem in numbered)
        print_rows(("kind", "where", "what"), rows)


def _row(problem: Problem, number: int | None = None) -> tuple[str, str, str]:
    return problem.kind, f"{'' if number is None else number}{problem.path}", problem.message
