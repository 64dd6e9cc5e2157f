"""Links, by which a value refers to another entity, and steps along a path that meets them.

A link is `{"/": {"link@1": {"id": …, "path": […]?, "schema": …?}}}`; anything else is plain data.
"""

from typing import Final

from msgspec import Struct

from rote.errors import InvalidInput
from rote.patch.pointer import parse_index
from rote.values import Json, check_entity_id
from rote.values.limits import QUERY_PATH_MAX

_MEMBERS = frozenset(("id", "path", "schema"))

Path = tuple[str, ...]


class Link(Struct, frozen=True, gc=False):
    id: str
    path: Path
    schema: Json  # as written; it may be no valid schema
    has_schema: bool


class Turn(Struct, frozen=True, gc=False):
    """A path that goes on behind a link."""

    link: Link
    rest: Path


class Absent:
    """The mark for a value that is not there; null is a value."""


ABSENT: Final = Absent()


def link_in(value: Json) -> Link | None:
    """Return the value as a link, None when it is no link."""
    if type(value) is not dict or len(value) != 1:
        return None
    outer = value.get("/")
    if type(outer) is not dict or len(outer) != 1:
        return None
    inner = outer.get("link@1")
    if type(inner) is not dict or not inner.keys() <= _MEMBERS:
        return None
    id, path = inner.get("id"), inner.get("path", [])
    if type(id) is not str or not _is_id(id) or not is_path(path):
        return None
    return Link(id, tuple(path), inner.get("schema"), "schema" in inner)


def is_path(path: object) -> bool:
    return (
        type(path) is list
        and len(path) <= QUERY_PATH_MAX
        and all(type(step) is str for step in path)
    )


def _is_id(id: object) -> bool:
    try:
        check_entity_id(id)
    except InvalidInput:
        return False
    return True


def walk_path(value: Json, path: Path) -> Json | Turn | Absent:
    """Return the value at a path; a Turn when the path meets a link, also at its end."""
    for position, step in enumerate(path):
        link = link_in(value)
        if link is not None:
            return Turn(link, path[position:])
        if type(value) is dict and step in value:
            value = value[step]
        elif type(value) is list:
            index = parse_index(step)
            if index is None or index >= len(value):
                return ABSENT
            value = value[index]
        else:
            return ABSENT
    link = link_in(value) if path else None
    return value if link is None else Turn(link, ())
