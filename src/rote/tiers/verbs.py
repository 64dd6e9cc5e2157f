"""Verbs: the calls that an adapter answers, and the form of their arguments.

A verb's parameters are told once, here as data: arguments are bound and judged by them, and
`input_schema` shows them to whoever makes a tool of a verb.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from msgspec import UNSET, UnsetType

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
_BOUNDS = frozenset({"enum", "minimum", "maximum", "minLength"})


@dataclass(frozen=True)
class Parameter:
    """One argument of a verb."""

    name: str
    schema: dict[str, Json]  # JSON Schema: type, enum, minimum, maximum, minLength are judged
    default: Json | UnsetType = UNSET  # it may be left out then
    check: Callable[[Json], bool] | None = None  # what the schema cannot say
    optional: bool = False  # it may be left out without a default: the adapter gets none

    @property
    def is_required(self) -> bool:
        return self.default is UNSET and not self.optional

    def takes(self, value: Json) -> bool:
        """Return whether a value is of the type and in the bounds."""
        if self._types is not None and type(value) not in self._types:
            return False
        return not self._has_bounds or self._is_within(value)

    @cached_property
    def _types(self) -> tuple[type, ...] | None:
        if "type" not in self.schema:
            return None
        return tuple(kind for name in _type_names(self.schema) for kind in _TYPES[name])

    @cached_property
    def _has_bounds(self) -> bool:
        return self.check is not None or not _BOUNDS.isdisjoint(self.schema)

    def _is_within(self, value: Json) -> bool:
        schema = self.schema
        if "enum" in schema and not any(_same(value, each) for each in schema["enum"]):
            return False
        if type(value) is str and len(value) < schema.get("minLength", 0):
            return False
        if type(value) in (int, float) and not (
            schema.get("minimum", value) <= value <= schema.get("maximum", value)
        ):
            return False
        return self.check is None or self.check(value)


@dataclass(frozen=True)
class Verb:
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
            "required": list(self._required),
            "additionalProperties": False,
        }

    def bind(
        self, positional: Sequence[Json], named: Mapping[str, Json], *, called: str = ""
    ) -> dict[str, Json]:
        """Return the arguments that were given, by name; InvalidInput when they do not fit.

        called  the name of the verb with its adapter, for the error
        """
        called = called or self.name
        known = self._known
        if len(positional) > len(known):
            takes = (
                f"it takes at most {len(known)}: {', '.join(known)}" if known else "it takes none"
            )
            raise _bad(called, f"there are {len(positional)} arguments; {takes}")
        given = dict(zip(known, positional, strict=False))
        for name, value in named.items():
            if name not in known:
                raise _bad(called, f"there is no {name!r:.80}; {told(known)}", name)
            if name in given:
                raise _bad(called, f"{name} is given twice", name)
            given[name] = value
        for name in self._required:
            if name not in given:
                raise _bad(called, f"{name} is missing", name)
        for name, value in given.items():
            if not known[name].takes(value):
                # Without the value: it may be one that is never to be shown.
                raise _bad(called, f"{name} must be {described(known[name].schema)}", name)
        return given

    def filled(self, given: Mapping[str, Json]) -> dict[str, Json]:
        """Return arguments with defaults in the places of those that were left out."""
        return {**self._defaults, **given}

    @cached_property
    def _known(self) -> dict[str, Parameter]:
        return {each.name: each for each in self.parameters}

    @cached_property
    def _required(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.parameters if each.is_required)

    @cached_property
    def _defaults(self) -> dict[str, Json]:
        return {each.name: each.default for each in self.parameters if each.default is not UNSET}


def table(verbs: Iterable[Verb]) -> Mapping[str, Verb]:
    """Return verbs by their names."""
    return {verb.name: verb for verb in verbs}


def _bad(called: str, reason: str, argument: str | None = None) -> InvalidInput:
    details: dict[str, Any] = {} if argument is None else {"argument": argument}
    return InvalidInput(f"{called}: {reason}", code="bad_arguments", **details)


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
    bounds = "".join(
        f" {words} {schema[bound]:,}"
        for bound, words in (("minimum", "from"), ("maximum", "up to"))
        if bound in schema
    )
    length = ", not empty" if schema.get("minLength") == 1 else ""
    return " or ".join(_type_names(schema)) + bounds + length


def _type_names(schema: Mapping[str, Json]) -> list[str]:
    names = schema["type"]
    return list(names) if isinstance(names, list) else [names]
