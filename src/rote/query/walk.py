"""The walk: from selected entities along links, breadth first, level by level in id order.

A level is read in batches. The order in which data is stored decides nothing, so a walk that a limit
ends has the same answer every time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from rote.contract import State
from rote.query.expansion import Place, expand, look
from rote.query.links import ABSENT, Absent, Path
from rote.query.narrowing import NOTHING, matches
from rote.query.schemas import Schemas
from rote.values import Json
from rote.values.limits import (
    LOOK_THROUGH_MAX,
    PAGE_MAX,
    PLACES_MORE_MAX,
    PLACES_PER_ENTITY_MAX,
)

# Returns the states of ids, absent entities too, all from one state of the space.
Fetch = Callable[[Sequence[str]], Mapping[str, State]]

_Item = TypeVar("_Item")

DEPTH = "max_depth"
ENTITIES = "max_entities"


class Truncated(Struct, frozen=True, gc=False):
    """The reason why something was left out, and the first id that was left out."""

    reason: str
    at: str

    def to_dict(self) -> dict[str, Json]:
        return {"reason": self.reason, "at": self.at}


class Root(Struct, frozen=True, gc=False):
    """A selected entity."""

    state: State
    places: frozenset[Place]
    shows_deleted: bool


class Walk:
    """One walk. `facts` and `missing` hold its result; `truncated` says which limit ended it."""

    def __init__(
        self,
        fetch: Fetch,
        schemas: Schemas,
        *,
        depth_max: int,
        entities_max: int,
        named: Iterable[str] = (),
    ) -> None:
        # named: ids that the query asks for by name, also on other pages; they are shown when deleted.
        self._fetch = fetch
        self._schemas = schemas
        self._depth_max = depth_max
        self._entities_max = entities_max
        self._places_max = PLACES_PER_ENTITY_MAX * entities_max + PLACES_MORE_MAX
        self.seen: set[Place] = set()  # every place that the walk has reached
        self._shows_deleted = set(named)
        self._ahead: dict[str, State] = {}  # read to judge links; the next level needs them
        self.facts: dict[str, State] = {}
        self.missing: set[str] = set()
        self.truncated: Truncated | None = None

    def run(self, roots: Sequence[Root]) -> None:
        """Follow links from these roots, which are in id order."""
        level: dict[str, list[Place]] = {}
        for root in roots:
            self._ahead[root.state.id] = root.state
            if root.shows_deleted:
                self._shows_deleted.add(root.state.id)
            level[root.state.id] = list(root.places)
            self.seen |= root.places
        depth = 0
        while level and self.truncated is None:
            if depth > self._depth_max:
                self._cut(DEPTH, level)
                return
            level = self._next_level(level)
            depth += 1

    def has_visited(self, id: str) -> bool:
        return id in self.facts or id in self.missing

    def _cut(self, reason: str, level: dict[str, list[Place]]) -> None:
        """Set `truncated` to the first id of a level that is left out, if one adds to the result."""
        for id in sorted(level):
            state = self.facts.get(id)
            leads_on = any(path or schema is not NOTHING for _, path, schema in level[id])
            if id not in self.missing and (state is None or (state.exists and leads_on)):
                self.truncated = Truncated(reason, id)
                return

    def _next_level(self, level: dict[str, list[Place]]) -> dict[str, list[Place]]:
        found: dict[str, list[Place]] = {}
        ahead, self._ahead = self._ahead, {}
        for ids in batches(sorted(level)):
            unknown = [id for id in ids if id not in self.facts and id not in ahead]
            states = self._fetch(unknown) if unknown else {}
            perhaps: set[Place] = set()
            for id in ids:
                state = self.facts.get(id) or ahead.get(id) or states[id]
                if not (state.exists or (id in self._shows_deleted and is_deleted(state))):
                    self.missing.add(id)
                    continue
                if id not in self.facts and len(self.facts) >= self._entities_max:
                    self.truncated = Truncated(ENTITIES, id)
                    return {}
                self.facts[id] = state
                for place in level[id] if state.exists else ():
                    expansion = expand(self._schemas, place, state.value)
                    self._add(found, expansion.follows)
                    perhaps |= expansion.perhaps - self.seen
                    if expansion.cut or len(self.seen) > self._places_max:
                        self.truncated = Truncated(ENTITIES, id)
                        return {}
            self._add(found, self._judge(perhaps))
        return found

    def _add(self, found: dict[str, list[Place]], places: Iterable[Place]) -> None:
        for place in places:
            if place not in self.seen:
                self.seen.add(place)
                found.setdefault(place[0], []).append(place)

    def _judge(self, perhaps: set[Place]) -> Iterator[Place]:
        return (judged.place for judged in judge(perhaps, self._read) if judged.follows)

    def _read(self, ids: Sequence[str]) -> Mapping[str, State]:
        """Return the states that judging links needs.

        States that are held already are not read again. Only as many as the next level may need are
        kept.
        """
        while len(self._ahead) > self._entities_max - len(self.facts):
            self._ahead.popitem()
        unknown = [id for id in ids if id not in self.facts and id not in self._ahead]
        if unknown:
            self._ahead.update(self._fetch(unknown))
        return {id: self.facts.get(id) or self._ahead[id] for id in ids}


class Judged(Struct, frozen=True, gc=False):
    """The decision on a link with options, and the entities that were read for it."""

    place: Place
    follows: bool
    read: frozenset[str]


def judge(places: Iterable[Place], fetch: Fetch) -> Iterator[Judged]:
    """Yield the decision on each place, from the values behind its links, batch by batch."""
    for batch in batches(sorted(places, key=_order)):
        # For each place the next spot to read, and the spots that were read already.
        waiting: dict[Place, tuple[str, Path]] = {place: place[:2] for place in batch}
        looked: dict[Place, dict[tuple[str, Path], None]] = {place: {} for place in batch}
        while waiting:
            states = fetch(sorted({id for id, _ in waiting.values()}))
            further: dict[Place, tuple[str, Path]] = {}
            for place, spot in waiting.items():
                looked[place][spot] = None
                state = states[spot[0]]
                value = look(state.value, spot[1]) if state.exists else ABSENT
                if isinstance(value, tuple):
                    if value not in looked[place] and len(looked[place]) < LOOK_THROUGH_MAX:
                        further[place] = value
                        continue
                    value = ABSENT
                yield _judged(place, value, looked[place])
            waiting = further


def _judged(place: Place, value: Json | Absent, looked: Iterable[tuple[str, Path]]) -> Judged:
    return Judged(place, matches(place[2], value), frozenset(id for id, _ in looked))


def _order(place: Place) -> tuple[str, Path]:
    return place[:2]


def is_deleted(state: State) -> bool:
    """Whether the entity existed once and was deleted, but not erased."""
    return not state.exists and state.version > 0 and not state.erased


def batches(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), PAGE_MAX):
        yield items[start : start + PAGE_MAX]
