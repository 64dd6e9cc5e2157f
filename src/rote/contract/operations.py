"""The operations of a commit: checked, and turned into canonical bytes.

Everything here happens before the write lock is taken and depends on the input alone. Frozen: the
bytes behind `payload_digest`, which stored keys refer to.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from rote.errors import InvalidInput, InvalidValue, LimitExceeded, PatchFailed
from rote.patch import encode_operations, normalize, parse_pointer
from rote.values import Encoded, Json, canonical, check_entity_id, sha256_hex
from rote.values.canonical import quoted
from rote.values.limits import COMMIT_BYTES_MAX, OPERATIONS_MAX, VALUE_BYTES_MAX

# Operations as facts store them.
SET, PATCH, DELETE = 1, 2, 3

# Bytes that a stamp adds to its pointer at most: the operation and the time.
_STAMP_BYTES = 64
_MEMBERS = {
    "set": frozenset({"op", "id", "value", "stamp"}),
    "patch": frozenset({"op", "id", "ops", "else", "stamp", "else_stamp"}),
    "delete": frozenset({"op", "id"}),
}


class Operation(Struct, frozen=True, gc=False):
    """One checked operation."""

    kind: int  # SET, PATCH or DELETE
    id: str
    quoted_id: str  # as JSON
    data: bytes | None = None  # canonical value of a set, canonical operations of a patch
    otherwise: bytes | None = None  # canonical value to set when a patch finds nothing
    stamp: tuple[str, ...] = ()  # pointers that receive the commit's time
    otherwise_stamp: tuple[str, ...] | None = None  # the same for `otherwise`; None: as `stamp`

    def stamp_of_set(self) -> tuple[str, ...]:
        """Return the stamp for a set, or for the value that a patch sets when it finds nothing."""
        return self.stamp if self.otherwise_stamp is None else self.otherwise_stamp


def parse_operations(raw: Sequence[Mapping[str, Any]]) -> list[Operation]:
    """Return the checked operations; raise for the first fault."""
    if type(raw) not in (list, tuple):
        raise InvalidInput("operations must be a list")
    if not raw:
        raise InvalidInput("a commit needs at least one operation")
    if len(raw) > OPERATIONS_MAX:
        raise LimitExceeded(
            "the number of operations",
            size=len(raw),
            limit=OPERATIONS_MAX,
            advice="split the commit",
        )
    return list(map(_parse, range(len(raw)), raw))


def check_size(operations: list[Operation], meta: bytes | None) -> None:
    """Raise LimitExceeded when a commit is too large, with its meta and its stamps."""
    size = 0 if meta is None else len(meta)
    for operation in operations:
        size += len(operation.quoted_id)
        if operation.data is not None:
            size += len(operation.data)
        if operation.otherwise is not None:
            size += len(operation.otherwise)
        if operation.stamp or operation.otherwise_stamp:
            pointers = (*operation.stamp, *(operation.otherwise_stamp or ()))
            size += sum(len(quoted(pointer)) + _STAMP_BYTES for pointer in pointers)
    if size > COMMIT_BYTES_MAX:
        raise LimitExceeded(
            "the commit in bytes", size=size, limit=COMMIT_BYTES_MAX, advice="split the commit"
        )


def payload_digest(branch: str, operations: Sequence[Operation]) -> str:
    """Return the digest of what a key stands for: the operations as sent, and their branch."""
    return sha256_hex(
        b'{"branch":%b,"kind":"commit_payload/1","operations":[%b]}'
        % (quoted(branch).encode(), b",".join(_as_sent(operation) for operation in operations))
    )


def _as_sent(operation: Operation) -> bytes:
    members = []
    if operation.otherwise is not None:
        members.append(b'"else":%b' % operation.otherwise)
    if operation.otherwise_stamp is not None:
        members.append(b'"else_stamp":%b' % canonical(operation.otherwise_stamp))
    members.append(b'"id":%b' % operation.quoted_id.encode())
    if operation.kind == SET:
        members.append(b'"op":"set"')
    elif operation.kind == PATCH:
        members.append(b'"op":"patch","ops":%b' % (operation.data or b""))
    else:
        members.append(b'"op":"delete"')
    if operation.stamp:
        members.append(b'"stamp":%b' % canonical(operation.stamp))
    if operation.kind == SET:
        members.append(b'"value":%b' % (operation.data or b""))
    return b"{%b}" % b",".join(members)


def _parse(index: int, raw: Mapping[str, Any]) -> Operation:
    if type(raw) is not dict:
        raise InvalidInput(f"operation {index} must be an object")
    name: Any = raw.get("op")
    members = _MEMBERS.get(name) if type(name) is str else None
    if members is None:
        raise InvalidInput(f"operation {index}: op must be set, patch or delete, not {name!r:.80}")
    if not raw.keys() <= members:
        unknown = min(str(member) for member in raw.keys() - members)
        raise InvalidInput(f"operation {index}: {name} has no member {unknown!r:.80}")
    id: Any = raw.get("id")
    check_entity_id(id)
    if name == "set" and "value" in raw and "stamp" not in raw:
        # The most frequent operation, handled directly because it is faster.
        return Operation(SET, id, quoted(id), value_bytes(raw["value"]))
    try:
        return _PARSERS[name](raw, id)
    except (InvalidValue, PatchFailed, LimitExceeded):
        raise
    except InvalidInput as error:
        raise InvalidInput(f"operation {index} on {id}: {error}") from None


def _parse_set(raw: Mapping[str, Any], id: str) -> Operation:
    if "value" not in raw:
        raise InvalidInput("set needs a value; use delete to remove an entity")
    data = value_bytes(raw["value"])
    return Operation(SET, id, quoted(id), data, None, _parse_stamp(raw))


def _parse_patch(raw: Mapping[str, Any], id: str) -> Operation:
    if "ops" not in raw:
        raise InvalidInput("patch needs ops, a list of patch operations")
    data = encode_operations(normalize(raw["ops"]))
    if len(data) > VALUE_BYTES_MAX:
        raise LimitExceeded("the patch in bytes", size=len(data), limit=VALUE_BYTES_MAX)
    otherwise = value_bytes(raw["else"]) if "else" in raw else None
    if "else_stamp" in raw and otherwise is None:
        raise InvalidInput("else_stamp stamps the value of else; give else too")
    otherwise_stamp = _parse_stamp(raw, "else_stamp") if "else_stamp" in raw else None
    return Operation(PATCH, id, quoted(id), data, otherwise, _parse_stamp(raw), otherwise_stamp)


def _parse_delete(raw: Mapping[str, Any], id: str) -> Operation:
    return Operation(DELETE, id, quoted(id))


_PARSERS = {"set": _parse_set, "patch": _parse_patch, "delete": _parse_delete}


def _parse_stamp(raw: Mapping[str, Any], member: str = "stamp") -> tuple[str, ...]:
    if member not in raw:
        return ()
    pointers = raw[member]
    if type(pointers) not in (list, tuple):
        raise InvalidInput(f"{member} must be a list of JSON pointers")
    for pointer in pointers:
        if not parse_pointer(pointer):
            raise InvalidInput(f"{member} cannot replace the whole value; name a member")
    return tuple(pointers)


def value_bytes(value: Json | Encoded) -> bytes:
    """Return the canonical bytes of an entity's value; raise LimitExceeded when there are too many."""
    data = value.data if type(value) is Encoded else canonical(value)
    if len(data) > VALUE_BYTES_MAX:
        raise LimitExceeded(
            "the value in bytes",
            size=len(data),
            limit=VALUE_BYTES_MAX,
            advice="split it into several entities",
        )
    return data
