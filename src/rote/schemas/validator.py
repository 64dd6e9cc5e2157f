"""Compiled schemas: the library that judges values, and the bounds that it works within.

Patterns run in an engine whose time is linear in the text; it has no look-around and no
back-references. Nothing is fetched. `format` is an annotation, as in draft 2020-12, and is not checked.
"""

from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rote.patch.pointer import format_pointer
from rote.schemas.document import DIALECT, Document
from rote.schemas.violations import Violated, Violation, shortened
from rote.schemas.work import evaluations
from rote.values import Json, decode_canonical, depth_of
from rote.values.limits import (
    DEPTH_MAX,
    JUDGING_WORK_MAX,
    PATTERN_BYTES_MAX,
    SCHEMA_BYTES_MAX,
    TELLING_WORK_MAX,
    VALIDATORS_KEPT_MAX,
)

if TYPE_CHECKING:
    import jsonschema_rs

_RULE = "schema"
_GOES_BACK = (
    "not a pattern that takes linear time and little room: no look-around, no back-references,"
    " no large counts"
)
_NO_PATTERN = "not a valid pattern, or one with large counts or back-references by name"
# The place of the metaschema that defines types.
_TYPE_OF_SCHEMA = ["properties", "type", "anyOf"]
_NO_TYPE = "it is one of array, boolean, integer, null, number, object, string, or a list of such"


@lru_cache(maxsize=VALIDATORS_KEPT_MAX)
def compile_schema(data: bytes) -> "Validator | Violation":
    """Return the compiled schema of a canonical value, or the first violation in it."""
    if len(data) > SCHEMA_BYTES_MAX:
        return Violation("", _RULE, f"a schema may have {SCHEMA_BYTES_MAX:,} bytes; split it")
    schema = decode_canonical(data)
    try:
        _check_dialect(schema)
        _check_metaschema(schema)
        document = Document(schema)
        # This comes first: a schema that it refuses must not be compiled.
        work, weight = evaluations(document), evaluations(document, weighted=True)
        return Validator(_compiled(schema), work, weight, has_options=document.has_options)
    except Violated as error:
        return error.violation


class Validator:
    """Judges values by one schema."""

    def __init__(
        self,
        compiled: "jsonschema_rs.Validator",
        work: tuple[int, ...],
        weight: tuple[int, ...],
        *,
        has_options: bool,
    ) -> None:
        self._compiled = compiled
        self._work = work  # evaluations of one place, by the depth of the value
        self._weight = weight  # the cost of these evaluations
        self._has_options = has_options
        # Most schemas accept values of any depth.
        self._size_max = JUDGING_WORK_MAX // weight[-1] if len(weight) > DEPTH_MAX else 0

    def judge(self, value: Json, *, size: int) -> Violation | None:
        """Return the first violation in a value of `size` canonical bytes, None when there is none."""
        if size > self._size_max:
            violation = self._too_much(depth_of(value), size)
            if violation is not None:
                return violation
        if self._compiled.is_valid(value):
            return None
        if self._has_options and self._work_for(value) * size > TELLING_WORK_MAX:
            return Violation(
                "", _RULE, "the value is too large to say what none of the options allow"
            )
        return _violation_of(self._compiled, value) or Violation("", _RULE, "it is not allowed")

    def _too_much(self, depth: int, size: int) -> Violation | None:
        if depth >= len(self._weight):
            reason = (
                f"the schema goes so many ways that it judges {len(self._weight) - 1} levels at the"
                f" most, the value has {depth}"
            )
            return Violation("", "depth", reason)
        if self._weight[depth] * size > JUDGING_WORK_MAX:
            return Violation("", "size", "the value is too large for a schema that repeats so much")
        return None

    def _work_for(self, value: Json) -> int:
        return self._work[min(depth_of(value), len(self._work) - 1)]


