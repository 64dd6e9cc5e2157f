"""JSONL stores: each is read once, in memory that does not depend on the length of a line."""

import os
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec

from rote.errors import Denied, InvalidInput, NotFound, RoteError, Unavailable
from rote.retrieval.cache import CorpusCache
from rote.retrieval.corpus import Corpus, Simple
from rote.retrieval.details import Details, details
from rote.retrieval.pieces import PieceHash, hash_pieces
from rote.retrieval.plain_files import NotPlainError, is_missing, is_plain, open_plain
from rote.retrieval.sidecars import Sidecars
from rote.values import decode, sha256_hex
from rote.values.limits import (
    INTEGER_MAX,
    JSONL_DECODED_BYTES,
    JSONL_LINE_BYTES_MAX,
    JSONL_READ_BYTES,
)

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r"

_Plain = str | bool | Annotated[int, msgspec.Meta(ge=-INTEGER_MAX, le=INTEGER_MAX)] | None


class _Detailed(Simple, kw_only=True, gc=False):
    """A record with details of the usual shape. All of it is in the domain of the strict decoder."""

    namespace: str | None = None
    kind: str | None = None
    metadata: dict[str, _Plain | list[str]] | None = None


_decode_simple = msgspec.json.Decoder(Simple).decode
_decode_detailed = msgspec.json.Decoder(_Detailed).decode


def check_file(path: Path, name: str) -> None:
    """Raise NotFound or InvalidInput when there is no file to read."""
    try:
        if not is_plain(path.stat()):
            raise NotPlainError
    except OSError as error:
        raise _refused(error, name) from None


def read_file(
    path: Path, name: str, cache: CorpusCache, sidecars: Sidecars | None = None
) -> Corpus:
    """Return the records of a file as it was when reading began; later appends are not seen."""
    try:
        with open_plain(path) as file:
            content = _Content(file, os.fstat(file.fileno()).st_size, name)
            place = (str(path), name)
            # Only a file that was read before and still has the same length can be unchanged.
            is_hashed = sidecars is not None or cache.holds(place, content.size)
            hash = content.hash() if is_hashed else None
            corpus = None if hash is None else cache.get(place, hash)
            if corpus is None:
                if sidecars is not None and hash is not None:
                    corpus = sidecars.get(_key(hash), name)
                if corpus is None or hash is None:
                    corpus, hash = content.read()
                cache.put(place, hash, corpus, content.size)
            if sidecars is not None and hash is not None:
                sidecars.keep(_key(hash), corpus)
                corpus.analyse = partial(sidecars.terms, _key(hash))
            return corpus
    except OSError as error:
        raise _refused(error, name) from None


def _key(hash: str) -> str:
    """Return the key of a file's content among the sidecars, which may keep other things too."""
    return f"file {hash}"


