"""Parameters of routes: what may stand in a query, and how it is read.

A parameter stands at most once, percent-encoded; an unknown one is refused. Routes declare theirs, so
that the document of the server says what the server takes.
"""

import re
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from rote.contract import Port
from rote.contract.commands import GetHead
from rote.errors import InvalidInput
from rote.server.messages import Head
from rote.values import decode, parse_time
from rote.values.limits import INTEGER_MAX

Kind = Literal["text", "integer", "flag", "point", "place", "json"]

_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})").search
_DIGITS = re.compile(r"0|[1-9][0-9]{0,18}").fullmatch
_PLACE = re.compile(r"(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})").fullmatch


class Parameter(Struct, frozen=True):
    """A parameter of a query."""

    name: str
    kind: Kind
    meaning: str
    required: bool = False


BRANCH = Parameter("branch", "text", "The branch; main when left out.")
AT = Parameter("at", "point", "A version, or an RFC 3339 time; now when left out.")
LIMIT = Parameter("limit", "integer", "How many at most.")


def parameters(head: Head, *known: Parameter) -> dict[str, Any]:
    """Return the values of the parameters that a query has, by name."""
    by_name = {each.name: each for each in known}
    found: dict[str, Any] = {}
    for part in head.query.split(b"&") if head.query else ():
        name, equals, text = part.partition(b"=")
        parameter = by_name.get(_decoded(name))
        if parameter is None or not equals:
            names = ", ".join(by_name) or "none"
            shown = name.decode("ascii", "backslashreplace")
            raise InvalidInput(
                f"the query has no parameter {shown!r:.80}; there are {names}", parameter=shown[:80]
            )
        if parameter.name in found:
            raise InvalidInput(f"give {parameter.name} once", parameter=parameter.name)
        found[parameter.name] = _value(parameter, _decoded(text))
    for each in known:
        if each.required and each.name not in found:
            raise InvalidInput(f"the parameter {each.name} is missing", parameter=each.name)
    return found


def version_at(port: Port, space: str, point: int | str | None) -> int | None:
    """Return the version of a point; None for now."""
    if type(point) is not str:
        return point  # type: ignore[return-value]
    return port.answer(space, GetHead(at=parse_time(point))).version


def _decoded(text: bytes) -> str:
    if _PERCENT(text):
        raise InvalidInput("the query is not percent-encoded")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise InvalidInput("the query is not percent-encoded UTF-8") from None


def _value(parameter: Parameter, text: str) -> Any:
    match parameter.kind:
        case "integer":
            return _integer(parameter.name, text)
        case "flag" if text in ("true", "false"):
            return text == "true"
        case "flag":
            raise _refused(parameter.name, "true or false")
        case "point":
            return _integer(parameter.name, text) if text.isdecimal() else text
        case "place":
            place = _PLACE(text)
            if place is None:
                raise _refused(parameter.name, "a version and an index, like 17.0")
            return tuple(_integer(parameter.name, part) for part in place.groups())
        case "json":
            return decode(text.encode())
    return text


def _integer(name: str, text: str) -> int:
    if not _DIGITS(text) or int(text) > INTEGER_MAX:
        raise _refused(name, "an integer from 0 on")
    return int(text)


def _refused(name: str, wanted: str) -> InvalidInput:
    return InvalidInput(f"{name} is {wanted}", parameter=name)
