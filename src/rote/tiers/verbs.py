"""Verbs: the calls that an adapter answers, and the form of their arguments.

A verb's parameters are told once, here as data: arguments are bound and judged by them, and
`input_schema` shows them to whoever makes a tool of a verb.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from rote.errors import InvalidInput
from rote.values import Json
from rote.values.names import told

# The types of JSON Schema, as `decode` gives them; it gives no bool where an int is, and 1 for 1.0.
_TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}


class Parameter(Struct, frozen=True):
    """One argument of a verb."""

    name: str
    schema: dict[str, Json]  # JSON Schema: type, enum, minimum, maximum, minLength are judged
    default: Json | UnsetType = UNSET  # it may be left out then
    optional: bool = False  # it may be left out without a default: the adapter gets none
    check: Callable[[Json], bool] | None = None  # what the schema cannot say

    @property
    def is_required(self) -> bool:
        return self.default is UNSET and not self.optional

    def takes(self, value: Json) -> bool:
        return fits(value, self.schema) and (self.check is None or self.check(value))


class Verb(Struct, frozen=True):
    """One call that an adapter answers."""

    name: str  # in lower case
    parameters: tuple[Parameter, ...]
    writes: bool
    destructive: bool = False  # what was there before is gone afterwards
    switch: str | None = None  # the option, and the member of a grant, that switches it on

    def input_schema(self) -> dict[str, Json]:
        """Return the JSON Schema of the arguments, by name."""
        return {
            "type": "object",
            "properties": {each.name: _shown(each) for each in self.parameters},
            "required": [each.name for each in self.parameters if each.is_required],
            "additionalProperties": False,
        }

    def bind(self, positional: Sequence[Json], named: Mapping[str, Json]) -> dict[str, Json]:
        """Return the arguments that were given, by name; InvalidInput when they do not fit."""
        if len(positional) > len(self.parameters):
            raise self._bad(f"it takes at most {len(self.parameters)} arguments")
        given = {each.name: value for each, value in zip(self.parameters, positional, strict=False)}
        known = {each.name for each in self.parameters}
        for name, value in named.items():
            if name not in known:
                raise self._bad(f"there is no {name!r:.80}; {told(sorted(known))}", name)
            if name in given:
                raise self._bad(f"{name} is given twice", name)
            given[name] = value
        for parameter in self.parameters:
            self._judge(parameter, given)
        return given

    def filled(self, given: Mapping[str, Json]) -> dict[str, Json]:
        """Return arguments with defaults in the places of those that were left out."""
        defaults = {
            each.name: each.default for each in self.parameters if each.default is not UNSET
        }
        return {**defaults, **given}

    def _judge(self, parameter: Parameter, given: Mapping[str, Json]) -> None:
        if parameter.name not in given:
            if parameter.is_required:
                raise self._bad(f"{parameter.name} is missing", parameter.name)
            return
        if not parameter.takes(given[parameter.name]):
            # Without the value: it may be one that is never to be shown.
            raise self._bad(
                f"{parameter.name} must be {described(parameter.schema)}", parameter.name
            )

    def _bad(self, reason: str, argument: str | None = None) -> InvalidInput:
        details: dict[str, Any] = {} if argument is None else {"argument": argument}
        return InvalidInput(f"{self.name}: {reason}", code="bad_arguments", **details)


def table(verbs: Iterable[Verb]) -> Mapping[str, Verb]:
    """Return verbs by their names."""
    return {verb.name: verb for verb in verbs}


def fits(value: Json, schema: Mapping[str, Json]) -> bool:
    """Return whether a value is of the type and in the bounds that a parameter's schema has."""
    if "enum" in schema and not any(_same(value, each) for each in schema["enum"]):
        return False
    if "type" not in schema:
        return True
    names = schema["type"] if type(schema["type"]) is list else [schema["type"]]
    if not any(type(value) in _TYPES[name] for name in names):
        return False
    if type(value) is str:
        return len(value) >= int(schema.get("minLength", 0))
    if type(value) in (int, float):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    return True


def _same(left: Json, right: Json) -> bool:
    return type(left) is type(right) and bool(left == right)


def _shown(parameter: Parameter) -> dict[str, Json]:
    if parameter.default is UNSET:
        return dict(parameter.schema)
    return {**parameter.schema, "default": parameter.default}


def described(schema: Mapping[str, Json]) -> str:
    if "description" in schema:
        return str(schema["description"])
    if "type" not in schema and "enum" not in schema:
        return "any value"
    if "enum" in schema:
        return f"one of {', '.join(map(repr, schema['enum']))}"
    names = schema["type"] if type(schema["type"]) is list else [schema["type"]]
    bounds = "".join(
        f" {words} {schema[bound]:,}"
        for bound, words in (("minimum", "from"), ("maximum", "up to"))
        if bound in schema
    )
    return " or ".join(names) + bounds
