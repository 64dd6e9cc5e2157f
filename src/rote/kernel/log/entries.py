"""Entries: an entity's newest fact on a line, with its value as bytes, as a document, or both."""

from collections.abc import Iterable, Sequence

from msgspec import UNSET, Struct, UnsetType, structs

from rote.contract import Glance, Remains, State
from rote.contract.operations import DELETE, PATCH
from rote.engines import Reader
from rote.engines.rows import FactRow, Line
from rote.errors import Corrupt, PatchFailed
from rote.kernel.log.erased_facts import check_fact, remains_in
from rote.patch import find, parse_pointer, replay
from rote.values import Json, canonical, decode_canonical
from rote.values.limits import DECODED_TIMES, PAGE_MAX


class Entry(Struct, gc=False):
    """An entity in memory. In a cache it never changes, except that the other form of its value is added."""

    version: int  # of the newest fact; 0 when never written
    hash: bytes | None
    salt: bytes | None
    exists: bool
    data: bytes | None = None  # canonical value
    document: Json | UnsetType = UNSET  # decoded value, shared between versions, never mutated
    patches: int = 0  # facts to replay on the last snapshot
    patch_bytes: int = 0  # their size
    snapshot_bytes: int = 0  # the size of that snapshot
    size_bound: int = 0  # the canonical value is not larger than this
    depth_bound: int | None = None  # the value is not deeper than this; None when not known
    weight: int = 0  # its bytes in a cache, set when it is put there
    erased: bool = False  # does not exist because its content was erased
    index: int = 0  # of the newest fact, in its commit

    @classmethod
    def holding(cls, data: bytes) -> "Entry":
        """Return an entry with a whole value that no fact has made yet."""
        size = len(data)
        return cls(0, None, None, True, data, UNSET, 0, 0, size, size)

    @classmethod
    def deleted(cls) -> "Entry":
        """Return an entry without a value that no fact has made yet."""
        return cls(0, None, None, False)

    @classmethod
    def showing(cls, state: State) -> "Entry":
        """Return an entry with the value of a state that no fact has made yet."""
        return cls.holding(canonical(state.value)) if state.exists else cls.deleted()

    def canonical_value(self) -> bytes:
        if self.data is None:
            self.data = canonical(self.document)
        return self.data

    def shared_document(self) -> Json:
        """Return the decoded value. Others share it: do not mutate it, do not give it to callers."""
        if self.document is UNSET:
            self.document = decode_canonical(self.canonical_value())
        return self.document

    def weigh(self) -> int:
        """Estimate its bytes in memory; decoded documents are much larger than their text."""
        forms = DECODED_TIMES if self.document is not UNSET else 1
        self.weight = 200 + self.size_bound * forms
        return self.weight


ABSENT = Entry.deleted()


def state_of(id: str, entry: Entry) -> State:
    """Return the state of an entry, with a newly decoded value that nobody shares."""
    if not entry.exists:
        shown = entry.hash.hex() if entry.hash else None
        return State(id, None, False, entry.version, shown, entry.erased)
    hash = entry.hash
    assert hash is not None
    return State(
        id, decode_canonical(entry.data or entry.canonical_value()), True, entry.version, hash.hex()
    )


def glance_at(entry: Entry, values: Sequence[str], sizes: Sequence[str]) -> Glance:
    """Return parts of the value, each decoded anew, so that nobody shares it."""
    hash = entry.hash.hex() if entry.hash else None
    if not entry.exists:
        nothing = (None,) * len(values), (None,) * len(sizes)
        return Glance(False, entry.version, hash, *nothing)
    document = entry.shared_document()
    parts = tuple([_own(find(document, parse_pointer(pointer))) for pointer in values])
    arrays = [find(document, parse_pointer(pointer)) for pointer in sizes]
    lengths = tuple([len(array) if type(array) is list else None for array in arrays])
    return Glance(True, entry.version, hash, parts, lengths)


def _own(part: Json) -> Json:
    return decode_canonical(canonical(part)) if type(part) in (dict, list) else part


def load(reads: Reader, space: int, ids: Sequence[str], line: Line) -> dict[str, Entry]:
    """Return the entries of those `ids` that were ever written on the line."""
    if len(ids) <= PAGE_MAX:
        rows = reads.newest(space, ids, line)
    else:
        pages = [ids[start : start + PAGE_MAX] for start in range(0, len(ids), PAGE_MAX)]
        rows = [row for page in pages for row in reads.newest(space, page, line)]
    return {row.id: entry_of(reads, space, row, line) for row in rows} if rows else {}


def entry_of(reads: Reader, space: int, row: FactRow, line: Line) -> Entry:
    is_audit = reads.is_audit
    if is_audit:
        check_fact(row)
    if row.salt is None:
        return _erased(row, remains_in(row), line)
    if row.op == DELETE:
        return Entry(row.version, row.hash, row.salt, False)
    data = snapshot_in(row)
    if data is not None:
        if is_audit and row.op == PATCH and row.body is not None:
            _check_snapshot(reads, space, row, line)
        size = len(data)
        return Entry(
            row.version, row.hash, row.salt, True, data, UNSET, 0, 0, size, size, index=row.index
        )
    return _replayed(reads, space, row, line)


