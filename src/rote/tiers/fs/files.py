"""An open folder of a sandbox, and what is done to the names in it.

Every call of the system has one name and the descriptor of an open folder, and follows no link. So
it holds beside a process that swaps names meanwhile: what such a process puts under a name is judged
on what was opened. Type, number of links and size are those of the open descriptor.

A file is replaced in one step: a draft is written beside it, synced, and takes its name. Whoever
writes in a folder holds its lock, so a draft that is there was left by a process that was killed.
"""

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from types import TracebackType
from typing import Self

from rote.errors import Busy, Denied, InvalidInput, LimitExceeded, NotFound, Unavailable
from rote.tiers.fs.paths import DRAFT
from rote.values.tier_limits import (
    FS_ENTRIES_MAX,
    FS_LOCK_LOOK_SECONDS,
    FS_LOCK_SECONDS_MAX,
    FS_READ_BYTES,
)

_OPENED = os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | _OPENED
# A pipe or a terminal that took the place of a file neither blocks nor becomes ours.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | _OPENED
_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPENED
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | _OPENED
# The answers of the system to a link or a file where a folder should be.
_NO_FOLDER = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK)
_PERMISSIONS = 0o777
_ADVICE = {
    "max_read_bytes": "read a smaller file, or raise max_read_bytes",
    "max_write_bytes": "write less, or raise max_write_bytes",
}


class Folder:
    """A folder that is open until the end of its block. `path` names it in errors."""

    def __init__(self, descriptor: int, path: str = "") -> None:
        self._descriptor = descriptor
        self.path = path

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)

    def shown(self, name: str) -> str:
        """Return the path of a name in this folder."""
        return f"{self.path}/{name}" if self.path else name

    def again(self) -> "Folder":
        """Open the same folder once more; a lock belongs to one opening."""
        return Folder(os.open(".", _FOLDER, dir_fd=self._descriptor), self.path)

    def step(self, name: str, *, make: bool = False) -> "Folder":
        """Open a folder in this one; with `make` one that is missing is made."""
        try:
            opened = os.open(name, _FOLDER, dir_fd=self._descriptor)
        except FileNotFoundError:
            if not make:
                raise _absent(self.shown(name)) from None
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._descriptor)
                os.fsync(self._descriptor)
            return self.step(name)
        except OSError as error:
            if error.errno not in _NO_FOLDER:
                raise
            self._tell_no_folder(name)
            raise _not_plain(self.shown(name)) from None  # it was swapped in between
        return Folder(opened, self.shown(name))

    def look(self, name: str) -> os.stat_result | None:
        """Return what a name stands for; Denied (not_plain) when it is neither file nor folder."""
        try:
            found = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return _plain(found, self.shown(name))

    def look_for_file(self, name: str) -> os.stat_result | None:
        """Look at a name; InvalidInput (not_a_file) when it is that of a folder."""
        found = self.look(name)
        if found is not None and stat.S_ISDIR(found.st_mode):
            raise _not_a_file(self.shown(name))
        return found

    def read(self, name: str, *, size_bytes_max: int, limit: str) -> bytes:
        """Return the bytes of a file; LimitExceeded, which names `limit`, when there are more."""
        with self._opened(name) as (file, found):
            data = _read(file, size_bytes_max + 1)
        if len(data) > size_bytes_max:
            size = max(found.st_size, len(data))
            raise too_large(limit, self.shown(name), size, size_bytes_max)
        return data

    def lines(self, name: str, *, size_bytes_max: int) -> Iterator[bytes]:
        """Yield the lines that a file has now, without their ends; of a longer one its beginning."""
        with self._opened(name) as (file, found), open(file, "rb", closefd=False) as stream:
            while stream.tell() < found.st_size and (line := stream.readline(size_bytes_max + 2)):
                rest = line
                while len(rest) == size_bytes_max + 2 and not rest.endswith(b"\n"):
                    rest = stream.readline(size_bytes_max + 2)
                yield line.removesuffix(b"\n")

    @contextmanager
    def _opened(self, name: str) -> Iterator[tuple[int, os.stat_result]]:
        """Open a file to be read."""
        if self.look_for_file(name) is None:
            raise _absent(self.shown(name))
        try:
            file = os.open(name, _READ, dir_fd=self._descriptor)
        except FileNotFoundError:
            raise _absent(self.shown(name)) from None
        except OSError as error:
            if error.errno not in _NO_FOLDER:
                raise
            raise _not_plain(self.shown(name)) from None
        try:
            found = _plain(os.fstat(file), self.shown(name))
            if stat.S_ISDIR(found.st_mode):
                raise _not_a_file(self.shown(name))
            yield file, found
        finally:
            os.close(file)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder against other writers, of this process and of others."""
        deadline = monotonic() + FS_LOCK_SECONDS_MAX
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic() >= deadline:
                    where = self.path or "the sandbox"
                    raise Busy(f"others are writing in {where}; try again") from None
                sleep(FS_LOCK_LOOK_SECONDS)
        try:
            yield
        finally:
            # A fork of this process may hold the same descriptor for longer.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def replace(self, name: str, data: bytes, before: os.stat_result | None) -> None:
        """Put a new file in the place of one, or of none, while the folder is held.

        before  the file that is there, which leaves its permissions to the new one
        """
        draft = self._new_draft()
        try:
            try:
                if before is not None:
                    os.fchmod(draft, before.st_mode & _PERMISSIONS)
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(draft, rest) :]
                os.fsync(draft)
            finally:
                os.close(draft)
            os.rename(DRAFT, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            with suppress(OSError):
                os.unlink(DRAFT, dir_fd=self._descriptor)
            raise
        os.fsync(self._descriptor)

    def append_line(self, name: str, line: bytes) -> None:
        """Add a line to a file while the folder is held; others may be adding lines, too."""
        self.look_for_file(name)
        file = os.open(name, _APPEND, 0o666, dir_fd=self._descriptor)
        try:
            found = _plain(os.fstat(file), self.shown(name))
            # A line that another writer left unfinished spoils itself only.
            is_torn = found.st_size > 0 and os.pread(file, 1, found.st_size - 1) != b"\n"
            data = b"\n" * is_torn + line + b"\n"
            if os.write(file, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file)
        finally:
            os.close(file)
        os.fsync(self._descriptor)

    def remove(self, name: str) -> None:
        """Remove a file while the folder is held."""
        os.unlink(name, dir_fd=self._descriptor)
        os.fsync(self._descriptor)

    def entries(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the names of files and folders, without links and the like."""
        with os.scandir(self._descriptor) as names:
            for count, entry in enumerate(names, 1):
                if count > FS_ENTRIES_MAX:
                    what = f"{self.path or 'the sandbox'}: the number of names in the folder"
                    raise LimitExceeded(what, size=count, limit=FS_ENTRIES_MAX)
                with suppress(FileNotFoundError, Denied):
                    yield entry.name, _plain(entry.stat(follow_symlinks=False), entry.name)

    def _new_draft(self) -> int:
        try:
            return os.open(DRAFT, _DRAFT, 0o666, dir_fd=self._descriptor)
        except FileExistsError:
            os.unlink(DRAFT, dir_fd=self._descriptor)  # its writer was killed
            return os.open(DRAFT, _DRAFT, 0o666, dir_fd=self._descriptor)

    def _tell_no_folder(self, name: str) -> None:
        found = self.look(name)
        if found is not None and not stat.S_ISDIR(found.st_mode):
            raise InvalidInput(
                f"{self.shown(name)!r:.80} is a file, not a folder", code="not_a_folder"
            )


