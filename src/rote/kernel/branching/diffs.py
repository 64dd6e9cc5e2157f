"""Differences between two states of a space. The cost grows with what was written between them."""

from rote.contract import Change, View
from rote.contract.commands import Diff
from rote.kernel.log.branches import spans
from rote.kernel.log.entries import ABSENT, Entry, load, same, state_of
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.patch import diff as patch_between
from rote.values.limits import PAGE_MAX


def diff(space: OpenSpace, command: Diff) -> tuple[Change, ...]:
    """Return the changes in id order. Views without a version are both read at the same head."""
    reads, before, after = space.reader(), command.before, command.after
    return reads.steadily(None, lambda newest: _diff(reads, before, after, newest))


def _diff(reads: SpaceReader, before: View, after: View, newest: int) -> tuple[Change, ...]:
    lines = []
    for view in (before, after):
        version = newest if view.version is None else reads.resolve(view.version)
        lines.append(reads.line(view.branch, version))
    ids = sorted(reads.rows.written(reads.number, spans(*lines)))
    changes: list[Change] = []
    for start in range(0, len(ids), PAGE_MAX):
        page = ids[start : start + PAGE_MAX]
        olds, news = (load(reads.rows, reads.number, page, line) for line in lines)
        for id in page:
            old, new = olds.get(id, ABSENT), news.get(id, ABSENT)
            if not same(old, new):
                changes.append(_change(id, old, new))
    return tuple(changes)


def _change(id: str, old: Entry, new: Entry) -> Change:
    before, after = state_of(id, old), state_of(id, new)
    if not old.exists:
        return Change(id, "added", None, after.value, None)
    if not new.exists:
        return Change(id, "removed", before.value, None, None)
    # The patch contains parts of the value, so the value is decoded anew and shared with nobody.
    patch = patch_between(old.shared_document(), state_of(id, new).value)
    return Change(id, "changed", before.value, after.value, patch)
