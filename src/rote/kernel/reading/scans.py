"""Scans: existing entities in id order, page by page, all from one state."""

from msgspec import Struct

from rote.contract import ScanPage, State
from rote.contract.commands import Scan, Skip
from rote.errors import InvalidInput
from rote.kernel.log.entries import load, state_of
from rote.kernel.log.page_sizes import answer_pace, page_size
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.values.limits import INTEGER_MAX, PAGE_BYTES_MAX, ROWS_READ_FIRST
from rote.values.ranges import above


def scan(space: OpenSpace, command: Scan) -> ScanPage:
    return page_of(space.reader(), command)


def skip(space: OpenSpace, command: Skip) -> str | None:
    """Return the last of the first ids in [start, end) without reading the entities."""
    start, end, count, view = command.start, command.end, command.count, command.view
    if type(count) is not int or not 1 <= count <= INTEGER_MAX:
        raise InvalidInput("skip takes a count from 1 on", argument="count")
    reads = space.reader()

    def look(version: int) -> str | None:
        line = reads.line(view.branch, version)
        if len(line) > 1:
            return None
        branch, cap = line[0]
        return reads.rows.entity_at(
            reads.number, branch, start=start, end=end, place=count - 1, unless_after=cap
        )

    return reads.steadily(view.version, look)


def page_of(reads: SpaceReader, command: Scan) -> ScanPage:
    """Return a page of the entities with ids in [start, end) and beyond `after`."""
    start, end, after, view = command.start, command.end, command.after, command.view
    limit = page_size(command.limit)
    if after is not None:
        if command.descending:
            end = after if end is None else min(end, after)
        else:
            start = max(start, above(after))
    within = IdSpan(start, end, command.descending)
    return reads.steadily(
        view.version, lambda version: _page(reads, view.branch, version, within, limit)
    )


class IdSpan(Struct, frozen=True):
    """The ids that are left to scan, and from which side."""

    start: str
    end: str | None
    descending: bool

    def beyond(self, id: str) -> "IdSpan":
        """Return what is left after an id."""
        if self.descending:
            return IdSpan(self.start, id, True)
        return IdSpan(above(id), self.end, False)


def _page(
    reads: SpaceReader,
    branch: str,
    version: int,
    left: IdSpan,
    limit: int,
) -> ScanPage:
    line = reads.line(branch, version)
    states: list[State] = []
    pace = answer_pace(PAGE_BYTES_MAX, limit=limit, first=ROWS_READ_FIRST)
    while wanted := pace.wanted:
        ids = reads.rows.entities(
            reads.number, line, start=left.start, end=left.end, limit=wanted,
            descending=left.descending,
        )  # fmt: skip
        entries = load(reads.rows, reads.number, ids, line)
        found = [id for id in ids if id in entries and entries[id].exists]
        fitting = pace.took([entries[id].size_bound for id in found])
        states += [state_of(id, entries[id]) for id in found[:fitting]]
        if fitting < len(found):
            break
        if len(ids) < wanted:
            return ScanPage(tuple(states), version, None)
        left = left.beyond(ids[-1])
    return ScanPage(tuple(states), version, states[-1].id)
