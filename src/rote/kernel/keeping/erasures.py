"""Erasing: remove the content of an entity, on every branch and at every version. Hashes stay.

    1  one transaction, under the lock: of each fact only its remains are kept (log/erased_facts.py),
       pointers become tombstones, derived rows and unsalted payload digests are dropped, a commit
       records it, and a side row notes that copies may be left in the engine's files
    2  scrub: `Engine.scrub` removes these copies, and then the note is deleted

After a crash between the two the note is still there, and the next `erase` or `gc` does step 2.
Data of blobs that the values referred to stays until gc drops it; gc writes a note of its own. Frozen:
the event, docs/formats/chain.md, and the keys of notes.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from msgspec import Struct

from rote.contract import Caller, Commit, Erasure
from rote.contract.commands import Erase
from rote.engines import Abandoning, Contended, Reader
from rote.engines.rows import CommitRow, EntityRow, FactRow, SideRecord
from rote.errors import Busy, NotFound, RoteError, Unavailable
from rote.kernel.blobs.blob_references import described_by, references_in
from rote.kernel.committing.commits import commit_task
from rote.kernel.committing.drafts import Draft
from rote.kernel.committing.jobs import Job, Prepared
from rote.kernel.committing.plans import commit_at
from rote.kernel.keeping.declared_sides import forget_in_sides
from rote.kernel.log.branches import NEWEST, Branches
from rote.kernel.log.erased_facts import erased_row, remains_in
from rote.kernel.log.events import BranchMerged, event_rows, read_event
from rote.kernel.log.foundations import foundation_of
from rote.kernel.log.key_rows import key_record, meaning_of
from rote.kernel.log.seals import KEY, SCRUB, side_record
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values import (
    Json,
    canonical,
    check_entity_id,
    check_reason,
    decode_canonical,
    format_time,
)
from rote.values.limits import ERASE_CHUNK_FACTS, PAGE_MAX

# The key of the note that data of blobs was dropped. No entity has this id, because it is no URI.
DROPPED_DATA = "payloads"
# The key of the note that a compaction could not make the files smaller.
ROOM = "room"


class Forgotten(Struct, frozen=True):
    """Counts and rows of an erasure."""

    facts: int  # that lost their content
    version: int  # of the newest erasure before; 0 when there was none
    pointers: list[EntityRow]  # that are to become tombstones
    commits: frozenset[int] = frozenset()  # that wrote these facts
    below: int = 0  # the horizon: nobody knows any more what the commits below it wrote

    def is_by(self, version: int) -> bool:
        """Whether a commit has written the entity, or may have."""
        return version < self.below or version in self.commits


class ErasingTask(Struct):
    """Erase an entity in the transaction that records it."""

    id: str
    reason: str
    facts: int = 0  # that lost their content
    earlier: Commit | None = None  # the erasure before this one, when nothing was left to erase
    blobs: frozenset[str] = frozenset()  # that its values referred to

    def prepare(self, draft: Draft, job: Job) -> Prepared | None:
        if not draft.locked:
            raise Contended()
        id, space = self.id, draft.space
        version = draft.version + 1
        self.blobs = _blobs_of(draft.reads, id, until=version)
        forgotten = forget(draft.reads, space.branches, id, version=version)
        if not forgotten.facts and forgotten.version:
            self.earlier = commit_at(draft, forgotten.version)
            return None
        if not forgotten.facts:
            raise NotFound(f"{id} was never written; there is nothing to erase", id=id)
        self.facts, draft.erased = forgotten.facts, id
        for row in forgotten.pointers:
            draft.entities[(row.branch, id)] = row
        draft.sides[(SCRUB, id)] = note_of(draft.reads, id, version)
        forget_in_sides(draft.reads, id, at=format_time(draft.at), has_written=forgotten.is_by)
        event = {"type": "erase", "id": id, "reason": self.reason}
        return Prepared(space.branches.find("main"), canonical(event))


def erase(space: OpenSpace, command: Erase, caller: Caller) -> Erasure:
    """Erase an entity, or finish what an earlier call began."""
    id, reason = command.id, command.reason
    check_entity_id(id)
    check_reason(reason)
    task = ErasingTask(id, reason)
    call: dict[str, Json] = {"name": "erase", "id": id, "reason": reason}
    made = commit_task(space, task, "main", key=command.key, call=call, caller=caller)
    made, facts = (made, task.facts) if made is not None else (task.earlier, 0)
    assert made is not None
    try:
        remaining = scrub(space)
    except Unavailable as error:
        is_busy = isinstance(error, Busy)
        words = str(error) if is_busy else f"{error}; then run `rote gc` to finish"
        raise (Busy if is_busy else Unavailable)(
            f"{id} is erased by version {made.version}, but copies of it may be left: {words}",
            id=id,
            version=made.version,
        ) from error
    blobs = _stored(space.reader(), task.blobs | described_by(id))
    return Erasure(made, facts, tuple(remaining), blobs)


# -- the rows --------------------------------------------------------------------------------------


def forget(writes: SpaceWriter, branches: Branches, id: str, *, version: int) -> Forgotten:
    """Replace all facts of an entity by their remains; `version` is that of the erase commit."""
    space = writes.number
    count = before = 0
    oldest: FactRow | None = None
    newest: dict[int, FactRow] = {}  # on each branch
    commits: set[int] = set()
    for rows in facts_of(writes.rows, space, branches, id, until=version):
        full = [row for row in rows if row.salt is not None]
        before = max([before, *(remains_in(row).version for row in rows if row.salt is None)])
        writes.rows.rewrite_facts(space, [erased_row(row, version) for row in full])
        _blur_keys(writes, _commits_of(writes.rows, space, full))
        for row in full:
            newest.setdefault(row.branch, row)
        commits |= {row.version for row in full}
        count += len(full)
        oldest = full[-1] if full else oldest
    if oldest is None:
        return Forgotten(0, before, [])
    _blur_keys(writes, _merges(writes.rows, space, after=oldest.version))
    foundation = foundation_of(writes.rows, writes.number)
    below = 0 if foundation is None else foundation.before
    if below:
        _blur_keys_below(writes, below)
    writes.rows.drop_derived_of(space, id)
    pointers = [
        EntityRow(branch, id, newest[branch].version, newest[branch].index, live=False)
        for branch in sorted(newest)
        if any(row.live for row in writes.rows.pointers(space, branch, [id]))
    ]
    return Forgotten(count, before, pointers, frozenset(commits), below)


def facts_of(
    reads: Reader, space: int, branches: Branches, id: str, *, until: int
) -> Iterator[list[FactRow]]:
    """Yield the facts of an entity on all branches below a version, newest first, a few at a time."""
    everywhere = tuple((row.branch, NEWEST) for row in branches.rows())
    before = (until, 0)
    while True:
        rows = reads.history(space, id, everywhere, before=before, after=0, limit=ERASE_CHUNK_FACTS)
        yield rows
        if len(rows) < ERASE_CHUNK_FACTS:
            return
        before = (rows[-1].version, rows[-1].index)


def _commits_of(reads: Reader, space: int, rows: Iterable[FactRow]) -> Iterator[CommitRow]:
    for version in dict.fromkeys(row.version for row in rows):
        for row in reads.commits(space, after=version - 1, limit=1):
            if row.version == version:  # it may have been compacted away
                yield row


def _merges(reads: Reader, space: int, *, after: int) -> Iterator[CommitRow]:
    """Yield the merges above a version.

    Their keys stand for their resolutions too, which may hold the erased value even if a merge did
    not write it.
    """
    for row in event_rows(reads, space, after=after):
        if isinstance(read_event(decode_canonical(row.event or b"")), BranchMerged):
            yield row


def _blur_keys(writes: SpaceWriter, commits: Iterable[CommitRow]) -> None:
    """Remove the payload digests of the commits' keys: they have no salt, so values can be guessed."""
    for row in commits:
        if row.key is not None:
            _blur_key(writes, row.key, row.version)


