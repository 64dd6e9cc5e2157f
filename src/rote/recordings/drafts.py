"""Drafts of artifacts: bytes that grow in a file, or in memory, until the artifact is complete and
takes its place under its name.

A hidden draft is deleted when nobody finishes it. A partial file has a name that others may read it
by while it grows, and stays when its run is killed. As long as its run goes on, it is held.
"""

import fcntl
import io
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from weakref import finalize

from rote.errors import InvalidInput, NotFound, RoteError, Unavailable, system_failure
from rote.values.limits import DRAFTS_MAX


class Draft(Protocol):
    """An artifact in the making. Nothing stands under its name before `place`."""

    def write(self, data: bytes, /) -> object: ...

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that were written, before `place` and `close`."""

    def content(self) -> bytes:
        """Return the bytes that were written, also after `place` and `close`."""

    def check(self) -> None:
        """Raise the failure of an earlier write: something is missing."""

    def place(self) -> None:
        """Move the finished file to its name; whatever stands there is left alone."""

    def withdraw(self) -> None:
        """Delete the file from its place."""

    def close(self) -> None:
        """Leave the unfinished file as it is."""

    def drop(self) -> None:
        """Delete the unfinished file."""


class FileDraft:
    """A file that only its owner may read. Nothing is kept back in this process, so a fork has
    nothing to write once more."""

    def __init__(self, path: Path, *, durable: bool, partial: Path | None = None) -> None:
        """Make the file.

        durable  whether it survives a power cut once it is in place
        partial  the name that others may read it by while it grows; otherwise it is hidden
        """
        self._path = path
        self._durable = durable
        self._process = os.getpid()
        self._failure: RoteError | None = None  # of a write
        if path.is_dir():
            raise InvalidInput(f"{path} is a folder; name a file", path=str(path))
        try:
            # In the same folder, so that it can take its place in one step.
            if partial is None:
                descriptor, self._draft = _new_file(path.parent)
            else:
                descriptor, self._draft = _make(partial), partial
                _hold(descriptor)
        except OSError as error:
            raise _told(error, partial or path) from error
        self._file = io.FileIO(descriptor, "r+")
        # For those that an interruption has taken out of everyone's hands.
        abandon = _drop if partial is None else _close
        self._abandoned = finalize(self, abandon, self._file, self._draft, self._process)
        self._abandoned.atexit = False

    def write(self, data: bytes, /) -> None:
        self.check()
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._failure = _told(error, self._path)
            raise self._failure from error

    def lines(self) -> Iterator[bytes]:
        try:
            with io.BufferedReader(_FromStart(self._file.fileno())) as file:
                yield from file
        except OSError as error:
            raise _told(error, self._path) from error

    def content(self) -> bytes:
        if not self._file.closed:
            return b"".join(self.lines())
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            raise NotFound(f"{self._path} is not there any more", path=str(self._path)) from None
        except OSError as error:
            raise _told(error, self._path) from error

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def sync(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            self._failure = _told(error, self._path)
            raise self._failure from error

    def place(self) -> None:
        try:
            self.check()
            if self._durable:
                self.sync()
            check_new(self._path)
            if not _is_same(self._file, self._draft):
                raise InvalidInput(
                    f"{self._draft} was replaced by another file while it grew; it is left alone",
                    path=str(self._draft),
                )
            self._draft.replace(self._path)
            self._abandoned.detach()
            self._file.close()
            if self._durable:
                _sync_names(self._path.parent)
        except OSError as error:
            self.drop()
            raise _told(error, self._path) from error
        except BaseException:
            self.drop()
            raise

    def withdraw(self) -> None:
        with suppress(OSError):  # others have taken it away, or the whole folder
            self._path.unlink()

    def close(self) -> None:
        if self._abandoned.detach() is not None:
            _close(self._file, self._draft, self._process)

    def drop(self) -> None:
        if self._abandoned.detach() is not None:
            _drop(self._file, self._draft, self._process)


class MemoryDraft:
    """For runs that keep no files."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self.write = self._buffer.write
        self.content = self._buffer.getvalue

    def lines(self) -> Iterator[bytes]:
        return iter(io.BytesIO(self.content()))

    def check(self) -> None:
        pass

    def place(self) -> None:
        pass

    def withdraw(self) -> None:
        pass

    def close(self) -> None:
        pass

    def drop(self) -> None:
        self._buffer.truncate(0)


class _FromStart(io.RawIOBase):
    """The bytes of a file from its start on. The place of a descriptor is shared with forks of this
    process, so it is neither used nor moved."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._place = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        size = os.preadv(self._descriptor, [buffer], self._place)
        self._place += size
        return size


def check_new(path: Path) -> None:
    """Refuse a name that is taken."""
    try:
        is_there = path.exists()
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}", path=str(path)) from None
    if is_there:
        raise InvalidInput(f"{path} is there already; name a new file", path=str(path))


def make_folder(folder: Path) -> None:
    """A folder that only its owner may look into; one that is there stays as it is."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _told(error, folder) from error


def remove_if_empty(folder: Path) -> None:
    """Remove a folder, unless something is kept there."""
    with suppress(OSError):
        folder.rmdir()


def remove_if_unbegun(partial: Path) -> None:
    """Remove a partial file without any line: its process was killed before the run began."""
    with suppress(OSError):
        if not partial.is_file() or partial.stat().st_size:
            return
        with partial.open("rb") as file:
            if not is_held(file.fileno()):
                partial.unlink()


def _drop(file: io.FileIO, draft: Path, process: int) -> None:
    with suppress(OSError):  # what cannot be deleted now is pruned later
        if os.getpid() == process and _is_same(file, draft):  # not where it was only forked
            draft.unlink()
    _close(file, draft, process)


def _is_same(file: io.FileIO, draft: Path) -> bool:
    """Whether a name still is that of this open file."""
    return os.path.samestat(os.fstat(file.fileno()), draft.lstat())


def _close(file: io.FileIO, draft: Path, process: int) -> None:
    with suppress(OSError):  # nothing is kept back that could be lost
        file.close()


def _new_file(folder: Path) -> tuple[int, Path]:
    """A file that was not there; those that others write, or have left behind, stay alone."""
    for number in range(DRAFTS_MAX):
        path = folder / f".rote-{os.getpid()}-{number}.draft"
        try:
            return _make(path), path
        except FileExistsError:
            continue
    raise Unavailable(
        f"{folder} holds {DRAFTS_MAX:,} drafts of this process; remove old .draft files"
    )


def _make(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _hold(descriptor: int) -> None:
    """Hold a file until this process and its forks have closed it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        pass  # a file system without locks; then the age of the file has to do


def is_held(descriptor: int) -> bool:
    """Return whether a run that goes on holds a file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _sync_names(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _told(error: OSError, path: Path) -> RoteError:
    reason = error.strerror or str(error)
    if isinstance(error, FileNotFoundError | NotADirectoryError | FileExistsError):
        return InvalidInput(f"cannot write {path}: {reason}", path=str(path))
    return system_failure(f"cannot write {path}", error, path)
