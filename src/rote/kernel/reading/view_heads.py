"""The newest commit that changed what a view shows. Commits that do not change its content are skipped."""

from rote.contract import Head
from rote.contract.commands import GetSnapshot
from rote.engines.rows import MAIN, CommitRow, Line
from rote.kernel.log.events import BranchMerged, EntityErased, event_of, event_rows
from rote.kernel.reading.history import EMPTY, commit_row
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader


def snapshot(space: OpenSpace, command: GetSnapshot) -> Head:
    reads, view = space.reader(), command.view
    return reads.steadily(view.version, lambda version: _snapshot(reads, view.branch, version))


def _snapshot(reads: SpaceReader, branch: str, version: int) -> Head:
    line = reads.line(branch, version)
    newest = max(reads.rows.last_written(reads.number, line).values(), default=0)
    for row in event_rows(reads.rows, reads.number, after=newest):
        if row.version > version:
            break
        if _counts(row, line):
            newest = row.version
    # A commit below the horizon may be gone; the one at the horizon takes its place.
    newest = max(newest, min(reads.space.oldest, version)) if reads.space.oldest > 1 else newest
    if newest == 0:
        return EMPTY
    found = commit_row(reads, newest)
    return Head(found.version, found.hash.hex(), found.at)


def _counts(row: CommitRow, line: Line) -> bool:
    """Whether a commit with an event changed what the line shows: by a merge or an erasure."""
    happening = event_of(row)
    if isinstance(happening, EntityErased):
        return any(branch == MAIN and row.version <= cap for branch, cap in line)
    is_own = any(branch == row.branch and row.version <= cap for branch, cap in line)
    return is_own and isinstance(happening, BranchMerged)
