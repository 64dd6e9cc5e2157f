"""The past of a record: a file that holds a past state can be replaced, and is not imported."""

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
    """Whether an envelope is the present or a past state of a record, as far as history goes back.

    newest  the present state of the record
    """
    return _is_before_touches(record, newest) or _is_in_history(space, entity, record)


def last_put(space: Space, entity: str) -> dict[str, Any] | None:
    """Return the value that was last set as a whole; patches may have changed it since."""
    for fact in space.facts(entity):
        if fact.op != "patch":
            body = fact.body
            return body if type(body) is dict else None
    return None


def _is_before_touches(record: Envelope, newest: Envelope) -> bool:
    """Whether only touches lie between the two. Each touch raises the count, so no history is needed,
    and a compaction changes nothing."""
    return _count(record) < _count(newest) and (
        _normal(without_touches(record)) == _normal(without_touches(newest))
    )


def _is_in_history(space: Space, entity: str, record: Envelope) -> bool:
    wanted = _normal(record)
    # Puts and appends store the time of their commit in `updated_at`, touches in `last_accessed`.
    # Imports store neither, but they are sets, which the loop below compares.
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
        return False  # the point was compacted away, is no time, or lies after the view
    return state.exists and _normal(state.value) == wanted


def _count(record: Envelope) -> int:
    count = _metadata(record).get("access_count")
    return count if type(count) is int else 0


def without_touches(record: Envelope) -> Envelope:
    if type(record["metadata"]) not in (dict, type(None)):
        return record
    kept = {name: value for name, value in _metadata(record).items() if name not in _TOUCHED}
    return {**record, "metadata": kept}


def _metadata(record: Envelope) -> dict[str, Any]:
    """Return the metadata of a record; in an unchecked file it may be anything, which counts as none."""
    metadata = record["metadata"]
    return metadata if type(metadata) is dict else {}


def _normal(value: Json) -> bytes:
    """Return the bytes to compare a value by: old imports stored times in the form of the file."""
    if type(value) is dict and all(instant_of(value.get(name)) is not None for name in TIMES):
        value = normal_times(value)
    return canonical(value)
