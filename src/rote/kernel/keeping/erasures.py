"""Erasing: remove the content of entities, on every branch and at every version. Hashes stay.

    1  one transaction, under the lock: of each fact only its remains are kept (log/erased_facts.py),
       pointers become tombstones, derived rows and unsalted payload digests are dropped, a commit
       records it, and a side row notes that copies may be left in the engine's files
    2  scrub: vectors of texts that no state has any more are dropped (vectors.py), `Engine.scrub`
       removes these copies, and then the note is deleted

After a crash between the two the note is still there, and the next `erase` or `gc` does step 2.
Data of blobs that the values referred to stays until gc drops it; gc writes a note of its own. Frozen:
the event, docs/formats/chain.md, and the keys of notes.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct, field

from rote.contract import Caller, Commit, Erased, Erasure
from rote.contract.commands import Erase
from rote.engines import Abandoning, Contended, Reader, Scrubbed
from rote.engines.rows import CommitRow, EntityRow, FactRow, SideRecord
from rote.errors import Busy, LimitExceeded, NotFound, RoteError, Unavailable
from rote.kernel.blobs.blob_references import described_by, references_in
from rote.kernel.committing.commits import commit_task
from rote.kernel.committing.drafts import Draft
from rote.kernel.committing.jobs import Job, Prepared
from rote.kernel.committing.plans import commit_at
from rote.kernel.keeping.declared_sides import forget_in_sides
from rote.kernel.keeping.selections import Selection, selection_of, too_many
from rote.kernel.keeping.space_erasures import drop_store_notes, store_notes
from rote.kernel.keeping.vectors import sweep_vectors
from rote.kernel.log.branches import NEWEST, Branches
from rote.kernel.log.erased_facts import erased_row, remains_in
from rote.kernel.log.events import BranchMerged, erase_event, erased_by, event_of, event_rows
from rote.kernel.log.foundations import foundation_of
from rote.kernel.log.key_rows import attempt_of, made_record, meaning_of
from rote.kernel.log.seals import ATTEMPT, KEY, SCRUB, side_record
from rote.kernel.reading.segments import forget_in_segments
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values import Json, canonical, check_key, check_reason, format_time
from rote.values.limits import COMMIT_BYTES_MAX, ERASE_CHUNK_FACTS, ERASE_ENTITIES_MAX, PAGE_MAX
from rote.values.times import MICROS_MIN

# The key of the note that data of blobs was dropped. No entity has this id, because it is no URI.
DROPPED_DATA = "payloads"
# The beginning of the key of a note about several entities; the version of their erasure follows.
_SEVERAL = "erasure "
# The key of the note that a compaction could not make the files smaller.
ROOM = "room"


class Forgotten(Struct):
    """Counts and rows of an erasure."""

    ids: list[str] = field(default_factory=list)  # of the entities that lost content
    facts: int = 0  # that lost their content
    oldest: int = 0  # the version of the first of them
    version: int = 0  # of the newest erasure before; 0 when there was none
    unwritten: str | None = None  # the first id that was never written
    pointers: list[EntityRow] = field(default_factory=list)  # that are to become tombstones
    commits: set[int] = field(default_factory=set)  # that wrote these facts
    below: int = 0  # the horizon: nobody knows any more what the commits below it wrote

    def is_by(self, version: int) -> bool:
        """Whether a commit has written one of the entities, or may have."""
        return version < self.below or version in self.commits


class ErasingTask(Struct):
    """Erase entities in the transaction that records it."""

    selection: Selection
    reason: str
    facts: int = 0  # that lost their content
    earlier: Commit | None = None  # the erasure before this one, when nothing was left to erase
    blobs: set[str] = field(
        default_factory=set
    )  # that the values referred to, or that are described

    def prepare(self, draft: Draft, job: Job) -> Prepared | None:
        if not draft.locked:
            raise Contended()
        space, version = draft.space, draft.version + 1
        forgotten = forget(
            draft.reads,
            space.branches,
            self._selected(draft),
            version=version,
            met=self._met(draft),
        )
        if forgotten.unwritten is not None or not (forgotten.ids or forgotten.version):
            raise self.selection.not_found(forgotten.unwritten)
        if not forgotten.ids:
            self.earlier = commit_at(draft, forgotten.version)
            return None
        self.facts, draft.erased = forgotten.facts, frozenset(forgotten.ids)
        for row in forgotten.pointers:
            draft.entities[(row.branch, row.id)] = row
        note = note_of(draft.reads, note_key(forgotten.ids, version), version)
        draft.sides[(SCRUB, note.key)] = note
        forget_in_sides(draft.reads, erased_of(draft.reads, forgotten, at=draft.at))
        return Prepared(
            space.branches.find("main"), canonical(erase_event(forgotten.ids, self.reason))
        )

    def _selected(self, draft: Draft) -> Iterator[str]:
        """Yield the selected ids, and note the blobs that they describe."""
        self.blobs.clear()  # of an attempt before
        for id in self.selection.ids(draft):
            self.blobs |= described_by(id)
            yield id

    def _met(self, draft: Draft) -> Callable[[FactRow], None]:
        def met(fact: FactRow) -> None:
            with suppress(RoteError):  # a damaged fact is erased too
                self.blobs |= references_in(draft.reads, fact)

        return met


def erase(space: OpenSpace, command: Erase, caller: Caller) -> Erasure:
    """Erase entities, or finish what an earlier call began."""
    check_reason(command.reason)
    if command.key is not None:
        check_key(command.key)
    selection = selection_of(space, command)
    task = ErasingTask(selection, command.reason)
    call: dict[str, Json] = {**selection.call, "reason": command.reason}
    try:
        made = commit_task(space, task, "main", command, call=call, caller=caller)
    except NotFound:
        # What meets conditions is not found any more once it is erased; its copies may be left.
        if command.where is not None and any(notes_in(space.reader())):
            scrub(space)
        raise
    made, facts = (made, task.facts) if made is not None else (task.earlier, 0)
    assert made is not None
    try:
        remaining = scrub(space).remaining
    except Unavailable as error:
        is_busy = isinstance(error, Busy)
        words = str(error) if is_busy else f"{error}; then run `rote gc` to finish"
        raise (Busy if is_busy else Unavailable)(
            f"{_words(made)} erased by version {made.version}, but copies may be left: {words}",
            id=(made.event or {}).get("id"),
            version=made.version,
        ) from error
    return Erasure(made, facts, remaining, _stored(space.reader(), task.blobs))


def _words(made: Commit) -> str:
    event = made.event or {}
    return f"{event['id']} is" if "id" in event else f"{len(event.get('ids', ())):,} entities are"


# -- the rows --------------------------------------------------------------------------------------


def forget(
    writes: SpaceWriter,
    branches: Branches,
    ids: Iterable[str],
    *,
    version: int,
    met: Callable[[FactRow], None] = lambda fact: None,
) -> Forgotten:
    """Replace all facts of entities by their remains; `version` is that of the erase commit.

    `met` is called for each fact before it loses its content.
    """
    done = Forgotten()
    id_bytes = 0
    for id in ids:
        written, full = _forget_one(writes, branches, id, version=version, met=met, done=done)
        if not written:
            done.unwritten = done.unwritten or id
        if full:
            done.ids.append(id)
            id_bytes += len(id.encode())
            _check_bounds(len(done.ids), id_bytes)
    if done.ids:
        forget_in_segments(writes, frozenset(done.ids))
        _blur_keys(writes, _merges(writes.rows, writes.number, after=done.oldest))
        foundation = foundation_of(writes.rows, writes.number)
        done.below = 0 if foundation is None else foundation.before
        if done.below:
            _blur_keys_below(writes, done.below)
    return done


def _forget_one(
    writes: SpaceWriter,
    branches: Branches,
    id: str,
    *,
    version: int,
    met: Callable[[FactRow], None],
    done: Forgotten,
) -> tuple[bool, bool]:
    """Forget one entity; return whether it was ever written, and whether it had content."""
    space, rows = writes.number, writes.rows
    newest: dict[int, FactRow] = {}  # on each branch
    is_written = False
    for page in facts_of(rows, space, branches, id, until=version):
        is_written |= bool(page)
        full = [row for row in page if row.salt is not None]
        gone = (remains_in(row).version for row in page if row.salt is None)
        done.version = max([done.version, *gone])
        for row in full:
            met(row)
            newest.setdefault(row.branch, row)
        rows.rewrite_facts(space, [erased_row(row, version) for row in full])
        _blur_keys(writes, _commits_of(rows, space, full, besides=done.commits))
        done.commits |= {row.version for row in full}
        done.facts += len(full)
        if full:
            done.oldest = min(done.oldest or version, full[-1].version)
    if newest:
        rows.drop_derived_of(space, id)
        done.pointers += [
            EntityRow(branch, id, newest[branch].version, newest[branch].index, live=False)
            for branch in sorted(newest)
            if any(row.live for row in rows.pointers(space, branch, [id]))
        ]
    return is_written, bool(newest)


def _check_bounds(count: int, id_bytes: int) -> None:
    if count > ERASE_ENTITIES_MAX:
        raise too_many(count)
    if id_bytes > COMMIT_BYTES_MAX:
        raise LimitExceeded(
            "the ids of the entities to erase, in bytes,", size=id_bytes, limit=COMMIT_BYTES_MAX
        )


def erased_of(reads: SpaceReader, forgotten: Forgotten, *, at: int) -> Erased:
    """Return an erasure as the rules for side rows have to know it."""
    rows = reads.rows.commits(reads.number, after=forgotten.oldest - 1, limit=1)
    # After a compaction nobody knows when an entity was first written: older facts may have gone.
    is_known = rows and not forgotten.below
    since = rows[0].at if is_known else MICROS_MIN
    return Erased(frozenset(forgotten.ids), format_time(at), since, forgotten.is_by)


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


def _commits_of(
    reads: Reader, space: int, rows: Iterable[FactRow], *, besides: Container[int]
) -> Iterator[CommitRow]:
    for version in dict.fromkeys(row.version for row in rows if row.version not in besides):
        for row in reads.commits(space, after=version - 1, limit=1):
            if row.version == version:  # it may have been compacted away
                yield row


def _merges(reads: Reader, space: int, *, after: int) -> Iterator[CommitRow]:
    """Yield the merges above a version.

    Their keys stand for their resolutions too, which may hold the erased value even if a merge did
    not write it.
    """
    for row in event_rows(reads, space, after=after):
        if isinstance(event_of(row), BranchMerged):
            yield row


def _blur_keys(writes: SpaceWriter, commits: Iterable[CommitRow]) -> None:
    """Remove the payload digests of the commits' keys and attempts: they have no salt, so values can
    be guessed."""
    for row in commits:
        if row.key is not None:
            _blur_key(writes, KEY, row.key, row.version)
        attempt = attempt_of(row)
        side = None if attempt is None else writes.rows.side(writes.number, ATTEMPT, attempt)
        if side is not None and meaning_of(side)[0] == row.version:
            _blur_key(writes, ATTEMPT, side.key, row.version)


def _blur_keys_below(writes: SpaceWriter, before: int) -> None:
    """Remove the payload digests of all keys and attempts of commits below a version."""
    for kind in (KEY, ATTEMPT):
        after = (kind, "")
        while rows := writes.rows.sides(writes.number, kind, after=after, limit=PAGE_MAX):
            for row in rows:
                version, payload = meaning_of(row)
                if payload is not None and version < before:
                    _blur_key(writes, kind, row.key, version)
            after = (kind, rows[-1].key)


def _blur_key(writes: SpaceWriter, kind: str, key: str, version: int) -> None:
    writes.rows.put_side(writes.number, made_record(writes.space.did, kind, key, version, None))


# -- the blobs -------------------------------------------------------------------------------------


def _stored(reads: SpaceReader, hashes: Iterable[str]) -> tuple[str, ...]:
    there = (
        hash for hash in hashes if reads.rows.blob(reads.number, bytes.fromhex(hash)) is not None
    )
    return tuple(sorted(there))


# -- the files -------------------------------------------------------------------------------------


def note_key(ids: Sequence[str], version: int) -> str:
    """Return the key of the note of an erasure: the id, or of several entities the version."""
    return ids[0] if len(ids) == 1 else f"{_SEVERAL}{version}"


def note_of(reads: SpaceReader, key: str, version: int) -> SideRecord:
    """Return the note that copies of what `version` erased may be left in the files."""
    there = reads.rows.side(reads.number, SCRUB, key)
    fence = 1 if there is None else there.fence + 1
    return side_record(reads.space.did, SCRUB, key, fence, canonical({"version": version}))


def scrub(space: OpenSpace) -> Scrubbed:
    """Remove vectors of erased texts, and copies of what was erased from the files.

    The notes stay where this user may not do all of it, so that the owner's gc does the rest.
    """
    reads = space.reader()
    # Before the scrub: it does not cover notes that come later.
    notes, spaces = list(notes_in(reads)), list(store_notes(reads.rows))
    sweep_vectors(space)
    includes_data = bool(spaces) or any(_is_of_data(reads, note) for note in notes)
    try:
        scrubbed = space.engine.scrub(payloads=includes_data)
    except Busy as error:
        holder = error.details.get("holder", "another program")
        raise Busy(
            f"{holder} is using the store's files; when it is done, run `rote gc` to finish",
            reason=str(error),
        ) from error
    if not scrubbed.is_whole:
        return scrubbed
    drop_store_notes(space.wiring, spaces)
    for note in notes:
        with Abandoning(space.engine), space.engine.writer(space.number) as rows:
            writes = SpaceWriter(space, rows)
            if writes.rows.side(writes.number, SCRUB, note.key) == note:
                writes.rows.drop_side(writes.number, SCRUB, note.key)
    return scrubbed


def _is_of_data(reads: SpaceReader, note: SideRecord) -> bool:
    """Whether a note is about data of blobs.

    It is also about data when its entities describe a blob that gc has already collected.
    """
    ids: tuple[str, ...] = (note.key,)
    if note.key.startswith(_SEVERAL):
        version = int(note.key.removeprefix(_SEVERAL))
        rows = reads.rows.events(reads.number, after=version - 1, limit=1)
        ids = tuple(id for row in rows for id in erased_by(row))
    hashes = frozenset().union(*map(described_by, ids))
    return note.key == DROPPED_DATA or len(_stored(reads, hashes)) < len(hashes)


def notes_in(reads: SpaceReader) -> Iterator[SideRecord]:
    after = (SCRUB, "")
    while rows := reads.rows.sides(reads.number, SCRUB, after=after, limit=PAGE_MAX):
        yield from rows
        after = (SCRUB, rows[-1].key)