def _check_snapshot(reads: Reader, space: int, row: FactRow, line: Line) -> None:
    """Raise Corrupt unless a snapshot, which no hash covers, is what its patch makes."""
    replayed = _replay(reads, space, structs.replace(row, value=None), line)
    if replayed is None:
        return  # a compaction has taken away what it was made from, and has signed the snapshot
    if not replayed.erased and replayed.data != row.value:
        raise Corrupt(
            f"the value of {row.id} at version {row.version} was changed; run `rote verify`"
        )


def _erased(row: FactRow, remains: Remains, line: Line) -> Entry:
    """Return the entry of an erased fact.

    An erasure is a write: if the line reaches it, the entry has the version of the erasure.
    """
    is_known = remains.version <= line[0][1]
    version = remains.version if is_known else row.version
    return Entry(version, row.hash, None, False, erased=True)


def snapshot_in(row: FactRow) -> bytes | None:
    """Return the whole value if the fact has it; None for a patch without a snapshot."""
    if row.op == PATCH:
        return row.value
    if row.body is None:
        raise Corrupt(f"{row.id} has no value at version {row.version}; run `rote verify`")
    return row.body


def _replayed(reads: Reader, space: int, row: FactRow, line: Line) -> Entry:
    found = _replay(reads, space, row, line, is_doubted=reads.is_audit)
    if found is None:
        raise _baseless(row)
    return found


def _replay(
    reads: Reader, space: int, row: FactRow, line: Line, *, is_doubted: bool = False
) -> Entry | None:
    """Return the entry of a patch: the last snapshot below it, with all patches since applied.

    With `is_doubted` that snapshot, too, must be what its patch makes of the one before.

    Return None when the facts below it are not there. A commit may patch an entity several times,
    and a compaction at its version leaves all of these facts, and a snapshot in the last one only.
    """
    patches = [row]
    for older in _older(reads, space, row, line):
        if older.hash != patches[-1].parent:
            break  # the facts between them were compacted away since the row was read
        if reads.is_audit:
            check_fact(older)
        if older.salt is None:
            return _erased(row, remains_in(older), line)  # erased since the row was read
        snapshot = snapshot_in(older) if older.op != DELETE else None
        if snapshot is not None:
            if is_doubted and older.op == PATCH and older.body is not None:
                _check_snapshot(reads, space, older, line)
            document = apply_stored(snapshot, reversed(patches))
            data = canonical(document)
            patch_bytes = sum(len(patch.body or b"") for patch in patches)
            return Entry(
                row.version,
                row.hash,
                row.salt,
                exists=True,
                data=data,
                document=document,
                patches=len(patches),
                patch_bytes=patch_bytes,
                snapshot_bytes=len(snapshot),
                size_bound=len(data),
                index=row.index,
            )
        if older.op != PATCH:
            raise _baseless(row)
        patches.append(older)
    return None


def continued(before: Entry, facts: Sequence[FactRow]) -> Entry | None:
    """Return the entry after facts that are patches of the one before; None when they are not.

    It shares all that they do not touch, so it costs what they change.
    """
    hash = before.hash
    for fact in facts:
        if fact.op != PATCH or fact.parent != hash or fact.salt is None or fact.body is None:
            return None
        hash = fact.hash
    if not before.exists:
        return None
    try:
        patches = [decode_canonical(fact.body or b"") for fact in facts]
        if any(operation["op"] == "copy" for operations in patches for operation in operations):
            return None  # the size can grow by more than the patches have
        document = replay(before.shared_document(), patches)
    except (PatchFailed, LookupError, TypeError, AttributeError) as error:
        raise _unfit(error) from error
    size = sum(len(fact.body or b"") for fact in facts)
    last = facts[-1]
    return Entry(
        last.version,
        last.hash,
        last.salt,
        exists=True,
        document=document,
        patches=before.patches + len(facts),
        patch_bytes=before.patch_bytes + size,
        snapshot_bytes=before.snapshot_bytes,
        size_bound=before.size_bound + size,
        index=last.index,
    )


def _baseless(row: FactRow) -> Corrupt:
    return Corrupt(f"{row.id} has no snapshot below version {row.version}; run `rote verify`")


def _older(reads: Reader, space: int, row: FactRow, line: Line) -> Iterable[FactRow]:
    """Yield the facts below one, newest first, down to the first that needs none below it."""
    before, limit = (row.version, row.index), 64
    while True:
        rows = reads.history(
            space, row.id, line, before=before, after=0, limit=limit, is_last=_has_value
        )
        yield from rows
        if len(rows) < limit:
            return
        before, limit = (rows[-1].version, rows[-1].index), min(limit * 2, PAGE_MAX)


def _has_value(fact: FactRow) -> bool:
    return fact.op != PATCH or fact.value is not None


def apply_stored(snapshot: bytes, patches: Iterable[FactRow]) -> Json:
    """Apply stored patches to a stored snapshot; Corrupt when one does not apply."""
    try:
        return replay(
            decode_canonical(snapshot), [decode_canonical(patch.body or b"") for patch in patches]
        )
    except (PatchFailed, LookupError, TypeError, AttributeError) as error:
        raise _unfit(error) from error


def _unfit(error: Exception) -> Corrupt:
    return Corrupt(f"a stored patch does not apply: {error}; run `rote verify`")


def same(one: Entry, other: Entry) -> bool:
    """Whether two entries hold the same value, or neither holds one."""
    if not one.exists or not other.exists:
        return one.exists == other.exists
    if one.hash is not None and (one.hash, one.version) == (other.hash, other.version):
        return True
    return one.canonical_value() == other.canonical_value()
