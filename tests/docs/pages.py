"""Examples in pages: the blocks that run, and the way they run.

```python    runs; the blocks of a page share one namespace, in order; a `try` must raise
```python agent.py   is saved as that file in the working folder, and does not run
```console   lines with `$ ` run in a shell; what is shown below one is what it prints, where
             `…` stands for anything; nothing shown is not compared
other tags   illustrations
"""

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.docs.starter import SECONDS_MAX, Starter

RUN = ("python", "console")

_exit = re.compile(r"\[exit (\d+)\]").fullmatch
_fence = re.compile(r"^(?P<fence>`{3,})(?P<tag>[A-Za-z0-9_-]*) ?(?P<file>[^`]*)$")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    tag: str
    line: int  # of its first line of text, from 1
    text: str
    file: str = ""  # the name to save it by


@dataclass(frozen=True)
class Command:
    """One line of a console block that starts with `$ `."""

    line: int
    text: str
    shown: str = ""  # the output that the page shows
    exit_code: int = 0


def blocks(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in order."""
    fence, tag, file, start = "", "", "", 0
    lines = page.splitlines()
    for number, line in enumerate(lines, start=1):
        if fence:
            if line.rstrip() == fence:
                yield Block(tag, start, "\n".join(lines[start - 1 : number - 1]) + "\n", file)
                fence = ""
        elif match := _fence.match(line):
            fence, tag, file = match["fence"], match["tag"], match["file"].strip()
            start = number + 1
    assert not fence, f"the block that starts at line {start} never ends"


def commands(block: Block) -> list[Command]:
    """Return the commands of a console block; a line that ends with a backslash continues."""
    found: list[Command] = []
    for number, line in enumerate(block.text.splitlines(), start=block.line):
        if line.startswith("$ "):
            found.append(Command(number, line[2:]))
            continue
        assert found, f"line {number}: a console block starts with a command"
        last = found[-1]
        if last.text.endswith("\\") and not last.shown:
            found[-1] = replace(last, text=f"{last.text}\n{line}")
        elif ended := _exit(line):
            found[-1] = replace(last, exit_code=int(ended[1]))
        else:
            found[-1] = replace(last, shown=f"{last.shown}{line}\n")
    return found


def run_python(block: Block, *, page: Path, namespace: dict[str, object]) -> None:
    """Run a block so that a traceback shows the page's own line numbers."""
    tree = _MustRaise().visit(ast.parse(block.text, str(page)))
    ast.increment_lineno(ast.fix_missing_locations(tree), block.line - 1)
    exec(compile(tree, str(page), "exec"), namespace)


class _MustRaise(ast.NodeTransformer):
    """An example that shows an error must get it: a `try` that raises nothing fails.

    Functions are left alone: there a `try` may be for errors that do not happen here.
    """

    def visit_Try(self, node: ast.Try) -> ast.Try:
        if node.handlers and not node.orelse:
            [failure] = ast.parse("raise AssertionError('no error came')").body
            for part in ast.walk(failure):
                ast.copy_location(part, node)
            node.orelse = [failure]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node


class Console:
    """Runs commands one after the other: each in a shell, but a plain `rote …` without one."""

    def __init__(
        self, folder: Path, environment: dict[str, str], starter: Starter, *, output: Path
    ) -> None:
        """output  a file that takes what a plain `rote …` prints"""
        self._output = output
        self._folder = folder
        self._environment = environment
        self._starter = starter

    def run(self, block: Block, *, page: Path) -> None:
        for command in commands(block):
            exit_code, printed = self._run(command.text)
            place = f"{page.name}:{command.line}: $ {command.text}"
            assert exit_code == command.exit_code, (
                f"{place}\nexits with {exit_code}, not {command.exit_code}\n{printed}"
            )
            assert not command.shown or matches(command.shown, printed), (
                f"{place}\nprints\n{printed}and the page shows\n{command.shown}"
            )

    def _run(self, text: str) -> tuple[int, str]:
        if text.startswith("rote ") and not _needs_shell(text):
            return self._starter.run(
                shlex.split(text)[1:],
                folder=self._folder, environment=self._environment, output=self._output,
            )  # fmt: skip
        done = subprocess.run(
            ["sh", "-c", text],
            cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX,
            check=False,
        )  # fmt: skip
        return done.returncode, done.stdout


def _needs_shell(text: str) -> bool:
    """Whether something in the text has a special meaning in a shell, outside of single quotes."""
    return re.search(r"[|&;<>()$`*?\[#~!\\\"\n]", re.sub(r"'[^']*'", "", text)) is not None


def matches(shown: str, printed: str) -> bool:
    """Whether the output is what the page shows; `…` stands for anything."""
    parts = [re.escape(part) for part in shown.rstrip().split("…")]
    return re.fullmatch(".*".join(parts), printed.rstrip(), re.DOTALL) is not None
