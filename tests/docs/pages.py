"""Examples in pages: which blocks run, and how.

```python    runs; the blocks of a page share one namespace, in order; a `try` must raise
```console   lines with `$ ` run in a shell; what is shown below one is what it prints, where
             `…` stands for anything; nothing shown is not compared
other tags   illustrations
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

RUN = ("python", "console")
SECONDS_MAX = 120

_exit = re.compile(r"\[exit (\d+)\]").fullmatch
_fence = re.compile(r"^(?P<fence>`{3,})(?P<tag>[A-Za-z0-9_-]*)[^`]*$")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    tag: str
    line: int  # of its first line of text, from 1
    text: str


@dataclass(frozen=True)
class Command:
    """One line of a console block that starts with `$ `."""

    line: int
    text: str
    shown: str = ""  # what the page says it prints
    exit_code: int = 0


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    fence, tag, start = "", "", 0
    lines = page.splitlines()
    for number, line in enumerate(lines, start=1):
        if fence:
            if line.rstrip() == fence:
                yield Block(tag, start, "\n".join(lines[start - 1 : number - 1]) + "\n")
                fence = ""
        elif match := _fence.match(line):
            fence, tag, start = match["fence"], match["tag"], number + 1
    assert not fence, f"the block that starts at line {start} never ends"


def commands(block: Block) -> list[Command]:
    """The commands of a console block; a line that ends with a backslash goes on."""
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

    Functions are left alone: there a `try` may be for the day when something goes wrong.
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


def run_console(block: Block, *, page: Path, folder: Path, environment: dict[str, str]) -> None:
    """Run the commands one after the other, each in a shell of its own."""
    for command in commands(block):
        done = subprocess.run(
            ["sh", "-c", command.text],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
        place = f"{page.name}:{command.line}: $ {command.text}"
        assert done.returncode == command.exit_code, (
            f"{place}\nexits with {done.returncode}, not {command.exit_code}\n{done.stdout}"
        )
        assert not command.shown or matches(command.shown, done.stdout), (
            f"{place}\nprints\n{done.stdout}and the page shows\n{command.shown}"
        )


def matches(shown: str, printed: str) -> bool:
    """Whether the page tells the truth; `…` stands for anything."""
    parts = [re.escape(part) for part in shown.rstrip().split("…")]
    return re.fullmatch(".*".join(parts), printed.rstrip(), re.DOTALL) is not None
