"""Expanding a place: finding the places that its links lead to."""

from collections.abc import Iterator

from rote.query.links import ABSENT, Absent, Link, Path, Turn, link_in, walk_path
from rote.query.narrowing import (
    EVERYTHING,
    NOTHING,
    Effort,
    Schema,
    alternatives,
    combines,
    element,
    member,
    narrowed,
    reach,
)
from rote.query.schemas import TRUE, Schemas
from rote.values import Json
from rote.values.limits import NARROWED_MAX, QUERY_PATH_MAX

# An entity, a path in it, and the schema that decides which links are followed from there.
Place = tuple[str, Path, Schema]


class Expansion:
    """The places that are followed from one place."""

    __slots__ = ("cut", "follows", "perhaps")

    def __init__(self) -> None:
        self.follows: set[Place] = set()
        self.perhaps: set[Place] = set()  # followed if the value behind the link matches
        self.cut = False  # something was left out because of a bound


_NOTHING_FOLLOWED = Expansion()  # shared and never changed: most places of a watch have it


def expand(schemas: Schemas, place: Place, value: Json) -> Expansion:
    """Return the places behind the followed links of a place whose entity has this value."""
    _, path, schema = place
    if schema is NOTHING and not path:
        return _NOTHING_FOLLOWED
    found = Expansion()
    met = walk_path(value, path)
    if isinstance(met, Absent):
        return found
    if isinstance(met, Turn):
        target = turned(schemas, met, schema)
        if target is None:
            found.cut = True
        else:
            found.follows.add(target)
        return found
    waiting: list[tuple[Schema, Json]] = [(schema, met)]
    done: set[tuple[int, Schema]] = set()
    effort = Effort()
    while waiting and not found.cut:
        schema, value = waiting.pop()
        if schema is NOTHING:
            continue
        link = link_in(value)
        if link is not None:
            target = behind(schemas, link, schema)
            if not combines(target[2]):
                found.follows.add(target)
            elif effort.spend(reach(target[2])):  # judging it will cost as many steps
                found.perhaps.add(target)
            else:
                found.cut = True
            found.cut |= len(target[2]) > NARROWED_MAX
            continue
        if schema is EVERYTHING:
            waiting += [(EVERYTHING, child) for child in _containers(value)]
            continue
        if (id(value), schema) in done:
            continue
        done.add((id(value), schema))
        flats, cut = alternatives(schema, value, effort)
        found.cut |= cut
        for flat in flats:
            for _, child, inner in parts(flat, value):
                if not effort.spend(len(flat)):
                    found.cut = True
                    break
                waiting.append((inner, child))
    return found


def _containers(value: Json) -> list[Json]:
    children = value.values() if type(value) is dict else value if type(value) is list else ()
    return [child for child in children if type(child) is dict or type(child) is list]


def parts(flat: Schema, value: Json) -> Iterator[tuple[str | int, Json, Schema]]:
    """Yield the containers in a value, each with its key and its schema."""
    if type(value) is dict:
        for name, child in value.items():
            if type(child) is dict or type(child) is list:
                yield name, child, member(flat, name)
    elif type(value) is list:
        for index, child in enumerate(value):
            if type(child) is dict or type(child) is list:
                yield index, child, element(flat, index)


def behind(schemas: Schemas, link: Link, schema: Schema) -> Place:
    """Return the place behind a link, with the schema of the context narrowed by the link's own."""
    own = schemas.read_link(link.schema) if link.has_schema else TRUE
    return (link.id, link.path, narrowed(schema, own))


def turned(schemas: Schemas, turn: Turn, schema: Schema) -> Place | None:
    """Return the place behind a link on a path, None when the path has become too long.

    The schema is about the value at the end of the path. So the schema of a link counts only when
    the path ends at this link.
    """
    if not turn.rest:
        return behind(schemas, turn.link, schema)
    path = turn.link.path + turn.rest
    return None if len(path) > QUERY_PATH_MAX else (turn.link.id, path, schema)


def look(value: Json, path: Path) -> Json | Absent | tuple[str, Path]:
    """Return the value at a path; where a link is met, its id and the path behind it."""
    met = walk_path(value, path)
    if isinstance(met, Turn):
        further = met.link.path + met.rest
        return ABSENT if len(further) > QUERY_PATH_MAX else (met.link.id, further)
    if isinstance(met, Absent):
        return ABSENT
    link = link_in(met)
    return met if link is None else (link.id, link.path)
