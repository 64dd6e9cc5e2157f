"""Finding the records of a list, in its order, without reading many records that do not match.

tags, a source        the index lists their entities in the order of the list, so the search can stop
a window of time      all entities that the index lists in the window, then sorted by id
otherwise             a scan of the namespace, the kind or the id prefix; an offset is skipped by ids

by time               the index lists the entities in that order, so the search can stop
by time, with tags, a source, an id prefix or a window of another time, and backwards with any of them:
                      all that match, then sorted
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import TypeVar

from msgspec import structs

from rote.contract import Hit
from rote.errors import Busy, Compacted
from rote.records.envelope import Envelope, life_of, record_of
from rote.records.filters import BY_ID, Filters, Order, Window, record_instant
from rote.records.index import NAME, STRAY, instant_range, text_term
from rote.records.keys import PREFIX, entity_id, ids_under, namespace_of
from rote.space import Space
from rote.values import Json
from rote.values.limits import (
    CONTENTION_ATTEMPTS_MAX,
    RECORDS_READ_AT_ONCE,
    RECORDS_READ_FIRST,
    SKIP_ROUNDS_MAX,
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
    view: Space,
    filters: Filters,
    *,
    namespace: str,
    kind: str | None,
    id_prefix: str,
    now: int,
    order: Order = BY_ID,
    after: str | None = None,
) -> Iterator[Envelope]:
    """Yield the matching records that have not expired, in their order. `view` is pinned.

    A list by id without conditions may begin `after` an id that `skip_records` has found.
    """
    if order == BY_ID:
        found = _candidates(view, filters, namespace, kind, id_prefix, after=after)
    elif _is_walked(filters, kind, id_prefix, order):
        found = _walked(
            view, filters, namespace=namespace, kind=kind, id_prefix=id_prefix, order=order
        )
    else:
        ids = _sorted(
            view, filters, namespace=namespace, kind=kind, id_prefix=id_prefix, now=now, order=order
        )
        found = read_records(view, ids)
    for record in found:
        if kind is not None and record["record_kind"] != kind:
            continue
        if not record["record_id"].startswith(id_prefix):
            continue
        life = life_of(record)
        if life is not None and not life.has_expired(now) and filters.match(record):
            yield record


def skip_records(
    view: Space, filters: Filters, *, namespace: str, kind: str | None, id_prefix: str, now: int
) -> tuple[str | None, Filters]:
    """Skip records by the offset of a list without reading them.

    Return the id after which the list goes on, and the filters with what is left of the offset: all of
    it where only reading the records tells which of them are listed. The store counts ids; the index
    knows which of them are not listed.
    """
    offset = filters.offset
    if not offset or filters.has_conditions or (kind is None and id_prefix):
        return None, filters
    within = ids_under(namespace, kind, id_prefix)
    after, count = view.skip(within, offset), offset
    if after is None:
        return None, filters
    left_out = _left_out(view, namespace, within, now)
    left = bisect_right(left_out, after)
    for _ in range(SKIP_ROUNDS_MAX):
        further = view.skip(within, count + left) if left else None
        if further is None:
            break
        after, count = further, count + left
        left = offset - (count - bisect_right(left_out, after))
    return after, structs.replace(filters, offset=left)


def _left_out(view: Space, namespace: str, within: str, now: int) -> list[str]:
    """Return the ids under a prefix that a list leaves out: expired records, and what is no record."""
    expired = _listed_between(view, "expires", namespace, Window(before=now - 1), within)
    # The prefix itself is no id of a record, and the index lists what comes after it.
    # No look-up by id: a prefix may end in `*`, and no id does.
    itself = [state.id for state in view.scan_range(within, above(within))]
    return sorted([*itself, *expired, *_listed(view, STRAY, within)])


def _is_walked(filters: Filters, kind: str | None, id_prefix: str, order: Order) -> bool:
    """Whether the store can walk in the order of a list, so that the search can stop."""
    if filters.tags_any or filters.tags_all or filters.source is not None:
        return False
    if order.name is None:
        # Without a kind an id prefix names no range of ids.
        return not filters.windows and not (kind is None and id_prefix)
    return not id_prefix and all(name == order.name for name, _ in filters.windows)


def _walked(
    view: Space,
    filters: Filters,
    *,
    namespace: str,
    kind: str | None,
    id_prefix: str,
    order: Order,
) -> Iterator[Envelope]:
    """Yield every record that may match, in the order of the list."""
    if order.name is None:
        within = ids_under(namespace, kind, id_prefix)
        return scan_records(view, within, needed=filters.needed, descending=True)
    window = dict(filters.windows).get(order.name, Window())
    start, end = instant_range(order.name, namespace, window.after, window.before)
    hits = view.find(
        NAME, start=start, end=end, descending=order.descending,
        within=ids_under(namespace, kind),
    )  # fmt: skip
    return read_records(view, (hit.id for hit in hits), filters.needed)


def _sorted(
    view: Space,
    filters: Filters,
    *,
    namespace: str,
    kind: str | None,
    id_prefix: str,
    now: int,
    order: Order,
) -> list[str]:
    """Return the ids of the matching records in the order of a list; only times and ids are held."""
    found = find_records(
        view, filters, namespace=namespace, kind=kind, id_prefix=id_prefix, now=now
    )
    keys = [
        (
            0 if order.name is None else record_instant(record, order.name),
            entity_id(namespace, record["record_kind"], record["record_id"]),
        )
        for record in found
    ]
    return [id for _, id in sorted(keys, reverse=order.descending)]


def with_versions(
    view: Space, namespace: str, items: Sequence[dict[str, Json]]
) -> list[dict[str, Json]]:
    """Return the items of a list with the versions in which their records were last written."""
    ids = [entity_id(namespace, str(item["record_kind"]), str(item["record_id"])) for item in items]
    states = [
        state
        for first in range(0, len(ids), RECORDS_READ_AT_ONCE)
        for state in view.read_many(ids[first : first + RECORDS_READ_AT_ONCE])
    ]
    return [
        {**item, "version": state.version or None}
        for item, state in zip(items, states, strict=True)
    ]


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


def read_records(view: Space, ids: Iterable[str], needed: int | None = None) -> Iterator[Envelope]:
    """Yield the records of entities, in that order."""
    waiting = iter(ids)
    for count in _counts(needed):
        chunk = list(islice(waiting, count))
        for state in view.read_many(chunk) if chunk else ():
            record = record_of(state)
            if record is not None:
                yield record
        if len(chunk) < count:
            return


def scan_records(
    view: Space,
    prefix: str,
    after: str | None = None,
    needed: int | None = None,
    *,
    descending: bool = False,
) -> Iterator[Envelope]:
    """Yield the records whose ids start with a prefix, in order or in the reverse."""
    return (
        record for _, record in scan_entities(view, prefix, after, needed, descending=descending)
    )


def scan_entities(
    view: Space,
    prefix: str,
    after: str | None = None,
    needed: int | None = None,
    *,
    descending: bool = False,
) -> Iterator[tuple[str, Envelope]]:
    """Yield (entity id, record) for the records whose ids start with a prefix, in order or reverse."""
    end = prefix_end(prefix)
    for count in _counts(needed):
        page = view.scan_range(prefix, end, after=after, limit=count, descending=descending)
        states = list(page)
        for state in states:
            record = record_of(state)
            if record is not None:
                yield state.id, record
        if len(states) < count:
            return
        after = states[-1].id


def _counts(needed: int | None) -> Iterator[int]:
    """Yield how many records to read at once: few at first, and no more than needed until then."""
    count, left = RECORDS_READ_FIRST, needed or 0
    while True:
        count = min(count, left) if left > 0 else count
        yield count
        count, left = RECORDS_READ_AT_ONCE, left - count


def _candidates(
    view: Space,
    filters: Filters,
    namespace: str,
    kind: str | None,
    id_prefix: str,
    *,
    after: str | None,
) -> Iterator[Envelope]:
    """Yield every record that may match, in order."""
    # Without a kind an id prefix names no range of ids.
    within = ids_under(namespace, kind, id_prefix)
    terms = [text_term("tag", namespace, tag) for tag in filters.tags_all]
    if filters.source is not None:
        terms.append(text_term("source", namespace, filters.source))
    if terms:
        return read_records(view, _listed_under_all(view, terms, within), filters.needed)
    if filters.tags_any:
        terms = [text_term("tag", namespace, tag) for tag in filters.tags_any]
        return read_records(view, _listed_under_any(view, terms, within), filters.needed)
    windows = dict(filters.windows)
    for name in _WINDOWS:
        if name in windows:
            ids = _listed_between(view, name, namespace, windows[name], within)
            return read_records(view, ids, filters.needed)
    if kind is None and id_prefix:
        return _scan_kinds(view, namespace, id_prefix)
    return scan_records(view, within, after, filters.needed)


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
