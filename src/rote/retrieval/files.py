"""JSONL stores: read once from front to back, in memory that does not depend on a line's length."""

import os
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec

from rote.errors import Denied, InvalidInput, NotFound, RoteError, Unavailable
from rote.retrieval.cache import CorpusCache
from rote.retrieval.corpus import Corpus, Simple
from rote.values import decode, sha256_hex
from rote.values.limits import CORPUS_TIMES, JSONL_LINE_BYTES_MAX, JSONL_READ_BYTES

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r"
# Threads that hash: it needs no interpreter, so it goes on beside everything else.
_HASHERS = 2

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


def read_file(path: Path, name: str, cache: CorpusCache) -> Corpus:
    """The records of a file as it was when reading began: what is appended meanwhile is not seen."""
    try:
        with path.open("rb", buffering=0) as file:
            content = _Content(file, os.fstat(file.fileno()).st_size, name)
            place = (name, content.size)
            # Only what was read before and is as long as then can be the same.
            kept = cache.get(place, content.hash()) if cache.holds(place) else None
            if kept is not None:
                return kept
            corpus, hash = content.read()
            cache.put(place, hash, corpus, CORPUS_TIMES * content.size)
            return corpus
    except OSError as error:
        raise _refused(error, name) from None


class _Content:
    """The first so many bytes of a file: a state that existed, if all that happens is appending."""

    def __init__(self, file: BinaryIO, size: int, name: str) -> None:
        self._file = file
        self.size = size
        self._name = name

    def hash(self) -> str:
        """The hash of everything: of the hashes of its pieces, which are made side by side."""
        with ThreadPoolExecutor(_HASHERS) as hashers:
            starts = range(0, self.size, JSONL_READ_BYTES)
            return _hash_of_hashes(hashers.map(self._hash_at, starts))

    def _hash_at(self, start: int) -> bytes:
        end = min(start + JSONL_READ_BYTES, self.size)
        return _hash_of(next(self._chunks(start, end))[1])

    def read(self) -> tuple[Corpus, str]:
        """The records, and the hash of everything.

        The last line may be torn by a writer that has not ended it: it is a line like any other.
        """
        corpus = Corpus()
        hashes: list[Future[bytes]] = []
        with ThreadPoolExecutor(1) as hasher:
            for chunk in self._take(corpus):
                hashes.append(hasher.submit(_hash_of, chunk))
                hashes[-_HASHERS:][0].result()  # never far behind
            return corpus, _hash_of_hashes(future.result() for future in hashes)

    def _take(self, corpus: Corpus) -> Iterator[bytes]:
        """Add all records; what was read is given back piece by piece."""
        rest = b""  # the line that what was read ends within
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
            lines, newline, tail = text.rpartition(b"\n")
            if newline:
                self._add_lines(corpus, rest + lines)
                rest = tail
            else:
                rest += tail
            if len(rest) > JSONL_LINE_BYTES_MAX:
                long_start, rest = offset + len(chunk) - len(rest), b""
        if long_start is not None:
            self._add_long(corpus, long_start, self.size)
        self._add_lines(corpus, rest)

    def _add_lines(self, corpus: Corpus, lines: bytes) -> None:
        if not self._add_simple(corpus, lines):
            for line in lines.split(b"\n"):
                if not self._add_simple(corpus, line):
                    self._add_strictly(corpus, line.strip(_BLANK))

    def _add_simple(self, corpus: Corpus, lines: bytes) -> bool:
        """Take lines that are all as most lines are; false when one of them is not."""
        try:
            records = _decoder.decode_lines(lines)
        except (ValueError, msgspec.MsgspecError):
            return False
        if not all(record.memory_id.strip() for record in records):
            return False
        corpus.extend(self._name, records)
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
        """A line that is too long for a record counts as one that is none, unless it is blank."""
        first, last = None, start
        for offset, chunk in self._chunks(start, end):
            if chunk.strip(_BLANK):
                last = offset + len(chunk.rstrip(_BLANK))
                if first is None:
                    first = offset + len(chunk) - len(chunk.lstrip(_BLANK))
        if first is not None:
            hash = sha256()
            for _, chunk in self._chunks(first, last):
                hash.update(chunk)
            corpus.invalid.append((self._name, "", hash.hexdigest()))

    def _chunks(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """A part of the content piece by piece, each with its offset."""
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


def _hash_of(chunk: bytes) -> bytes:
    return sha256(chunk).digest()


def _hash_of_hashes(hashes: Iterable[bytes]) -> str:
    return sha256_hex(b"".join(hashes))


def _refused(error: OSError, name: str) -> RoteError:
    if isinstance(error, PermissionError):
        return Denied(f"the store {name!r} may not be read; ask for the right", store_path=name)
    return Unavailable(f"the store {name!r} cannot be read: {error.strerror}", store_path=name)
