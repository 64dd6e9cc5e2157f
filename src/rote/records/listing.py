"""Finding the records of a list, in its order, without reading many records that do not match.

tags, a source        the index lists their entities in the order of the list, so the search can stop
a window of time      all entities that the index lists in the window, then sorted by id
otherwise             a scan of the namespace, the kind or the id prefix
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

# Windows by how narrow they usually are. The index is asked for the first one that a list has.
_WINDOWS = ("last_accessed", "valid_at", "updated", "created")


def of_newest(space: Space, read: Callable[[Space], _Answer]) -> _Answer:
    """Return the answer of `read` for the newest state of a space.

    `read` is called again when that state was compacted away meanwhile.
    """
    for _ in range(CONTENTION_ATTEMPTS_MAX):
        version = space.version
        try:
            return read(space.at(version))
        except Compacted:
            if space.version == version:
                raise  # a pinned view: its version stays compacted away
    raise Busy("the space is compacted all the time; try again")


def find_records(
    view: Space, filters: Filters, *, namespace: str, kind: str | None, id_prefix: str, now: int
) -> Iterator[Envelope]:
    """Yield the matching records that have not expired, by kind and id. `view` is pinned."""
    for record in _candidates(view, filters, namespace, kind, id_prefix):
        if kind is not None and record["record_kind"] != kind:
            continue
        if not record["record_id"].startswith(id_prefix):
            continue
        life = life_of(record)
        if life is not None and not life.has_expired(now) and filters.match(record):
            yield record


def find_namespaces(view: Space) -> list[str]:
    """Return the namespaces that hold records; one record of each is read."""
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
    """Yield the records of entities, in that order."""
    waiting, count = iter(ids), RECORDS_READ_FIRST
    while chunk := list(islice(waiting, count)):
        for state in view.read_many(chunk):
            record = record_of(state)
            if record is not None:
                yield record
        count = RECORDS_READ_AT_ONCE


def scan_records(view: Space, prefix: str) -> Iterator[Envelope]:
    """Yield the records whose ids start with a prefix, in order."""
    return (record for _, record in scan_entities(view, prefix))


def scan_entities(view: Space, prefix: str) -> Iterator[tuple[str, Envelope]]:
    """Yield (entity id, record) for the records whose ids start with a prefix, in order."""
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
    """Yield every record that may match, in order."""
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
    """Yield the ids under a prefix that are listed under all of the terms, in order.

    The terms take turns: each is asked for its first id from the last found id on. So ids that only
    one term has are skipped.
    """
    if len(terms) == 1:
        yield from _listed(view, terms[0], within)
        return
    end = prefix_end(within)
    place, agreed, turn = within, 0, 0
    while True:
        # Every id ends with `!!`, so no id lies between an id and the id without its last character.
        after = place if agreed == 0 else place[:-1]
        term = terms[turn % len(terms)]
        hits = view.find(
            NAME, start=term, end=above(term), after=Hit(term, after), within=within, limit=1
        )
        hit = next(hits, None)
        if hit is None or (end is not None and hit.id >= end):
            return
        agreed = agreed + 1 if hit.id == place else 1
        place, turn = hit.id, turn + 1
        if agreed == len(terms):
            yield place
            agreed = 0


def _listed_under_any(view: Space, terms: list[str], within: str) -> Iterator[str]:
    """Yield the ids under a prefix that are listed under any of the terms, in order, each once."""
    last = ""
    for id in merge(*[_listed(view, term, within) for term in terms]):
        if id != last:
            yield id
        last = id


def _listed(view: Space, term: str, within: str) -> Iterator[str]:
    end = prefix_end(within)
    for hit in view.find(NAME, start=term, end=above(term), after=Hit(term, within), within=within):
        if end is not None and hit.id >= end:
            return
        yield hit.id


def _listed_between(
    view: Space, name: str, namespace: str, window: Window, within: str
) -> list[str]:
    start, end = instant_range(name, namespace, window.after, window.before)
    hits = view.find(NAME, start=start, end=end, within=within)
    return sorted(hit.id for hit in hits if hit.id.startswith(within))


def _scan_kinds(view: Space, namespace: str, id_prefix: str) -> Iterator[Envelope]:
    """Yield the records with an id prefix in every kind; other records are skipped."""
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
