"""A folder whose files are read and written without ever following a link out of it.

Each folder on the way down is opened relative to its parent, and links are refused, so nobody can
put a link in place between a check and its use.
"""

import errno
import os
import stat
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import Self

from rote.errors import InvalidInput, LimitExceeded
from rote.values.limits import (
    FILE_NAME_BYTES_MAX,
    MARKDOWN_DEPTH_MAX,
    MARKDOWN_NAMES_MAX,
    MARKDOWN_SKIPS_MAX,
)

# Names that stand for devices on some systems, with any extension.
_DEVICES = frozenset(
    ["CON", "PRN", "AUX", "NUL"] + [f"{port}{n}" for port in ("COM", "LPT") for n in range(10)]
)
_REFUSED = frozenset('/\\<>:"|?*')
# Controls, marks that nobody sees, lone surrogates, ends of lines and of paragraphs.
_REFUSED_CATEGORIES = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])


def check_path(path: str | os.PathLike[str]) -> Path:
    """Check and return a path; an empty one is refused, because it would mean the current folder."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"a path is text or a Path, not {type(path).__name__}")
    if os.fspath(path) == "":
        raise InvalidInput("the path is empty; name a file or a folder, or . for this one")
    return Path(path)


def check_file_name(name: str) -> str:
    """Check and return a name that is one file in its folder on every file system."""
    stem = name.partition(".")[0].rstrip(" ").upper()
    if (
        name.startswith((".", " "))
        or not name.strip(" .")
        or stem in _DEVICES
        or any(map(_is_refused, name))
    ):
        raise InvalidInput(
            f"{name!r:.80} is no name for a file; export it as JSON", name=name[:200]
        )
    size = len(name.encode())
    if size > FILE_NAME_BYTES_MAX:
        raise LimitExceeded("the name of the file in bytes", size=size, limit=FILE_NAME_BYTES_MAX)
    return name


def _is_refused(character: str) -> bool:
    return character in _REFUSED or unicodedata.category(character) in _REFUSED_CATEGORIES


def same_name(name: str) -> str:
    """Return a form that is equal for names that some file systems take for the same file."""
    folded = unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())
    return unicodedata.normalize("NFC", folded)


class Skip:
    """Patterns of the names to leave out, as shells have them; a * takes slashes too.

    A pattern is compared with the name of a file or folder, and with its path.
    """

    def __init__(self, globs: Sequence[str]) -> None:
        if isinstance(globs, str) or not isinstance(globs, Sequence):
            raise InvalidInput("skip is a list of patterns", argument="skip")
        if len(globs) > MARKDOWN_SKIPS_MAX:
            raise LimitExceeded("the number of --skip", size=len(globs), limit=MARKDOWN_SKIPS_MAX)
        for glob in globs:
            if type(glob) is not str or not glob.strip("/"):
                raise InvalidInput(f"{glob!r:.80} is no pattern to skip by", argument="skip")
        self.unused = dict.fromkeys(globs)  # the patterns that have left nothing out so far
        self._globs = [(glob, glob.removeprefix("./").rstrip("/")) for glob in self.unused]

    def match(self, path: str) -> str | None:
        """Return the first pattern that leaves a path out; None when none does."""
        # With a slash before it, `**/x.md` is also the x.md at the top.
        forms = (path, path.rpartition("/")[2], f"/{path}")
        for glob, pattern in self._globs:
            if any(fnmatchcase(form, pattern) for form in forms):
                self.unused.pop(glob, None)
                return glob
        return None


class Folder:
    """An open folder. Names in it are paths with slashes."""

    def __init__(self, path: Path) -> None:
        self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._root)

    def files(self, skip: Skip | None = None) -> tuple[list[str], list[tuple[str, str]]]:
        """(Markdown files here and below, (name, reason) of everything that is not read).

        Both are sorted. A folder that is left out stands for everything in it.
        """
        files, others, waiting, count = list[str](), list[tuple[str, str]](), [""], 0
        while waiting:
            folder = waiting.pop()
            with self._opened(folder) as descriptor, os.scandir(descriptor) as found:
                for item in found:
                    count += 1
                    _check_number(count)
                    name = f"{folder}/{item.name}" if folder else item.name
                    glob = None if skip is None else skip.match(name)
                    if glob is not None:
                        others.append((shown_name(name), f"left out by --skip {glob}"))
                    elif item.name.startswith("."):
                        others.append((shown_name(name), "it is hidden; it is left out"))
                    elif item.is_symlink():
                        others.append((shown_name(name), "a link is not followed"))
                    elif item.is_dir(follow_symlinks=False):
                        _check_depth(name)
                        waiting.append(name)
                    elif is_markdown(item.name):
                        if shown_name(name) != name or not item.is_file(follow_symlinks=False):
                            others.append(
                                (shown_name(name), "its name is not UTF-8, or it is no file")
                            )
                        else:
                            files.append(name)
                    else:
                        others.append(
                            (shown_name(name), "it does not end with .md; it is left out")
                        )
        return sorted(files), sorted(others)

    def read(self, name: str, *, size_bytes_max: int) -> bytes | None:
        """Read at most one byte more than the limit; None when there is no such file."""
        folder, _, file = name.rpartition("/")
        try:
            with self._opened(folder) as descriptor:
                opened = os.open(
                    file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor
                )
                with os.fdopen(opened, "rb") as stream:
                    if not stat.S_ISREG(os.fstat(opened).st_mode):
                        raise _not_followed(name)
                    return stream.read(size_bytes_max + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _told(error, name) from error

    def write(self, name: str, data: bytes) -> None:
        """Put a file in place, whole or not at all; make its folder when there is none."""
        folder, _, file = name.rpartition("/")
        # The name belongs to this thread, so that two exports never write to one file.
        draft = f".rote-{os.getpid()}-{threading.get_ident()}"
        try:
            self._make(folder)
            with self._opened(folder) as descriptor:
                try:
                    _write_new(draft, data, descriptor)
                    os.replace(draft, file, src_dir_fd=descriptor, dst_dir_fd=descriptor)
                except BaseException:
                    _remove(draft, descriptor)
                    raise
        except OSError as error:
            raise _told(error, name) from error

    def _make(self, folder: str) -> None:
        if folder:
            try:
                os.mkdir(folder, dir_fd=self._root)
            except FileExistsError:
                pass

    @contextmanager
    def _opened(self, folder: str) -> Iterator[int]:
        """Open a folder below, step by step; yield its descriptor."""
        descriptor = os.dup(self._root)
        try:
            for step in filter(None, folder.split("/")):
                try:
                    below = os.open(
                        step, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor
                    )
                except OSError as error:
                    raise _told(error, folder) from error
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)


def is_markdown(name: str) -> bool:
    return name.casefold().endswith((".md", ".markdown"))


def shown_name(name: str) -> str:
    """Return a name as text that can be printed, even when its bytes are no UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _check_number(count: int) -> None:
    if count > MARKDOWN_NAMES_MAX:
        raise LimitExceeded("the number of files", size=count, limit=MARKDOWN_NAMES_MAX)


def _check_depth(name: str) -> None:
    depth = name.count("/") + 1
    if depth > MARKDOWN_DEPTH_MAX:
        raise LimitExceeded("the depth of the folder", size=depth, limit=MARKDOWN_DEPTH_MAX)


def _write_new(name: str, data: bytes, descriptor: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    _remove(name, descriptor)  # a draft that a dead process of the same number left behind
    with os.fdopen(os.open(name, flags, 0o666, dir_fd=descriptor), "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _remove(name: str, descriptor: int) -> None:
    try:
        os.unlink(name, dir_fd=descriptor)
    except FileNotFoundError:
        pass


def _told(error: OSError, name: str) -> Exception:
    """Return the error with the name of the file; a link in the way gets words of its own."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
        return _not_followed(name)
    return OSError(error.errno, error.strerror, name)


def _not_followed(name: str) -> InvalidInput:
    return InvalidInput(
        f"{name} is a link, or no ordinary file or folder; nothing outside is touched", file=name
    )
