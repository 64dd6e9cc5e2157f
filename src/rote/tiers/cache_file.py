"""The file of a cache: one line for each set and each deletion, in their order (docs/formats/cache.md).

    rote-cache/1
    <CRC-32 of the rest, 8 hex digits> ["set", namespace, key, value, set_at, ttl_seconds]
    <…> ["delete", namespace, key]

A line is written by one call of the system before its verb returns, so it outlives a killed process.
A last line without its end is torn and was never answered: it is cut off. When most of the
file tells of nothing any more, a new one takes its place. One host holds the file at a time.
"""

import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import floor
from pathlib import Path
from typing import NoReturn
from zlib import crc32

from msgspec import Struct

from rote.errors import (
    Busy,
    Corrupt,
    InvalidInput,
    InvalidValue,
    NotFound,
    Unavailable,
    system_failure,
)
from rote.values import Json, canonical, decode
from rote.values.limits import DEPTH_MAX, LOOKS_MAX, TTL_SECONDS_MAX
from rote.values.tier_limits import CACHE_FILE_BYTES_SPARE, CACHE_LINE_BYTES_MAX

_HEADER = b"rote-cache/1\n"
_DRAFT_ENDING = ".draft"
# Bytes beside an entry's namespace, key and value, at most.
LINE_BYTES_MORE = 80


class Line(Struct, frozen=True):
    """A value that was set, or the deletion of one."""

    key: tuple[str, str]  # namespace, key
    value: bytes | None  # in canonical form; None: a deletion
    set_at: int = 0  # microseconds
    ttl_seconds: float | None = None

    @property
    def ends_at(self) -> int:
        """The last microsecond at which it has not expired."""
        assert self.ttl_seconds is not None
        return self.set_at + floor(min(self.ttl_seconds, TTL_SECONDS_MAX) * 1_000_000)

    def has_expired(self, now: int) -> bool:
        return self.ttl_seconds is not None and now > self.ends_at


class CacheFile:
    """A file that this host holds. What fails leaves the file as it was."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()
        self._process = os.getpid()
        self._failure: Unavailable | None = None  # of a write that left a part of a line
        self._descriptor = -1
        try:
            self._descriptor = _held(self._path)
        except OSError as error:
            raise self._told("cannot open", error) from error
        self._size = 0

    def lines(self) -> Iterator[Line]:
        """Yield what the file tells, and cut off a torn end; Corrupt when it is no cache."""
        try:
            yield from self._read()
        except OSError as error:
            self.close()
            raise self._told("cannot read", error) from error
        except BaseException:
            self.close()
            raise

    def _read(self) -> Iterator[Line]:
        with open(self._descriptor, "rb", closefd=False) as file:
            header = file.readline(len(_HEADER))
            if header != _HEADER:
                if file.read(1) or not _HEADER.startswith(header):
                    self._foreign("it begins with something else")
                self._size = 0
                self._begin()
                return
            self._size = len(_HEADER)
            while data := file.readline(CACHE_LINE_BYTES_MAX):
                if not data.endswith(b"\n") and not file.read(1):
                    break  # torn
                if not _is_whole(data):
                    self._foreign(f"the line at byte {self._size:,} was changed")
                yield self._parsed(data)
                self._size += len(data)
        os.ftruncate(self._descriptor, self._size)

    def _begin(self) -> None:
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, _HEADER, 0)
        self._size = len(_HEADER)

    def _parsed(self, data: bytes) -> Line:
        try:
            told = decode(data[9:-1], depth_max=DEPTH_MAX + 1)
            if told[0] == "delete" and len(told) == 3:
                return Line(_key(told), None)
            kind, _, _, value, set_at, ttl = told
            if kind == "set" and type(set_at) is int and (ttl is None or ttl > 0):
                return Line(_key(told), canonical(value), set_at, ttl)
        except (InvalidValue, ValueError, TypeError, KeyError, IndexError):
            pass
        self._foreign(f"the line at byte {self._size:,} says nothing that a cache says")

    def append(self, gone: Iterable[tuple[str, str]], line: Line | None) -> None:
        """Write that entries have gone, and that one was set; all of it, or nothing."""
        if self._failure is not None:
            raise self._failure
        data = b"".join(_encoded(Line(key, None)) for key in gone)
        data += b"" if line is None else _encoded(line)
        try:
            _write(self._descriptor, data, self._size)
        except OSError as error:
            self._undo()
            raise self._told("cannot write", error) from error
        self._size += len(data)

    def _undo(self) -> None:
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError as error:
            self._failure = self._told("cannot mend", error)

    def is_mostly_waste(self, used_bytes: int) -> bool:
        return self._size > 2 * used_bytes + CACHE_FILE_BYTES_SPARE

    def rewrite(self, lines: Iterable[Line]) -> None:
        """Put a new file with only these lines in its place; a failure leaves the old one."""
        draft = self._path.with_name(f".{self._path.name}{_DRAFT_ENDING}")
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(draft, flags, 0o600)
            try:
                # Held before it has the name, so that nobody comes between.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                size = _write(descriptor, _HEADER, 0)
                for line in lines:
                    size += _write(descriptor, _encoded(line), size)
                os.fsync(descriptor)
                draft.replace(self._path)
            except BaseException:
                os.close(descriptor)
                with suppress(OSError):
                    draft.unlink()
                raise
        except OSError:
            return  # it is tried again with the next line
        os.close(self._descriptor)
        self._descriptor, self._size = descriptor, size

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            if os.getpid() == self._process:
                # A fork of this process may have the same descriptor for longer.
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def _told(self, what: str, error: OSError) -> Unavailable:
        return system_failure(f"{what} the cache {self._path}", error, self._path)

    def _foreign(self, reason: str) -> NoReturn:
        raise Corrupt(
            f"{self._path} is no cache of a host: {reason}; it is left alone, name another file",
            path=str(self._path),
        )


def _held(path: Path) -> int:
    """Return the descriptor of a file that no other host holds; it is made where there is none."""
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder; name a file for the cache", path=str(path))
    for _ in range(LOOKS_MAX):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            raise NotFound(f"there is no folder {path.parent}; make it", path=str(path)) from None
        try:
            _hold(descriptor, path)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except FileNotFoundError:
            pass  # it was replaced, or removed, before it was held
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise Busy(f"others keep replacing {path}; try again", path=str(path))


def _hold(descriptor: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise Corrupt(f"{path} is no plain file; name another one", path=str(path))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Busy(
            f"another host has the cache {path}; close that host, or name another file",
            path=str(path),
        ) from None


def _encoded(line: Line) -> bytes:
    names = canonical(list(line.key))[1:-1]
    if line.value is None:
        body = b'["delete",%b]' % names
    else:
        life = canonical([line.set_at, line.ttl_seconds])[1:-1]
        body = b'["set",%b,%b,%b]' % (names, line.value, life)
    return b"%08x %b\n" % (crc32(body), body)


def _is_whole(data: bytes) -> bool:
    return data[:9] == b"%08x " % crc32(data[9:-1])


def _key(told: list[Json]) -> tuple[str, str]:
    namespace, key = told[1:3]
    if type(namespace) is not str or type(key) is not str:
        raise TypeError("names are texts")
    return namespace, key


def _write(descriptor: int, data: bytes, place: int) -> int:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, place)
        rest, place = rest[written:], place + written
    return len(data)
