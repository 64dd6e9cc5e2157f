"""Checks of the reads of a commit: a read conflicts with a later write that overlaps it."""

from collections.abc import Iterable, Sequence

from rote.contract.operations import PATCH
from rote.contract.reads import Read
from rote.engines.rows import FactRow, Line
from rote.errors import InvalidInput, ReadConflict
from rote.kernel.committing.drafts import Draft
from rote.kernel.committing.jobs import Job
from rote.kernel.log.entries import Entry
from rote.kernel.log.events import erasures
from rote.patch import overlaps
from rote.values import decode_canonical
from rote.values.limits import PAGE_MAX

_Write = tuple[int, bytes | None]  # version and hash


def find_conflicts(
    draft: Draft, reads: Sequence[Read], *, branch: str, current: dict[str, Entry]
) -> tuple[ReadConflict, ...]:
    """Return a conflict for every read that no longer holds, in the order of the reads.

    `current` holds the newest entries of what was read on `branch`.
    """
    _check_reachable(draft, reads)
    entries = _look_up_elsewhere(draft, reads, branch)
    entries[branch] = current
    erased = _erased_since(draft, reads)
    found = (_conflict(draft, read, entries, erased) for read in reads)
    return tuple(conflict for conflict in found if conflict is not None)


def find_erased(draft: Draft, job: Job) -> tuple[ReadConflict, ...]:
    """Return a conflict for every entity that the job writes and that was erased after `unerased_since`.

    The job may have been prepared before, so it could write the erased content again.
    """
    since = job.unerased_since
    if since is None:
        return ()
    written = {operation.id for operation in job.operations}
    return tuple(
        ReadConflict.of_entity(
            id, branch=job.branch, expected_version=since, actual=(version, None)
        )
        for version, id in erasures(draft.reads.rows, draft.space.number, after=since)
        if id in written
    )


def _check_reachable(draft: Draft, reads: Sequence[Read]) -> None:
    for read in reads:
        if read.version > draft.version:
            raise InvalidInput(
                f"a read names version {read.version}, the newest is {draft.version}"
            )
        if read.besides and max(read.besides) > draft.version:
            raise InvalidInput(
                f"besides names version {max(read.besides)}, the newest is {draft.version}"
            )
        if read.branch not in draft.space.branches:
            raise InvalidInput(f"a read names the branch {read.branch!r}, which does not exist")


def _look_up_elsewhere(
    draft: Draft, reads: Sequence[Read], branch: str
) -> dict[str, dict[str, Entry]]:
    """Return the newest entries of entities that were read on other branches, by branch and id."""
    wanted: dict[str, dict[str, None]] = {}
    for read in reads:
        if read.id is not None and read.branch != branch:
            wanted.setdefault(read.branch, {})[read.id] = None
    return {name: draft.look_up(name, list(ids)) for name, ids in wanted.items()}


def _erased_since(draft: Draft, reads: Sequence[Read]) -> list[tuple[int, str]]:
    """Return (version, id) of all erasures after the oldest read of a range, or of an entity with
    `besides`, newest first."""
    versions = [read.version for read in reads if read.id is None or read.besides]
    if not versions:
        return []
    return list(erasures(draft.reads.rows, draft.space.number, after=min(versions)))[::-1]


def _conflict(
    draft: Draft,
    read: Read,
    entries: dict[str, dict[str, Entry]],
    erased: list[tuple[int, str]],
) -> ReadConflict | None:
    if read.id is None:
        actual = _newest_in_range(draft, read, erased)
    else:
        entry = entries[read.branch][read.id]
        if entry.version <= read.version:
            return None
        # The writes since the read may have been compacted away, and the paths they touched with
        # them: then any write conflicts.
        is_gone = entry.erased or read.version + 1 < draft.space.oldest
        if is_gone or not (read.path or read.besides):
            actual = entry.version, entry.hash
        else:
            actual = _overlapping(draft, read, erased)
    if actual is None:
        return None
    version, hash = actual
    ranged = read.id is None and read.prefix is None
    return ReadConflict(
        id=read.id,
        prefix=read.prefix,
        start=read.start if ranged else None,
        end=read.end if ranged else None,
        branch=read.branch,
        expected_version=read.version,
        actual_version=version,
        actual_hash=None if hash is None else hash.hex(),
    )


def _newest_in_range(draft: Draft, read: Read, erased: list[tuple[int, str]]) -> _Write | None:
    assert read.start is not None
    branches = draft.space.branches
    line = branches.line(read.branch)
    for fact in reversed(draft.facts):
        if fact.version not in read.besides and _counts(fact, line) and _in_range(fact.id, read):
            return fact.version, fact.hash
    row = _newest_stored(draft, read, line)
    written = 0 if row is None else row.version
    for version, id in erased:
        # An erasure counts on every branch, also where the entity did not exist.
        if version > max(read.version, written) and _in_range(id, read):
            return version, None
    return None if row is None else (row.version, row.hash)


def _newest_stored(draft: Draft, read: Read, line: Line) -> FactRow | None:
    """Return the newest write that is stored and counts.

    After a compaction a write that does not count may be all that is left of several: then it counts.
    """
    assert read.start is not None
    is_gone = read.version + 1 < draft.space.oldest
    while True:
        row = draft.reads.rows.newest_in_range(
            draft.space.number, line, start=read.start, end=read.end, after=read.version
        )
        if row is None or row.version not in read.besides or is_gone:
            return row
        below = row.version - 1
        line = tuple((branch, min(cap, below)) for branch, cap in line)


def _in_range(id: str, read: Read) -> bool:
    return (read.start is None or id >= read.start) and (read.end is None or id < read.end)


def _overlapping(draft: Draft, read: Read, erased: list[tuple[int, str]]) -> _Write | None:
    """Return the newest write since the read that counts and touches its path, or None."""
    assert read.id is not None
    if read.besides:
        # Of the erased writes nobody can tell what they were, whoever wrote the entity since.
        for version, id in erased:
            if version > read.version and id == read.id:
                return version, None
    for fact in _facts_since(draft, read.id, draft.space.branches.line(read.branch), read.version):
        if fact.version in read.besides:
            continue
        if not read.path or fact.op != PATCH or fact.body is None:
            return fact.version, fact.hash
        if overlaps(decode_canonical(fact.body), read.path):
            return fact.version, fact.hash
    return None


def _facts_since(draft: Draft, id: str, line: Line, version: int) -> Iterable[FactRow]:
    """Yield the facts of an entity on a line above a version, newest first, drafted ones included."""
    for fact in reversed(draft.facts):
        if fact.id == id and _counts(fact, line):
            yield fact
    before = None
    while True:
        rows = draft.reads.rows.history(
            draft.space.number, id, line, before=before, after=version, limit=PAGE_MAX
        )
        yield from rows
        if len(rows) < PAGE_MAX:
            return
        before = (rows[-1].version, rows[-1].index)


def _counts(fact: FactRow, line: Line) -> bool:
    return any(fact.branch == branch and fact.version <= cap for branch, cap in line)
