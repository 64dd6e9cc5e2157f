"""What a record was: a file that says no more than this can be replaced, and need not be taken."""

from typing import Any

from rote.bridges.validator import TIMES, normal_times
from rote.errors import Compacted, InvalidInput
from rote.records.envelope import Envelope
from rote.records.metadata import instant_of
from rote.space import Space
from rote.values import Json, canonical
from rote.values.limits import RECORD_PAST_MAX

_TOUCHED = ("access_count", "last_accessed")


def was(space: Space, entity: str, record: Envelope, *, newest: Envelope) -> bool:
    """Whether an envelope is what a record is, or was once, as far as that can still be told.

    newest  what the record is now
    """
    return _is_before_touches(record, newest) or _is_in_history(space, entity, record)


def last_put(space: Space, entity: str) -> dict[str, Any] | None:
    """What was last written to an entity as a whole; patches may have changed it since."""
    for fact in space.facts(entity):
        if fact.op != "patch":
            body = fact.body
            return body if type(body) is dict else None
    return None


def _is_before_touches(record: Envelope, newest: Envelope) -> bool:
    """Whether only touches lie between the two: each raises the count. No history is asked, so a
    compaction changes nothing."""
    return _count(record) < _count(newest) and (
        _normal(_without_touches(record)) == _normal(_without_touches(newest))
    )


def _is_in_history(space: Space, entity: str, record: Envelope) -> bool:
    wanted = _normal(record)
    # Puts and appends leave the time of their commit in the one, touches in the other; imports do
    # not, but they are sets.
    for time in (record["updated_at"], _metadata(record).get("last_accessed")):
        if type(time) is str and _is_at(space, entity, time, wanted):
            return True
    replays_left = RECORD_PAST_MAX
    for fact in space.facts(entity):
        if fact.op == "set" and (fact.data == wanted or _normal(fact.body) == wanted):
            return True
        if fact.op == "patch" and replays_left:
            replays_left -= 1
            if _is_at(space, entity, fact.version, wanted):
                return True
    return False


def _is_at(space: Space, entity: str, point: int | str, wanted: bytes) -> bool:
    try:
        state = space.at(point).read(entity)
    except (Compacted, InvalidInput):
        return False  # it is gone, no time, or after the view that is asked
    return state.exists and _normal(state.value) == wanted


def _count(record: Envelope) -> int:
    count = _metadata(record).get("access_count")
    return count if type(count) is int else 0


def _without_touches(record: Envelope) -> Envelope:
    if type(record["metadata"]) not in (dict, type(None)):
        return record
    kept = {name: value for name, value in _metadata(record).items() if name not in _TOUCHED}
    return {**record, "metadata": kept}


def _metadata(record: Envelope) -> dict[str, Any]:
    """That of a record; in a file that nobody has checked yet it may be anything."""
    metadata = record["metadata"]
    return metadata if type(metadata) is dict else {}


def _normal(value: Json) -> bytes:
    """A value to compare: imports once stored the times of a record in the form of the file."""
    if type(value) is dict and all(instant_of(value.get(name)) is not None for name in TIMES):
        value = normal_times(value)
    return canonical(value)
