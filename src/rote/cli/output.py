"""Output of commands: one JSON document or JSON lines for programs; for people, tables and colour
on a terminal and tab-separated lines elsewhere.

Text from a store may hold anything. Before a person sees it, every character that a terminal would
obey is escaped, and no part of the text is read as markup.
"""

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.table import Column, Table
from rich.text import Text

from rote.errors import InvalidInput, Unavailable
from rote.values import Json, canonical
from rote.values.indentation import indent
from rote.values.limits import DEPTH_MAX, PAGE_MAX

_HASH_CHARACTERS_SHOWN = 12
# Of a table on a terminal.
_CELL_PADDING = 3
_WRAPPED_WIDTH_MIN = 24

_blanks = re.compile(r"\s+").sub


class _Console(Console):
    def on_broken_pipe(self) -> None:
        # Rich would end the process with 1, which means "no"; outcome.py ends it with its own code.
        raise BrokenPipeError


def stdout() -> Console:
    """Return a new console for standard output; tests exchange the stream between two uses."""
    return _Console(highlight=False, soft_wrap=True)


def stderr() -> Console:
    return _Console(stderr=True, highlight=False)


@contextmanager
def answering() -> Iterator[None]:
    """Wrap a write to standard output, so that an error says that the command's change is done.

    Without these words a caller could take the command for undone and run it again.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise Unavailable(
            f"the answer could not be written to standard output: {error.strerror or error};"
            " what the command had to change is changed"
        ) from error


def discard_output() -> None:
    """Send buffered output nowhere, so that the interpreter's last flush raises no error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@answering()
def print_json(value: Json) -> None:
    """Print the canonical form of a value on one line."""
    sys.stdout.flush()
    sys.stdout.buffer.write(_encoded(value) + b"\n")


@answering()
def print_value(value: Json) -> None:
    """Print a value for people: indented, and in colour on a terminal."""
    text = printable(indented(value), keep="\n")
    stdout().print(JSONHighlighter()(Text(text)))


@answering()
def print_text(text: str) -> None:
    """Print a text as it is for programs; on a terminal without what steers it."""
    sys.stdout.flush()
    shown = printable(text, keep="\n") if stdout().is_terminal else text
    sys.stdout.buffer.write(shown.encode())


def print_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | int]],
    *,
    wraps: Collection[str] | None = None,
) -> None:
    """Print a table on a terminal, a page at a time; elsewhere one tab-separated line for each row,
    with numbers as digits alone.

    wraps  the columns whose cells may be broken into lines, the last one unless said otherwise. All
           others are shown whole: on a terminal that is too narrow, each row is a block of lines
    """
    console = stdout()
    cells = ([_cell(cell, console.is_terminal) for cell in row] for row in rows)
    if not console.is_terminal:
        for row in cells:
            with answering():  # reading the next row may fail too, and is no error of the output
                print("\t".join(row))
        return
    wrapped = columns[-1:] if wraps is None else wraps
    while page := list(islice(cells, PAGE_MAX)):
        if _width(columns, page, wrapped) <= console.width:
            # A word that is too long for its column is broken, not cut.
            headings = [
                Column(name, no_wrap=name not in wrapped, overflow="fold") for name in columns
            ]
            table = Table(*headings, box=box.SIMPLE_HEAD)
            for row in page:
                table.add_row(*map(Text, row))
            with answering():
                console.print(table, soft_wrap=False)
        else:
            for row in page:
                print_pairs(list(zip(columns, row, strict=True)))
                print_line("")


def _width(columns: Sequence[str], rows: Sequence[Sequence[str]], wrapped: Collection[str]) -> int:
    """Return the columns of a terminal that a table needs, so that only wrapped cells are broken."""
    widths = [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)]
    return 1 + sum(
        _CELL_PADDING + (min(width, _WRAPPED_WIDTH_MIN) if name in wrapped else width)
        for name, width in zip(columns, widths, strict=True)
    )


