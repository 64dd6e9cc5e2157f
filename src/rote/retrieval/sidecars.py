"""Sidecar files: corpora kept in a directory that the caller names, for the next process.

    magic    rote-corpus-3 and a newline
    blocks   the length of each in four bytes, then its bytes: JSON of some rows; or, in another file
             beside it, a segment of their terms in one language
    hash     SHA-256 of the file's name and the hashes of all blocks

A file is named after the hash of the content that its rows were made of, never after a date. No
file is trusted: one that is torn, renamed, writable by others or changed counts as missing, and is
overwritten. So files may be deleted at any time, and any number of processes may share a directory.
They hold the texts of memories, so nobody but their owner may read them.
"""

import os
import re
import stat
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from operator import add
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar

import msgspec

from rote.contract import Packed
from rote.errors import Corrupt, InvalidInput
from rote.questions import NO_INSTANT
from rote.retrieval.corpus import Corpus
from rote.retrieval.details import Details
from rote.retrieval.pieces import PieceHash
from rote.retrieval.plain_files import open_plain
from rote.retrieval.ranking.postings import Postings
from rote.retrieval.segments.files import packed_rows, unpacked
from rote.retrieval.words.analyser import ANALYSER
from rote.space.arguments import check_path
from rote.values import sha256_hex
from rote.values.limits import INTEGER_MAX, SIDECAR_BLOCK_BYTES, SIDECARS_BYTES_MAX, SIDECARS_MAX

_MAGIC = b"rote-corpus-3\n"
_LENGTH_BYTES = 4
_HASH_BYTES = 32
# Bytes that a row takes beside its texts.
_ROW_BYTES = 128
# Whoever may write a file may write anything into it.
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_SUFFIX, _UNFINISHED = ".corpus", ".part"

_is_ours = re.compile(r"[0-9a-f]{64}(\.corpus|[a-z0-9_]+\.part)").fullmatch


class _Block(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """Some rows of a corpus, column by column."""

    ids: list[str]
    hashes: list[Annotated[str, msgspec.Meta(min_length=64, max_length=64)]]
    instants: list[Annotated[int, msgspec.Meta(ge=NO_INSTANT, le=INTEGER_MAX)]]
    texts: list[str]
    tag_lists: list[tuple[str, ...]]  # each once
    tags: list[Annotated[int, msgspec.Meta(ge=0)]]  # the index of its tag list, for each row
    details: list[Details | None]
    invalid: list[tuple[str, str]]  # memory id, and hash of each text that is no record


_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(_Block).decode
_encode_packed = msgspec.msgpack.encode
_decode_packed = msgspec.msgpack.Decoder(Packed).decode
_Kept = TypeVar("_Kept")


class Sidecars:
    """The corpora in a directory; those that were used last are kept."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        size_bytes_max: int = SIDECARS_BYTES_MAX,
        count_max: int = SIDECARS_MAX,
    ) -> None:
        self._folder = check_folder(folder)
        self._size_bytes_max = size_bytes_max
        self._count_max = count_max

    def get(self, key: str, path: str) -> Corpus | None:
        """Return the corpus under a key, its rows under the path of a store; None unless it is sound."""
        return self._get(_name(key), lambda blocks: _corpus_of(blocks, path))

    def keep(self, key: str, corpus: Corpus) -> None:
        """Keep a corpus under a key, as the one that was used last."""
        self._keep(_name(key), lambda: map(_encode, _blocks(corpus)))

    def terms(self, key: str, corpus: Corpus, language: str) -> Postings:
        """Return the terms of the corpus under a key; they are kept, too."""
        name = _name(f"{ANALYSER} {language} {key}")
        count = corpus.row_count
        found = self._get(name, lambda blocks: unpacked(map(_decode_packed, blocks), count))
        if found is not None:
            self._keep(name, lambda: ())
            return found
        packed = list(packed_rows(corpus, language))
        self._put(name, map(_encode_packed, packed))
        return unpacked(packed, count)

    def _get(self, name: str, read: Callable[[Iterator[bytes]], _Kept]) -> _Kept | None:
        """Return what is read of a file; None unless it is as it was written."""
        found = None
        try:
            with BufferedReader(open_plain(self._folder / name, flags=os.O_NOFOLLOW)) as file:
                blocks = _Blocks(file, name)
                found = read(iter(blocks))
                if not blocks.are_sound:
                    found = None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, IndexError, msgspec.MsgspecError, Corrupt):
            found = None
        if found is None:
            self._delete(name)
        return found

    def _keep(self, name: str, blocks: Callable[[], Iterable[bytes]]) -> None:
        try:
            os.utime(self._folder / name, follow_symlinks=False)
        except OSError:
            self._put(name, blocks())

    def _put(self, name: str, blocks: Iterable[bytes]) -> None:
        """Write a file. A full or closed disk is no fault: what is not kept is made again."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, unfinished = tempfile.mkstemp(
                _UNFINISHED, name.removesuffix(_SUFFIX), self._folder
            )
            try:
                with os.fdopen(descriptor, "wb") as file:
                    if not _store(file, name, blocks, self._size_bytes_max):
                        return
                Path(unfinished).replace(self._folder / name)
            finally:
                Path(unfinished).unlink(missing_ok=True)
            self._make_room()
        except OSError:
            return

    def _make_room(self) -> None:
        """Delete the least recently used files, and those that a process left unfinished."""
        files = sorted(_files(self._folder), reverse=True)
        size_bytes = 0
        for count, (_, name, file_bytes) in enumerate(files, 1):
            size_bytes += file_bytes
            if size_bytes > self._size_bytes_max or count > self._count_max:
                self._delete(name)

    def _delete(self, name: str) -> None:
        try:
            (self._folder / name).unlink(missing_ok=True)
        except OSError:
            return  # a file that cannot be deleted is not trusted any more than others


