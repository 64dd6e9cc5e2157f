"""Rows of the index: the memories that a change of a record has made, changed or ended.

A record is one memory with the number 0, or one for each of its entries, numbered from 1. A change
gives a row for each memory that is otherwise than before, and a row without a memory for each that is
no more. So the newest row of a memory on a line tells what it is there.

The entries of a record expire together, and each write of the record moves that time. So it is not in
their rows but in one of the number 0, which is no memory.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from rote.contract.index import Change
from rote.questions import NormalTags, NormalTimes
from rote.records.envelope import Envelope, read_record, text_of
from rote.records.metadata import tags_of
from rote.retrieval.details import Details
from rote.retrieval.spaces import entry_text, entry_time, entry_words, record_time
from rote.values import Json, canonical
from rote.values.limits import INTEGER_MAX

NEVER = INTEGER_MAX  # the last instant of what does not expire
_THREAD, _TURN = "thread", "turn"
_MEMBERS = (str, int, float, bool)  # of metadata that a filter can ask for
_Entries = list[Json]


class Memory(Struct, frozen=True, gc=False):
    """A memory, as the index sees it."""

    text: str
    tags: tuple[str, ...]  # normal
    instant: int
    details: str  # namespace, kind, tags, and metadata that filters know but the two below
    thread: str | None = None
    is_entry: bool = False  # in the thread of its record, at the turn of its number
    turn: int | float | None = None


class Row(Struct, frozen=True, gc=False):
    number: int
    memory: Memory | None  # None: there is no such memory any more
    expires: int = NEVER  # its last instant; without a memory that of all entries of the record


def rows_of(change: Change) -> Iterator[Row]:
    """Yield the rows of a change."""
    before, after = _Record.read(change.id, change.before), _Record.read(change.id, change.after)
    old, new = before.entries, after.entries
    if after.record is not None and new is None:
        memory = after.whole()
        if old is not None or before.whole() != memory or before.expires != after.expires:
            yield Row(0, memory, after.expires)
    elif (before.record is not None and old is None) or before.life != after.life:
        yield Row(0, None, after.life)
    is_alike = old is not None and new is not None and before.details == after.details
    for number, entry in enumerate(new or (), 1):
        last = old[number - 1] if old is not None and number <= len(old) else None
        if type(entry) is dict:
            if not (is_alike and type(last) is dict and _are_alike(last, entry)):
                yield Row(number, after.entry(entry))
        elif type(last) is dict:
            yield Row(number, None)
    if old is not None:
        for number in range(len(new or ()) + 1, len(old) + 1):
            if type(old[number - 1]) is dict:
                yield Row(number, None)


class _Record:
    """A record, or nothing."""

    def __init__(self, record: Envelope | None, expires: int) -> None:
        self.record = record
        self.expires = expires
        self.entries: _Entries | None = None
        self.tags: tuple[str, ...] = ()
        self.details = ""
        self._thread: str | None = None
        self._turn: int | float | None = None
        if record is None:
            return
        entries = record["payload"].get("entries")
        if type(entries) is list:
            self.entries = entries
        metadata = record["metadata"]
        rest: dict[str, Json] = {}
        if metadata:
            self.tags = _TAGS[tuple(tags_of(metadata))]
            rest, self._thread, self._turn = _parted(metadata)
            if self.entries is not None:
                rest = {name: rest[name] for name in rest if name not in (_THREAD, _TURN)}
        names = record["namespace"], record["record_kind"]
        self.details = canonical([*names, list(self.tags), rest]).decode()

    @staticmethod
    def read(id: str, value: Json | UnsetType) -> "_Record":
        found = None if value is UNSET else read_record(id, value)
        if found is None:
            return _NOTHING
        expires = found[1].expires
        return _Record(found[0], NEVER if expires is None else min(expires, NEVER))

    @property
    def life(self) -> int:
        """Return the last instant of all entries."""
        return NEVER if self.entries is None else self.expires

    def whole(self) -> Memory | None:
        record = self.record
        if record is None:
            return None
        return Memory(
            text_of(record["payload"]),
            self.tags,
            _TIMES[record_time(record)][0],
            self.details,
            self._thread,
            False,
            self._turn,
        )

    def entry(self, entry: dict[str, Json]) -> Memory:
        instant = _TIMES[entry_time(entry)][0]
        return Memory(entry_text(entry), self.tags, instant, self.details, None, True)


# Only for the speed: their results do not depend on what they have seen.
_TIMES, _TAGS = NormalTimes(), NormalTags()
_NOTHING = _Record(None, NEVER)


def _are_alike(old: dict[str, Json], new: dict[str, Json]) -> bool:
    """Whether two entries of records with the same details are the same memory."""
    # Equal texts are the same in every form; numbers are not, and only a canonical entry shows them.
    return old == new and (entry_words(new) is not None or canonical(old) == canonical(new))


def _parted(
    metadata: Mapping[str, Json],
) -> tuple[dict[str, Json], str | None, int | float | None]:
    """Return the metadata that can be asked for without thread and turn, and these where they count."""
    rest = {name: value for name, value in metadata.items() if type(value) in _MEMBERS}
    details = Details(metadata=rest)
    thread, turn = details.thread, None
    if thread is not None:
        del rest[_THREAD]
    given: Any = rest.get(_TURN)
    if type(given) is int or (type(given) is float and given.is_integer()):
        # One form for each number, so that equal ones are kept once.
        turn = int(given) if abs(given) <= INTEGER_MAX else given
        del rest[_TURN]
    return rest, thread, turn
