"""References to blobs in the whole log: from values of any version on any branch, and descriptions.

A value refers to a blob only after a fact has written a member `$blob`. The name of that member is
then in the bytes of the fact: in the value of a set, or in a value or a path of a patch. So facts
without it need no decoding. A patch with it is judged by the whole value after it, because the hash
may come from elsewhere in the document.
"""

from collections.abc import Callable

from rote.contract.operations import DELETE, PATCH, SET
from rote.engines.rows import FactRow
from rote.errors import Corrupt
from rote.kernel.log.entries import entry_of
from rote.kernel.log.erased_facts import remains_in
from rote.kernel.log.foundations import facts_below
from rote.kernel.log.page_sizes import Pace, size_of
from rote.kernel.state.space_reader import SpaceReader
from rote.values import decode_canonical
from rote.values.blobs import META_PREFIX, REFERENCE, is_blob_hash, meta_id, references
from rote.values.limits import PAGE_BYTES_MAX, PAGE_MAX

_MARK = REFERENCE.encode()


def referred(
    reads: SpaceReader,
    *,
    after: int,
    until: int,
    found: Callable[[str, FactRow], object],
    advance: Callable[[int], None] = lambda version: None,
) -> None:
    """Call `found` for every reference that a commit in (after, until] makes.

    Where these commits were compacted away, call it for the references in the facts that are left.
    """
    if after + 1 < reads.space.oldest:
        _left(reads, found)
        after = reads.space.oldest - 1
    pace = Pace(PAGE_BYTES_MAX)
    while after < until:
        if not pace.wanted:
            pace = Pace(PAGE_BYTES_MAX)
        rows = reads.rows.commits(reads.number, after=after, limit=min(pace.wanted, until - after))
        if not rows:
            raise Corrupt(f"commit {after + 1} is missing; run `rote verify`")
        sizes = {row.version: 0 for row in rows}
        for fact in reads.rows.facts(reads.number, after=after, until=rows[-1].version):
            sizes[fact.version] += size_of(fact)
            for hash in references_of(reads, fact):
                found(hash, fact)
        pace.took(sizes.values())
        after = rows[-1].version
        advance(after)


def references_in(reads: SpaceReader, fact: FactRow) -> set[str]:
    """Return the hashes that an entity refers to after a fact, above or below the horizon."""
    if fact.version > reads.space.oldest:
        return references_of(reads, fact)
    # Up to the horizon the result of a patch is stored, and holds all references. The operations of
    # a patch at the horizon may not hold them all.
    value = fact.value if fact.op == PATCH else fact.body
    return (
        set() if value is None or _MARK not in value else set(references(decode_canonical(value)))
    )


def described_by(id: str) -> frozenset[str]:
    """Return the hash of the blob that an entity describes, or nothing."""
    hash = id.removeprefix(META_PREFIX)
    return frozenset({hash} if hash != id and is_blob_hash(hash) else ())


def _left(reads: SpaceReader, found: Callable[[str, FactRow], object]) -> None:
    """Call `found` for the references in the facts that are left up to the horizon."""
    for branch in reads.space.branches.rows():
        for fact in facts_below(reads.rows, reads.number, branch.branch, until=reads.space.oldest):
            for hash in references_in(reads, fact):
                found(hash, fact)


def references_of(reads: SpaceReader, fact: FactRow) -> set[str]:
    """Return the hashes that an entity refers to after a fact, if the fact may have made a reference."""
    if fact.body is None or _MARK not in fact.body:
        return set()
    if fact.op == SET:
        return set(references(decode_canonical(fact.body)))
    line = reads.space.branches.line(reads.space.branches.name(fact.branch), fact.version)
    entry = entry_of(reads.rows, reads.number, fact, line)
    return set(references(entry.shared_document())) if entry.exists else set()


def newest_described(reads: SpaceReader, hashes: set[str]) -> dict[str, int | None]:
    """Return for each blob that was ever described the version of the last delete or erasure of its
    description; None while some branch still describes it."""
    ids = sorted(meta_id(hash) for hash in hashes)
    known: dict[str, int | None] = {}
    for branch in reads.space.branches.rows():
        line = reads.space.branches.line(branch.name)
        for start in range(0, len(ids), PAGE_MAX):
            for fact in reads.rows.newest(reads.number, ids[start : start + PAGE_MAX], line):
                hash = fact.id[-64:]
                before = known.get(hash, 0)
                gone = _gone(fact)
                is_gone = gone > 0 and before is not None
                known[hash] = max(gone, before or 0) if is_gone else None
    return known


def _gone(fact: FactRow) -> int:
    """Return the version that deleted or erased the entity of its newest fact; 0 while it exists."""
    if fact.salt is None:
        return remains_in(fact).version
    return fact.version if fact.op == DELETE else 0
