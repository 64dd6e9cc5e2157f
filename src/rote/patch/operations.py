"""The operations of a patch and their normal form, which is stored and hashed.

    {"op": "add" | "replace" | "test", "path", "value"}
    {"op": "remove", "path"}
    {"op": "move" | "copy", "path", "from"}
    {"op": "splice", "path", "index", "remove", "add"}

RFC 6902 plus `splice`. Unknown members are ignored and left out (RFC 6902 section 4). Frozen.
"""

from typing import Any, Literal

from rote.errors import InvalidInput, InvalidValue, PatchFailed
from rote.patch.pointer import parse_pointer
from rote.values.canonical import canonical
from rote.values.limits import DEPTH_MAX, INTEGER_MAX, INTEGER_MIN
from rote.values.types import Json

Operation = dict[str, Json]

# Levels around a value: the list of operations, the operation, and the list of a splice.
_DEPTH_AROUND = 3

_Kind = Literal["pointer", "value", "values", "count"]
_MEMBERS: dict[str, tuple[tuple[str, _Kind], ...]] = {
    "add": (("path", "pointer"), ("value", "value")),
    "remove": (("path", "pointer"),),
    "replace": (("path", "pointer"), ("value", "value")),
    "move": (("path", "pointer"), ("from", "pointer")),
    "copy": (("path", "pointer"), ("from", "pointer")),
    "test": (("path", "pointer"), ("value", "value")),
    "splice": (("path", "pointer"), ("index", "count"), ("remove", "count"), ("add", "values")),
}


def normalize(operations: Any) -> list[Operation]:
    """Return the normal form of an operation list; values are not copied.

    Raises PatchFailed, which names the first malformed operation, and InvalidValue, which names the
    pointer of a value outside the domain, beginning at the list.
    """
    if type(operations) not in (list, tuple):
        raise InvalidInput(f"a patch is a list of operations, not {type(operations).__qualname__}")
    return [_operation(index, raw) for index, raw in enumerate(operations)]


def encode_operations(operations: list[Operation]) -> bytes:
    """Return the canonical bytes of a normal form; each value may have the full depth."""
    return canonical(operations, depth_max=DEPTH_MAX + _DEPTH_AROUND)


def _operation(index: int, raw: Any) -> Operation:
    if type(raw) is not dict:
        raise PatchFailed(f"an operation is an object, not {type(raw).__qualname__}", index=index)
    name = raw.get("op")
    members = _MEMBERS.get(name) if type(name) is str else None
    if members is None:
        known = ", ".join(_MEMBERS)
        raise PatchFailed(f"the op {name!r:.80} is not one of {known}", index=index)
    operation: Operation = {"op": name}
    for member, kind in members:
        if member not in raw:
            raise PatchFailed(f"{name} needs the member '{member}'", index=index)
        operation[member] = _checked(index, member, kind, raw[member])
    return operation


def _checked(index: int, member: str, kind: _Kind, value: Any) -> Json:
    if kind == "value":
        _check_value(value, f"/{index}/{member}", DEPTH_MAX)
    elif kind == "pointer":
        try:
            parse_pointer(value)
            _check_value(value, f"/{index}/{member}", DEPTH_MAX)
        except InvalidValue:
            raise
        except InvalidInput as error:
            raise PatchFailed(f"'{member}': {error}", index=index) from None
    elif kind == "count":
        if type(value) is not int or value < 0:
            raise PatchFailed(f"'{member}' must be an integer from 0 on", index=index)
        _check_value(value, f"/{index}/{member}", DEPTH_MAX)
    else:
        if type(value) not in (list, tuple):
            raise PatchFailed(f"'{member}' must be a list", index=index)
        _check_value(value, f"/{index}/{member}", DEPTH_MAX + 1)
    return value


def _check_value(value: Json, pointer: str, depth_max: int) -> None:
    # Most operations carry a plain scalar, which is checked without an encoder.
    kind = type(value)
    if (
        (kind is str and value.isascii())
        or (kind is int and INTEGER_MIN <= value <= INTEGER_MAX)
        or value is None
        or kind is bool
    ):
        return
    try:
        canonical(value, depth_max=depth_max)
    except InvalidValue as error:
        raise error.within(pointer) from None
