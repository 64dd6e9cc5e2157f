"""Scans: existing entities in id order, page by page, all from one state."""

from heapq import merge
from itertools import groupby, islice

from rote.contract import ScanPage, State, View
from rote.engines import Reader
from rote.engines.rows import Line
from rote.kernel.cache import SpaceCache
from rote.kernel.entry import load, state_of
from rote.kernel.history import page_size
from rote.values.limits import PAGE_BYTES_MAX
from rote.values.ranges import above

# Ids looked at first: few, because their values may be large.
CHUNK_MIN = 16


def scan(
    cache: SpaceCache,
    reads: Reader,
    *,
    start: str,
    end: str | None,
    after: str | None,
    limit: int,
    view: View,
) -> ScanPage:
    """A page of [start, end) above `after`."""
    limit = page_size(limit)
    version = cache.resolve(reads, view.version)
    line = cache.branches.line(view.branch, version)
    states: list[State] = []
    position = start if after is None else max(start, above(after))
    size, wanted = 0, CHUNK_MIN
    while len(states) < limit and size < PAGE_BYTES_MAX:
        wanted = min(wanted, limit - len(states))
        ids = _candidates(cache, reads, line, start=position, end=end, limit=wanted)
        entries = load(reads, cache.number, ids, line)
        for id in ids:
            if id in entries and entries[id].exists:
                states.append(state_of(id, entries[id]))
                size += entries[id].size_bound
        if len(ids) < wanted:
            return ScanPage(tuple(states), version, None)
        position = above(ids[-1])
        # Chunks grow while values are small.
        wanted *= 4
    return ScanPage(tuple(states), version, states[-1].id)


def _candidates(
    cache: SpaceCache, reads: Reader, line: Line, *, start: str, end: str | None, limit: int
) -> list[str]:
    """The next ids that may exist on the line: every branch of it names its own."""
    parts = [
        reads.entities(cache.number, branch, start=start, end=end, version=cap, limit=limit)
        for branch, cap in line
    ]
    return [id for id, _ in islice(groupby(merge(*parts)), limit)]
