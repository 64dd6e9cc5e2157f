"""Differences between two states of a space. The cost grows with what was written between them."""

from collections.abc import Sequence

from rote.contract import Change, ChangePage, View
from rote.contract.commands import Diff, ListChanges
from rote.engines.rows import Line
from rote.kernel.log.branches import spans
from rote.kernel.log.entries import ABSENT, Entry, load, same, state_of
from rote.kernel.log.page_sizes import answer_pace, compared_at_once, page_size
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.patch import diff as patch_between
from rote.values.limits import PAGE_BYTES_MAX, ROWS_READ_FIRST
from rote.values.names import check_text


def diff(space: OpenSpace, command: Diff) -> tuple[Change, ...]:
    """Return the changes in id order. Views without a version are both read at the same head."""
    reads, before, after = space.reader(), command.before, command.after
    return reads.steadily(None, lambda newest: _diff(reads, before, after, newest))


def _diff(reads: SpaceReader, before: View, after: View, newest: int) -> tuple[Change, ...]:
    lines = [_line(reads, view, newest) for view in (before, after)]
    ids = sorted(reads.rows.written(reads.number, spans(*lines)))
    changes: list[Change] = []
    at_once = compared_at_once(reads.space.engine)
    for start in range(0, len(ids), at_once):
        found = _changed(reads, ids[start : start + at_once], lines)
        changes += [_change(*each) for each in found]
    return tuple(changes)


def list_changes(space: OpenSpace, command: ListChanges) -> ChangePage:
    reads, limit, beyond = space.reader(), page_size(command.limit), command.beyond
    if beyond is not None:
        check_text(beyond, "beyond")
    return reads.steadily(None, lambda newest: _page(reads, command, limit, newest))


def _page(reads: SpaceReader, command: ListChanges, limit: int, newest: int) -> ChangePage:
    views = (command.before, command.after)
    lines = [_line(reads, view, newest) for view in views]
    before, after = (newest if view.version is None else view.version for view in views)
    written = reads.rows.written(reads.number, spans(*lines))
    ids = sorted(id for id in written if command.beyond is None or id > command.beyond)
    pace = answer_pace(PAGE_BYTES_MAX, limit=limit, first=ROWS_READ_FIRST)
    changes: list[Change] = []
    place = 0
    while place < len(ids) and (wanted := pace.wanted):
        found = _changed(reads, ids[place : place + wanted], lines)
        fitting = pace.took([old.size_bound + new.size_bound for _, old, new in found])
        changes += [_change(*each) for each in found[:fitting]]
        if fitting < len(found):
            return ChangePage(tuple(changes), before, after, changes[-1].id)
        place += wanted
    return ChangePage(tuple(changes), before, after, ids[place - 1] if place < len(ids) else None)


def _line(reads: SpaceReader, view: View, newest: int) -> Line:
    version = newest if view.version is None else reads.resolve(view.version)
    return reads.line(view.branch, version)


def _changed(
    reads: SpaceReader, ids: Sequence[str], lines: Sequence[Line]
) -> list[tuple[str, Entry, Entry]]:
    """Return the ids whose entities differ on two lines, with their entries."""
    olds, news = (load(reads.rows, reads.number, ids, line) for line in lines)
    pairs = [(id, olds.get(id, ABSENT), news.get(id, ABSENT)) for id in ids]
    return [(id, old, new) for id, old, new in pairs if not same(old, new)]


def _change(id: str, old: Entry, new: Entry) -> Change:
    before, after = state_of(id, old), state_of(id, new)
    if not old.exists:
        return Change(id, "added", None, after.value, None)
    if not new.exists:
        return Change(id, "removed", before.value, None, None)
    # The patch contains parts of the value, so the value is decoded anew and shared with nobody.
    patch = patch_between(old.shared_document(), state_of(id, new).value)
    return Change(id, "changed", before.value, after.value, patch)