def _blur_keys_below(writes: SpaceWriter, before: int) -> None:
    """Remove the payload digests of all keys of commits below a version."""
    after = (KEY, "")
    while rows := writes.rows.sides(writes.number, KEY, after=after, limit=PAGE_MAX):
        for row in rows:
            version, payload = meaning_of(row)
            if payload is not None and version < before:
                _blur_key(writes, row.key, version)
        after = (KEY, rows[-1].key)


def _blur_key(writes: SpaceWriter, key: str, version: int) -> None:
    writes.rows.put_side(writes.number, key_record(writes.space.did, key, version, None))


# -- the blobs -------------------------------------------------------------------------------------


def _blobs_of(reads: SpaceReader, id: str, *, until: int) -> frozenset[str]:
    """Return the hashes that values of an entity refer to, at any version on any branch."""
    found: set[str] = set()
    for rows in facts_of(reads.rows, reads.number, reads.space.branches, id, until=until):
        for row in rows:
            with suppress(RoteError):  # a damaged fact is erased too
                found |= references_in(reads, row)
    return frozenset(found)


def _stored(reads: SpaceReader, hashes: Iterable[str]) -> tuple[str, ...]:
    there = (
        hash for hash in hashes if reads.rows.blob(reads.number, bytes.fromhex(hash)) is not None
    )
    return tuple(sorted(there))


# -- the files -------------------------------------------------------------------------------------


def note_of(reads: SpaceReader, id: str, version: int) -> SideRecord:
    """Return the note that copies of what `version` erased may be left in the files."""
    there = reads.rows.side(reads.number, SCRUB, id)
    fence = 1 if there is None else there.fence + 1
    return side_record(reads.space.did, SCRUB, id, fence, canonical({"version": version}))


def scrub(space: OpenSpace) -> list[str]:
    """Remove copies of what was erased from the files; return the places that are out of reach."""
    reads = space.reader()
    notes = list(notes_in(reads))  # before the scrub: it does not cover notes that come later
    includes_data = any(_is_of_data(reads, note) for note in notes)
    try:
        remaining = space.engine.scrub(payloads=includes_data)
    except Busy as error:
        holder = error.details.get("holder", "another program")
        raise Busy(
            f"{holder} is using the store's files; when it is done, run `rote gc` to finish",
            reason=str(error),
        ) from error
    for note in notes:
        with Abandoning(space.engine), space.engine.writer(space.number) as rows:
            writes = SpaceWriter(space, rows)
            if writes.rows.side(writes.number, SCRUB, note.key) == note:
                writes.rows.drop_side(writes.number, SCRUB, note.key)
    return remaining


def _is_of_data(reads: SpaceReader, note: SideRecord) -> bool:
    """Whether a note is about data of blobs.

    It is also about data when its entity describes a blob that gc has already collected.
    """
    hashes = described_by(note.key)
    return note.key == DROPPED_DATA or len(_stored(reads, hashes)) < len(hashes)


def notes_in(reads: SpaceReader) -> Iterator[SideRecord]:
    after = (SCRUB, "")
    while rows := reads.rows.sides(reads.number, SCRUB, after=after, limit=PAGE_MAX):
        yield from rows
        after = (SCRUB, rows[-1].key)
