"""A Markdown file as lines, and what is wrong with it, told by file and line."""

from pathlib import PurePosixPath

from msgspec import Struct

from rote.errors import InvalidInput, LimitExceeded
from rote.values.limits import MARKDOWN_FILE_BYTES_MAX, MARKDOWN_LINES_MAX

_BYTE_ORDER_MARK = "\ufeff"


class Page(Struct, frozen=True):
    """The lines of a file, without what ends them."""

    name: str  # its path in the folder it came from, with slashes
    lines: list[str]

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem

    def place(self, number: int) -> str:
        """A line, for people; the first is 1."""
        return f"{self.name}:{number}"

    def fault(self, number: int, reason: str) -> InvalidInput:
        """What is wrong with a line."""
        return fault(self.name, number, reason)


def fault(name: str, number: int, reason: str) -> InvalidInput:
    return InvalidInput(f"{name}:{number}: {reason}", file=name, line=number, reason=reason)


def parse_page(name: str, data: bytes) -> Page:
    """The lines of a file; a mark of the byte order and carriage returns that end lines are no text."""
    if len(data) > MARKDOWN_FILE_BYTES_MAX:
        raise LimitExceeded(f"{name} in bytes", size=len(data), limit=MARKDOWN_FILE_BYTES_MAX)
    count = data.count(b"\n")
    if count > MARKDOWN_LINES_MAX:
        raise LimitExceeded(f"{name} in lines", size=count, limit=MARKDOWN_LINES_MAX)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise fault(name, number, "it is not UTF-8; convert the file") from None
    lines = text.removeprefix(_BYTE_ORDER_MARK).split("\n")
    return Page(name, [line.removesuffix("\r") for line in lines])
