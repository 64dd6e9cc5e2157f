"""A command of `rote` loads what it needs: the rest of the commands would triple its start."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from rote.cli.app import app
from tests.unit.cli.command import SECONDS_MAX, environment, run

# Runs a command, and says in its last line which of our packages it has loaded.
LOOKING = """
import sys
from rote.cli import main
try:
    main()
finally:
    names = {".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("rote.")}
    print(*sorted(names), file=sys.stderr)
"""
UNNEEDED = {"rote.recordings", "rote.bridges", "rote.server", "rote.retrieval", "rote.inspector"}


@pytest.mark.parametrize("command", ["get urn:entity:a", "log", "memory list session", "--version"])
def test_a_command_does_not_load_the_packages_of_others(tmp_path: Path, command: str) -> None:
    run("set", "urn:entity:a", "1", store=tmp_path / "rote.db")
    ended = subprocess.run(
        [sys.executable, "-c", LOOKING, *command.split()], cwd=tmp_path, env=environment(),
        capture_output=True, text=True, timeout=SECONDS_MAX, check=True,
    )  # fmt: skip
    assert not {*ended.stderr.split()} & UNNEEDED
    assert "rote.cli" in ended.stderr


def test_each_place_holds_the_command_that_its_group_names() -> None:
    groups = [get_command(app)]
    for group in groups:
        assert isinstance(group, TyperGroup)
        for name in group.commands:
            assert group.commands[name].name == name
            groups += [group.commands[name]] if isinstance(group.commands[name], TyperGroup) else []
    assert len(groups) > 10