class Root:
    """The folder of a sandbox. Any thread may open it, and one may close it meanwhile."""

    def __init__(self, folder: Folder) -> None:
        self._lock = threading.Lock()
        self._folder: Folder | None = folder

    def open(self) -> Folder:
        """Open the folder once more, as one that no other thread closes."""
        with self._lock:
            if self._folder is None:
                raise Unavailable("the host is closed; open another one")
            return self._folder.again()

    def close(self) -> None:
        with self._lock:
            folder, self._folder = self._folder, None
        if folder is not None:
            folder.close()


def too_large(limit: str, path: str, size: int, size_bytes_max: int) -> LimitExceeded:
    advice = _ADVICE.get(limit, "make it smaller")
    what = f"{limit}: {path!r:.80} in bytes"
    return LimitExceeded(what, size=size, limit=size_bytes_max, advice=advice)


def _plain(found: os.stat_result, path: str) -> os.stat_result:
    # A file that was replaced while it was open has no link any more, and is whole.
    if stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink <= 1):
        return found
    raise _not_plain(path)


def _not_plain(path: str) -> Denied:
    return Denied(
        f"{path!r:.80} is a link, or no plain file; name a file with one name", code="not_plain"
    )


def _not_a_file(path: str) -> InvalidInput:
    return InvalidInput(f"{path!r:.80} is a folder, not a file", code="not_a_file")


def _absent(path: str) -> NotFound:
    return NotFound(f"{path!r:.80} is not there", path=path)


def _read(file: int, size_bytes_max: int) -> bytes:
    pieces: list[bytes] = []
    while size_bytes_max > 0 and (piece := os.read(file, min(size_bytes_max, FS_READ_BYTES))):
        pieces.append(piece)
        size_bytes_max -= len(piece)
    return b"".join(pieces)
