"""Files of records as values: JSON lines, or one JSON array.

An array with one element on each line, as exports write it, is read line by line and may be as long
as a file of lines. Any other array is read at once and may hold no more than a commit.
"""

from collections.abc import Callable, Iterator
from io import TextIOBase
from typing import BinaryIO

from rote.errors import InvalidInput, InvalidValue, LimitExceeded, RoteError
from rote.values import Json, decode
from rote.values.limits import COMMIT_BYTES_MAX, DEPTH_MAX, VALUE_BYTES_MAX

Told = Callable[[int], None]  # how many bytes of the file were read
# A line holds one value; escapes can make a JSON text six times as long as the text it stands for.
_LINE_BYTES_MAX = 6 * VALUE_BYTES_MAX
# RFC 8259 section 2. Python strips more kinds of blanks, which are no JSON.
_BLANKS = b" \t\r\n"
# The first bytes of gzip, zip, Zstandard, bzip2 and xz files.
_COMPRESSED = (b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")


def check_binary(stream: object, method: str) -> None:
    """Check that a stream gives or takes bytes; a path or a file of text is refused."""
    if not callable(getattr(stream, method, None)) or isinstance(stream, TextIOBase):
        mode = "wb" if method == "write" else "rb"
        raise InvalidInput(f'records travel in a stream of bytes: open(path, "{mode}")')


def read_records(stream: BinaryIO, progress: Told | None = None) -> Iterator[tuple[int, Json]]:
    """(number, value) for each record; the number is that of its line, or of its array element."""
    for number, value in try_records(stream, progress):
        if isinstance(value, RoteError):
            raise value
        yield number, value


def try_records(
    stream: BinaryIO, progress: Told | None = None
) -> Iterator[tuple[int, Json | RoteError]]:
    """(number, value or error) for each record; the error stands for one that cannot be read."""
    check_binary(stream, "readline")
    tell: Told = progress or (lambda count: None)
    number, begins = 0, True
    while line := stream.readline(_LINE_BYTES_MAX + 1):
        tell(len(line))
        number += 1
        if not line.strip():
            continue
        if begins and line.lstrip()[:1] == b"[":
            yield from _array(line, number, stream, tell)
            return
        value = _decoded(line.rstrip(), f"line {number}", _LINE_BYTES_MAX)
        if begins and isinstance(value, InvalidInput):
            value = _told_what_is_taken(value, line)
        yield number, value
        if isinstance(value, LimitExceeded):
            return  # the line was not read to its end, so the next one cannot be found
        begins = False


def _told_what_is_taken(error: InvalidInput, line: bytes) -> InvalidInput:
    """Return the error of a first line with advice on the forms that an import takes."""
    words = "an import takes JSON lines, one JSON array, or Markdown, which is a folder or ends with .md"
    if line.startswith(_COMPRESSED):
        words = "the file is compressed; unpack it first"
    reason = f"{error.details['reason']}; {words}"
    return InvalidInput(f"{error}; {words}", **{**error.details, "reason": reason})


def _array(
    first: bytes, line_number: int, stream: BinaryIO, tell: Told
) -> Iterator[tuple[int, Json | RoteError]]:
    """Return the elements of an array: line by line while each line is one, then the rest at once."""
    # `before` stands for the lines that are done, so that it and the rest are an array again.
    before = b"\n" * min(line_number - 1, COMMIT_BYTES_MAX) + first
    number, awaits_more = 0, first.strip(_BLANKS) == b"["
    line, error = b"", None
    while awaits_more and (line := stream.readline(COMMIT_BYTES_MAX + 1)):
        tell(len(line))
        line_number += 1
        text = line.strip(_BLANKS)
        if not (text.startswith(b"{") and text.endswith((b"}", b"},"))):
            break
        value = _decoded(text.removesuffix(b","), f"line {line_number}", COMMIT_BYTES_MAX)
        if isinstance(value, RoteError):
            error = value  # told only when the rest, read at once, is no array either
            break
        number += 1
        yield number, value
        awaits_more = text.endswith(b",")
        before, line = b"[null," if awaits_more else b"[null", b""
    lines_done = line_number - 1 if line else line_number
    if number:
        before += b"\n" * lines_done  # so that an error in the rest names the line of the file
    values = _rest_of_array(before, line, stream, tell)
    if isinstance(values, RoteError):
        yield number + 1, error or values
    else:
        yield from enumerate(values[1:] if number else values, start=number + 1)


def _rest_of_array(
    before: bytes, line: bytes, stream: BinaryIO, tell: Told
) -> list[Json] | RoteError:
    rest = stream.read(COMMIT_BYTES_MAX + 1)
    tell(len(rest))
    # The array adds one level to values that may have the greatest depth.
    values = _decoded(before + line + rest, "the file", COMMIT_BYTES_MAX, depth_max=DEPTH_MAX + 1)
    # The text begins with a bracket, so it decodes to a list or not at all.
    assert isinstance(values, list | RoteError)
    return values


def _decoded(
    text: bytes, place: str, size_bytes_max: int, depth_max: int = DEPTH_MAX
) -> Json | RoteError:
    if len(text) > size_bytes_max:
        return LimitExceeded(
            f"{place} in bytes", size=len(text), limit=size_bytes_max,
            advice="have one record a line",
        )  # fmt: skip
    try:
        return decode(text, depth_max=depth_max)
    except InvalidValue as error:
        return InvalidInput(f"{place}: {error}", place=place, **error.details)
