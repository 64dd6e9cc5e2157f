"""The slow check of the members of an artifact, which names every fault.

It walks the types of documents.py, never the input, so its depth does not depend on the input.
"""

import re
from math import isfinite
from typing import Any

from msgspec import inspect

from rote.errors import InternalError
from rote.traces.reports import Failures
from rote.values.limits import INTEGER_MAX, INTEGER_MIN

_LISTS = (list, tuple)


def conform(value: Any, kind: inspect.Type, pointer: str, prefix: str, failures: Failures) -> None:
    """Add a failure for every place where `value` is not of `kind`."""
    kind, code = _unwrapped(kind)
    problem = _problem(value, kind)
    if problem is not None:
        if failures.is_full:
            failures.more += 1
            return
        word = code if problem == "value" else problem
        expected = _expected(kind)
        place = pointer or "the whole"
        failures.add(f"{prefix}:{word}", pointer, value, expected, f"{place} must be {expected}")
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            place = f"{pointer}/{field.encode_name}"
            if field.encode_name in value:
                conform(value[field.encode_name], field.type, place, prefix, failures)
            elif not field.required:
                continue
            elif failures.is_full:
                failures.more += 1
            else:
                expected = _expected(_unwrapped(field.type)[0])
                message = f"{place} is missing; it must be {expected}"
                failures.add(f"{prefix}:missing", place, None, expected, message)
    elif isinstance(kind, inspect.ListType):
        for index, item in enumerate(value):
            conform(item, kind.item_type, f"{pointer}/{index}", prefix, failures)


def is_finite(number: Any) -> bool:
    """Whether it is a number that JSON and every engine can hold."""
    if type(number) is int:
        return INTEGER_MIN <= number <= INTEGER_MAX
    return type(number) is float and isfinite(number)


def _unwrapped(kind: inspect.Type) -> tuple[inspect.Type, str]:
    """Return the type without its annotations, and the code for a value that is not allowed."""
    if isinstance(kind, inspect.Metadata):
        return kind.type, (kind.extra or {}).get("code", "value")
    return kind, "value"


def _problem(value: Any, kind: inspect.Type) -> str | None:
    """Return `type` or `value` for a fault of this place alone, None when there is none."""
    match kind:
        case inspect.AnyType():
            return None
        case inspect.StructType() | inspect.DictType():
            return None if type(value) is dict else "type"
        case inspect.ListType():
            return None if type(value) in _LISTS else "type"
        case inspect.BoolType():
            return None if type(value) is bool else "type"
        case inspect.FloatType():
            if type(value) not in (int, float):
                return "type"
            return None if is_finite(value) else "value"
        case inspect.IntType(ge=least, le=most):
            # 1.0 counts as 1, because it is written as 1.
            if type(value) is not int and not (type(value) is float and value.is_integer()):
                return "type"
            return None if (least or 0) <= value <= (most or INTEGER_MAX) else "value"
        case inspect.StrType():
            return "type" if type(value) is not str else _text_problem(value, kind)
        case inspect.LiteralType(values=values):
            return "type" if type(value) is not str else None if value in values else "value"
        case inspect.UnionType(types=types):
            [other] = (each for each in types if not isinstance(each, inspect.NoneType))
            return None if value is None else _problem(value, other)
    raise InternalError(f"no rule for members of type {type(kind).__qualname__}")


def _text_problem(value: str, kind: inspect.StrType) -> str | None:
    if (
        len(value) < (kind.min_length or 0)
        or (kind.max_length is not None and len(value) > kind.max_length)
        or (kind.pattern is not None and re.search(kind.pattern, value) is None)
    ):
        return "value"
    return None


def _expected(kind: inspect.Type) -> str:
    """Return the words for the values that a place may hold."""
    match kind:
        case inspect.StructType() | inspect.DictType():
            return "an object"
        case inspect.ListType():
            return "a list"
        case inspect.BoolType():
            return "true or false"
        case inspect.FloatType():
            return "a number"
        case inspect.IntType(ge=least):
            return f"an integer from {least} on"
        case inspect.StrType(pattern=None):
            return "a text that is not empty"
        case inspect.StrType(max_length=None):
            return "a JSON pointer"
        case inspect.StrType():
            return "64 lowercase hexadecimal digits"
        case inspect.LiteralType(values=[value]):
            return str(value)
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case inspect.UnionType(types=types):
            [other] = (each for each in types if not isinstance(each, inspect.NoneType))
            return f"{_expected(other)}, or null"
    return "there"
