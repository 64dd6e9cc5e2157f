"""The arguments of writing verbs: keys, conditions on versions, corrections, records to put."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from rote.contract import Glance
from rote.errors import Conflict, InvalidInput, LimitExceeded, ReadConflict
from rote.patch import Operation, apply, format_pointer, normalize, parse_pointer
from rote.records.envelope import Envelope, Life, check_object, check_ttl, envelope
from rote.records.metadata import Metadata, check_metadata
from rote.values import Json, canonical

TIMES = ["/created_at", "/updated_at"]
_PAYLOAD, _METADATA, _TTL = "/payload", "/metadata", "/ttl_seconds"
_IN_PAYLOAD = "_metadata"  # the member of a payload that is copied to the metadata
_RECORD = ("namespace", "record_kind", "record_id", "payload", "ttl_seconds", "metadata")
_CHANGES = ("payload", "patch", "metadata", "ttl_seconds")
_REQUIRED = _RECORD[:4]


class Keyed(Struct, frozen=True):
    """A call of a writing verb, and the key that stands for it."""

    key: str
    call: dict[str, Any]
    ids: tuple[str, ...]  # that it writes


def keyed(key: str, verb: str, ids: Sequence[str], **arguments: Any) -> Keyed:
    """Return the call that a key stands for; arguments that are UNSET are left out."""
    given = {name: value for name, value in arguments.items() if value is not UNSET}
    return Keyed(key, {"name": f"memory.{verb}", "ids": list(ids), **given}, tuple(ids))


def check_if_version(if_version: Any) -> None:
    if if_version is not None and (type(if_version) is not int or if_version < 0):
        raise InvalidInput(
            "if_version is the version in which the record was last written, or 0 for none",
            argument="if_version",
        )


def refusal(
    entity: str, branch: str, seen: Glance, if_version: int, *, is_there: bool
) -> Conflict | None:
    """Return the conflict of a write that relies on another version of the record; None when it holds.

    It is returned because nothing is gained by another attempt.
    """
    if seen.exists and seen.version == 0:
        raise InvalidInput(
            "this record was written in the same block, and its version comes with the commit;"
            " leave if_version",
            argument="if_version",
        )
    actual = seen.version if is_there else 0
    if actual == if_version:
        return None
    found = ReadConflict.of_entity(
        entity, branch=branch, expected_version=if_version, actual=(actual, seen.hash)
    )
    return Conflict((found,))


class Correction(Struct, frozen=True):
    """The arguments of an update; members that are UNSET leave the record's own as they are."""

    payload: dict[str, Any] | UnsetType
    patch: list[Operation] | UnsetType
    metadata: Metadata | UnsetType | None  # members by name; None in the place of one removes it
    ttl_seconds: int | UnsetType | None

    @property
    def wanted(self) -> tuple[str, ...]:
        """The pointers whose values `operations` needs."""
        return (_METADATA, _PAYLOAD) if self._moves_metadata else (_METADATA,)

    @property
    def _moves_metadata(self) -> bool:
        """Whether the patch may change the metadata that stands in the payload."""
        if self.patch is UNSET or self.metadata is not UNSET:
            return False
        return any(
            parse_pointer(path)[:1] in ((), (_IN_PAYLOAD,))
            for operation in self.patch
            for path in _written_paths(operation)
        )

    def operations(self, metadata: Json, payload: Json = None) -> list[dict[str, Any]]:
        """Return the patch of the envelope, for a record with this metadata and payload."""
        made: list[dict[str, Any]] = []
        if self.payload is not UNSET:
            made.append(_add(_PAYLOAD, self.payload))
            made += self._copied(self.payload)
        if self.patch is not UNSET:
            made += [_below_payload(operation) for operation in self.patch]
            if self._moves_metadata:
                made += self._copied(apply(payload, self.patch))
        if self.ttl_seconds is not UNSET:
            made.append(_add(_TTL, self.ttl_seconds))
        if self.metadata is None:
            made.append(_add(_METADATA, None))
        elif self.metadata is not UNSET:
            made += _changed_members(metadata if type(metadata) is dict else None, self.metadata)
        return made

    def _copied(self, payload: Json) -> list[dict[str, Any]]:
        """Return the operation that takes over metadata of the payload, as put does."""
        if self.metadata is not UNSET or type(payload) is not dict or _IN_PAYLOAD not in payload:
            return []
        return [_add(_METADATA, check_metadata(payload[_IN_PAYLOAD], "payload._metadata"))]


