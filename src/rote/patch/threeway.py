"""Merging two values with a common base: objects member by member, all else as a whole.

    base {a, b, c}    ours {a', b, c}    theirs {a, b', d}    merged {a', b', d}

It is a conflict when both sides changed a member differently, or when one side removed a member that
the other changed. Two objects whose base is no object are merged as if the base were {}.
"""

from typing import Any

from msgspec import Struct

from rote.values.canonical import canonical
from rote.values.types import Json


class _Missing:
    """Stands for a member, or a value, that is not there."""


MISSING = _Missing()


class Merged(Struct, frozen=True):
    """A merge without conflicts; the value shares parts with the merged values."""

    value: Json


def merge(base: Json | _Missing, ours: Json, theirs: Json) -> Merged | None:
    """Return `base` with the changes of both sides, None when they conflict."""
    root: dict[str, Any] = {}
    # Each entry is a triple of values, and the container and key of their merged value.
    waiting: list[tuple[Any, Any, Any, dict[str, Any], str]] = [(base, ours, theirs, root, "")]
    while waiting:
        old, one, other, target, name = waiting.pop()
        if _same(one, other) or _same(other, old):
            chosen = one
        elif _same(one, old):
            chosen = other
        elif type(one) is dict and type(other) is dict:
            chosen = {}
            members = old if type(old) is dict else {}
            for key in sorted(members.keys() | one.keys() | other.keys()):
                triple = (members.get(key, MISSING), one.get(key, MISSING), other.get(key, MISSING))
                waiting.append((*triple, chosen, key))
        else:
            return None
        if chosen is not MISSING:
            target[name] = chosen
    return Merged(root[""])


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if one is MISSING or other is MISSING:
        return False
    return bool(canonical(one) == canonical(other))
