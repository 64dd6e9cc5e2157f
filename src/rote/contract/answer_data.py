"""Answers as data that msgspec writes: the fast way to their bytes.

Answers come from a store, so nothing in them needs a check, and msgspec writes most structs as wire.py
says by itself. Only facts and commits, which hold stored bytes, are taken apart.
"""

import types
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from msgspec import UNSET, Raw, Struct

from rote.contract.copies import LeftFact
from rote.contract.facts import Commit, Fact

Shown = Callable[[Any], Any]

# Members that hold stored canonical bytes, and their names on the wire.
STORED = {
    (Fact, "data"): "body",
    (Fact, "meta_data"): "meta",
    (Commit, "meta_data"): "meta",
    (LeftFact, "data"): "data",
}
# Members of a fact that are its commit's, by their names on the wire.
OF_COMMIT = ("at", "author", "meta")


def is_left_out(value: Any, name: str) -> bool:
    """Whether the data of a fact was left out, because its reader has it: every other set has some."""
    return type(value) is Fact and name == "data" and value.op == "set" and not value.erased


@cache
def shown(kind: Any) -> Shown:
    """Return the function that makes data of answers of a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if not _holds_stored(kind):
        return _as_it_is
    if isinstance(kind, type):
        return _struct(kind)
    inner = shown(next(each for each in arguments if _holds_stored(each)))
    if origin in (Union, types.UnionType):
        return lambda value: None if value is None else inner(value)
    assert origin in (tuple, list, Sequence), kind
    return _each(inner)


def _as_it_is(value: Any) -> Any:
    return value


def _each(part: Shown) -> Shown:
    return lambda values: [part(value) for value in values]


@cache
def _holds_stored(kind: Any) -> bool:
    """Whether there are stored bytes somewhere in values of a type."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        hints = get_type_hints(kind)
        return any(
            (kind, name) in STORED or _holds_stored(hints[name]) for name in kind.__struct_fields__
        )
    return any(_holds_stored(each) for each in get_args(kind) if each is not Ellipsis)


def _struct(kind: type[Struct], without: Sequence[str] = ()) -> Shown:
    hints = get_type_hints(kind)
    members: list[tuple[str, str, Shown | None]] = []
    for name in kind.__struct_fields__:
        wire_name = STORED.get((kind, name), name)
        if wire_name in without:
            continue
        if kind is Commit and name == "facts":
            part: Shown | None = _each(_struct(Fact, OF_COMMIT))
        else:
            part = None if (kind, name) in STORED else shown(hints[name])
        members.append((name, wire_name, part))

    def made(value: Any) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for name, wire_name, part in members:
            found = getattr(value, name)
            if part is not None:
                if found is not UNSET:
                    data[wire_name] = part(found)
            elif found is not None:
                data[wire_name] = Raw(found)
            elif not is_left_out(value, name):
                data[wire_name] = None
        return data

    return made
