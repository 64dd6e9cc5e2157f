"""The `rote` command: all commands, in the order that help lists them."""

import sys
from importlib.metadata import version
from io import TextIOWrapper
from typing import Annotated

import typer

from rote.cli import (
    blobs,
    branching,
    bridging,
    canonical,
    compacting,
    copying,
    doctor,
    erasing,
    memory,
    querying,
    reading,
    retrieving,
    running,
    tracing,
    trust,
    writing,
)
from rote.cli.demo import story
from rote.cli.outcome import Commands

app = typer.Typer(
    name="rote",
    cls=Commands,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line; the entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows its escape instead of a crash.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="rote")


@app.callback()
def describe(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version of Rote.")
    ] = False,
) -> None:
    """Memory for AI agents that you can prove.

    Exits with 0 when all is well, 1 when the answer is no, 2 when there is no answer.
    """
    if show_version:
        typer.echo(f"rote {version('rote')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("demo")(story.demo)
app.command("doctor")(doctor.doctor)
app.command("get")(reading.get_entity)
app.command("set")(writing.set_entity)
app.command("patch")(writing.patch_entity)
app.command("delete")(writing.delete_entity)
app.command("log")(reading.log)
app.command("history")(reading.history)
app.command("query")(querying.query)
app.command("watch")(querying.watch)
app.add_typer(branching.branch, name="branch")
app.command("merge")(branching.merge)
app.command("diff")(branching.diff)
app.command("verify")(trust.verify)
app.command("checkpoint")(trust.checkpoint)
app.command("backup")(trust.backup)
app.command("copy")(copying.copy)
app.command("erase")(erasing.erase)
memory.commands.command("erase")(erasing.erase_records)
app.add_typer(blobs.commands, name="blob")
app.command("gc")(blobs.gc)
app.command("compact")(compacting.compact)
memory.commands.command("export")(bridging.export_memory)
memory.commands.command("import")(bridging.import_memory)
memory.commands.command("validate")(bridging.validate_file)
app.add_typer(memory.commands, name="memory")
app.command("retrieve")(retrieving.retrieve_package)
app.add_typer(running.runs, name="runs")
app.command("recover")(running.recover)
app.add_typer(tracing.commands, name="trace")
app.command("canonical")(canonical.canonicalise)
