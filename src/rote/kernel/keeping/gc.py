"""Garbage collection: safe beside writers and crashes, never inside a commit.

    1  find blobs that were put before the grace period and that no branch describes any more
    2  of these, keep those that a value in the log refers to: one walk along the log
    3  condemn the others in a transaction that also walks the commits since. No other writer of the
       space overlaps it, so nobody can refer to a blob between the last look and its end
    4  drop chunks of condemned blobs and of abandoned uploads, in bounded transactions

    5  drop superseded snapshots, see snapshot_thinning.py
    6  drop vectors of texts that no state has, see vectors.py; old attempts, see attempts.py; and side
       rows that are over, see declared_sides.py
    7  scrub: remove copies of erased content that could not be removed before, see erasures.py. In a
       space where anything was ever erased, also copies of dropped data, because nothing tells
       whether that data was a part of what was erased

A crash at any point leaves a blob that counts, or data without a hash that the next run drops. The
note that copies may be left is written in the transaction that drops the data.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from rote.contract import GcReport, Tell
from rote.contract.commands import CollectGarbage
from rote.engines import Abandoning, check_writable
from rote.engines.rows import BlobRow
from rote.errors import InvalidInput
from rote.kernel.blobs.blob_data import CONDEMNED, condemn, drop, give_up
from rote.kernel.blobs.blob_references import newest_described, referred
from rote.kernel.keeping.attempts import drop_attempts
from rote.kernel.keeping.declared_sides import drop_over
from rote.kernel.keeping.erasures import DROPPED_DATA, ROOM, note_of, notes_in, scrub
from rote.kernel.keeping.snapshot_thinning import thin
from rote.kernel.keeping.space_erasures import store_notes
from rote.kernel.keeping.vectors import sweep_vectors
from rote.kernel.log.events import erasures
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values.limits import (
    ATTEMPT_SECONDS,
    GC_BATCH,
    GC_CANDIDATES_MAX,
    INTEGER_MAX,
    PAGE_MAX,
    UPLOAD_IDLE_SECONDS_MAX,
)

_MICROS = 1_000_000


def collect(space: OpenSpace, command: CollectGarbage, tell: Tell) -> GcReport:
    now, grace_seconds = space.wiring.now(), command.grace_seconds
    space.engine.check_usable()
    check_writable(space.engine)
    if type(grace_seconds) not in (int, float) or not 0 <= grace_seconds <= INTEGER_MAX:
        raise InvalidInput("grace_seconds is a number from 0 on, of 64 bits")
    before = now - int(grace_seconds * _MICROS)
    blobs = size = 0
    after = b""
    while True:
        candidates, after = _candidates(space.reader(), after=after, before=before)
        for row in _condemned(space, candidates, tell):
            blobs += 1
            size += row.size
        if not after:
            break
    idle = max(grace_seconds, UPLOAD_IDLE_SECONDS_MAX)
    uploads, uploads_size = _drop_uploads(space, before=now - int(idle * _MICROS), tell=tell)
    kept = sum(1 for _ in _whole(space.reader(), after=b""))
    snapshots = thin(space, advance=lambda count: tell("thinning", count, count))
    sweep_vectors(space, tell)
    drop_attempts(space, before=now - ATTEMPT_SECONDS * _MICROS)
    drop_over(space, now=now)
    space.engine.tidy()
    notes = [note.key for note in notes_in(space.reader())]
    is_shrunk = False
    if notes or any(store_notes(space.reader().rows)):
        tell("scrubbing", 0, len(notes))
        is_shrunk = scrub(space).is_whole
    finished = sum(key not in (DROPPED_DATA, ROOM) for key in notes) if is_shrunk else 0
    return GcReport(
        blobs, uploads, size + uploads_size, kept, snapshots, finished, is_shrunk=is_shrunk
    )


# -- candidates ------------------------------------------------------------------------------------


def _candidates(
    reads: SpaceReader, *, after: bytes, before: int
) -> tuple[dict[str, BlobRow], bytes]:
    """Return blobs that nothing has described since the time `before`, and the hash to go on after.

    The hash is empty at the end.
    """
    reads.sync()
    found: dict[str, BlobRow] = {}
    rows = _whole(reads, after=after)
    while len(found) < GC_CANDIDATES_MAX:
        page = list(islice(rows, PAGE_MAX))
        if not page:
            return found, b""
        after = page[-1].hash or b""
        old = {(row.hash or b"").hex(): row for row in page if row.at <= before}
        described = newest_described(reads, set(old))
        for hash, row in old.items():
            version = described.get(hash, 0)
            if version is not None and _time_of(reads, version) <= before:
                found[hash] = row
    return found, after


def _whole(reads: SpaceReader, *, after: bytes) -> Iterator[BlobRow]:
    while rows := reads.rows.blobs(reads.number, after=after, limit=PAGE_MAX):
        yield from rows
        after = rows[-1].hash or b""


def _time_of(reads: SpaceReader, version: int) -> int:
    """Return the time of the commit at a version, or of the first one left above it; 0 for none."""
    rows = reads.rows.commits(reads.number, after=version - 1, limit=1) if version else []
    return rows[0].at if rows else 0


# -- dropping --------------------------------------------------------------------------------------


def _condemned(space: OpenSpace, candidates: dict[str, BlobRow], tell: Tell) -> Iterator[BlobRow]:
    """Condemn, batch by batch, the candidates that nothing in the log refers to; yield their rows."""
    walk = _Walk(candidates, tell)
    walk.go_on(space.reader())
    for batch in _batches(sorted(candidates)):
        walk.go_on(space.reader())  # so that little is left to do under the lock
        with Abandoning(space.engine), space.engine.writer(space.number) as rows:
            writes = SpaceWriter(space, rows)
            walk.go_on(writes)
            described = newest_described(writes, set(batch))
            gone = []
            for hash in batch:
                row = candidates.get(hash)
                is_free = row is not None and described.get(hash, 0) is not None
                if (
                    row is not None
                    and is_free
                    and writes.rows.blob(writes.number, row.hash or b"") == row
                ):
                    condemn(writes, row)
                    gone.append(row)
        yield from gone


class _Walk:
    """Walk along the log and remove from the candidates each blob that a value refers to."""

    def __init__(self, candidates: dict[str, BlobRow], tell: Tell) -> None:
        self._candidates = candidates
        self._tell = tell
        self._version = self._oldest = 0

    def go_on(self, reads: SpaceReader) -> None:
        reads.steadily(None, lambda newest: self._go_on(reads, newest))

    def _go_on(self, reads: SpaceReader, newest: int) -> None:
        if not self._candidates:
            return
        if self._oldest != reads.space.oldest:
            # Compacted meanwhile: the facts that are left have to be walked again from the start.
            self._version, self._oldest = 0, reads.space.oldest
        referred(
            reads,
            after=self._version,
            until=newest,
            found=lambda hash, fact: self._candidates.pop(hash, None),
            advance=lambda version: self._tell("reading", version, newest),
        )
        self._version = newest


def _batches(hashes: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(hashes)
    while batch := list(islice(rest, GC_BATCH)):
        yield batch


def _drop_uploads(space: OpenSpace, *, before: int, tell: Tell) -> tuple[int, int]:
    """Drop condemned data, and uploads that got no piece since the time `before`.

    Return the number of these uploads, and their bytes.
    """
    count = size = 0
    after = b""
    erased = _Erased()
    while rows := space.engine.reader().uploads(space.number, after=after, limit=PAGE_MAX):
        for row in rows:
            is_idle = row.at != CONDEMNED and row.at <= before and give_up(space, row)
            if is_idle or row.at == CONDEMNED:
                drop(space, row, then=erased.note)
                tell("dropping", row.size, row.size)
            if is_idle:
                count += 1
                size += row.size
        after = rows[-1].upload
    return count, size


class _Erased:
    """Remembers whether anything was ever erased in the space; no event is read twice."""

    def __init__(self) -> None:
        self._newest = self._looked_at = 0

    def note(self, writes: SpaceWriter) -> None:
        """Note that copies of dropped data may be left, if anything was ever erased in the space.

        The note belongs into the transaction that drops the data: a scrub before that is too early.
        """
        head = writes.rows.head(writes.number)
        if not self._newest and head is not None:
            found = erasures(writes.rows, writes.number, after=self._looked_at)
            self._newest, _ = next(found, (0, ""))
            self._looked_at = head.version
        if self._newest:
            note = note_of(writes, DROPPED_DATA, self._newest)
            writes.rows.put_side(writes.number, note)
