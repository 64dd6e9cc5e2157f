"""What a record was: a file that says no more than this can be replaced, and need not be taken."""

from typing import Any

from rote.bridges.validator import TIMES, normal_times
from rote.errors import Compacted
from rote.records.envelope import Envelope
from rote.records.metadata import instant_of
from rote.space import Space
from rote.values import Json, canonical
from rote.values.limits import RECORD_PAST_MAX


def was(space: Space, entity: str, record: Envelope) -> bool:
    """Whether an envelope is what a record is, or was once, as far as that can still be read."""
    wanted = _normal(record)
    updated_at = record["updated_at"]
    # Puts and appends leave it with the time of their commit; touches and imports do not.
    if instant_of(updated_at) is not None and _is_at(space, entity, updated_at, wanted):
        return True
    for fact in space.history(entity, limit=RECORD_PAST_MAX):
        if fact.op == "set" and (fact.data == wanted or _normal(fact.body) == wanted):
            return True
        if fact.op == "patch" and _is_at(space, entity, fact.version, wanted):
            return True
    return False


def last_put(space: Space, entity: str) -> dict[str, Any] | None:
    """What was last written to an entity as a whole; patches may have changed it since."""
    for fact in space.history(entity, limit=RECORD_PAST_MAX):
        if fact.op != "patch":
            body = fact.body
            return body if type(body) is dict else None
    return None


def _is_at(space: Space, entity: str, point: int | str, wanted: bytes) -> bool:
    try:
        state = space.at(point).read(entity)
    except Compacted:
        return False
    return state.exists and _normal(state.value) == wanted


def _normal(value: Json) -> bytes:
    """A value to compare: imports once stored the times of a record in the form of the file."""
    if type(value) is dict and all(instant_of(value.get(name)) is not None for name in TIMES):
        value = normal_times(value)
    return canonical(value)
