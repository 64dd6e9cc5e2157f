"""Rehearsing operations on the client: what a commit would make of states, without a store.

It is the arithmetic of a commit (kernel/committing) on plain states. It knows no schemas and no content
rules: these are judged when the commit is decided.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rote.contract import Rehearsal, State
from rote.contract.operations import (
    DELETE,
    PATCH,
    SET,
    Operation,
    check_size,
    parse_operations,
    value_bytes,
)
from rote.errors import InvalidInput, NotFound, PatchFailed
from rote.patch import replay
from rote.values import Json, decode_canonical, format_time

_NAMES = {SET: "set", PATCH: "patch", DELETE: "delete"}


def rehearse(
    operations: Sequence[Mapping[str, Any]], states: Mapping[str, State], now: int
) -> tuple[Rehearsal, ...]:
    """Return what each operation would do, one after the other.

    states  of all entities that the operations name
    now     the time that is stamped, in microseconds since the epoch
    Raise what a commit of them would raise: NotFound, PatchFailed, InvalidInput, LimitExceeded.
    """
    parsed = parse_operations(operations)
    check_size(parsed, None)
    current = dict(states)
    made: list[Rehearsal] = []
    for operation in parsed:
        before = current[operation.id]
        op, value = _applied(operation, before, now)
        after = State(operation.id, value, op != "delete", 0, None)
        made.append(Rehearsal(op, before.hash, after))
        current[operation.id] = after
    return tuple(made)


def _applied(operation: Operation, before: State, now: int) -> tuple[str, Json]:
    """Return the fact that an operation would make, and the value after it."""
    kind, data = operation.kind, operation.data
    if kind != SET and not before.exists:
        if operation.otherwise is None:
            advice = "there is nothing to delete" if kind == DELETE else "set it first"
            raise NotFound(f"{operation.id} does not exist; {advice}", id=operation.id)
        kind, data = SET, operation.otherwise
    if kind == DELETE:
        return "delete", None
    assert data is not None
    stamp = operation.stamp_of_set() if kind == SET else operation.stamp
    if kind == SET:
        document: Json = decode_canonical(data)
    else:
        document = replay(before.value, [decode_canonical(data)])
    if stamp:
        document = _stamped(document, stamp, now)
    if kind == PATCH or stamp:
        document = decode_canonical(value_bytes(document))  # a copy that is small enough
    return _NAMES[kind], document


def _stamped(document: Json, pointers: Sequence[str], now: int) -> Json:
    text = format_time(now)
    stamps = [{"op": "add", "path": pointer, "value": text} for pointer in pointers]
    try:
        return replay(document, [stamps])
    except PatchFailed as error:
        raise InvalidInput(
            f"cannot stamp {error.details['pointer']}: {error.details['reason']}"
        ) from None
