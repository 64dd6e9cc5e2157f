"""JSONL stores: read once from front to back, in memory that does not depend on a line's length."""

import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec

from rote.errors import Denied, InvalidInput, NotFound, RoteError, Unavailable
from rote.retrieval.corpus import Corpus, check_shape
from rote.values import decode, sha256_hex
from rote.values.limits import JSONL_LINE_BYTES_MAX, JSONL_READ_BYTES

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r"


class _Record(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A line as most are; whatever does not fit it is decoded strictly."""

    memory_id: str
    text: str
    ts_utc: str | None = None
    tags: list[str] | None = None
    refs: list[None] | None = None  # only an empty one: what is in others has to be checked


_decode_record = msgspec.json.Decoder(_Record).decode


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
    corpus = Corpus(name)
    for line in _lines(file, os.fstat(file.fileno()).st_size, name):
        if type(line) is str:
            corpus.invalid.append(("", line))
            continue
        try:
            record = _decode_record(line)
        except (ValueError, msgspec.MsgspecError):
            record = None
        if record is None or record.refs or not record.memory_id.strip():
            _read_strictly(corpus, line)
        else:
            corpus.add(record.memory_id, record.text, record.ts_utc, record.tags, None)
    return corpus


def _read_strictly(corpus: Corpus, line: bytes) -> None:
    line = line.strip(_BLANK)
    if not line:
        return
    value = None
    try:
        value = decode(line, duplicates="last", size_bytes_max=JSONL_LINE_BYTES_MAX)
        corpus.add(*check_shape(value))
    except RoteError:
        id = value.get("memory_id") if type(value) is dict else None
        corpus.invalid.append((id if type(id) is str else "", sha256_hex(line)))


def _lines(file: BinaryIO, size: int, name: str) -> Iterator[bytes | str]:
    """The lines; of one that is too long for a record only its hash.

    The last line may be torn by a writer that has not ended it: it is a line like any other.
    """
    position, rest = 0, b""  # what of the file was read, and the line that it ends within
    while position < size:
        for offset, chunk in _chunks(file, position, size, name):
            position = offset + len(chunk)
            text = chunk.removeprefix(_BYTE_ORDER_MARK) if offset == 0 else chunk
            *whole, rest = (rest + text).split(b"\n")
            yield from whole
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
