"""Finding the records of a list, in its order, at the cost of what it returns.

tags, a source        the index has their entities in the order of lists: stop when it is enough
a window of time      all that the index has in it, then sorted by id
otherwise             the entities of the namespace, the kind or the id prefix, by scanning
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import TypeVar

from rote.contract import Hit
from rote.errors import Busy, Compacted
from rote.records.envelope import Envelope, life_of, record_of
from rote.records.filters import Filters, Window
from rote.records.index import NAME, instant_range, text_term
from rote.records.keys import PREFIX, ids_under, namespace_of
from rote.space import Space
from rote.values.limits import (
    CONTENTION_ATTEMPTS_MAX,
    RECORDS_READ_AT_ONCE,
    RECORDS_READ_FIRST,
)
from rote.values.ranges import above, prefix_end

_Answer = TypeVar("_Answer")

# Of two windows the one that is likelier to be narrow.
_WINDOWS = ("last_accessed", "valid_at", "updated", "created")


def of_newest(space: Space, read: Callable[[Space], _Answer]) -> _Answer:
    """What `read` says of a space as it is now, as one state; again when that state was compacted
    away meanwhile."""
    for _ in range(CONTENTION_ATTEMPTS_MAX):
        version = space.version
        try:
            return read(space.at(version))
        except Compacted:
            if space.version == version:
                raise  # a pinned one, which stays away
    raise Busy("the space is compacted all the time; try again")


def find_records(
    view: Space, filters: Filters, *, namespace: str, kind: str | None, id_prefix: str, now: int
) -> Iterator[Envelope]:
    """The living records that match, by kind and id. `view` is one state."""
    for record in _candidates(view, filters, namespace, kind, id_prefix):
        if kind is not None and record["record_kind"] != kind:
            continue
        if not record["record_id"].startswith(id_prefix):
            continue
        life = life_of(record)
        if life is not None and not life.has_expired(now) and filters.match(record):
            yield record


def find_namespaces(view: Space) -> list[str]:
    """The namespaces that hold records, going from one to the next without what lies between."""
    found: list[str] = []
    after: str | None = None
    while state := next(view.scan(PREFIX, after=after, limit=1), None):
        namespace = namespace_of(state.id)
        if namespace is None:
            after = state.id
            continue
        found.append(namespace)
        after = prefix_end(ids_under(namespace))
    return found


def read_records(view: Space, ids: Iterable[str]) -> Iterator[Envelope]:
    """The records of entities, in that order."""
    waiting, count = iter(ids), RECORDS_READ_FIRST
    while chunk := list(islice(waiting, count)):
        for state in view.read_many(chunk):
            record = record_of(state)
            if record is not None:
                yield record
        count = RECORDS_READ_AT_ONCE


def scan_records(view: Space, prefix: str) -> Iterator[Envelope]:
    """The records whose ids start with a prefix, in order."""
    return (record for _, record in scan_entities(view, prefix))


def scan_entities(view: Space, prefix: str) -> Iterator[tuple[str, Envelope]]:
    """The same, each with the entity that holds it."""
    after, count = None, RECORDS_READ_FIRST
    while True:
        states = list(view.scan(prefix, after=after, limit=count))
        for state in states:
            record = record_of(state)
            if record is not None:
                yield state.id, record
        if len(states) < count:
            return
        after, count = states[-1].id, RECORDS_READ_AT_ONCE


def _candidates(
    view: Space, filters: Filters, namespace: str, kind: str | None, id_prefix: str
) -> Iterator[Envelope]:
    """Every record that may match, in order."""
    # Without a kind an id prefix names no range of ids.
    within = ids_under(namespace, kind, id_prefix)
    terms = [text_term("tag", namespace, tag) for tag in filters.tags_all]
    if filters.source is not None:
        terms.append(text_term("source", namespace, filters.source))
    if terms:
        return read_records(view, _listed_under_all(view, terms, within))
    if filters.tags_any:
        terms = [text_term("tag", namespace, tag) for tag in filters.tags_any]
        return read_records(view, _listed_under_any(view, terms, within))
    windows = dict(filters.windows)
    for name in _WINDOWS:
        if name in windows:
            ids = _listed_between(view, name, namespace, windows[name], within)
            return read_records(view, ids)
    if kind is None and id_prefix:
        return _scan_kinds(view, namespace, id_prefix)
    return scan_records(view, within)


def _listed_under_all(view: Space, terms: list[str], within: str) -> Iterator[str]:
    """The ids in a range that are listed under all of the terms, in order.

    The terms take turns: each is asked for its first id from where the last one was, so what only
    one of them has is jumped over.
    """
    if len(terms) == 1:
        yield from _listed(view, terms[0], within)
        return
    end = prefix_end(within)
    place, agreed, turn = within, 0, 0
    while True:
        # No id lies between an id and the same without its last character.
        after = place if agreed == 0 else place[:-1]
        term = terms[turn % len(terms)]
        hits = view.find(NAME, start=term, end=above(term), after=Hit(term, after), limit=1)
        hit = next(hits, None)
        if hit is None or (end is not None and hit.id >= end):
            return
        agreed = agreed + 1 if hit.id == place else 1
        place, turn = hit.id, turn + 1
        if agreed == len(terms):
            yield place
            agreed = 0


def _listed_under_any(view: Space, terms: list[str], within: str) -> Iterator[str]:
    """The ids in a range that are listed under any of the terms, in order, each once."""
    last = ""
    for id in merge(*[_listed(view, term, within) for term in terms]):
        if id != last:
            yield id
        last = id


def _listed(view: Space, term: str, within: str) -> Iterator[str]:
    end = prefix_end(within)
    for hit in view.find(NAME, start=term, end=above(term), after=Hit(term, within)):
        if end is not None and hit.id >= end:
            return
        yield hit.id


def _listed_between(
    view: Space, name: str, namespace: str, window: Window, within: str
) -> list[str]:
    start, end = instant_range(name, namespace, window.after, window.before)
    hits = view.find(NAME, start=start, end=end)
    return sorted(hit.id for hit in hits if hit.id.startswith(within))


def _scan_kinds(view: Space, namespace: str, id_prefix: str) -> Iterator[Envelope]:
    """The ids with a prefix in every kind, going from kind to kind without what lies between."""
    everything = ids_under(namespace)
    after: str | None = None
    while state := next(view.scan(everything, after=after, limit=1), None):
        record = record_of(state)
        if record is None:
            after = state.id
            continue
        kind = record["record_kind"]
        yield from scan_records(view, ids_under(namespace, kind, id_prefix))
        after = prefix_end(ids_under(namespace, kind))
