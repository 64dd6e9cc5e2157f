"""docs/cli.md: every command has its place there. Its examples run with those of all pages."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import typer

from rote.cli.app import app

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"
TEXT = PAGE.read_text()
# Options whose names differ from the parameters they set.
OTHERWISE = {
    "as_json": "--json",
    "ids": "ID…",
    "open_only": "--open",
    "output": "-o",
    "repeated": "--confirm",
}


def commands_of(group: typer.Typer, prefix: str = "") -> dict[str, Callable[..., object]]:
    """Return every command with its words, those of groups too."""
    found = {
        f"{prefix}{command.name}": command.callback
        for command in group.registered_commands
        if command.callback is not None
    }
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        found |= commands_of(inner.typer_instance, f"{prefix}{inner.name} ")
    return found


COMMANDS = commands_of(app)


def test_every_command_has_a_heading_and_every_heading_is_a_command() -> None:
    headings = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    assert sorted(headings) == sorted(COMMANDS)


def test_the_line_of_a_command_names_all_its_options() -> None:
    for command, callback in COMMANDS.items():
        said = TEXT.partition(f"\n## {command}\n")[2].partition("\n")[0]
        for name in inspect.signature(callback).parameters:
            option = OTHERWISE.get(name, f"--{name.replace('_', '-')}")
            assert option in said or name.upper() in said, (command, name)
