"""Problems of an envelope, each with its place, for people and for imports."""

from collections.abc import Callable, Container, Iterable, Iterator
from functools import partial
from typing import Any

from msgspec import Struct

from rote.errors import InvalidInput, InvalidValue, LimitExceeded
from rote.records.envelope import CARRIED, FIELDS, Envelope, Life, check_object, check_ttl, life_of
from rote.records.keys import entity_id
from rote.records.metadata import check_metadata, instant_of
from rote.records.profiles import V1, V1_1, check_profile
from rote.values import Json, canonical, format_time, parse_time
from rote.values.limits import VALUE_BYTES_MAX

_FIELDS = frozenset(FIELDS)
_MEMBERS = _FIELDS.union(CARRIED)
_REQUIRED = _FIELDS - {"metadata"}
TIMES = ("created_at", "updated_at")
_TIME_CHARACTERS = len("YYYY-MM-DDTHH:MM:SS.ffffffZ")


class Problem(Struct, frozen=True, gc=False):
    """An error keeps a record out; a warning does not."""

    kind: str  # "error" or "warning"
    path: str  # a JSON pointer into the record
    message: str

    def to_dict(self) -> dict[str, Json]:
        return {"kind": self.kind, "path": self.path, "message": self.message}


def validate(record: Json, *, namespaces: Iterable[str], profile: str = V1_1) -> list[Problem]:
    """All problems of one envelope under a profile."""
    check_profile(profile)
    if type(record) is not dict:
        return [Problem("error", "", "a record must be an object")]
    known = tuple(namespaces)
    return [
        *_shape(record, profile),
        *_key(record, known),
        *_times(record),
        *_contents(record, profile),
    ]


def normal_record(
    value: Json, *, namespaces: Container[str], profile: str
) -> tuple[str, Envelope, Life] | None:
    """(entity, envelope in its normal form, life) of an envelope; None when `validate` finds an error
    in it, other than those of `sized`."""
    if type(value) is not dict:
        return None
    if value.keys() != _FIELDS:
        if not _REQUIRED <= value.keys() <= _MEMBERS:
            return None
        value = {name: member for name, member in value.items() if not _is_none(name, member)}
        if any(type(value.get(name, {})) is not dict for name in CARRIED):
            return None
    _, metadata = metadata_in(value)
    try:
        entity = entity_id(*key_in(value))
        checked = check_metadata(metadata) if profile == V1_1 else None
    except (InvalidInput, LimitExceeded):
        return None
    life = life_of(value)
    if value["namespace"] not in namespaces or life is None:
        return None
    if type(value["payload"]) is not dict or (profile == V1 and value.get("metadata") is not None):
        return None
    record = normal_times({**value, "metadata": checked})
    if record["created_at"] != life.created_at:
        life = Life(record["created_at"], life.updated_at, life.ttl_seconds)
    return entity, record, life


def _is_none(name: str, member: Json) -> bool:
    """Whether a member says that the record carries no such object; it is then not stored."""
    return member is None and name in CARRIED


def normal_times(record: Envelope) -> Envelope:
    """Return the record with its RFC 3339 times in the form in which they are stored."""
    if all(map(_is_stored_form, (record["created_at"], record["updated_at"]))):
        return record
    return {**record, **{name: format_time(parse_time(record[name])) for name in TIMES}}


def _is_stored_form(time: str) -> bool:
    # No other RFC 3339 time has this length and these letters.
    return len(time) == _TIME_CHARACTERS and time[10] == "T" and time[-1] == "Z"


def _shape(record: dict[str, Any], profile: str) -> Iterator[Problem]:
    for name in FIELDS:
        if name in _REQUIRED and name not in record:
            yield Problem("error", f"/{name}", f"{name} is missing")
    for name in sorted(str(name) for name in record.keys() - _MEMBERS):
        yield Problem("error", f"/{name}", "an envelope has no such member")
    if profile == V1 and record.get("metadata") is not None:
        yield Problem("error", "/metadata", f"the profile {V1} knows no metadata")


def _key(record: dict[str, Any], namespaces: tuple[str, ...]) -> Iterator[Problem]:
    namespace = record.get("namespace")
    if "namespace" in record and namespace not in namespaces:
        yield Problem("error", "/namespace", no_namespace(namespace, namespaces))
    if "record_kind" in record:
        yield from _told("/record_kind", lambda: entity_id("x", record["record_kind"], "id"))
    if "record_id" in record:
        yield from _told("/record_id", lambda: entity_id("x", "kind", record["record_id"]))


def no_namespace(namespace: Json, namespaces: Iterable[str]) -> str:
    """Return words for a namespace that is none of these."""
    return (
        f"there is no namespace {namespace!r:.80}; there are {', '.join(namespaces)};"
        " name a new one in --namespaces (in Python: of the Memory)"
    )


def _times(record: dict[str, Any]) -> Iterator[Problem]:
    for name in TIMES:
        if name in record and instant_of(record[name]) is None:
            yield from _told(f"/{name}", partial(parse_time, record[name]))
    created, updated = (instant_of(record.get(name)) for name in TIMES)
    if created is not None and updated is not None and updated < created:
        yield Problem("warning", "/updated_at", "it was changed before it was made")
    yield from _told("/ttl_seconds", lambda: check_ttl(record.get("ttl_seconds")))


def _contents(record: dict[str, Any], profile: str) -> Iterator[Problem]:
    if "payload" in record:
        yield from _told("/payload", lambda: check_object(record["payload"], "payload"))
    for name in CARRIED:
        if record.get(name) is not None:
            yield from _told(f"/{name}", partial(check_object, record[name], name))
    if profile == V1_1:
        path, metadata = metadata_in(record)
        yield from _told(path, lambda: check_metadata(metadata))
    yield from _told("", lambda: sized(record))


def key_in(record: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return the key of an envelope; nothing in it is checked."""
    return record.get("namespace"), record.get("record_kind"), record.get("record_id")


def metadata_in(record: dict[str, Any]) -> tuple[str, Json]:
    """(path, value) of the metadata of an envelope; records of v1 may have it in their payload."""
    payload = record.get("payload")
    if "metadata" in record or type(payload) is not dict:
        return "/metadata", record.get("metadata")
    return "/payload/_metadata", payload.get("_metadata")


def sized(record: dict[str, Any]) -> bytes:
    """Return the canonical bytes of a record; LimitExceeded when they are too many to store."""
    data = canonical(record)
    if len(data) > VALUE_BYTES_MAX:
        raise LimitExceeded("the record in bytes", size=len(data), limit=VALUE_BYTES_MAX)
    return data


def _told(path: str, check: Callable[[], object]) -> Iterator[Problem]:
    try:
        check()
    except InvalidValue as error:
        yield Problem("error", error.details["pointer"], error.details["reason"])
    except (InvalidInput, LimitExceeded) as error:
        yield Problem("error", path, str(error))
