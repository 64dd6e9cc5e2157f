"""Commands that move records between a space and files: rote memory export, import, validate."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from typing import Annotated, BinaryIO

import typer

from rote.bridges import (
    FORMATS,
    MarkdownExport,
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
from rote.bridges.differences import Counts
from rote.bridges.folders import check_path
from rote.bridges.named import first_named
from rote.cli.input import opened_file
from rote.cli.options import (
    AtOption,
    BranchOptions,
    NamespacesOption,
    OnlyKindOption,
    OnlyNamespaceOption,
    Options,
    memory_of,
    namespaces_in,
    point_of,
    scratch_space,
    spread_options,
)
from rote.cli.outcome import no
from rote.cli.output import digits, opened_target, plural, print_json, print_line, print_rows
from rote.cli.progress import byte_bar, count_bar
from rote.errors import InvalidInput, LimitExceeded
from rote.records.memory import Memory
from rote.records.profiles import V1_1
from rote.values.limits import COMMIT_BYTES_MAX

# Escapes can make a JSON text six times as long as the text it stands for.
_KEPT_BYTES_MAX = 6 * COMMIT_BYTES_MAX
_MARKDOWN = "markdown"

FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="JSON lines or a JSON array, - for stdin; a folder or a .md file is Markdown.",
    ),
]
SkipOption = Annotated[
    list[str] | None,
    typer.Option(
        "--skip",
        metavar="GLOB",
        help="Leave files of a folder out, or folders; may be given again.",
    ),
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace also what is newer, or was edited.")
]


@spread_options
def export_memory(
    *,
    namespace: OnlyNamespaceOption = None,
    kind: OnlyKindOption = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="jsonl|json|retrieval|memories|markdown",
            help="Lines, one array, lines for retrieve (memories: by lexical-1), or daily logs in a"
            " folder.",
        ),
    ] = "jsonl",
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE|DIR", help="A new file to write it to, or the folder."
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    at: AtOption = None,
    options: BranchOptions,
) -> None:
    """Write all living records to stdout or a file; as Markdown, the daily logs to a folder."""
    target = None if output == "-" else output
    _check_export(namespace or [], format, target, overwrite=overwrite, as_json=options.as_json)
    point = point_of(at)
    with options.opened_space() as space, count_bar("exporting records") as advance:
        memory = memory_of(options.view_at(space, point))
        if format == _MARKDOWN:
            assert target is not None
            report = export_markdown(
                memory, target, kind=kind, overwrite=overwrite, progress=advance
            )
        else:
            for name in namespace or ():
                memory.check_namespace(name)
            with opened_target(None if target is None else check_path(target)) as stream:
                count = write_export(
                    memory, stream, namespace=namespace, kind=kind, format=format, progress=advance
                )
    if format == _MARKDOWN:
        options.print_answer(report.to_dict(), lambda: _print_export(report, f"{target}"))
    elif options.as_json:
        print_json({"records": count})
    elif target is not None:
        print_line(f"{plural(count, 'record')} written to {target}")


def _check_export(
    namespaces: list[str], format: str, target: str | None, *, overwrite: bool, as_json: bool
) -> None:
    formats = (*FORMATS, _MARKDOWN)
    if format not in formats:
        raise InvalidInput(f"there is no format {format!r:.80}; there are {', '.join(formats)}")
    if format != _MARKDOWN:
        if overwrite:
            raise InvalidInput("--overwrite goes with --format markdown; name a new file in -o")
        if as_json and target is None:
            raise InvalidInput("--json tells of what is written to -o")
        return
    if target is None:
        raise InvalidInput("Markdown goes to a folder: -o DIR")
    for name in namespaces:
        if name != DAILY_LOG:
            raise InvalidInput(f"what leaves as Markdown is {DAILY_LOG}; export {name} as JSON")


def _print_export(report: MarkdownExport, folder: str) -> None:
    same, gone = report.records - report.written, report.without_record
    print_line(f"{plural(report.written, 'file')} written to {folder}, {digits(same)} there before")
    if gone:
        named = first_named(gone, separator=", ", more="…")
        verb = "has" if len(gone) == 1 else "have"
        print_line(
            f"{plural(len(gone), 'file')} {verb} no record any more: {named};"
            " the next import brings it back unless you remove it"
        )


@spread_options
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
    overwrite: OverwriteOption = False,
    skip: SkipOption = None,
    namespaces: NamespacesOption = None,
    options: BranchOptions,
) -> None:
    """Bring in records, all or none; those that are there and differ are replaced if not newer."""
    is_new = not options.is_there()
    # A refused import must not leave a new store behind, so it is tried in a scratch space first.
    rehearse = is_new and batch is None and not dry_run

    @contextmanager
    def target() -> Iterator[Memory]:
        if is_new and dry_run:
            with _scratch(namespaces) as scratch:
                yield scratch
        else:
            with options.opened_space(create=not dry_run) as space:
                yield memory_of(space, namespaces)

    if _is_markdown(file):
        check_path(file).stat()  # raises for a missing file before a store is made
        skipped = skip or []
        if rehearse:
            with _scratch(namespaces) as scratch:
                import_markdown(scratch, file, skip=skipped)
        with target() as memory, count_bar("importing files") as count:
            made = import_markdown(
                memory, file, skip=skipped, batch=batch, dry_run=dry_run, overwrite=overwrite,
                progress=count,
            )  # fmt: skip
        print_words = partial(_print_markdown_report, made, dry_run=dry_run, overwrite=overwrite)
        options.print_answer(made.to_dict(), print_words)
        if not made.records and (made.pages or skipped):
            raise no()
        return
    _check_not_skipping(skip)
    with opened_file(file) as (given, size):
        stream = _rehearsed(given, namespaces) if rehearse else given
        with target() as memory, byte_bar("importing", size) as advance:
            report = import_records(
                memory, stream, batch=batch, dry_run=dry_run, overwrite=overwrite, progress=advance
            )
    print_words = partial(_print_counts, report.counts, dry_run=dry_run, overwrite=overwrite)
    options.print_answer(report.to_dict(), print_words)


def _check_not_skipping(skip: list[str] | None) -> None:
    if skip:
        raise InvalidInput("--skip leaves files of a folder out, and this is no folder")


def _print_markdown_report(report: MarkdownReport, *, dry_run: bool, overwrite: bool) -> None:
    print_rows(("kind", "where", "what"), (_row(problem) for problem in report.warnings))
    columns = ("records", "new", "changed", "outdated", "newer")
    print_rows(
        ("namespace", "kind", *columns),
        (
            (made.namespace, made.record_kind, *(made.counts.to_dict()[name] for name in columns))
            for made in report.made
        ),
    )
    _print_counts(report.counts, dry_run=dry_run, overwrite=overwrite)


def _print_counts(counts: Counts, *, dry_run: bool, overwrite: bool) -> None:
    done = "would be imported" if dry_run else "imported"
    print_line(
        f"{plural(counts.written, 'record')} {done} ({digits(counts.new)} new, {digits(counts.changed)}"
        f" changed), {digits(counts.unchanged)} there before"
    )
    replaced = "replaced by it" if overwrite else "an import without --overwrite is refused"
    for count, words in (
        (counts.outdated, "outdated in the file: what is there has gone on since and stays"),
        (counts.newer, f"newer there than in the file: {replaced}"),
        (counts.expired, "expired already: nobody will see what has"),
    ):
        if count:
            print_line(f"{plural(count, 'record')} {words}")


def _rehearsed(stream: BinaryIO, namespaces: str | None) -> BinaryIO:
    """Import the stream into a scratch memory; return the stream, at its beginning again."""
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
    with scratch_space() as space:
        yield memory_of(space, namespaces)


@spread_options
def validate_file(
    file: FileArgument,
    *,
    profile: Annotated[str, typer.Option("--profile", metavar="v1|v1.1-…")] = V1_1,
    skip: SkipOption = None,
    namespaces: NamespacesOption = None,
    options: Options,
) -> None:
    """Tell everything that is wrong with a file of records; exit 1 when there is an error."""
    known = namespaces_in(namespaces)
    failed, count = False, 0

    def found() -> Iterator[tuple[int | None, Problem]]:
        nonlocal failed, count
        for records, number, problems in _checked(file, known, profile, skip or []):
            count += records
            failed = failed or any(problem.kind == "error" for problem in problems)
            for problem in problems:
                yield number, problem

    _print_problems(found(), as_json=options.as_json)
    if failed:
        raise no()
    if not options.as_json:
        print_line(f"ok: {plural(count, 'record')}", style="green")


def _checked(
    file: str, namespaces: Iterable[str], profile: str, skip: list[str]
) -> Iterator[tuple[int, int | None, list[Problem]]]:
    """(records, number, problems) for each record of a JSON file, or for each Markdown file."""
    if _is_markdown(file):
        with count_bar("validating files") as count:
            found = validate_markdown(file, namespaces=namespaces, profile=profile, skip=skip)
            for done, (records, problems) in enumerate(found, start=1):
                count(done)
                yield records, None, problems
        return
    _check_not_skipping(skip)
    with opened_file(file) as (stream, size), byte_bar("validating", size) as advance:
        checked = check_file(stream, namespaces=namespaces, profile=profile, progress=advance)
        for number, problems in checked:
            yield 1, number, problems


def _is_markdown(file: str) -> bool:
    return file != "-" and is_markdown_path(check_path(file))


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
