"""Rows of the index: the memories that a change of a record has made, changed or ended.

A record is one memory with the number 0, or one for each of its entries, numbered from 1. A change
gives a row for each memory that is otherwise than before, and a row without a memory for each that is
no more. So the newest row of a memory on a line tells what it is there.

The entries of a record have their metadata in common, and expire together; each append may change
both. So these are not in their rows but in one of the number 0, the head, which is no memory. Only
tags are in all of them, because they are words.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from rote.contract.index import Change
from rote.patch import Operation, parse_pointer
from rote.questions import NormalTags, NormalTimes
from rote.records.envelope import Envelope, read_record, text_of
from rote.records.metadata import tags_of
from rote.retrieval.details import Details
from rote.retrieval.spaces import entry_text, entry_time, entry_words, record_time
from rote.values import Json, canonical
from rote.values.limits import INTEGER_MAX, KINDS_REMEMBERED

NEVER = INTEGER_MAX  # the last instant of what does not expire
_THREAD, _TURN = "thread", "turn"
_ENTRIES = ("payload", "entries")
_MEMBERS = (str, int, float, bool)  # of metadata that a filter can ask for
_Entries = list[Json]


class Memory(Struct, frozen=True, array_like=True, gc=False):
    """A memory, as the index sees it."""

    text: str
    tags: tuple[str, ...]  # normal
    instant: int
    thread: str | None = None
    turn: int | float | None = None


class Row(Struct, frozen=True, array_like=True, gc=False):
    """A memory, or none.

    number 0     a record that is one memory. Without a memory and with details: the head of a record
                 with entries. Without both: there is neither
    above 0      an entry, in the thread of its record, at the turn of its number
    """

    number: int
    memory: Memory | None
    # With the number 0: namespace, kind, tags, and metadata that filters know but thread and turn.
    details: str | None = None
    expires: int = NEVER  # and the last instant, of the record or of all its entries


def rows_of(change: Change) -> Iterator[Row]:
    """Yield the rows of a change."""
    before, after = _Record.read(change.id, change.before), _Record.read(change.id, change.after)
    head = after.head()
    if head is not None and before.head() != head:
        yield head
    elif head is None and before.record is not None:
        yield Row(0, None)
    old, new = before.entries or (), after.entries or ()
    is_alike = after.entries is not None and before.tags == after.tags
    for number in _numbers(change.operations if is_alike else None, len(old), len(new)):
        last = old[number - 1] if number <= len(old) else None
        entry = new[number - 1] if number <= len(new) else None
        if type(entry) is dict:
            if not (is_alike and type(last) is dict and _are_alike(last, entry)):
                yield Row(number, after.entry(entry))
        elif type(last) is dict:
            yield Row(number, None)


def _numbers(operations: Sequence[Operation] | None, before: int, after: int) -> Iterable[int]:
    """Return the numbers of entries that may be others, of so many before and after."""
    count = max(before, after)
    if operations is None:
        return range(1, count + 1)
    first = before  # all from this place on may have moved
    edited: set[int] = set()
    for operation in operations:
        for tokens, is_moving in _written(operation):
            if tokens[:2] != _ENTRIES[: len(tokens)]:
                continue
            token = tokens[2] if len(tokens) > 2 else "0"
            if token == "-":
                continue  # behind all that were there
            place = int(token)
            if is_moving and len(tokens) <= 3:
                first = min(first, place)
            else:
                edited.add(place)
    numbers = sorted(place + 1 for place in edited if place < first)
    return (*numbers, *range(first + 1, count + 1))


def _written(operation: Operation) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield the paths that an operation writes, and whether others move at their end."""
    name, path = operation["op"], parse_pointer(operation["path"])
    if name == "splice":
        if operation["add"] or operation["remove"]:
            yield (*path, str(operation["index"])), True
    elif name != "test":
        yield path, name != "replace" or len(path) <= 2
    if name == "move":
        yield parse_pointer(operation["from"]), True


class _Record:
    """A record, or nothing."""

    def __init__(self, record: Envelope | None, expires: int) -> None:
        self.record = record
        self.expires = expires
        self.entries: _Entries | None = None
        self.tags: tuple[str, ...] = ()
        self._details = ""
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
        is_plain = not (self.tags or rest)
        self._details = _plain_details(*names) if is_plain else _details(*names, self.tags, rest)

    @staticmethod
    def read(id: str, value: Json | UnsetType) -> "_Record":
        found = None if value is UNSET else read_record(id, value)
        if found is None:
            return _NOTHING
        expires = found[1].expires
        return _Record(found[0], NEVER if expires is None else min(expires, NEVER))

    def head(self) -> Row | None:
        """Return the row with the number 0; None without a record."""
        record = self.record
        if record is None:
            return None
        if self.entries is not None:
            return Row(0, None, self._details, self.expires)
        text, instant = text_of(record["payload"]), _TIMES[record_time(record)][0]
        memory = Memory(text, self.tags, instant, self._thread, self._turn)
        return Row(0, memory, self._details, self.expires)

    def entry(self, entry: dict[str, Json]) -> Memory:
        return Memory(entry_text(entry), self.tags, _TIMES[entry_time(entry)][0])


def _details(namespace: str, kind: str, tags: tuple[str, ...], metadata: Mapping[str, Json]) -> str:
    return canonical([namespace, kind, list(tags), dict(metadata)]).decode()


@lru_cache(maxsize=KINDS_REMEMBERED)
def _plain_details(namespace: str, kind: str) -> str:
    """Return the details of records without metadata, which most records of a kind share."""
    return _details(namespace, kind, (), {})


# Only for the speed: their results do not depend on what they have seen.
_TIMES, _TAGS = NormalTimes(), NormalTags()
_NOTHING = _Record(None, NEVER)


def _are_alike(old: dict[str, Json], new: dict[str, Json]) -> bool:
    """Whether two entries of records with the same tags are the same memory."""
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
