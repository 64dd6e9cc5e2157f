"""JSON Schemas of what travels, made from the types of commands and answers.

They say what contract/wire.py does: members under their own names, a view as its two members, stored
bytes in the place of the value that they are.

What is asked and what is answered differ: an argument may leave out what has a default, and has no
unknown member; an answer has every member, and may get new ones. So a struct that is both has two.
"""

import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, UNSET, Struct, UnsetType
from msgspec.structs import fields

from rote.contract import Commit, Fact, LeftFact, Resolution, View
from rote.contract.commands import Command

Schema = dict[str, Any]

_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    bytes: {"type": "string", "contentEncoding": "base64"},
}
_RESOLUTION: Schema = {
    "oneOf": [
        {"type": "object", "required": ["value"], "properties": {"value": {}}},
        {"type": "object", "required": ["delete"], "properties": {"delete": {"const": True}}},
    ]
}
# Members of stored bytes, by their names on the wire (contract/wire.py).
_RENAMED = {(Fact, "data"): "body", (Fact, "meta_data"): "meta", (Commit, "meta_data"): "meta"}
_STORED = {*_RENAMED, (LeftFact, "data")}
# A fact of a commit does not repeat what the commit says.
_NOT_REQUIRED = {(Fact, "at"), (Fact, "author"), (Fact, "meta_data"), (Fact, "data")}


class Schemas:
    """Schemas of types, with those of structs under `components`."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}

    def of(self, kind: Any, *, is_asked: bool = False) -> Schema:
        """Return the schema of a type, as a part of an answer or of what is asked."""
        origin, arguments = get_origin(kind), get_args(kind)
        if kind is Any:
            return {}
        if kind in _SCALARS:
            return dict(_SCALARS[kind])
        if isinstance(kind, type) and issubclass(kind, Struct):
            return self._named(kind, is_asked=is_asked)
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (Union, types.UnionType):
            return self._union(arguments, is_asked=is_asked)
        if origin is tuple and arguments[-1:] != (Ellipsis,):
            items = [self.of(each, is_asked=is_asked) for each in arguments]
            count = len(items)
            return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}
        if origin in (tuple, list, Sequence):
            return {"type": "array", "items": self.of(arguments[0], is_asked=is_asked)}
        if origin in (dict, Mapping):
            values = self.of(arguments[1], is_asked=is_asked)
            return {"type": "object", "additionalProperties": values}
        return {}

    def members(self, kind: type[Struct], *, is_asked: bool) -> Schema:
        """Return the schema of an object with the members of a struct."""
        hints = get_type_hints(kind)
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for field in fields(kind):
            name, hint = field.name, hints[field.name]
            if hint is View and name == "view":
                properties |= self.members(View, is_asked=is_asked)["properties"]
                continue
            if name == "data" and hint is bytes and issubclass(kind, Command):
                continue  # the body of a message of its own
            wire_name = _RENAMED.get((kind, name), field.encode_name)
            is_stored = (kind, name) in _STORED
            properties[wire_name] = {} if is_stored else self.of(hint, is_asked=is_asked)
            if field.default not in (NODEFAULT, UNSET) and type(field.default) in _SCALARS:
                properties[wire_name]["default"] = field.default
            is_told = (kind, name) not in _NOT_REQUIRED
            is_there = field.required and not is_stored if is_asked else is_told
            if is_there and field.default_factory is NODEFAULT and not _may_lack(hint):
                required.append(wire_name)
        made: Schema = {"type": "object", "properties": properties}
        if required:
            made["required"] = required
        if is_asked:
            made["additionalProperties"] = False
        return made

    def _named(self, kind: type[Struct], *, is_asked: bool) -> Schema:
        name = kind.__name__ + ("Asked" if is_asked else "")
        if name not in self.components:
            self.components[name] = {}  # a struct may hold itself
            self.components[name] = self.members(kind, is_asked=is_asked)
        return {"$ref": f"#/components/schemas/{name}"}

    def _union(self, kinds: Sequence[Any], *, is_asked: bool) -> Schema:
        if Resolution in kinds:
            return _RESOLUTION
        options = [self.of(kind, is_asked=is_asked) for kind in kinds if kind is not UnsetType]
        if {} in options:
            return {}
        return options[0] if len(options) == 1 else {"anyOf": options}


def _may_lack(hint: Any) -> bool:
    return UnsetType in get_args(hint)
