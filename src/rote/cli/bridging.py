"""Commands that move records between a space and files: rote memory export, import, validate."""

from pathlib import Path
from typing import Annotated

import typer

from rote.bridges import Problem, import_records, validate, write_export
from rote.bridges.imports import read_records
from rote.cli.input import opened_file
from rote.cli.options import (
    BRANCH_DEFAULT,
    SPACE_DEFAULT,
    STORE_DEFAULT,
    BranchOption,
    JsonOption,
    SpaceOption,
    StoreOption,
    opened_space,
)
from rote.cli.outcome import no
from rote.cli.output import opened_target, plural, print_json, print_line, print_rows
from rote.cli.progress import byte_bar, count_bar
from rote.records import Memory
from rote.records.keys import NAMESPACES
from rote.records.profiles import V1_1, check_profile

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
        memory = Memory(opened)
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
        typer.Option("--batch", metavar="N", min=1, help="Commit so many at a time."),
    ] = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Bring in records, all or none; what is there already is left alone."""
    with (
        opened_file(file) as (stream, size),
        opened_space(store, space, branch, create=True) as opened,
        byte_bar("importing", size) as advance,
    ):
        report = import_records(Memory(opened), stream, batch=batch, progress=advance)
    if as_json:
        print_json(report.to_dict())
    else:
        same = report.records - report.changed
        print_line(f"{plural(report.changed, 'record')} imported, {same:,} there before")


def validate_file(
    file: FileArgument,
    *,
    profile: Annotated[str, typer.Option("--profile", metavar="v1|v1.1-…")] = V1_1,
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", metavar="NS", help="May be given again; default all known."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Tell everything that is wrong with a file of records; exit 1 when there is an error."""
    check_profile(profile)
    failed, count = False, 0
    with opened_file(file) as (stream, size), byte_bar("validating", size) as advance:
        for number, value in read_records(stream, advance):
            problems = validate(value, namespaces=namespace or NAMESPACES, profile=profile)
            failed = failed or any(problem.kind == "error" for problem in problems)
            count += 1
            _print_problems(number, problems, as_json=as_json)
    if failed:
        raise no()
    if not as_json:
        print_line(f"ok: {plural(count, 'record')}", style="green")


def _print_problems(number: int, problems: list[Problem], *, as_json: bool) -> None:
    if as_json:
        for problem in problems:
            print_json({"record": number, **problem.to_dict()})
    elif problems:
        rows = ((p.kind, f"{number}{p.path}", p.message) for p in problems)
        print_rows(("kind", "where", "what"), rows)