class _Content:
    """The first bytes of a file, up to a length: a state that existed, if writers only append."""

    def __init__(self, file: BinaryIO, size: int, name: str) -> None:
        self._file = file
        self.size = size
        self._name = name

    def hash(self) -> str:
        """Return the hash of the whole content."""
        starts = range(0, self.size, JSONL_READ_BYTES)
        return hash_pieces(self._piece_at, starts).hex()

    def _piece_at(self, start: int) -> bytes:
        return next(self._chunks(start, self.size))[1]

    def read(self) -> tuple[Corpus, str]:
        """Return the records, and the hash of the whole content.

        A writer that has not finished may have left the last line torn; it is read like any other.
        """
        corpus = Corpus()
        with PieceHash() as hash:
            for chunk in self._take(corpus):
                hash.add(chunk)
            return corpus, hash.digest().hex()

    def _take(self, corpus: Corpus) -> Iterator[bytes]:
        """Add all records, and yield the content piece by piece as it was read."""
        rest = b""  # the unfinished line at the end of what was read
        long_start: int | None = None  # where that line starts, if it is too long to be held
        for offset, chunk in self._chunks(0, self.size):
            yield chunk
            text = chunk.removeprefix(_BYTE_ORDER_MARK) if offset == 0 else chunk
            if long_start is not None:
                ended, newline, text = text.partition(b"\n")
                if not newline:
                    continue
                self._add_long(corpus, long_start, offset + len(ended))
                long_start = None
            end = text.rfind(b"\n")
            if end >= 0:
                self._add_lines(corpus, b"".join((rest, memoryview(text)[:end])))
                rest = b""
            rest += text[end + 1 :]
            if len(rest) > JSONL_LINE_BYTES_MAX:
                long_start, rest = offset + len(chunk) - len(rest), b""
        if long_start is not None:
            self._add_long(corpus, long_start, self.size)
        self._add_lines(corpus, rest)

    def _add_lines(self, corpus: Corpus, text: bytes) -> None:
        buffer = BytesIO(text)
        while lines := buffer.readlines(JSONL_DECODED_BYTES):
            if not self._add_simple(corpus, lines):
                for line in lines:
                    if not self._add_simple(corpus, [line]):
                        self._add_strictly(corpus, line.removesuffix(b"\n").strip(_BLANK))

    def _add_simple(self, corpus: Corpus, lines: list[bytes]) -> bool:
        """Add lines that all have the usual shape; return False when one of them has not."""
        # All lines but the last are together no longer than what is decoded at once.
        if len(lines[-1]) > JSONL_LINE_BYTES_MAX:
            return False
        found = _simple(lines) or _detailed(lines)
        if found is None or not all(record.memory_id.strip() for record in found[0]):
            return False
        corpus.extend(self._name, *found)
        return True

    def _add_strictly(self, corpus: Corpus, line: bytes) -> None:
        if not line:
            return
        value = None
        try:
            value = decode(line, duplicates="last", size_bytes_max=JSONL_LINE_BYTES_MAX)
            corpus.add(self._name, value)
        except RoteError:
            id = value.get("memory_id") if type(value) is dict else None
            id = id if type(id) is str else ""
            corpus.invalid.append((self._name, id, sha256_hex(line)))

    def _add_long(self, corpus: Corpus, start: int, end: int) -> None:
        """Add a line that is too long for a record, not counting blanks around it, to those that
        are no record."""
        first, last = None, start
        for offset, chunk in self._chunks(start, end):
            if chunk.strip(_BLANK):
                last = offset + len(chunk.rstrip(_BLANK))
                if first is None:
                    first = offset + len(chunk) - len(chunk.lstrip(_BLANK))
        if first is None:
            return
        if last - first <= JSONL_LINE_BYTES_MAX:
            line = b"".join(chunk for _, chunk in self._chunks(first, last))
            self._add_strictly(corpus, line)
            return
        hash = sha256()
        for _, chunk in self._chunks(first, last):
            hash.update(chunk)
        corpus.invalid.append((self._name, "", hash.hexdigest()))

    def _chunks(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield a part of the content piece by piece, each with its offset."""
        while start < end:
            size = min(JSONL_READ_BYTES, end - start)
            chunk = os.pread(self._file.fileno(), size, start)
            if len(chunk) < size:
                raise Unavailable(
                    f"the store {self._name!r} became shorter while it was read; retrieve again",
                    store_path=self._name,
                )
            yield start, chunk
            start += size


_Records = tuple[list[Simple], list[Details | None] | None]


def _simple(lines: list[bytes]) -> _Records | None:
    """Return records without details; None when one of the lines is another."""
    try:
        return list(map(_decode_simple, lines)), None
    except (ValueError, msgspec.MsgspecError):
        return None


def _detailed(lines: list[bytes]) -> _Records | None:
    """Return records and their details; None when one of them has an unusual shape."""
    try:
        records = list(map(_decode_detailed, lines))
    except (ValueError, msgspec.MsgspecError):
        return None
    return (
        # Details are no part of a record's hash.
        [
            Simple(memory_id=each.memory_id, tags=each.tags, text=each.text, ts_utc=each.ts_utc)
            for each in records
        ],
        [details(each.namespace, each.kind, each.metadata) for each in records],
    )


def _refused(error: OSError, name: str) -> RoteError:
    if is_missing(error):
        return NotFound(f"there is no store {name!r}", code="store_not_found", store_path=name)
    if isinstance(error, NotPlainError):
        return InvalidInput(
            f"the store {name!r} is not a file", code="store_not_a_file", store_path=name
        )
    if isinstance(error, PermissionError):
        return Denied(f"the store {name!r} may not be read; ask for the right", store_path=name)
    return Unavailable(f"the store {name!r} cannot be read: {error.strerror}", store_path=name)
