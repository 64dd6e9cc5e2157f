"""Values in which links are replaced by the values they lead to, and defaults are filled in.

A walk has read everything before. Nothing is read here, and nothing stored is changed.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from rote.contract import State
from rote.query.expansion import Place, behind, parts, turned
from rote.query.links import ABSENT, Absent, Link, Path, Turn, link_in, walk_path
from rote.query.narrowing import (
    NOTHING,
    Effort,
    Schema,
    alternatives,
    default_of,
    in_order,
    order_of,
)
from rote.query.schemas import Schemas
from rote.query.walk import DEPTH, ENTITIES, Truncated
from rote.values import Json, depth_of
from rote.values.limits import DEPTH_MAX, FILLED_NODES_MAX, LOOK_THROUGH_MAX

CYCLE = "cycle"

_Spot = tuple[str, Path]


class _Job(Struct, frozen=True, gc=False):
    """A value to copy into a container, with its links replaced."""

    value: Json
    schemas: tuple[Schema, ...]  # they decide which links are followed from here
    target: Any  # the container
    key: str | int
    depth: int  # number of containers around it
    trail: tuple[_Spot, ...]  # the spots on the way to it
    effort: Effort  # shared by everything in one place


class Filling:
    """Fills the values of one walk's roots."""

    def __init__(
        self, schemas: Schemas, facts: Mapping[str, State], followed: Iterable[Place]
    ) -> None:
        self._schemas = schemas
        self._facts = facts
        self._followed = set(followed)
        self._nodes = 0
        self._depths: dict[_Spot, int] = {}
        self.truncated: Truncated | None = None

    def fill(self, place: Place) -> Json | Absent:
        """Return the filled value at a place, ABSENT when there is none."""
        met = self._resolve(place[:2], (place[2],))
        if met is None:
            return ABSENT
        value, schemas, spot = met
        result: list[Json] = [None]
        waiting = [_Job(value, schemas, result, 0, 0, (spot,), Effort())]
        while waiting:
            self._do(waiting.pop(), waiting)
        return result[0]

    def _resolve(
        self, spot: _Spot, schemas: tuple[Schema, ...]
    ) -> tuple[Json, tuple[Schema, ...], _Spot] | None:
        """Return the value at a spot, its schemas and its final spot, behind links on the path."""
        for _ in range(LOOK_THROUGH_MAX):
            state = self._facts.get(spot[0])
            if state is None or not state.exists:
                return None
            met = walk_path(state.value, spot[1])
            if isinstance(met, Absent):
                return None
            if not isinstance(met, Turn):
                return met, schemas, spot
            targets = [turned(self._schemas, met, schema) for schema in schemas]
            places = [place for place in targets if place is not None]
            if not places:
                return None
            spot, schemas = places[0][:2], tuple(place[2] for place in places)
        return None

    def _do(self, job: _Job, waiting: list[_Job]) -> None:
        self._nodes += 1
        link = link_in(job.value)
        if link is not None and self._replace(job, link, waiting):
            return
        value = job.value
        if type(value) is not dict and type(value) is not list:
            job.target[job.key] = value
            return
        flats = [
            flat
            for schema in job.schemas
            if schema is not NOTHING and link is None
            for flat in in_order(alternatives(schema, value, job.effort)[0])
        ]
        copy: Any = {} if type(value) is dict else [None] * len(value)
        job.target[job.key] = copy
        inner: dict[str | int, list[Schema]] = {}
        for flat in flats:
            for key, _, schema in parts(flat, value):
                inner.setdefault(key, []).append(schema)
        members = value.items() if type(value) is dict else enumerate(value)
        jobs = []
        for key, child in members:
            copy[key] = None  # fixes the order of keys, whichever job is done first
            schemas = tuple(dict.fromkeys(inner.get(key, ())))
            jobs.append(_Job(child, schemas, copy, key, job.depth + 1, job.trail, job.effort))
        if type(value) is dict:
            for name, default in self._defaults(job, flats, value).items():
                jobs.append(_Job(default, (), copy, name, job.depth + 1, job.trail, job.effort))
        waiting += reversed(jobs)

    def _replace(self, job: _Job, link: Link, waiting: list[_Job]) -> bool:
        """Put the value behind a link in its place; return False when the link stays."""
        places = [
            behind(self._schemas, link, schema) for schema in job.schemas if schema is not NOTHING
        ]
        schemas = tuple(place[2] for place in places if place in self._followed)
        met = self._resolve((link.id, link.path), schemas) if schemas else None
        if met is None:
            return False
        value, schemas, spot = met
        reason = None
        if spot in job.trail:
            reason = CYCLE
        elif job.depth + self._depth(spot, value) > DEPTH_MAX or len(job.trail) >= DEPTH_MAX:
            reason = DEPTH
        elif self._nodes > FILLED_NODES_MAX:
            reason = ENTITIES
        if reason is not None:
            self.truncated = self.truncated or Truncated(reason, link.id)
            return False
        trail = (*job.trail, spot)
        waiting.append(_Job(value, schemas, job.target, job.key, job.depth, trail, Effort()))
        return True

    def _depth(self, spot: _Spot, value: Json) -> int:
        """Return the depth of the value at a spot; it is kept, because many links may lead there."""
        if spot not in self._depths:
            self._depths[spot] = depth_of(value)
        return self._depths[spot]

    def _defaults(self, job: _Job, flats: list[Schema], value: dict[str, Json]) -> dict[str, Json]:
        """Return the defaults of declared properties that are missing; the first default counts."""
        found: dict[str, Json] = {}
        reason = None
        for node in (node for flat in flats for node in sorted(flat, key=order_of)):
            properties = node.properties or {}
            if self._nodes > FILLED_NODES_MAX or not job.effort.spend(len(properties)):
                reason = ENTITIES
                break
            for name, inner in properties.items():
                default = default_of(inner)
                if name in value or name in found or isinstance(default, Absent):
                    continue
                if job.depth + 1 + depth_of(default) > DEPTH_MAX:
                    reason = DEPTH
                    continue
                found[name] = default
        if reason is not None:
            self.truncated = self.truncated or Truncated(reason, job.trail[-1][0])
        return found
