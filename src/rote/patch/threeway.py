"""Merging two values that came from one: objects member by member, everything else as a whole.

    base {a, b, c}    ours {a', b, c}    theirs {a, b', d}    merged {a', b', d}

A member that both sides changed, each in its own way, is a conflict; so is one that one side removed
and the other changed. Where the base held no object, two objects are merged as if it were {}.
"""

from typing import Any

from msgspec import Struct

from rote.values.canonical import canonical
from rote.values.types import Json


class _Missing:
    """Stands for a member, or a value, that is not there."""


MISSING = _Missing()


class Merged(Struct, frozen=True):
    """A merge that went through; the value shares parts with what was merged."""

    value: Json


def merge(base: Json | _Missing, ours: Json, theirs: Json) -> Merged | None:
    """What both changes give together, or None when they conflict."""
    root: dict[str, Any] = {}
    # Triples of values, and the member of the result that each becomes.
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
