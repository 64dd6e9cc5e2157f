"""Blocks of Markdown that people and agents wrote: bullets and paragraphs under headings.

A bullet includes everything that is indented below it, nested bullets too. A fence or a comment
goes on until it closes. A line that begins with a comment begins a block of its own, which ends with
the line that closes the comment. One line of text that is underlined with = or -- is a heading.
Notes need no more of CommonMark than this; Markdown inside a text stays as it is.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from rote.bridges.pages import Page
from rote.values.limits import MARKDOWN_LINE_BYTES_MAX

_heading = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)").match
_bullet = re.compile(r" {0,3}(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]|$)").match
_fence = re.compile(r"`{3,}(?=[^`]*$)|~{3,}").match
_underline = re.compile(r" {0,3}(=+|-{2,})[ \t]*").fullmatch
_comment = re.compile(r" {0,3}<!--").match
_COMMENT = ("<!--", "-->")
_FRONT = "---"
_member = re.compile(r"[A-Za-z0-9_-]+:(?: |$)").match


class Block(Struct, frozen=True):
    """A bullet or a paragraph."""

    line: int  # the number of its first line, from 1
    title: str  # the first heading of the page, if its level is 1, until the next of level 1
    headings: tuple[str, ...]  # the other headings above it, outermost first
    text: str

    @property
    def is_comment(self) -> bool:
        return self.text.startswith(_COMMENT[0]) and self.text.find(_COMMENT[1]) == (
            len(self.text) - len(_COMMENT[1])
        )


class _Open(Struct):
    """The block that is being read."""

    line: int
    lines: list[str]
    start: int = 0  # the column of a bullet; a bullet two or more columns further in is part of it
    indent: int = 0  # of the lines that belong to a bullet; 0 for a paragraph
    closing: str | None = None  # the text that ends the open fence or comment
    is_comment: bool = False  # the block began with a comment, and ends with it

    @property
    def may_be_heading(self) -> bool:
        return len(self.lines) == 1 and not self.indent and not self.is_comment

    def take(self, line: str) -> None:
        if self.closing is not None:
            if _closes(line, self.closing):
                self.closing = None
        else:
            self.closing = _closing(line)
        self.lines.append(line[min(_width(line), self.indent) :])


def front_matter_lines(page: Page) -> int:
    """Return the number of lines of a front matter that is not an export's; 0 without one."""
    begins = page.lines[0] == _FRONT and len(page.lines) > 2 and _member(page.lines[1])
    if not begins or _FRONT not in page.lines[1:]:
        return 0
    return page.lines.index(_FRONT, 1) + 1


def read_blocks(page: Page) -> Iterator[Block]:
    """The blocks of a page, in order."""
    above = _Above()
    current: _Open | None = None
    gap = 0
    start = front_matter_lines(page)
    for number, line in enumerate(page.lines[start:], start=start + 1):
        if len(line.encode()) > MARKDOWN_LINE_BYTES_MAX:
            raise page.fault(number, f"the line has more than {MARKDOWN_LINE_BYTES_MAX:,} bytes")
        if current is not None and _goes_on(current, line, gap):
            current.lines += [""] * gap
            current.take(line)
            gap = 0
            continue
        if not line.strip():
            gap += 1
            continue
        underline = _underline(line) if current is not None and not gap else None
        if underline is not None and current is not None and current.may_be_heading:
            above.enter(1 if underline[1][0] == "=" else 2, current.lines[0].strip())
            current = None
            continue
        if current is not None:
            yield from above.block(current)
        current, gap = None, 0
        heading = _heading(line)
        if heading is not None:
            above.enter(len(heading[1]), line[heading.end() :].strip())
        elif not _is_break(line):
            current = _opened(number, line)
    if current is not None:
        yield from above.block(current)


def _goes_on(current: _Open, line: str, gap: int) -> bool:
    if current.closing is not None:
        return True
    if not line.strip() or current.is_comment:
        return False
    if current.indent and line[0] in " \t":
        return not _bullet(line) or _width(line) >= current.start + 2
    if gap or (_underline(line) and current.may_be_heading):
        return False
    return not (_heading(line) or _is_break(line) or _bullet(line) or _comment(line))


def _opened(number: int, line: str) -> _Open:
    bullet = _bullet(line)
    text = line if bullet is None else line[bullet.end() :].lstrip(" \t")
    current = _Open(number, [], is_comment=_comment(line) is not None)
    current.take(text)
    if bullet is not None:
        current.start, current.indent = _width(line), max(bullet.end(), 2)
    return current


def _width(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


class _Above:
    """The headings above a line."""

    def __init__(self) -> None:
        self._title = ""
        self._headings: dict[int, str] = {}
        self._is_first = True

    def enter(self, level: int, text: str) -> None:
        """Take in a heading; it ends the headings of its own level and of deeper ones."""
        opening = text.rstrip("#")
        if not opening or opening[-1] in " \t":
            text = opening.strip()
        for deeper in [known for known in self._headings if known >= level]:
            del self._headings[deeper]
        is_title = level == 1 and self._is_first
        if level == 1:
            self._title = text if is_title else ""
        if text and not is_title:
            self._headings[level] = text
        self._is_first = False

    def block(self, current: _Open) -> Iterator[Block]:
        """Return the finished block, unless it is empty."""
        self._is_first = False
        text = "\n".join(current.lines).strip()
        if text:
            headings = tuple(self._headings[level] for level in sorted(self._headings))
            yield Block(current.line, self._title, headings, text)


def _is_break(line: str) -> bool:
    marks = line.replace(" ", "").replace("\t", "")
    return len(marks) >= 3 and marks[0] in "-*_" and not marks.strip(marks[0])


def _closing(line: str) -> str | None:
    text = line.strip()
    fence = _fence(text)
    if fence is not None:
        return fence[0]
    opens = text.startswith(_COMMENT[0]) and _COMMENT[1] not in text
    return _COMMENT[1] if opens else None


def _closes(line: str, closing: str) -> bool:
    if closing == _COMMENT[1]:
        return closing in line
    text = line.strip()
    return text.startswith(closing) and not text.strip(closing[0])
