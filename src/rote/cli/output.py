"""Output of commands: one JSON document or JSON lines for programs; for people, tables and colour
on a terminal and tab-separated lines elsewhere.

Text from a store may hold anything. Before a person sees it, every character that a terminal would
obey is escaped, and no part of the text is read as markup.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from rich import box
from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.table import Column, Table
from rich.text import Text

from rote.errors import InvalidInput, Unavailable
from rote.values import Json, canonical
from rote.values.limits import DEPTH_MAX, PAGE_MAX

# Canonical text, token by token: strings, punctuation, everything else.
_tokens = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^"{}\[\],:]+').findall
_INDENT = "  "
_HASH_CHARACTERS_SHOWN = 12
_CHARACTERS_WHOLE = 40


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


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[str | int]]) -> None:
    """Print a table on a terminal, a page at a time; elsewhere one tab-separated line for each row,
    with numbers as digits alone."""
    console = stdout()
    cells = ([_cell(cell, console.is_terminal) for cell in row] for row in rows)
    if not console.is_terminal:
        for row in cells:
            with answering():  # reading the next row may fail too, and is no error of the output
                print("\t".join(row))
        return
    while page := list(islice(cells, PAGE_MAX)):
        # On a narrow terminal the other columns wrap; the first does only when it is long.
        is_whole = all(len(row[0]) <= _CHARACTERS_WHOLE for row in page)
        table = Table(Column(columns[0], no_wrap=is_whole), *columns[1:], box=box.SIMPLE_HEAD)
        for row in page:
            table.add_row(*map(Text, row))
        with answering():
            console.print(table, soft_wrap=False)


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


@answering()
def print_line(text: str, *, style: str = "") -> None:
    stdout().print(Text(printable(text), style=style))


def say(text: str) -> None:
    """Print a text as one line on stderr."""
    print(printable(" ".join(text.splitlines())), file=sys.stderr)


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
    return "".join(_indented_tokens(_tokens(compact(value))))


def _indented_tokens(tokens: list[str]) -> Iterator[str]:
    depth = 0
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        if token in ("{", "["):
            depth += 1
            yield token
            if following not in ("}", "]"):
                yield "\n" + _INDENT * depth
        elif token == ",":
            yield ",\n" + _INDENT * depth
        elif token == ":":
            yield ": "
        else:
            yield token
        if following in ("}", "]"):
            depth -= 1
            if token not in ("{", "["):
                yield "\n" + _INDENT * depth


def _escape(character: str) -> str:
    known = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}.get(character)
    if known is not None:
        return known
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
