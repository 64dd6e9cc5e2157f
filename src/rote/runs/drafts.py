"""Drafts of artifacts: bytes that grow in a private file, or in memory, until the artifact is complete
and takes its place under its name."""

import io
import os
from pathlib import Path
from typing import BinaryIO, Protocol
from weakref import finalize

from rote.errors import InvalidInput, NotFound, RoteError, Unavailable, system_failure
from rote.values.limits import DRAFTS_MAX


class Draft(Protocol):
    """An artifact in the making. Nothing stands under its name before `place`."""

    def write(self, data: bytes, /) -> object: ...

    def content(self) -> bytes:
        """Return the bytes that were written, also after `place`."""

    def place(self) -> None:
        """Move the finished file to its name."""

    def drop(self) -> None:
        """Delete the unfinished file."""


class FileDraft:
    """A file that only its owner may read."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        self._path = path
        self._durable = durable  # whether it survives a power cut once it is in place
        if path.is_dir():
            raise InvalidInput(f"{path} is a folder; name a file", path=str(path))
        try:
            # In the same folder, so that it can take its place in one step.
            descriptor, self._draft = _new_file(path.parent)
        except OSError as error:
            raise _told(error, path) from error
        self._file = os.fdopen(descriptor, "w+b")
        # For those that an interruption has taken out of everyone's hands.
        self._abandoned = finalize(self, _drop, self._file, self._draft, os.getpid())
        self._abandoned.atexit = False

    def write(self, data: bytes, /) -> None:
        try:
            self._file.write(data)
            # Kept back here, it would be written once more by a fork that ends.
            self._file.flush()
        except OSError as error:
            raise _told(error, self._path) from error

    def content(self) -> bytes:
        try:
            if self._file.closed:
                return self._path.read_bytes()
            self._file.seek(0)
            try:
                return self._file.read()
            finally:
                self._file.seek(0, os.SEEK_END)
        except FileNotFoundError:
            raise NotFound(f"{self._path} is not there any more", path=str(self._path)) from None
        except OSError as error:
            raise _told(error, self._path) from error

    def place(self) -> None:
        try:
            self._file.flush()
            if self._durable:
                os.fsync(self._file.fileno())
            self._file.close()
            self._draft.replace(self._path)
            self._abandoned.detach()
            if self._durable:
                _sync_names(self._path.parent)
        except OSError as error:
            self.drop()
            raise _told(error, self._path) from error

    def drop(self) -> None:
        self._abandoned()


class MemoryDraft:
    """For runs that keep no files."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self.write = self._buffer.write
        self.content = self._buffer.getvalue

    def place(self) -> None:
        pass

    def drop(self) -> None:
        self._buffer.truncate(0)


def _drop(file: BinaryIO, draft: Path, process: int) -> None:
    try:
        file.close()
    except OSError:
        pass  # what could not be flushed is not wanted
    if os.getpid() == process:  # not where it was only forked
        draft.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """A folder that only its owner may look into; one that is there stays as it is."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _told(error, folder) from error


def _new_file(folder: Path) -> tuple[int, Path]:
    """A file that was not there; those that others write, or have left behind, stay alone."""
    for number in range(DRAFTS_MAX):
        path = folder / f".rote-{os.getpid()}-{number}.draft"
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), path
        except FileExistsError:
            continue
    raise Unavailable(
        f"{folder} holds {DRAFTS_MAX:,} drafts of this process; remove old .draft files"
    )


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
