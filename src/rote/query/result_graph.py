"""The result of a watched query: the places that the query reaches, kept as entities change.

It holds the places that a walk finds, with their depths and the links between them. When entities
change, only their places are expanded again. A removed link may have been the shortest way to a
place, so depths are mended in two steps:

    lost     from places that lost a link, outwards: a place without a neighbour that is one step
             nearer to a root becomes unsettled
    gained   from the neighbours of unsettled places, and from new links, outwards: each place gets
             its least depth

A place that is still unsettled then is not reached any more, also when unsettled places link to it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from rote.contract import State
from rote.query.expansion import Place, expand
from rote.query.narrowing import NOTHING
from rote.query.schemas import Schemas
from rote.query.walk import DEPTH, Fetch, Truncated, batches, is_deleted, judge
from rote.values.limits import PLACES_MORE_MAX, PLACES_PER_ENTITY_MAX

_FAR: Final = 2**62

_Key = TypeVar("_Key", str, Place)


class Overflow(Exception):
    """The query reaches more than its limits allow, and then the result depends on the order."""


class _Spot:
    """A place that the query reaches."""

    __slots__ = ("depth", "edges", "read")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.edges: frozenset[Place] = frozenset()
        self.read: frozenset[str] = frozenset()  # entities that were read to judge its links


_Levels = dict[int, set[Place]]


class _Fresh:
    """Current states that an update has read."""

    def __init__(self, fetch: Fetch, changed: Mapping[str, State]) -> None:
        self._fetch = fetch
        self.states = dict(changed)

    def take(self, ids: Sequence[str]) -> Mapping[str, State]:
        """Return the states of entities and keep them as part of the answer."""
        unknown = [id for id in ids if id not in self.states]
        if unknown:
            self.states.update(self._fetch(unknown))
        return self.states

    def peek(self, ids: Sequence[str]) -> Mapping[str, State]:
        """Return the states of entities without keeping them."""
        unknown = [id for id in ids if id not in self.states]
        read = dict(self._fetch(unknown)) if unknown else {}
        return {id: self.states.get(id) or read[id] for id in ids}


class ResultGraph:
    """The places that a query reaches; an Overflow leaves it unusable."""

    def __init__(
        self,
        schemas: Schemas,
        *,
        depth_max: int,
        entities_max: int,
        shows_deleted: Callable[[str], bool],
    ) -> None:
        self._schemas = schemas
        self._depth_max = depth_max
        self._entities_max = entities_max
        self._places_max = PLACES_PER_ENTITY_MAX * entities_max + PLACES_MORE_MAX
        self._shows_deleted = shows_deleted
        self._spots: dict[Place, _Spot] = {}
        self._sources: dict[Place, set[Place]] = {}  # of links, also of links that lead too far
        self._roots: set[Place] = set()
        self._places: dict[str, set[Place]] = {}  # by entity
        self._readers: dict[str, set[Place]] = {}  # places whose links were judged by an entity
        self._beyond: set[Place] = set()  # targets of links that are too far
        self._shown: dict[str, bool] = {}  # ids in the result, and whether they exist
        self.truncated: Truncated | None = None  # the same that a walk would report

    def concerns(self, id: str) -> bool:
        return id in self._places or id in self._readers

    def shows(self, id: str) -> bool:
        """Whether the entity is in the result."""
        return id in self._shown

    def update(
        self,
        fetch: Fetch,
        changed: Mapping[str, State],
        *,
        added: Iterable[Place] = (),
        removed: Iterable[Place] = (),
    ) -> Mapping[str, State | None]:
        """Apply changed entities and roots; return the entities whose part in the result may differ.

        Each comes with its state; None for an entity that is not reached any more.
        """
        fresh = _Fresh(fetch, changed)
        lost, gained = self._expand_again(changed, fresh)
        gone = self._roots.intersection(removed)
        self._roots -= gone
        unsettled = self._unsettle(gone.union(lost))
        levels: _Levels = {0: set(added)}
        self._roots |= levels[0]
        for source, target in gained:
            if source not in unsettled:
                levels.setdefault(self._spots[source].depth + 1, set()).add(target)
        for place in unsettled:
            levels.setdefault(self._nearest(place), set()).add(place)
        self._settle(levels, fresh)
        touched: dict[str, State | None] = {}
        for place in unsettled:
            if self._spots[place].depth == _FAR:
                self._drop(place)
                if place[0] not in self._places:
                    touched[place[0]] = None
        for id, state in fresh.states.items():
            if id in self._places:
                touched[id] = state
                self._show(state)
        if len(self._shown) > self._entities_max:
            raise Overflow
        first = min((place[0] for place in self._beyond if self._adds(place)), default=None)
        self.truncated = None if first is None else Truncated(DEPTH, first)
        return touched

    def _adds(self, place: Place) -> bool:
        """Whether the result lacks something because this place is too far away."""
        id, path, schema = place
        if id in self._places:
            return self._shown.get(id, False) and (bool(path) or schema is not NOTHING)
        return True

    # -- links that changed ------------------------------------------------------------------------

    def _expand_again(
        self, changed: Mapping[str, State], fresh: _Fresh
    ) -> tuple[list[Place], list[tuple[Place, Place]]]:
        """Expand the places of changed entities; return targets that lost a link, and new links."""
        stale: set[Place] = set()
        for id in changed:
            stale |= self._places.get(id, set())
            stale |= self._readers.get(id, set())
        lost: list[Place] = []
        gained: list[tuple[Place, Place]] = []
        for place, edges, read in self._expanded(stale, fresh):
            spot = self._spots[place]
            lost += spot.edges - edges
            gained += [(place, target) for target in edges - spot.edges]
            self._link(place, edges, read)
        return lost, gained

    def _expanded(
        self, places: Iterable[Place], fresh: _Fresh
    ) -> Iterator[tuple[Place, frozenset[Place], frozenset[str]]]:
        """Yield each place with the places followed from it, and the entities read to judge links."""
        for batch in batches(sorted(places, key=lambda place: place[:2])):
            states = fresh.take([place[0] for place in batch])
            found = {
                place: expand(self._schemas, place, states[place[0]].value)
                for place in batch
                if states[place[0]].exists
            }
            if any(expansion.cut for expansion in found.values()):
                raise Overflow
            perhaps = {place for expansion in found.values() for place in expansion.perhaps}
            judged = {each.place: each for each in judge(perhaps, fresh.peek)}
            for place in batch:
                if place not in found:
                    yield place, frozenset(), frozenset()
                    continue
                options = [judged[target] for target in found[place].perhaps]
                follows = {each.place for each in options if each.follows}
                read = frozenset(id for each in options for id in each.read)
                yield place, frozenset(found[place].follows | follows), read

    def _link(self, place: Place, edges: frozenset[Place], read: frozenset[str]) -> None:
        spot = self._spots[place]
        for target in spot.edges - edges:
            _discard(self._sources, target, place)
            if target not in self._sources:
                self._beyond.discard(target)
        for target in edges - spot.edges:
            self._sources.setdefault(target, set()).add(place)
            if target not in self._spots:
                self._beyond.add(target)
        for id in spot.read - read:
            _discard(self._readers, id, place)
        for id in read - spot.read:
            self._readers.setdefault(id, set()).add(place)
        spot.edges, spot.read = edges, read

    # -- depths ------------------------------------------------------------------------------------

    def _unsettle(self, suspects: Iterable[Place]) -> set[Place]:
        """Return places that no neighbour one step nearer holds, and all that depend on them."""
        levels: _Levels = {}
        for place in suspects:
            if place in self._spots:
                levels.setdefault(self._spots[place].depth, set()).add(place)
        found: set[Place] = set()
        while levels:
            depth = min(levels)
            for place in levels.pop(depth):
                if not self._is_held(place, depth):
                    found.add(place)
                    self._spots[place].depth = _FAR
                    for target in self._spots[place].edges:
                        spot = self._spots.get(target)
                        if spot is not None and spot.depth == depth + 1:
                            levels.setdefault(depth + 1, set()).add(target)
        return found

    def _is_held(self, place: Place, depth: int) -> bool:
        if depth == 0:
            return place in self._roots
        return any(
            self._spots[source].depth == depth - 1 for source in self._sources.get(place, ())
        )

    def _nearest(self, place: Place) -> int:
        if place in self._roots:
            return 0
        sources = self._sources.get(place, ())
        return min((self._spots[source].depth + 1 for source in sources), default=_FAR)

    def _settle(self, levels: _Levels, fresh: _Fresh) -> None:
        """Give every place, new ones too, the least depth at which it is reached."""
        while levels:
            depth = min(levels)
            places = levels.pop(depth)
            if depth > self._depth_max:
                return  # all places that are left are too far as well
            nearer = [place for place in places if depth < self._depth_of(place)]
            new = {place for place in nearer if place not in self._spots}
            for place in nearer:
                self._spots.setdefault(place, _Spot(depth)).depth = depth
                self._places.setdefault(place[0], set()).add(place)
            self._beyond -= new
            for place, edges, read in self._expanded(new, fresh):
                self._show(fresh.states[place[0]])
                self._link(place, edges, read)
                if self._is_too_much():
                    raise Overflow
            for place in nearer:
                for target in self._spots[place].edges:
                    if depth + 1 < self._depth_of(target):
                        levels.setdefault(depth + 1, set()).add(target)

    def _depth_of(self, place: Place) -> int:
        spot = self._spots.get(place)
        return _FAR if spot is None else spot.depth

    def _is_too_much(self) -> bool:
        # Places that are not reached any more are dropped later, so twice as many are allowed here.
        return len(self._shown) > 2 * self._entities_max or len(self._spots) > self._places_max

    # -- entities ----------------------------------------------------------------------------------

    def _show(self, state: State) -> None:
        if state.exists or (self._shows_deleted(state.id) and is_deleted(state)):
            self._shown[state.id] = state.exists
        else:
            self._shown.pop(state.id, None)

    def _drop(self, place: Place) -> None:
        self._link(place, frozenset(), frozenset())
        del self._spots[place]
        if place in self._sources:
            self._beyond.add(place)
        _discard(self._places, place[0], place)
        if place[0] not in self._places:
            self._shown.pop(place[0], None)


def _discard(sets: dict[_Key, set[Place]], key: _Key, place: Place) -> None:
    """Remove a place from one of the sets, and the set when it is empty."""
    places = sets[key]
    places.discard(place)
    if not places:
        del sets[key]
