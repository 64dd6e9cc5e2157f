"""The `rote` command: all commands, in the order that help lists them."""

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from rote.cli.loading import Place, load
from rote.cli.outcome import Commands

_LOOK, _WRITE = "Look, now and back", "Write"
_BRANCHES, _MEMORY = "Branches", "Memory for agents"
_TIERS = "State of workflows"
_TRUST, _KEEP = "Trust and copies", "Keep it small and lawful"
_SERVE = "Serve it"


class _AllCommands(Commands):
    places = (
        Place("demo", "rote.cli.demo.story:demo", "Begin"),
        Place("doctor", "rote.cli.doctor:doctor", "Begin"),
        Place("get", "rote.cli.reading:get_entity", _LOOK),
        Place("list", "rote.cli.reading:list_entities", _LOOK),
        Place("log", "rote.cli.commits:log", _LOOK),
        Place("show", "rote.cli.commits:show_commit", _LOOK),
        Place("history", "rote.cli.reading:history", _LOOK),
        Place("spaces", "rote.cli.reading:list_spaces", _LOOK),
        Place("query", "rote.cli.querying:query", _LOOK),
        Place("watch", "rote.cli.querying:watch", _LOOK),
        Place("set", "rote.cli.writing:set_entity", _WRITE),
        Place("patch", "rote.cli.writing:patch_entity", _WRITE),
        Place("delete", "rote.cli.writing:delete_entity", _WRITE),
        Place("blob", "rote.cli.blobs:commands", _WRITE),
        Place("memory", "rote.cli.memory:commands", _MEMORY),
        Place("retrieve", "rote.cli.retrieving:retrieve_package", _MEMORY),
        Place("runs", "rote.cli.running:runs", _MEMORY),
        Place("recover", "rote.cli.running:recover", _MEMORY),
        Place("trace", "rote.cli.tracing:commands", _MEMORY),
        Place("host", "rote.cli.hosting:commands", _TIERS),
        Place("queue", "rote.cli.queues:commands", _TIERS),
        Place("agent", "rote.cli.agents:commands", _TIERS),
        Place("branch", "rote.cli.branching:branch", _BRANCHES),
        Place("merge", "rote.cli.branching:merge", _BRANCHES),
        Place("diff", "rote.cli.branching:diff", _BRANCHES),
        Place("verify", "rote.cli.trust:verify", _TRUST),
        Place("checkpoint", "rote.cli.trust:checkpoint", _TRUST),
        Place("backup", "rote.cli.trust:backup", _TRUST),
        Place("copy", "rote.cli.copying:copy", _TRUST),
        Place("canonical", "rote.cli.canonical:canonicalise", _TRUST),
        Place("serve", "rote.cli.serving:serve", _SERVE),
        Place("token", "rote.cli.tokens:commands", _SERVE),
        Place("acl", "rote.cli.rights:commands", _SERVE),
        Place("key", "rote.cli.keys:commands", _SERVE),
        Place("delegate", "rote.cli.keys:delegate_right", _SERVE),
        Place("erase", "rote.cli.erasing:erase", _KEEP),
        Place("compact", "rote.cli.compacting:compact", _KEEP),
        Place("gc", "rote.cli.blobs:gc", _KEEP),
    )


app = typer.Typer(
    name="rote",
    cls=_AllCommands,
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
        version = load("importlib.metadata:version")
        typer.echo(f"rote {version('rote')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
