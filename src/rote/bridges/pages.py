"""A Markdown file as lines, and errors that name its file and line."""

from pathlib import PurePosixPath

from msgspec import Struct

from rote.errors import InvalidInput, LimitExceeded
from rote.values.limits import MARKDOWN_FILE_BYTES_MAX, MARKDOWN_LINES_MAX

_BYTE_ORDER_MARK = "\ufeff"


class Page(Struct, frozen=True):
    """The lines of a file, without line ends."""

    name: str  # its path in the folder it came from, with slashes
    lines: list[str]

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem

    @property
    def path(self) -> str:
        """Its path without the ending."""
        return str(PurePosixPath(self.name).with_suffix(""))

    def place(self, number: int, last: int = 0) -> str:
        """Return the place of a line, or of all from one to another; the first line is 1."""
        return f"{self.name}:{number}" + (f"-{last}" if last > number else "")

    def fault(self, number: int, reason: str) -> InvalidInput:
        """Return the error for a line."""
        return fault(self.name, number, reason)


def fault(name: str, number: int, reason: str) -> InvalidInput:
    return InvalidInput(f"{name}:{number}: {reason}", file=name, line=number, reason=reason)


def parse_page(name: str, data: bytes) -> Page:
    """Return the lines of a file, without its byte order mark and without carriage returns at ends."""
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
