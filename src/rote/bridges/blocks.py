"""Blocks of Markdown that people and agents wrote: bullets and paragraphs under headings.

A bullet includes everything that is indented below it, nested bullets too. A fence or a comment
goes on until it closes. A line that begins with a comment begins a block of its own, which ends with
the line that closes the comment. One line of text that is underlined with = or -- is a heading. A
heading with nothing below it is a block too.

In a paragraph only `1.` begins a list; another number at the beginning of a line is text (CommonMark
0.31, section 5.3). The number of a list item is left out where counting from 1 gives it back.
Notes need no more of CommonMark than this; Markdown inside a text stays as it is.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from rote.bridges.pages import Page
from rote.values.limits import MARKDOWN_LINE_BYTES_MAX

_heading = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)").match
_bullet = re.compile(r" {0,3}(?:[-*+]|([0-9]{1,9})[.)])(?:[ \t]|$)").match
_interrupting = re.compile(r" {0,3}(?:[-*+]|0{0,8}1[.)])[ \t]+[^ \t]").match
_fence = re.compile(r"`{3,}(?=[^`]*$)|~{3,}").match
_underline = re.compile(r" {0,3}(=+|-{2,})[ \t]*").fullmatch
_comment = re.compile(r" {0,3}<!--").match
_COMMENT = ("<!--", "-->")


class Block(Struct, frozen=True):
    """A bullet, a paragraph, or a heading with nothing below it."""

    line: int  # the number of its first line, from 1
    last: int  # the number of its last line
    title: str  # the first heading of the page, if its level is 1, until the next of level 1
    headings: tuple[str, ...]  # the other headings above it, outermost first
    text: str  # empty for lines without text: a rule, an empty bullet or an empty heading

    @property
    def is_comment(self) -> bool:
        return self.text.startswith(_COMMENT[0]) and self.text.find(_COMMENT[1]) == (
            len(self.text) - len(_COMMENT[1])
        )


class _Open(Struct):
    """The block that is being read."""

    line: int
    lines: list[str]
    last: int = 0
    start: int = 0  # the column of a bullet; a bullet two or more columns further in is part of it
    indent: int = 0  # of the lines that belong to a bullet; 0 for a paragraph
    closing: str | None = None  # the text that ends the open fence or comment
    is_comment: bool = False  # the block began with a comment, and ends with it
    counted: int = 0  # the number of a list item that was left out, because counting gives it back

    @property
    def may_be_heading(self) -> bool:
        return len(self.lines) == 1 and not self.indent and not self.is_comment

    def take(self, number: int, line: str) -> None:
        if self.closing is not None:
            if _closes(line, self.closing):
                self.closing = None
        else:
            self.closing = _closing(line)
        self.last = number
        self.lines.append(line[min(_width(line), self.indent) :])


def read_blocks(page: Page, after: int = 0) -> Iterator[Block]:
    """The blocks of a page below its first `after` lines, in order."""
    above = _Above()
    current: _Open | None = None
    gap = counted = 0
    for number, line in enumerate(page.lines[after:], start=after + 1):
        if len(line.encode()) > MARKDOWN_LINE_BYTES_MAX:
            raise page.fault(number, f"the line has more than {MARKDOWN_LINE_BYTES_MAX:,} bytes")
        if current is not None and _goes_on(current, line, gap):
            current.lines += [""] * gap
            current.take(number, line)
            gap = 0
            continue
        if not line.strip():
            gap += 1
            continue
        underline = _underline(line) if current is not None and not gap else None
        if underline is not None and current is not None and current.may_be_heading:
            level = 1 if underline[1][0] == "=" else 2
            yield from above.enter(current.line, level, current.lines[0].strip())
            current, counted = None, 0
            continue
        if current is not None:
            yield from above.block(current)
        gap = 0
        current, heading = None, _heading(line)
        if heading is not None:
            yield from above.enter(number, len(heading[1]), line[heading.end() :].strip())
        elif _is_break(line):
            yield Block(number, number, "", (), "")
        else:
            current = _opened(number, line, counted)
        counted = 0 if current is None else current.counted
    if current is not None:
        yield from above.block(current)
    yield from above.bare()


def _goes_on(current: _Open, line: str, gap: int) -> bool:
    if current.closing is not None:
        return True
    if not line.strip() or current.is_comment:
        return False
    if current.indent and line[0] in " \t":
        return not _bullet(line) or _width(line) >= current.start + 2
    if gap or (_underline(line) and current.may_be_heading):
        return False
    begins_item = _bullet if current.indent else _interrupting
    return not (_heading(line) or _is_break(line) or begins_item(line) or _comment(line))


def _opened(number: int, line: str, counted: int) -> _Open:
    """Open the block that begins with a line; `counted` is the number of the list item before it."""
    bullet = _bullet(line)
    current = _Open(number, [], is_comment=_comment(line) is not None)
    text = line
    if bullet is not None:
        item = None if bullet[1] is None else int(bullet[1])
        if item is None or item in (1, counted + 1):
            text, current.counted = line[bullet.end() :].lstrip(" \t"), item or 0
    current.take(number, text)
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
        self._bare: Block | None = None  # the last heading, while nothing stands below it
        self._level = 0  # its level

    def enter(self, line: int, level: int, text: str) -> Iterator[Block]:
        """Take in a heading; it ends the headings of its own level and of deeper ones.

        The heading before it is a block of its own when nothing stands below that.
        """
        opening = text.rstrip("#")
        if not opening or opening[-1] in " \t":
            text = opening.strip()
        if level <= self._level:
            yield from self.bare()
        for deeper in [known for known in self._headings if known >= level]:
            del self._headings[deeper]
        is_title = level == 1 and self._is_first
        if level == 1:
            self._title = ""
        self._is_first = False
        heading = Block(line, line, self._title, self._known(), text)
        if not text:
            yield heading
            return
        self._bare, self._level = heading, level
        if is_title:
            self._title = text
        else:
            self._headings[level] = text

    def block(self, current: _Open) -> Iterator[Block]:
        """Return the finished block."""
        self._is_first = False
        text = "\n".join(current.lines).strip()
        block = Block(current.line, current.last, self._title, self._known(), text)
        if text and not block.is_comment:
            self._bare = None
        yield block

    def bare(self) -> Iterator[Block]:
        """Return the last heading when nothing stands below it."""
        if self._bare is not None:
            yield self._bare
        self._bare = None

    def _known(self) -> tuple[str, ...]:
        return tuple(self._headings[level] for level in sorted(self._headings))


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
