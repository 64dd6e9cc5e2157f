"""The arguments of the server's own commands: one JSON object, only known members, exact types."""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from rote.errors import InvalidInput
from rote.values import decode
from rote.values.limits import DEPTH_MAX, MESSAGE_BYTES_MAX, MESSAGE_LEVELS

S = TypeVar("S", bound=Struct)


def made_of(kind: type[S], data: bytes) -> S:
    """Return the arguments that a body holds."""
    plain: Any = {}
    if data:
        depth = DEPTH_MAX + MESSAGE_LEVELS
        plain = decode(data, size_bytes_max=MESSAGE_BYTES_MAX, depth_max=depth)
    if type(plain) is not dict:
        raise InvalidInput("the arguments of a command are a JSON object")
    unknown = sorted(plain.keys() - set(kind.__struct_fields__))
    if unknown:
        raise InvalidInput(f"the command has no argument {unknown[0]!r:.80}", argument=unknown[0])
    try:
        return msgspec.convert(plain, kind, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the arguments of the command are malformed: {error}") from None
