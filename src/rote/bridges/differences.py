"""Decisions of an import about each record, made before anything is written.

    new        the store does not have it, or has it expired: it is written
    changed    the store has another, which is not newer: it is replaced
    unchanged  the store has the same
    outdated   the store had the same before; the later state stays
    newer      the store has a newer one and never had this one: the import is refused

`overwrite` writes the last two as well. A note has no times: the store's record counts as newer when
somebody else has written to it since the import.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from msgspec import Struct

from rote.bridges.batches import Checked
from rote.bridges.named import first_named
from rote.bridges.past import last_put, was, without_touches
from rote.bridges.validator import key_in, normal_times
from rote.contract import State
from rote.errors import InvalidInput
from rote.records.envelope import CARRIED, Envelope, life_of, read_record, record_of
from rote.records.memory import Memory
from rote.values import Encoded, Json, canonical, micros_of
from rote.values.limits import NAMED_IN_ERROR_MAX, PAGE_MAX

NEW, CHANGED, UNCHANGED, OUTDATED, NEWER = "new", "changed", "unchanged", "outdated", "newer"
_TIMES: tuple[str, ...] = ("/created_at", "/updated_at")


class Difference(Struct, frozen=True, gc=False):
    """A record of a file, compared with the one in the store."""

    item: Checked
    outcome: str
    version: int  # of the entity in the store
    there: Envelope | None  # the living record in the store
    has_expired: bool  # the record of the file, so that nobody will see it
    value: Envelope | Encoded | None = None  # the value to write; None when nothing is written
    stamp: tuple[str, ...] = ()

    @property
    def operation(self) -> dict[str, Any]:
        stamp = {"stamp": list(self.stamp)} if self.stamp else {}
        return {"op": "set", "id": self.item.entity, "value": self.value, **stamp}

    @property
    def read(self) -> dict[str, Any]:
        return {"id": self.item.entity, "version": self.version}


class Counts(Struct, frozen=True, gc=False):
    """Numbers of records by the decision of the import."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    outdated: int = 0
    newer: int = 0
    written: int = 0  # or would be, in a dry run
    expired: int = 0  # records that nobody will see

    @property
    def records(self) -> int:
        return self.new + self.changed + self.unchanged + self.outdated + self.newer

    @staticmethod
    def of(found: list[Difference]) -> "Counts":
        return Counts(
            **Counter(difference.outcome for difference in found),
            written=sum(difference.value is not None for difference in found),
            expired=sum(difference.has_expired for difference in found),
        )

    def plus(self, other: "Counts") -> "Counts":
        names = self.__struct_fields__
        return Counts(*(getattr(self, name) + getattr(other, name) for name in names))

    def to_dict(self) -> dict[str, int]:
        return {
            "records": self.records,
            **{name: getattr(self, name) for name in self.__struct_fields__},
        }


def differences(
    memory: Memory, incoming: dict[str, Checked], *, overwrite: bool
) -> Iterator[Difference]:
    """Return the difference of each incoming record, in their order."""
    now = micros_of(memory.space.now)
    ids = iter(incoming)
    while some := list(islice(ids, PAGE_MAX)):
        for state in memory.space.read_many(some):
            item = incoming[state.id]
            judge = _judge_note if item.timeless else _judge
            yield judge(memory, item, state, now, overwrite)


def none_newer(compared: Iterable[Difference]) -> Iterator[Difference]:
    """Return the differences; InvalidInput names the newer records that would be replaced."""
    newer: list[Difference] = []
    for difference in compared:
        if difference.outcome == NEWER:
            newer.append(difference)
            if len(newer) > NAMED_IN_ERROR_MAX:
                break  # enough to act on, and each has cost a look into the past
        yield difference
    if newer:
        told = first_named(list(map(_told_newer, newer)), separator="; ", more="and more")
        raise InvalidInput(
            f"what is there is newer than the file, and stays: {told};"
            " export it to another folder to see it, bring both together in this file, and import it"
            " with --overwrite",
            code="record_is_newer",
            places=[difference.item.place for difference in newer[:NAMED_IN_ERROR_MAX]],
        )


