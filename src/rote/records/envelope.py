"""The envelope: a record as it is stored, with its times and its time to live.

Frozen: its members, described in docs/formats/records.md.
"""

from typing import Any

from msgspec import Struct

from rote.contract import State
from rote.errors import InvalidInput
from rote.records.keys import is_key
from rote.records.metadata import Metadata, instant_of
from rote.values import Json, canonical, format_time
from rote.values.limits import TTL_SECONDS_MAX
from rote.values.times import MICROS_MAX

Envelope = dict[str, Any]
SECOND = 1_000_000
FIELDS = (
    "namespace", "record_kind", "record_id", "created_at", "updated_at", "ttl_seconds", "payload",
    "metadata",
)  # fmt: skip
# Objects that an imported record may carry: kept as given, and used by nothing.
CARRIED = ("provenance", "flags")
_FIELDS = frozenset(FIELDS)


class Life(Struct, frozen=True, gc=False):
    """The times of a record: made, last written, and the seconds that it lives from then on."""

    created_at: str
    updated_at: int  # microseconds since the epoch
    ttl_seconds: int | None

    @property
    def expires(self) -> int | None:
        """The last instant at which the record is present; None when it never expires."""
        if self.ttl_seconds is None:
            return None
        return self.updated_at + self.ttl_seconds * SECOND

    def has_expired(self, now: int) -> bool:
        expires = self.expires
        return expires is not None and now > expires


def envelope(
    key: tuple[str, str, str],
    payload: Json,
    *,
    ttl_seconds: int | None,
    metadata: Metadata | None,
    created_at: str | None = None,
) -> Envelope:
    """Return a record to be stored; the commit stamps times that are None."""
    namespace, kind, id = key
    return {
        "namespace": namespace,
        "record_kind": kind,
        "record_id": id,
        "created_at": created_at,
        "updated_at": None,
        "ttl_seconds": ttl_seconds,
        "payload": payload,
        "metadata": metadata,
    }


def record_of(state: State) -> Envelope | None:
    """Return the record in an entity; None when it does not exist or holds something else."""
    found = read_record(state.id, state.value) if state.exists else None
    return None if found is None else found[0]


def read_record(id: str, value: Json) -> tuple[Envelope, Life] | None:
    """Return a value as a record, with its life; None when another program wrote something else."""
    if type(value) is not dict or not has_members(value):
        return None
    if type(value["payload"]) is not dict or type(value["metadata"]) not in (dict, type(None)):
        return None
    if not is_key(id, value["namespace"], value["record_kind"], value["record_id"]):
        return None
    life = life_of(value)
    return None if life is None else (value, life)


def has_members(value: dict[str, Any]) -> bool:
    """Whether an object has the members of a stored envelope, and no others."""
    if value.keys() == _FIELDS:
        return True  # the most frequent case, handled directly because it is faster
    carried = value.keys() & CARRIED
    return value.keys() - carried == _FIELDS and all(type(value[name]) is dict for name in carried)


def life_of(record: Envelope) -> Life | None:
    return read_life(record["created_at"], record["updated_at"], record["ttl_seconds"])


def read_life(created_at: Json, updated_at: Json, ttl_seconds: Json) -> Life | None:
    """Return the life that these values make; None when they are not those of a record."""
    updated = instant_of(updated_at)
    if instant_of(created_at) is None or updated is None:
        return None
    if ttl_seconds is not None and (
        type(ttl_seconds) is not int or not 1 <= ttl_seconds <= TTL_SECONDS_MAX
    ):
        return None
    assert type(created_at) is str
    return Life(created_at, updated, ttl_seconds)


def text_of(payload: dict[str, Json]) -> str:
    """Return the text of a payload: its member `text`, or else all of it as JSON."""
    text = payload.get("text")
    return text if type(text) is str else canonical(payload).decode()


def time_text(micros: int) -> str:
    """Return an instant as text; one beyond the calendar is shown as its end."""
    return format_time(min(micros, MICROS_MAX))


def check_ttl(ttl_seconds: Any, argument: str = "ttl_seconds") -> int | None:
    if ttl_seconds is None:
        return None
    if type(ttl_seconds) is not int or not 1 <= ttl_seconds <= TTL_SECONDS_MAX:
        raise InvalidInput(
            f"{argument} must be an integer from 1 to {TTL_SECONDS_MAX:,}, or null for never",
            argument=argument,
        )
    return ttl_seconds


def check_object(value: Any, argument: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{argument} must be an object", argument=argument)
    return value
