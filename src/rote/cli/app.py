"""The `rote` command: all commands, in the order that help lists them."""

import sys
from importlib.metadata import version
from io import TextIOWrapper
from typing import Annotated

import typer

from rote.cli import (
    agents,
    blobs,
    branching,
    bridging,
    canonical,
    commits,
    compacting,
    copying,
    doctor,
    erasing,
    hosting,
    keys,
    memory,
    querying,
    queues,
    reading,
    recalling,
    replaying,
    retrieving,
    rights,
    run_details,
    running,
    searching,
    serving,
    showing,
    tokens,
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
    """Run the command line, once its parts are there."""
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

    What was known then, who wrote it and why: rote memory list --at 'tuesday 14:00', rote memory
    show, rote memory history, rote log; what has changed since: rote diff --at 'tuesday 14:00'.

    Exits with 0 when all is well, 1 when the answer is no, 2 when there is no answer.
    """
    if show_version:
        typer.echo(f"rote {version('rote')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


_LOOK, _WRITE = "Look, now and back", "Write"
_BRANCHES, _MEMORY = "Branches", "Memory for agents"
_TIERS = "State of workflows"
_TRUST, _KEEP = "Trust and copies", "Keep it small and lawful"
_SERVE = "Serve it"

app.command("demo", rich_help_panel="Begin")(story.demo)
app.command("doctor", rich_help_panel="Begin")(doctor.doctor)
app.command("get", rich_help_panel=_LOOK)(reading.get_entity)
app.command("list", rich_help_panel=_LOOK)(reading.list_entities)
app.command("log", rich_help_panel=_LOOK)(commits.log)
app.command("show", rich_help_panel=_LOOK)(commits.show_commit)
app.command("history", rich_help_panel=_LOOK)(reading.history)
app.command("spaces", rich_help_panel=_LOOK)(reading.list_spaces)
app.command("query", rich_help_panel=_LOOK)(querying.query)
app.command("watch", rich_help_panel=_LOOK)(querying.watch)
app.command("set", rich_help_panel=_WRITE)(writing.set_entity)
app.command("patch", rich_help_panel=_WRITE)(writing.patch_entity)
app.command("delete", rich_help_panel=_WRITE)(writing.delete_entity)
app.add_typer(blobs.commands, name="blob", rich_help_panel=_WRITE)
memory.commands.command("get")(recalling.get_record)
memory.commands.command("list")(recalling.list_records)
memory.commands.command("search")(searching.search_records)
memory.commands.command("show")(recalling.show_record)
memory.commands.command("history")(recalling.show_history)
memory.commands.command("erase")(erasing.erase_records)
memory.commands.command("export")(bridging.export_memory)
memory.commands.command("import")(bridging.import_memory)
memory.commands.command("validate")(bridging.validate_file)
app.add_typer(memory.commands, name="memory", rich_help_panel=_MEMORY)
app.command("retrieve", rich_help_panel=_MEMORY)(retrieving.retrieve_package)
running.runs.command("show")(run_details.show_run)
running.runs.command("replay")(replaying.replay_run)
app.add_typer(running.runs, name="runs", rich_help_panel=_MEMORY)
app.command("recover", rich_help_panel=_MEMORY)(running.recover)
tracing.commands.command("show")(showing.show_trace)
app.add_typer(tracing.commands, name="trace", rich_help_panel=_MEMORY)
app.add_typer(hosting.commands, name="host", rich_help_panel=_TIERS)
app.add_typer(queues.commands, name="queue", rich_help_panel=_TIERS)
app.add_typer(agents.commands, name="agent", rich_help_panel=_TIERS)
app.add_typer(branching.branch, name="branch", rich_help_panel=_BRANCHES)
app.command("merge", rich_help_panel=_BRANCHES)(branching.merge)
app.command("diff", rich_help_panel=_BRANCHES)(branching.diff)
app.command("verify", rich_help_panel=_TRUST)(trust.verify)
app.command("checkpoint", rich_help_panel=_TRUST)(trust.checkpoint)
app.command("backup", rich_help_panel=_TRUST)(trust.backup)
app.command("copy", rich_help_panel=_TRUST)(copying.copy)
app.command("canonical", rich_help_panel=_TRUST)(canonical.canonicalise)
app.command("serve", rich_help_panel=_SERVE)(serving.serve)
app.add_typer(tokens.commands, name="token", rich_help_panel=_SERVE)
app.add_typer(rights.commands, name="acl", rich_help_panel=_SERVE)
app.add_typer(keys.commands, name="key", rich_help_panel=_SERVE)
app.command("delegate", rich_help_panel=_SERVE)(keys.delegate_right)
app.command("erase", rich_help_panel=_KEEP)(erasing.erase)
app.command("compact", rich_help_panel=_KEEP)(compacting.compact)
app.command("gc", rich_help_panel=_KEEP)(blobs.gc)
