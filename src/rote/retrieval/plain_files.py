"""Opening what a question names: a plain file, and nothing that would have to be waited for."""

import errno
import os
import stat
from io import FileIO
from pathlib import Path

_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


class NotPlainError(OSError):
    """A directory, a pipe, a device."""


def open_plain(path: Path, *, flags: int = 0) -> FileIO:
    """The file at a path, to be read as it is; NotPlainError when something else is there."""

    def opened(name: str, more: int) -> int:
        # Without this, a pipe is waited for until somebody writes to it.
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