def _told_newer(difference: Difference) -> str:
    """Return words for a record that is newer than the file."""
    record = difference.item.record
    key = " ".join(map(str, key_in(record)))
    there = difference.there
    assert there is not None
    if difference.item.timeless:
        words = "others have written to it"
    else:
        words = f"there {there['updated_at']}, in the file {record['updated_at']}"
    return f"{difference.item.place} ({key:.200}: {words})"


def _judge(memory: Memory, item: Checked, state: State, now: int, overwrite: bool) -> Difference:
    """Compare a record that has times."""
    life = item.life
    assert life is not None
    has_expired = life.has_expired(now)
    if state.exists and canonical(state.value) == item.data:
        return Difference(item, UNCHANGED, state.version, None, has_expired)
    there = _living(state, now)
    known = None if there is None else life_of(there)
    if there is None or known is None:
        outcome = NEW
    elif known.updated_at < life.updated_at or canonical(normal_times(there)) == item.data:
        outcome = CHANGED
    elif not overwrite and was(memory.space, item.entity, item.record, newest=there):
        outcome = OUTDATED  # even with equal times: a touch keeps updated_at, and a put may
    else:
        outcome = NEWER if known.updated_at > life.updated_at else CHANGED
    is_written = outcome in (NEW, CHANGED) or overwrite
    value = Encoded(item.data) if is_written else None
    return Difference(item, outcome, state.version, there, has_expired, value)


def _judge_note(
    memory: Memory, item: Checked, state: State, now: int, overwrite: bool
) -> Difference:
    """Compare a note; the last import tells whether the file or the store has changed since."""
    there = _living(state, now)
    record = item.record

    def outcome(name: str, *, written: bool) -> Difference:
        value, stamp = record, _TIMES
        if there is not None:
            value, stamp = {**value, "created_at": there["created_at"]}, stamp[1:]
        return Difference(
            item, name, state.version, there, False, value if written else None, stamp
        )

    if there is None:
        return outcome(NEW, written=True)
    if _same(item, there, record):
        return outcome(UNCHANGED, written=False)
    before = _imported(memory, item.entity, record)
    if before is None and _begins_with(there["payload"], record["payload"]):
        return outcome(UNCHANGED, written=False)
    if before is not None and _same(item, before, there):
        return outcome(CHANGED, written=True)
    if before is not None and _same(item, before, record):
        return outcome(OUTDATED, written=False)
    return outcome(NEWER, written=overwrite)


def _living(state: State, now: int) -> Envelope | None:
    there = record_of(state)
    life = None if there is None else life_of(there)
    return None if life is None or life.has_expired(now) else there


def _imported(memory: Memory, entity: str, record: Envelope) -> Envelope | None:
    """Return the record that the last import of notes wrote; None when others wrote last."""
    found = read_record(entity, last_put(memory.space, entity))
    metadata = None if found is None else found[0]["metadata"]
    if found is None or metadata is None or record["metadata"] is None:
        return None
    # Where the front matter gave another source, `file` tells that it was an import.
    is_import = metadata.get("source") == record["metadata"]["source"] or "file" in metadata
    return found[0] if is_import else None


def _same(item: Checked, left: Envelope, right: Envelope) -> bool:
    """Whether two states of a record are the same, as far as the file says anything of it."""
    return canonical(_said(item, left)) == canonical(_said(item, right))


def _said(item: Checked, record: Envelope) -> Json:
    if not item.whole:
        return record["payload"]
    metadata = without_touches(record)["metadata"]
    return [record["payload"], metadata, *(record.get(name) for name in CARRIED)]


def _begins_with(there: dict[str, Any], payload: dict[str, Any]) -> bool:
    """Whether the record in the store is the payload, or the payload with more entries."""
    entries, wanted = there.get("entries"), payload.get("entries")
    if type(entries) is list and type(wanted) is list:
        there = {**there, "entries": entries[: len(wanted)]}
    return canonical(there) == canonical(payload)