def check_folder(folder: Any) -> Path:
    try:
        path = check_path(folder)
    except InvalidInput as error:
        raise InvalidInput(f"cache must be the path of a directory: {error}") from None
    # A directory that cannot be read cannot be written to either, and that is no fault.
    if os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112
        raise InvalidInput(f"cache must be a directory, and {str(path)!r:.200} is none")
    return path


def _name(key: str) -> str:
    # Lower case is part of a record's hash, and depends on the version of Unicode.
    return sha256_hex(f"{unicodedata.unidata_version}\n{key}".encode()) + _SUFFIX


class _Blocks:
    """The blocks of a file, which is sound if it is as it was written."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self.are_sound = False  # known when all are read

    def __iter__(self) -> Iterator[bytes]:
        file, status = self._file, os.fstat(self._file.fileno())
        if (
            status.st_uid != os.geteuid()
            or status.st_mode & _WRITABLE_BY_OTHERS
            or file.read(len(_MAGIC)) != _MAGIC
        ):
            return
        with PieceHash() as hash:
            hash.add(self._name.encode())
            left = status.st_size - len(_MAGIC) - _HASH_BYTES
            while left > 0:
                size = int.from_bytes(file.read(_LENGTH_BYTES), "big")
                left -= _LENGTH_BYTES + size
                if left < 0:
                    return
                data = file.read(size)
                hash.add(data)
                yield data
            self.are_sound = file.read() == hash.digest()


def _corpus_of(blocks: Iterable[bytes], path: str) -> Corpus:
    corpus = Corpus()
    tag_lists: dict[tuple[str, ...], tuple[str, ...]] = {}
    for block in map(_decode, blocks):
        known = [tag_lists.setdefault(tags, tags) for tags in block.tag_lists]
        corpus.extend_columns(
            path,
            ids=block.ids,
            hashes=block.hashes,
            instants=block.instants,
            texts=block.texts,
            tags=[known[number] for number in block.tags],
            details=block.details,
        )
        corpus.invalid += [(path, id, digest) for id, digest in block.invalid]
    return corpus


def _store(file: BinaryIO, name: str, blocks: Iterable[bytes], size_bytes_max: int) -> bool:
    """Write blocks; return False when they take more room than there is."""
    file.write(_MAGIC)
    with PieceHash() as hash:
        hash.add(name.encode())
        for data in blocks:
            hash.add(data)
            file.write(len(data).to_bytes(_LENGTH_BYTES, "big"))
            file.write(data)
            if file.tell() > size_bytes_max:
                return False
        file.write(hash.digest())
    return True


def _blocks(corpus: Corpus) -> Iterator[_Block]:
    sizes = map(add, map(len, corpus.ids), map(len, corpus.texts))
    for rows in _slices(sizes):
        numbers: dict[tuple[str, ...], int] = {}
        tags = [numbers.setdefault(tags, len(numbers)) for tags in corpus.tags[rows]]
        yield _Block(
            ids=corpus.ids[rows],
            hashes=corpus.hashes[rows],
            instants=corpus.instants[rows].tolist(),
            texts=corpus.texts[rows],
            tag_lists=list(numbers),
            tags=tags,
            details=corpus.details[rows],
            invalid=[],
        )
    for rows in _slices(len(id) for _, id, _ in corpus.invalid):
        invalid = [(id, digest) for _, id, digest in corpus.invalid[rows]]
        yield _Block([], [], [], [], [], [], [], invalid)


def _slices(sizes: Iterable[int]) -> Iterator[slice]:
    """Yield the slices of rows that make up the blocks."""
    start = end = held = 0
    for end, size in enumerate(sizes, 1):
        held += size + _ROW_BYTES
        if held >= SIDECAR_BLOCK_BYTES:
            yield slice(start, end)
            start, held = end, 0
    if end > start:
        yield slice(start, end)


def _files(folder: Path) -> Iterator[tuple[int, str, int]]:
    """Yield the sidecar files: when each was used last, its name and its size."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if _is_ours(entry.name):
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # another process made room
                yield status.st_mtime_ns, entry.name, status.st_size
