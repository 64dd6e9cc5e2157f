"""Running `rote` in a test: in this process for most tests, as a real one where the process matters."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from rote.cli.app import app
from rote.values import canonical, decode

ROTE = Path(sys.executable).with_name("rote")
SECONDS_MAX = 60
# All tests use the same commands: to make them takes longer than to run most of them.
COMMANDS = get_command(app)


def run(*args: str, store: Path | None = None, stdin: str | bytes = "", **env: str) -> Result:
    """Run `rote ARGS` in this process."""
    options = [] if store is None else ["--store", str(store)]
    runner = CliRunner()
    # Fixed values in place of the environment's.
    fixed = {
        "ROTE_STORE": None,
        "ROTE_SPACE": None,
        "ROTE_BRANCH": None,
        "ROTE_AUTHOR": None,
        **env,
    }
    with runner.isolation(input=stdin, env=fixed) as streams:
        with pytest.raises(SystemExit) as ended:
            COMMANDS.main([*args, *options], prog_name="rote")
        sys.stdout.flush()
        sys.stderr.flush()
        out, err, both = (stream.getvalue() for stream in streams)
    return Result(
        runner, stdout_bytes=out, stderr_bytes=err, output_bytes=both, return_value=None,
        exit_code=int(ended.value.code or 0), exception=None,
    )  # fmt: skip


def run_ok(*args: str, store: Path, stdin: str | bytes = "") -> str:
    """Return the output of `rote ARGS`, which must succeed without a word of complaint."""
    result = run(*args, store=store, stdin=stdin)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def run_json(*args: str, store: Path) -> Any:
    """Return the JSON document that `rote ARGS --json` prints."""
    return decode(run_ok(*args, "--json", store=store))


def error_of(result: Result) -> str:
    """Return the one line of a command that failed; of JSON the same line in words."""
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    if result.stderr.startswith("{"):
        return f"error: {json_error_of(result)['message']}\n"
    assert result.stderr.startswith("error: ")
    return result.stderr


def json_error_of(result: Result) -> dict[str, Any]:
    """Return the one object that a command with --json says on stderr."""
    told: Any = decode(result.stderr)
    assert told.keys() == {"code", "message", "details"}
    assert result.stderr == canonical(told).decode() + "\n"
    return dict(told)


def environment(**extra: str) -> dict[str, str]:
    """Return this process's environment without variables that change `rote` or its colours."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("ROTE_")
        and name not in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE")
    }
    return {**kept, **extra}


def run_process(*args: str, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run `rote ARGS` as a process of its own, without a terminal."""
    return subprocess.run(
        [ROTE, *args],
        cwd=cwd,
        env=environment(**extra),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
