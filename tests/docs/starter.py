"""Starts `rote` many times without loading it each time: every command is a process of its own,
forked from one that has the library loaded.

As a program it reads a line of JSON for each command, {"arguments": […], "output": PATH}, and
answers with a line, the exit code.
"""

import gc
import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import typer.main
from typer.testing import CliRunner

import rote
from rote.cli.app import app, main
from rote.values import canonical, decode

SECONDS_MAX = 120


class Starter:
    """Runs `rote` in one folder and environment."""

    def __init__(self, folder: Path, environment: dict[str, str], *, output: Path) -> None:
        """Keep the settings; commands print into the file `output`."""
        self._folder = folder
        self._environment = environment
        self._output = output
        self._process: subprocess.Popen[str] | None = None  # started at the first need

    def run(self, arguments: list[str]) -> tuple[int, str]:
        """Return the exit code of `rote ARGUMENTS`, and its output."""
        if self._process is None:
            self._process = self._start()
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        order = canonical({"arguments": arguments, "output": str(self._output)})
        stdin.write(f"{order.decode()}\n")
        stdin.flush()
        return int(stdout.readline()), self._output.read_text("utf-8")

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, __file__], cwd=self._folder, env=self._environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()


def _serve() -> None:
    # All processes use the same commands: to make them takes longer than to run most of them.
    typer.main.get_command = cache(typer.main.get_command)
    # Loads the lazy imports.
    for words in (["--help"], ["memory", "--help"], ["canonical"]):
        CliRunner().invoke(app, words, input="1")
    for name in rote.__all__:
        getattr(rote, name)
    gc.freeze()  # a collection in a child would copy every page that it looks at
    for line in sys.stdin:
        order = decode(line)
        child = os.fork()
        if child == 0:
            sys.argv = ["rote", *order["arguments"]]
            _take_streams(order["output"])
            signal.alarm(SECONDS_MAX)  # ends a command that hangs
            main()  # ends the process, and with it this loop
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _take_streams(output: str) -> None:
    """Close the input, and send all output to one file."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)


if __name__ == "__main__":
    _serve()