def _check_dialect(schema: Any) -> None:
    dialect = schema.get("$schema", DIALECT) if type(schema) is dict else DIALECT
    if type(dialect) is not str or dialect.removesuffix("#") != DIALECT:
        raise Violated("/$schema", "$schema", f"schemas are of draft 2020-12: {DIALECT}")


def _check_metaschema(schema: Any) -> None:
    if type(schema) not in (dict, bool):
        raise Violated("", "type", "a schema is an object, true or false")
    try:
        _metaschema().validate(schema)
    except _library().ValidationError as error:
        rule, words = _told(error)
        words = _NO_TYPE if error.schema_path == _TYPE_OF_SCHEMA else words
        raise Violated(_pointer(error, schema), rule, shortened(words)) from None


def _compiled(schema: Any) -> "jsonschema_rs.Validator":
    library = _library()
    try:
        compiled: jsonschema_rs.Validator = library.Draft202012Validator(schema, **_options())
    except library.ValidationError as error:
        raise _uncompiled(error, schema) from None
    return compiled


def _uncompiled(error: "jsonschema_rs.ValidationError", schema: Json) -> Violated:
    pointer = _pointer(error, schema)
    if error.kind.name == "format":
        words = _GOES_BACK if _would_go_back(error.instance) else _NO_PATTERN
        return Violated(pointer, "pattern", words)
    return Violated(pointer, error.kind.name or _RULE, shortened(error.message))


def _would_go_back(pattern: object) -> bool:
    """Whether a refused pattern is valid for an engine with backtracking."""
    library = _library()
    going_back = library.FancyRegexOptions(
        size_limit=PATTERN_BYTES_MAX, dfa_size_limit=PATTERN_BYTES_MAX
    )
    try:
        library.Draft202012Validator({"pattern": pattern}, pattern_options=going_back)
    except library.ValidationError:
        return False
    return True


def _violation_of(compiled: "jsonschema_rs.Validator", value: Json) -> Violation | None:
    try:
        compiled.validate(value)
    except _library().ValidationError as error:
        pointer = _pointer(error, value)
        if error.kind.name == "falseSchema":
            return Violation(pointer, "false", "it is not allowed here")
        rule, words = _told(error)
        return Violation(pointer, rule, shortened(words))
    return None


def _told(error: "jsonschema_rs.ValidationError") -> tuple[str, str]:
    """Return the keyword that refused a value, and the reason.

    The library has one kind of error for several keywords.
    """
    path = error.schema_path
    keyword = path[-1] if path else None
    if keyword == "dependentRequired":
        return keyword, f"{error.message}, because of another one that is there"
    if keyword == "minContains":
        return keyword, "too few of its elements are what contains asks for"
    if keyword == "maxContains":
        # Without a minContains, the library reports this error also when no element matches.
        return keyword, "too many of its elements, or none, are what contains asks for"
    return error.kind.name or _RULE, error.message


def _pointer(error: "jsonschema_rs.ValidationError", value: Any) -> str:
    """Return the pointer of an error in a value.

    The library leaves members named "" out of its paths. They are put back where the path leads
    nowhere without them.
    """
    tokens: list[str | int] = []
    for token in error.instance_path:
        while type(value) is dict and token not in value and "" in value:
            tokens.append("")
            value = value[""]
        tokens.append(token)
        value = value[token] if type(value) in (dict, list) else None
    return format_pointer(tokens)


# -- the library -----------------------------------------------------------------------------------


@cache
def _metaschema() -> "jsonschema_rs.Validator":
    schema = {"$ref": DIALECT}  # the library has this document built in
    compiled: jsonschema_rs.Validator = _library().Draft202012Validator(schema, **_options())
    return compiled


@cache
def _options() -> dict[str, Any]:
    patterns = _library().RegexOptions(
        size_limit=PATTERN_BYTES_MAX, dfa_size_limit=PATTERN_BYTES_MAX
    )
    return {"pattern_options": patterns, "offline": True, "mask": "it"}


@cache
def _library() -> Any:
    """Import the library at the first schema: most stores have none, and the import takes 0.1 s."""
    return import_module("jsonschema_rs")
