"""Starts `rote` many times without loading it each time: every command is a process of its own,
forked from one that has the library loaded.

As a program it reads a line of JSON for each command, {"arguments": […], "environment": {…},
"folder": PATH, "output": PATH}, and answers with a line, the exit code.
"""

import atexit
import gc
import os
import signal
import subprocess
import sys
import threading
import traceback
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import typer.main
from typer.testing import CliRunner

import rote
from rote.cli.app import app, main
from rote.values import canonical, decode

SECONDS_MAX = 120


class Starter:
    """Runs `rote` in any folder and environment."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None  # started at the first need

    def run(
        self, arguments: list[str], *, folder: Path, environment: dict[str, str], output: Path
    ) -> tuple[int, str]:
        """Return the exit code of `rote ARGUMENTS`, and its output, which goes into the file `output`."""
        if self._process is None:
            self._process = self._start()
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        order = {
            "arguments": arguments, "environment": environment,
            "folder": str(folder), "output": str(output),
        }  # fmt: skip
        stdin.write(f"{canonical(order).decode()}\n")
        stdin.flush()
        return int(stdout.readline()), output.read_text("utf-8")

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, __file__], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

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
            _run(order)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _run(order: Any) -> NoReturn:
    """Run one command, and end the process as the interpreter does, but leave the memory to the
    system: to free it object by object takes longer than most commands."""
    sys.argv = ["rote", *order["arguments"]]
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    _take_streams(order["output"])
    signal.alarm(SECONDS_MAX)  # ends a command that hangs
    code = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _take_streams(output: str) -> None:
    """Close the input, and send all output to one file."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)


if __name__ == "__main__":
    _serve()
