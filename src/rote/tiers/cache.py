"""The cache: values that stay warm between the runs of one host, in memory, and in a file if it has one.

An entry leaves when it has expired, when it is deleted, and when others need its room: first the expired
entries go, then those that were used least recently.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from msgspec import Struct

from rote.errors import LimitExceeded, Unavailable
from rote.tiers.cache_file import LINE_BYTES_MORE, CacheFile, Line
from rote.tiers.options import checked_options
from rote.tiers.verbs import Parameter, Verb, table
from rote.values import Encoded, Json, canonical
from rote.values.tier_limits import CACHE_ENTRIES_MAX, CACHE_NAME_BYTES_MAX, CACHE_VALUES_BYTES_MAX


def _is_name(text: str) -> bool:
    return 1 <= len(text.encode()) <= CACHE_NAME_BYTES_MAX


_NAME = {"type": "string", "minLength": 1, "description": "a text of 1 to 1,024 bytes"}
_KEY = (Parameter("namespace", _NAME, check=_is_name), Parameter("key", _NAME, check=_is_name))
_TTL = Parameter(
    "ttl_seconds",
    {"type": ["number", "null"], "exclusiveMinimum": 0, "description": "a number above 0, or null"},
    None,
    check=lambda seconds: seconds is None or seconds > 0,
)
VERBS = table(
    [
        Verb("get", (*_KEY, Parameter("default", {}, None)), writes=False),
        Verb("set", (*_KEY, Parameter("value", {}), _TTL), writes=True, destructive=True),
        Verb("delete", _KEY, writes=True, destructive=True),
    ]
)
_COUNT = {"type": "integer", "minimum": 0}
OPTIONS = (
    Parameter("path", {"type": "string", "minLength": 1}, optional=True),
    Parameter("max_entries", _COUNT, CACHE_ENTRIES_MAX),
    Parameter("max_bytes", _COUNT, CACHE_VALUES_BYTES_MAX),
)
_Key = tuple[str, str]  # namespace, key


class _Entry(Struct, frozen=True):
    line: Line
    size: int  # of canonical [namespace, key, value], in bytes
    number: int  # tells it from entries under the same name before


def open_cache(options: Mapping[str, Any], *, now: Callable[[], int]) -> "Cache":
    """Return the cache of a host; `now` tells the time in microseconds."""
    taken = checked_options("cache", OPTIONS, options)
    return Cache(
        None if taken["path"] is None else CacheFile(taken["path"]),
        entries_max=taken["max_entries"],
        size_bytes_max=taken["max_bytes"],
        now=now,
    )


class Cache:
    """Any thread may call it."""

    name = "cache"
    verbs = VERBS
    switches: Mapping[str, bool] = {}

    def __init__(
        self,
        file: CacheFile | None,
        *,
        entries_max: int,
        size_bytes_max: int,
        now: Callable[[], int],
    ) -> None:
        self._file = file
        self._entries_max = entries_max
        self._size_max = size_bytes_max
        self._now = now
        self._lock = threading.Lock()
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()  # the least recently used first
        self._size = 0
        self._numbers = count()
        self._ends: list[tuple[int, int, _Key]] = []  # a heap; it may tell of entries that are gone
        if file is not None:
            for line in file.lines():
                self._take(line)
            self._write(self._surplus(now()))

    def call(
        self, verb: str, arguments: Mapping[str, Json], granted: Mapping[str, Json], /
    ) -> Json:
        key = (arguments["namespace"], arguments["key"])
        with self._lock:
            if verb == "get":
                return self._get(key, arguments["default"])
            if verb == "set":
                return self._set(key, arguments["value"], arguments["ttl_seconds"])
            is_there = self._living(key) is not None
            if is_there:
                self._write([key])
            return {"ok": True, "deleted": is_there}

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()

    def _get(self, key: _Key, default: Json) -> Json:
        entry = self._living(key)
        if entry is None:
            return {"found": False, "value": default}
        self._entries.move_to_end(key)
        assert entry.line.value is not None
        return Encoded(b'{"found":true,"value":%b}' % entry.line.value)

    def _set(self, key: _Key, value: Json, ttl_seconds: float | None) -> Json:
        data = canonical(value)
        size = _size_of(key, data)
        if size > self._size_max:
            raise _too_large("max_bytes: the entry in bytes", size, self._size_max)
        if self._entries_max == 0:
            raise _too_large("max_entries: the number of entries", 1, 0)
        line = Line(key, data, self._now(), ttl_seconds)
        before = self._entries.get(key)
        gone = self._surplus(
            line.set_at,
            entries=0 if before else 1,
            size=size - (before.size if before else 0),
            kept=key,
        )
        self._write(gone, line)
        return {"ok": True}

    def _living(self, key: _Key) -> _Entry | None:
        """Return an entry. One that has expired leaves for good, should the clock go back, too."""
        entry = self._entries.get(key)
        if entry is not None and entry.line.has_expired(self._now()):
            with suppress(Unavailable):  # a full disk is no reason not to answer
                self._write([key])
            self._drop(key)
            return None
        return entry

    def _surplus(
        self, now: int, *, entries: int = 0, size: int = 0, kept: _Key | None = None
    ) -> list[_Key]:
        """Return the entries that leave when so many more come; none while there is room."""
        entries += len(self._entries)
        size += self._size

        def has_room() -> bool:
            return entries <= self._entries_max and size <= self._size_max

        if has_room():
            return []
        gone = dict.fromkeys(key for key in self._expired(now) if key != kept)
        entries -= len(gone)
        size -= sum(self._entries[key].size for key in gone)
        for key, entry in self._entries.items():
            if has_room():
                break
            if key != kept and key not in gone:
                gone[key] = None
                entries, size = entries - 1, size - entry.size
        return list(gone)

    def _expired(self, now: int) -> Iterator[_Key]:
        while self._ends and self._ends[0][0] < now:
            _, number, key = heappop(self._ends)
            entry = self._entries.get(key)
            if entry is not None and entry.number == number:
                yield key

    def _write(self, gone: list[_Key], line: Line | None = None) -> None:
        """Let entries leave, and take one: first in the file, where it may fail."""
        if self._file is not None and (gone or line is not None):
            self._file.append(gone, line)
        for key in gone:
            self._drop(key)
        if line is not None:
            self._take(line)
        used = self._size + LINE_BYTES_MORE * len(self._entries)
        if self._file is not None and self._file.is_mostly_waste(used):
            self._file.rewrite(entry.line for entry in self._entries.values())

    def _take(self, line: Line) -> None:
        self._drop(line.key)
        if line.value is None:  # the line of a deletion
            return
        size = _size_of(line.key, line.value)
        entry = self._entries[line.key] = _Entry(line, size, next(self._numbers))
        self._size += size
        if line.ttl_seconds is not None:
            heappush(self._ends, (line.ends_at, entry.number, line.key))
            if len(self._ends) > 2 * len(self._entries) + 64:
                self._ends = [
                    (each.line.ends_at, each.number, key)
                    for key, each in self._entries.items()
                    if each.line.ttl_seconds is not None
                ]
                heapify(self._ends)

    def _drop(self, key: _Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size -= entry.size


def _size_of(key: _Key, value: bytes) -> int:
    """Return the bytes of canonical [namespace, key, value]."""
    return len(canonical(list(key))) + len(b",") + len(value)


def _too_large(what: str, size: int, limit: int) -> LimitExceeded:
    return LimitExceeded(what, size=size, limit=limit, advice="cache less, or give it more room")
