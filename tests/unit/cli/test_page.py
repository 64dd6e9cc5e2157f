"""docs/cli.md: every command has its place there, and the examples give what they show."""

import inspect
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import typer

from rote.cli.app import app
from tests.unit.cli.command import ROTE, SECONDS_MAX, environment

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"
TEXT = PAGE.read_text()


def commands_of(group: typer.Typer, prefix: str = "") -> dict[str, Callable[..., object]]:
    """Every command with its words, those of groups too."""
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
            option = {"as_json": "--json", "output": "-o"}.get(name, f"--{name.replace('_', '-')}")
            assert option in said or name.upper() in said, (command, name)


def test_the_examples_give_what_they_show(tmp_path: Path) -> None:
    examples = list(examples_of(TEXT))
    assert len(examples) > 15
    for command, expected in examples:
        assert re.fullmatch(pattern_of(expected), transcript(command, cwd=tmp_path)), command


def examples_of(text: str) -> list[tuple[str, str]]:
    """(command, what it shows), in the order of the page."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return [
        (command, shown)
        for block in blocks
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


def transcript(command: str, *, cwd: Path) -> str:
    """What a shell shows of a command, and how it ended."""
    ended = subprocess.run(
        ["sh", "-c", command],
        cwd=cwd,
        env=environment(PATH=f"{ROTE.parent}:/usr/bin:/bin"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    shown = ended.stdout if ended.stdout.endswith("\n") else ended.stdout + "\n"
    return shown + (f"[exit {ended.returncode}]\n" if ended.returncode else "")


def pattern_of(expected: str) -> str:
    """The page writes … for what differs from run to run."""
    return re.escape(expected).replace("…", "[^\n]+")
