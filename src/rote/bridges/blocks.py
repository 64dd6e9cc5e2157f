"""What is said in Markdown that people and agents wrote: bullets and paragraphs under headings.

A bullet takes along everything that is indented below it, nested bullets too; a fence or a comment
goes on until it closes. That is as much of CommonMark as notes need; what a text means as Markdown
is left as it is.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from rote.bridges.pages import Page
from rote.values.limits import MARKDOWN_LINE_BYTES_MAX

_heading = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)").match
_bullet = re.compile(r" {0,1}(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]|$)").match
_fence = re.compile(r"`{3,}(?=[^`]*$)|~{3,}").match
_COMMENT = ("<!--", "-->")
_FRONT = "---"


class Block(Struct, frozen=True):
    """A bullet or a paragraph."""

    line: int  # its first one, from 1
    headings: tuple[str, ...]  # above it, from the second level on: the first is the page's title
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
    indent: int  # of what belongs to a bullet; 0 for a paragraph
    closing: str | None = None  # what ends the fence or the comment that is open

    def take(self, line: str) -> None:
        if self.closing is not None:
            if _closes(line, self.closing):
                self.closing = None
        else:
            self.closing = _closing(line)
        width = len(line) - len(line.lstrip(" "))
        self.lines.append(line[min(width, self.indent) :])


def front_matter_lines(page: Page) -> int:
    """How many lines the front matter of others takes; 0 without any."""
    if page.lines[0] != _FRONT or _FRONT not in page.lines[1:]:
        return 0
    return page.lines.index(_FRONT, 1) + 1


def read_blocks(page: Page) -> Iterator[Block]:
    """The blocks of a page, in order."""
    headings: dict[int, str] = {}
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
        if current is not None:
            yield from _block(current, headings)
        current, gap = None, 0
        heading = _heading(line)
        if heading is not None:
            _enter(headings, len(heading[1]), line[heading.end() :].strip())
        elif not _is_break(line):
            current = _opened(number, line)
    if current is not None:
        yield from _block(current, headings)


def _goes_on(current: _Open, line: str, gap: int) -> bool:
    if current.closing is not None:
        return True
    if not line.strip():
        return False
    if current.indent and line[0] in " \t" and not _bullet(line):
        return True
    return not gap and not (_heading(line) or _is_break(line) or _bullet(line))


def _opened(number: int, line: str) -> _Open:
    bullet = _bullet(line)
    text = line if bullet is None else line[bullet.end() :].lstrip(" \t")
    current = _Open(number, [], 0)
    current.take(text)
    if bullet is not None:
        current.indent = max(bullet.end(), 2)
    return current


def _block(current: _Open, headings: dict[int, str]) -> Iterator[Block]:
    text = "\n".join(current.lines).strip()
    if text:
        above = tuple(headings[level] for level in sorted(headings) if level > 1)
        yield Block(current.line, above, text)


def _enter(headings: dict[int, str], level: int, text: str) -> None:
    """A heading ends those of its own level and of deeper ones."""
    opening = text.rstrip("#")
    if not opening or opening[-1] in " \t":
        text = opening.strip()
    for deeper in [known for known in headings if known >= level]:
        del headings[deeper]
    if text:
        headings[level] = text


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