def print_pairs(pairs: Sequence[tuple[str, str | int]]) -> None:
    """Print names with their values, one on each line; without those whose value is empty."""
    console = stdout()
    shown = [(name, _cell(cell, console.is_terminal)) for name, cell in pairs if cell != ""]
    width = max([len(name) for name, _ in shown], default=0)
    for name, cell in shown:
        with answering():
            if console.is_terminal:
                console.print(Text.assemble((f"{name:<{width}}", "bold"), "  ", cell))
            else:
                print(f"{name}\t{cell}")


def print_parts(parts: Iterable[str], *, indent: str = "", style: str = "") -> None:
    """Print parts side by side on a terminal, as many on a line as fit; each is shown whole."""
    width, line = stdout().width, ""
    for part in (printable(part) for part in parts if part):
        if line and cell_len(line) + cell_len(part) + 2 > width:
            print_line(line, style=style)
            line = ""
        line = f"{line}  {part}" if line else f"{indent}{part}"
    if line:
        print_line(line, style=style)


def _cell(cell: str | int, for_people: bool) -> str:
    return printable(cell) if isinstance(cell, str) else _digits(cell, for_people)


def _digits(count: int, for_people: bool) -> str:
    return f"{count:,}" if for_people else str(count)


@contextmanager
def opened_target(path: Path | None) -> Iterator[BinaryIO]:
    """Open standard output, or a new file; the file is removed when writing to it fails."""
    if path is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        return
    try:
        target = path.open("xb")
    except FileExistsError:
        raise InvalidInput(f"{path} exists already; remove it, or name another file") from None
    with target as file:
        try:
            yield file
        except BaseException:
            path.unlink()
            raise


def write_page(path: Path, content: bytes) -> None:
    """Write a page to a new file."""
    with opened_target(path) as file:
        file.write(content)


@answering()
def print_line(text: str, *, style: str = "") -> None:
    stdout().print(Text(printable(text), style=style))


@answering()
def print_marked(text: str, marks: Iterable[Sequence[int]], *, indent: str = "") -> None:
    """Print a text on a terminal with the stretches [start, end) marked, and white space as blanks."""
    shown, place = Text(indent), 0
    for start, end in marks:
        shown.append(_in_line(text[place:start]))
        shown.append(printable(text[start:end]), style="bold yellow")
        place = end
    stdout().print(shown.append(_in_line(text[place:])))


def _in_line(text: str) -> str:
    return printable(_blanks(" ", text))


def say(text: str) -> None:
    """Print a text as one line on stderr; where nobody can be told, the exit code has to do."""
    _say(" ".join(text.splitlines()))


def say_json(value: Json) -> None:
    """Print a value as one line of JSON on stderr, for programs."""
    _say(compact(value))


def _say(line: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError):
            print(printable(line), file=sys.stderr, flush=True)


def printable(text: str, *, keep: str = "") -> str:
    """Return the text with every character that cannot be seen, or steers a terminal, as an escape."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in keep else _escape(character)
        for character in text
    )


def short(hash: str | None) -> str:
    return "" if hash is None else hash[:_HASH_CHARACTERS_SHOWN]


def digits(count: int) -> str:
    """Return a number for a line of words: with separators on a terminal, digits alone elsewhere."""
    return _digits(count, stdout().is_terminal)


def plural(count: int, noun: str) -> str:
    return f"{digits(count)} {noun}" if count == 1 else f"{digits(count)} {noun}s"


def compact(value: Json) -> str:
    """Return a value as text on one line."""
    return _encoded(value).decode()


def _encoded(value: Json) -> bytes:
    # An answer wraps values that may already have the greatest depth.
    return canonical(value, depth_max=2 * DEPTH_MAX)


def indented(value: Json) -> str:
    """Return the canonical form with line breaks; numbers look as in the canonical form."""
    return "".join(indent(compact(value)))


def _escape(character: str) -> str:
    known = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}.get(character)
    if known is not None:
        return known
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
