"""Patching an entity's document: its new value, the operations to store, and the snapshot if one is due.

A small document is stored as a snapshot beside every patch. A large one only when the patches since
the last snapshot are many, or as large as that snapshot. So a small patch to a large document writes
little, and reading any version replays a bounded number of patches. A large document is not encoded
at every patch either: its size and depth are estimated from above by what the patch can have added,
and measured only when the estimate reaches a limit.
"""

from functools import lru_cache
from typing import Any

from msgspec import Raw, Struct
from msgspec.json import Decoder, Encoder

from rote.contract.operations import value_bytes
from rote.errors import InvalidInput, InvalidValue, LimitExceeded, PatchFailed
from rote.kernel.log.entries import Entry
from rote.patch import encode_operations, parse_pointer, replay
from rote.values import Encoded, Json, canonical, decode_canonical, depth_of, format_time
from rote.values.limits import (
    DEPTH_MAX,
    INLINE_SNAPSHOT_BYTES_MAX,
    REPLAY_MAX,
    VALUE_BYTES_MAX,
)

_STAMPS_REMEMBERED = 64  # lists of pointers; a program has few
_Operations = list[dict[str, Any]]
# Decode an object to the texts of its members in their order, and encode it again.
_members_of = Decoder(dict[str, Raw]).decode
_of_members = Encoder().encode


class Patched(Struct, frozen=True, gc=False):
    """The outcome of a patch."""

    entry: Entry  # the new value, still without version, hash and salt
    operations: bytes  # to be stored, stamps included
    snapshot: bytes | None  # the whole value; None when no snapshot is due


def stamped(data: bytes, pointers: tuple[str, ...], at: int) -> bytes:
    """Return a canonical value with the commit's time at each pointer."""
    names = _names_of(pointers)
    if names and data.startswith(b"{"):
        members = _members_of(data)
        if members.keys() >= names:
            # The usual case: all other members are copied without decoding them.
            members.update(dict.fromkeys(names, Raw(f'"{format_time(at)}"')))
            return value_bytes(Encoded(_of_members(members)))
    return value_bytes(_stamp_into(decode_canonical(data), _stamps(pointers, at)))


@lru_cache(maxsize=_STAMPS_REMEMBERED)
def _names_of(pointers: tuple[str, ...]) -> frozenset[str]:
    """Return the members that pointers name; none when one of them goes deeper."""
    places = [parse_pointer(pointer) for pointer in pointers]
    return frozenset([place[0] for place in places] if max(map(len, places)) == 1 else ())


def patched(before: Entry, data: bytes, pointers: tuple[str, ...], at: int) -> Patched:
    """Apply the canonical operations `data` and the stamps to `before`."""
    operations: _Operations = decode_canonical(data)
    document = replay(before.shared_document(), [operations])
    if pointers:
        stamps = _stamps(pointers, at)
        document = _stamp_into(document, stamps)
        operations += stamps
        data = encode_operations(operations)
        if len(data) > VALUE_BYTES_MAX:
            raise LimitExceeded("the patch in bytes", size=len(data), limit=VALUE_BYTES_MAX)
    size_bound = _size_bound(before.size_bound, operations, len(data))
    if size_bound <= 2 * INLINE_SNAPSHOT_BYTES_MAX:
        return _small(before, document, data)
    return _large(before, document, data, operations, size_bound)


def _small(before: Entry, document: Json, data: bytes) -> Patched:
    value = canonical(document)
    if len(value) <= INLINE_SNAPSHOT_BYTES_MAX:
        return Patched(_snapshot_entry(document, value), data, value)
    return _large_measured(before, document, data, value)


def _large(
    before: Entry, document: Json, data: bytes, operations: _Operations, size_bound: int
) -> Patched:
    patches, patch_bytes = before.patches + 1, before.patch_bytes + len(data)
    due = patches >= REPLAY_MAX or patch_bytes >= before.snapshot_bytes
    if due or size_bound > VALUE_BYTES_MAX:
        return _large_measured(before, document, data, canonical(document))
    depth_bound = _depth_bound(before, operations)
    if depth_bound > DEPTH_MAX:
        depth_bound = depth_of(document)
        if depth_bound > DEPTH_MAX:
            raise InvalidValue(
                f"the patched value is nested {depth_bound} levels deep, the limit is {DEPTH_MAX}"
            )
    entry = _patch_entry(
        before, document, None, len(data), size_bound=size_bound, depth_bound=depth_bound
    )
    return Patched(entry, data, None)


def _large_measured(before: Entry, document: Json, data: bytes, value: bytes) -> Patched:
    """Return the outcome for a large document whose canonical value is known; encoding checked its depth."""
    if len(value) > VALUE_BYTES_MAX:
        raise LimitExceeded(
            "the patched value in bytes",
            size=len(value),
            limit=VALUE_BYTES_MAX,
            advice="split it into several entities",
        )
    patches, patch_bytes = before.patches + 1, before.patch_bytes + len(data)
    if patches >= REPLAY_MAX or patch_bytes >= before.snapshot_bytes:
        return Patched(_snapshot_entry(document, value), data, value)
    entry = _patch_entry(before, document, value, len(data), size_bound=len(value))
    return Patched(entry, data, None)


def _patch_entry(
    before: Entry,
    document: Json,
    value: bytes | None,
    patch_bytes: int,
    *,
    size_bound: int,
    depth_bound: int | None = None,
) -> Entry:
    return Entry(
        version=0,
        hash=None,
        salt=None,
        exists=True,
        data=value,
        document=document,
        patches=before.patches + 1,
        patch_bytes=before.patch_bytes + patch_bytes,
        snapshot_bytes=before.snapshot_bytes,
        size_bound=size_bound,
        depth_bound=depth_bound,
    )


def _snapshot_entry(document: Json, value: bytes) -> Entry:
    size = len(value)
    return Entry(0, None, None, True, value, document, 0, 0, size, size)


def _size_bound(size: int, operations: _Operations, added: int) -> int:
    """Return an upper bound of the size after a patch.

    Every operation adds fewer bytes than it has itself, except a copy, which can double the document.
    """
    bound = size + added
    for operation in operations:
        if operation["op"] == "copy":
            bound *= 2
    return bound


def _depth_bound(before: Entry, operations: _Operations) -> int:
    if before.depth_bound is None:
        before.depth_bound = depth_of(before.shared_document())
    bound = before.depth_bound
    for operation in operations:
        below = len(parse_pointer(operation["path"]))
        if operation["op"] in ("move", "copy"):
            bound = max(bound, below + bound)
        elif operation["op"] == "splice":
            bound = max(bound, below + depth_of(operation["add"]))
        elif "value" in operation:
            bound = max(bound, below + depth_of(operation["value"]))
    return bound


def _stamps(pointers: tuple[str, ...], at: int) -> _Operations:
    text = format_time(at)
    return [{"op": "add", "path": pointer, "value": text} for pointer in pointers]


def _stamp_into(document: Json, stamps: _Operations) -> Json:
    try:
        return replay(document, [stamps])
    except PatchFailed as error:
        raise InvalidInput(
            f"cannot stamp {error.details['pointer']}: {error.details['reason']}"
        ) from None
