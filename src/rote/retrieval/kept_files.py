"""Files that are kept in a directory which the caller names, for the next process.

    magic    what the file holds, and a newline
    blocks   the length of each in four bytes, then its bytes
    hash     SHA-256 of the file's name and the hashes of all blocks

No file is trusted: one that is torn, renamed, writable by others or changed counts as missing, and is
overwritten. So files may be deleted at any time, and any number of processes may share a directory.
Nobody but their owner may read them.
"""

import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from rote.errors import Corrupt, InvalidInput
from rote.retrieval.pieces import PieceHash
from rote.retrieval.plain_files import open_plain
from rote.space.arguments import check_path

_LENGTH_BYTES = 4
_HASH_BYTES = 32
# Whoever may write a file may write anything into it.
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH

_Kept = TypeVar("_Kept")


class KeptFiles:
    """The files of one kind in a directory; those that were used last are kept."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        magic: bytes,
        suffix: str,
        size_bytes_max: int,
        count_max: int,
    ) -> None:
        self._folder = _check_folder(folder)
        self._magic = magic
        self._suffix = suffix
        self._size_bytes_max = size_bytes_max
        self._count_max = count_max
        # An unfinished file may be of any kind: whoever makes room deletes it.
        self._is_ours = re.compile(
            rf"[0-9a-f]{{64}}({re.escape(suffix)}|[a-z0-9_]+\.part)"
        ).fullmatch

    def get(self, hash: str, read: Callable[[Iterator[bytes]], _Kept]) -> _Kept | None:
        """Return what is read of the file named by a hash; None unless it is as it was written."""
        name = hash + self._suffix
        found = None
        try:
            with BufferedReader(open_plain(self._folder / name, flags=os.O_NOFOLLOW)) as file:
                blocks = _Blocks(file, name, self._magic)
                found = read(iter(blocks))
                if not blocks.are_sound:
                    found = None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, IndexError, msgspec.MsgspecError, Corrupt, InvalidInput):
            found = None
        if found is None:
            self._delete(name)
        return found

    def use(self, hash: str) -> bool:
        """Note that a file is used; return whether there is one."""
        try:
            os.utime(self._folder / (hash + self._suffix), follow_symlinks=False)
        except OSError:
            return False
        return True

    def put(self, hash: str, blocks: Iterable[bytes]) -> None:
        """Write a file. A full or closed disk is no fault: what is not kept is made again."""
        name = hash + self._suffix
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, unfinished = tempfile.mkstemp(".part", hash, self._folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    if not self._store(file, name, blocks):
                        return
                Path(unfinished).replace(self._folder / name)
            finally:
                Path(unfinished).unlink(missing_ok=True)
            self._make_room()
        except OSError:
            return

    def _store(self, file: BinaryIO, name: str, blocks: Iterable[bytes]) -> bool:
        """Write blocks; return False when they take more room than there is."""
        file.write(self._magic)
        with PieceHash() as hash:
            hash.add(name.encode())
            for data in blocks:
                hash.add(data)
                file.write(len(data).to_bytes(_LENGTH_BYTES, "big"))
                file.write(data)
                if file.tell() > self._size_bytes_max:
                    return False
            file.write(hash.digest())
        return True

    def _make_room(self) -> None:
        """Delete the least recently used files, and those that a process left unfinished."""
        size_bytes = 0
        for count, (_, name, file_bytes) in enumerate(sorted(self._files(), reverse=True), 1):
            size_bytes += file_bytes
            if size_bytes > self._size_bytes_max or count > self._count_max:
                self._delete(name)

    def _files(self) -> Iterator[tuple[int, str, int]]:
        """Yield the files: when each was used last, its name and its size."""
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if self._is_ours(entry.name):
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # another process made room
                    yield status.st_mtime_ns, entry.name, status.st_size

    def _delete(self, name: str) -> None:
        try:
            (self._folder / name).unlink(missing_ok=True)
        except OSError:
            return  # a file that cannot be deleted is not trusted any more than others


def _check_folder(folder: Any) -> Path:
    try:
        path = check_path(folder)
    except InvalidInput as error:
        raise InvalidInput(f"cache must be the path of a directory: {error}") from None
    # A directory that cannot be read cannot be written to either, and that is no fault.
    if os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112
        raise InvalidInput(f"cache must be a directory, and {str(path)!r:.200} is none")
    return path


class _Blocks:
    """The blocks of a file, which is sound if it is as it was written."""

    def __init__(self, file: BinaryIO, name: str, magic: bytes) -> None:
        self._file = file
        self._name = name
        self._magic = magic
        self.are_sound = False  # known when all are read

    def __iter__(self) -> Iterator[bytes]:
        file, status = self._file, os.fstat(self._file.fileno())
        if (
            status.st_uid != os.geteuid()
            or status.st_mode & _WRITABLE_BY_OTHERS
            or file.read(len(self._magic)) != self._magic
        ):
            return
        with PieceHash() as hash:
            hash.add(self._name.encode())
            left = status.st_size - len(self._magic) - _HASH_BYTES
            while left > 0:
                size = int.from_bytes(file.read(_LENGTH_BYTES), "big")
                left -= _LENGTH_BYTES + size
                if left < 0:
                    return
                data = file.read(size)
                hash.add(data)
                yield data
            self.are_sound = file.read() == hash.digest()
