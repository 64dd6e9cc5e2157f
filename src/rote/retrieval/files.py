"""JSONL stores: read once from front to back, in memory that does not depend on a line's length."""

import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec

from rote.errors import Denied, InvalidInput, NotFound, RoteError, Unavailable
from rote.retrieval.corpus import Corpus, Simple
from rote.values import decode, sha256_hex
from rote.values.limits import JSONL_LINE_BYTES_MAX, JSONL_READ_BYTES

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r"


_decoder = msgspec.json.Decoder(Simple)


def check_file(path: Path, name: str) -> None:
    """NotFound or InvalidInput when there is no file to read."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(
            f"there is no store {name!r}", code="store_not_found", store_path=name
        ) from None
    except OSError as error:
        raise _refused(error, name) from None
    if not stat.S_ISREG(mode):
        raise InvalidInput(
            f"the store {name!r} is not a file", code="store_not_a_file", store_path=name
        )


def read_file(path: Path, name: str) -> Corpus:
    """The records of a file as it was when reading began: what is appended meanwhile is not seen."""
    try:
        with path.open("rb", buffering=0) as file:
            return _read(file, name)
    except OSError as error:
        raise _refused(error, name) from None


def _read(file: BinaryIO, name: str) -> Corpus:
    corpus = Corpus()
    for lines in _blocks(file, os.fstat(file.fileno()).st_size, name):
        if type(lines) is str:
            corpus.invalid.append((name, "", lines))
        elif not _add_simple(corpus, lines, name):
            for line in lines.split(b"\n"):
                if not _add_simple(corpus, line, name):
                    _add_strictly(corpus, line.strip(_BLANK), name)
    return corpus


def _add_simple(corpus: Corpus, lines: bytes, name: str) -> bool:
    """Take lines that are all as most lines are; false when one of them is not."""
    try:
        records = _decoder.decode_lines(lines)
    except (ValueError, msgspec.MsgspecError):
        return False
    if not all(record.memory_id.strip() for record in records):
        return False
    corpus.extend(name, records)
    return True


def _add_strictly(corpus: Corpus, line: bytes, name: str) -> None:
    if not line:
        return
    value = None
    try:
        value = decode(line, duplicates="last", size_bytes_max=JSONL_LINE_BYTES_MAX)
        corpus.add(name, value)
    except RoteError:
        id = value.get("memory_id") if type(value) is dict else None
        corpus.invalid.append((name, id if type(id) is str else "", sha256_hex(line)))


def _blocks(file: BinaryIO, size: int, name: str) -> Iterator[bytes | str]:
    """The lines, many at once; of a line that is too long for a record only its hash.

    The last line may be torn by a writer that has not ended it: it is a line like any other.
    """
    position, rest = 0, b""  # what of the file was read, and the line that it ends within
    while position < size:
        for offset, chunk in _chunks(file, position, size, name):
            position = offset + len(chunk)
            text = chunk.removeprefix(_BYTE_ORDER_MARK) if offset == 0 else chunk
            lines, newline, tail = text.rpartition(b"\n")
            if newline:
                yield rest + lines
                rest = tail
            else:
                rest += tail
            if len(rest) > JSONL_LINE_BYTES_MAX:
                break
        if len(rest) > JSONL_LINE_BYTES_MAX:
            end = _line_end(file, position, size, name)
            hash = _hash_of_line(file, position - len(rest), end, name)
            if hash is not None:
                yield hash
            position, rest = end + 1, b""
    if rest:
        yield rest


def _line_end(file: BinaryIO, position: int, size: int, name: str) -> int:
    """Where the line ends that goes on at a position."""
    for offset, chunk in _chunks(file, position, size, name):
        place = chunk.find(b"\n")
        if place >= 0:
            return offset + place
    return size


def _hash_of_line(file: BinaryIO, start: int, end: int, name: str) -> str | None:
    """The hash of a long line without the blanks around it; None when there is nothing else."""
    first, last = None, start
    for offset, chunk in _chunks(file, start, end, name):
        if chunk.strip(_BLANK):
            last = offset + len(chunk.rstrip(_BLANK))
            if first is None:
                first = offset + len(chunk) - len(chunk.lstrip(_BLANK))
    if first is None:
        return None
    hash = sha256()
    for _, chunk in _chunks(file, first, last, name):
        hash.update(chunk)
    return hash.hexdigest()


def _chunks(file: BinaryIO, start: int, end: int, name: str) -> Iterator[tuple[int, bytes]]:
    """A part of the file, piece by piece, each with its offset."""
    while start < end:
        chunk = os.pread(file.fileno(), min(JSONL_READ_BYTES, end - start), start)
        if not chunk:
            raise _shrunk(name)
        yield start, chunk
        start += len(chunk)


def _shrunk(name: str) -> Unavailable:
    return Unavailable(
        f"the store {name!r} became shorter while it was read; retrieve again", store_path=name
    )


def _refused(error: OSError, name: str) -> RoteError:
    if isinstance(error, PermissionError):
        return Denied(f"the store {name!r} may not be read; ask for the right", store_path=name)
    return Unavailable(f"the store {name!r} cannot be read: {error.strerror}", store_path=name)
