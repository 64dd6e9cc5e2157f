"""docs/cli.md: every command has its place there. Its examples run with those of all pages."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

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


def commands_of(group: Any, prefix: str = "") -> dict[str, Callable[..., object]]:
    """Return every command with its words, those of groups too."""
    found: dict[str, Callable[..., object]] = {}
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            found |= commands_of(command, f"{prefix}{name} ")
        else:
            found[f"{prefix}{name}"] = command.callback
    return found


COMMANDS = commands_of(get_command(app))


def test_every_command_has_a_heading_and_every_heading_is_a_command() -> None:
    headings = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    assert sorted(headings) == sorted(COMMANDS)


def test_the_line_of_a_command_names_all_its_options() -> None:
    for command, callback in COMMANDS.items():
        said = TEXT.partition(f"\n## {command}\n")[2].partition("\n")[0]
        for name in inspect.signature(callback).parameters:
            option = OTHERWISE.get(name, f"--{name.replace('_', '-')}")
            assert option in said or name.upper() in said, (command, name)
