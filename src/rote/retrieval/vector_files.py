"""Vectors of files' texts, kept beside their corpora in a directory that the caller names.

    magic    rote-vectors-1 and a newline
    rows     the SHA-256 of a text and its vector (contract/vectors.py), one after the other
    hash     SHA-256 of the file's name and the rows

A file is named after the embedder and the path of the store. No file is trusted: one that is torn,
renamed, writable by others or changed counts as missing, and is overwritten.
"""

import os
import re
import stat
import tempfile
from hashlib import sha256
from io import BufferedReader
from pathlib import Path

from rote.contract.vectors import is_vector, join_rows, split_rows
from rote.errors import InvalidInput
from rote.retrieval.plain_files import open_plain
from rote.retrieval.sidecars import check_folder
from rote.retrieval.vector_cache import Vectors
from rote.values import sha256_hex
from rote.values.limits import SIDECARS_BYTES_MAX, SIDECARS_MAX

_MAGIC = b"rote-vectors-1\n"
_HASH_BYTES = 32
_SUFFIX, _UNFINISHED = ".vectors", ".vectors.part"
# Whoever may write a file may write anything into it.
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH

_is_ours = re.compile(r"[0-9a-f]{64}(\.vectors|[a-z0-9_]+\.vectors\.part)").fullmatch


class VectorFiles:
    """The vectors in a directory; the files that were used last are kept."""

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

    def get(self, key: str, dimension: int) -> Vectors:
        """Return the vectors under a key; none unless the file is sound."""
        name = _name(key)
        try:
            with BufferedReader(open_plain(self._folder / name, flags=os.O_NOFOLLOW)) as file:
                status = os.fstat(file.fileno())
                if (
                    status.st_uid != os.geteuid()
                    or status.st_mode & _WRITABLE_BY_OTHERS
                    or status.st_size > self._size_bytes_max
                ):
                    return {}
                data = file.read()
        except OSError:
            return {}
        rows = data[len(_MAGIC) : -_HASH_BYTES]
        if data != _content(name, rows):
            return {}
        try:
            found = dict(split_rows(rows, dimension))
        except InvalidInput:
            return {}
        return found if all(is_vector(each, dimension) for each in found.values()) else {}

    def keep(self, key: str, vectors: Vectors | None) -> None:
        """Keep vectors under a key, as those that were used last; None for those that are there.

        A full or closed disk is no fault: vectors that are not kept are made again.
        """
        name = _name(key)
        try:
            if vectors is None:
                os.utime(self._folder / name, follow_symlinks=False)
            else:
                self._write(name, _content(name, join_rows(vectors)))
                self._make_room()
        except OSError:
            return

    def _write(self, name: str, data: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, unfinished = tempfile.mkstemp(
            _UNFINISHED, name.removesuffix(_SUFFIX), self._folder
        )
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            Path(unfinished).replace(self._folder / name)
        finally:
            Path(unfinished).unlink(missing_ok=True)

    def _make_room(self) -> None:
        """Delete the least recently used files, and those that a process left unfinished."""
        files = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if _is_ours(entry.name):
                    status = entry.stat(follow_symlinks=False)
                    files.append((status.st_mtime_ns, entry.name, status.st_size))
        size_bytes = 0
        for count, (_, name, file_bytes) in enumerate(sorted(files, reverse=True), 1):
            size_bytes += file_bytes
            if size_bytes > self._size_bytes_max or count > self._count_max:
                (self._folder / name).unlink(missing_ok=True)


def _name(key: str) -> str:
    return sha256_hex(key.encode()) + _SUFFIX


def _content(name: str, rows: bytes) -> bytes:
    hash = sha256(name.encode())
    hash.update(rows)
    return _MAGIC + rows + hash.digest()