def _written_paths(operation: Mapping[str, Any]) -> list[str]:
    """Return the pointers at which an operation of a patch changes a value."""
    if operation["op"] == "test":
        return []
    ends = ("path", "from") if operation["op"] == "move" else ("path",)
    return [operation[end] for end in ends]


def check_changes(changes: Any) -> dict[str, Any]:
    """Return the changes of an update that come as one object."""
    given = check_object(changes, "changes")
    for name in given:
        if name not in _CHANGES:
            raise InvalidInput(
                f"there is no change {name!r:.80}; there are {', '.join(_CHANGES)}",
                argument="changes",
            )
    return given


def parse_correction(payload: Any, patch: Any, metadata: Any, ttl_seconds: Any) -> Correction:
    """Return the checked arguments of an update."""
    if payload is not UNSET and patch is not UNSET:
        raise InvalidInput(
            "payload replaces the payload and patch changes it; give one", argument="patch"
        )
    if payload is patch is metadata is ttl_seconds is UNSET:
        raise InvalidInput("say what to update: payload, patch, metadata or ttl_seconds")
    given = metadata
    if type(metadata) is dict:
        kept = {name: value for name, value in metadata.items() if value is not None}
        given = {**metadata, **(check_metadata(kept) or {})}
    elif metadata is not UNSET:
        given = check_metadata(metadata)
    return Correction(
        UNSET if payload is UNSET else check_object(payload, "payload"),
        UNSET if patch is UNSET else normalize(patch),
        given,
        UNSET if ttl_seconds is UNSET else check_ttl(ttl_seconds),
    )


def _add(path: str, value: Json) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _below_payload(operation: Mapping[str, Any]) -> dict[str, Any]:
    ends = {end: _PAYLOAD + operation[end] for end in ("path", "from") if end in operation}
    return {**operation, **ends}


def _changed_members(before: Metadata | None, members: Metadata) -> list[dict[str, Any]]:
    if before is None:
        kept = {name: value for name, value in members.items() if value is not None}
        return [_add(_METADATA, kept)] if kept else []
    return [
        {"op": "remove", "path": _METADATA + format_pointer((name,))}
        if value is None
        else _add(_METADATA + format_pointer((name,)), value)
        for name, value in members.items()
        if value is not None or name in before
    ]


class NewRecord(Struct, frozen=True):
    """A record to be put."""

    entity: str
    key: tuple[str, str, str]
    payload: dict[str, Any]
    ttl_seconds: int | None
    metadata: Metadata | None

    def as_put(self, life: Life | None) -> tuple[Envelope, list[str]]:
        """Return the envelope and the times that the commit stamps; `life` is that of the record before."""
        created_at = None if life is None else life.created_at
        value = envelope(
            self.key,
            self.payload,
            ttl_seconds=self.ttl_seconds,
            metadata=self.metadata,
            created_at=created_at,
        )
        return value, TIMES if life is None else TIMES[1:]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that a key stands for."""
        return {
            "payload": self.payload, "ttl_seconds": self.ttl_seconds, "metadata": self.metadata,
        }  # fmt: skip


def named(records: Any, parse: Callable[[dict[str, Any]], NewRecord]) -> list[NewRecord]:
    """Return the records of put_many; the error of the first bad one names its index."""
    if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable):
        raise InvalidInput("put_many takes a list of records", argument="records")
    found: dict[str, NewRecord] = {}
    for index, record in enumerate(records):
        try:
            new = parse(check_members(record))
            canonical([new.payload, new.metadata])
            if new.entity in found:
                raise InvalidInput("an earlier record of the list has the same key")
        except (InvalidInput, LimitExceeded) as error:
            details = {**error.details, "index": index}
            raise InvalidInput(f"record {index}: {error}", **details) from None
        found[new.entity] = new
    return list(found.values())


def check_members(record: Any) -> dict[str, Any]:
    """Return a record of put_many; its members are checked where they are used."""
    given = check_object(record, "a record")
    for name in _REQUIRED:
        if name not in given:
            raise InvalidInput(f"{name} is missing", argument=name)
    for name in given:
        if name not in _RECORD:
            raise InvalidInput(
                f"there is no member {name!r:.80}; there are {', '.join(_RECORD)}",
                argument="records",
            )
    return given
