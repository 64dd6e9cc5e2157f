"""Opening the files that a question names: plain files, and nothing that could block."""

import errno
import os
import stat
from io import FileIO
from pathlib import Path

_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


class NotPlainError(OSError):
    """A path that leads to a directory, a pipe or a device."""


def open_plain(path: Path, *, flags: int = 0) -> FileIO:
    """Return the file at a path, opened for reading; raise NotPlainError when it is no plain file."""

    def opened(name: str, more: int) -> int:
        # Without this, opening a pipe blocks until somebody writes to it.
        return os.open(name, more | flags | os.O_NONBLOCK)

    try:
        file = open(path, "rb", buffering=0, opener=opened)  # noqa: SIM115
    except IsADirectoryError:
        raise NotPlainError from None
    if not is_plain(os.fstat(file.fileno())):
        file.close()
        raise NotPlainError
    return file


def is_plain(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode)


def is_missing(error: OSError) -> bool:
    """Whether there is nothing at a path, or cannot be."""
    return error.errno in _MISSING
