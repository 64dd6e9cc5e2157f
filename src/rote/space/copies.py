"""Copying a space between two stores, page by page, over any two ports.

    blobs       those that the target does not have, one by one
    foundation  when the source was compacted and the target is empty: as a whole, in one transaction
    commits     up to the head that the source had before the blobs were listed, each page in one
                transaction of the target; so no commit describes a blob that is missing. Erased
                facts come as their remains, and what the target still has of them is erased too
    side rows   page by page. Before a page is written, the target gets all commits that the source
                had when the page was read; so no row names a commit that is missing. No fence
                moves back, and rows that only the target has stay
    vectors     those of texts that have none in the target
    verify      the whole target, and its head against the source's

Only the target holds the progress of a copy: the next run goes on where the target ends.
"""

from collections.abc import Callable, Iterator

from rote.contract import (
    CHECKPOINT,
    BlobPart,
    CopyReport,
    Head,
    Port,
    SideRow,
    SpaceInfo,
    Tell,
    all_spaces,
    check_row_follows,
)
from rote.contract.commands import (
    AdoptBlob,
    CopyIn,
    CopyOut,
    FoundationIn,
    FoundationOut,
    GetHead,
    ListBlobs,
    ListVectorNames,
    PutVectors,
    SidesIn,
    SidesOut,
    VectorsOut,
    Verify,
)
from rote.contract.vectors import dimension_of, split_rows
from rote.contract.wire import encode_page
from rote.errors import Compacted, InvalidInput, NotFound, invariant
from rote.space.blobs import BlobFile, Joined, drop_upload, send


def copy_space(
    source: Port,
    target: Port,
    info: SpaceInfo,
    *,
    adopt: Callable[[], SpaceInfo],
    with_key: bool,
    progress: Tell | None,
) -> CopyReport:
    """Copy a space; `adopt` finds or makes it in the target, with its key or without."""
    tell: Tell = progress or (lambda phase, done, total: None)
    # Checked first, so that nothing changes in a target that cannot be continued.
    _check_target(source, target, info)
    adopted = adopt()
    before = target.answer(info.did, GetHead()).version
    blobs = _copy_blobs(source, target, info.did, tell)
    gone = 0 if before else _copy_foundation(source, target, info.did, tell)
    head, more = _copy_commits(source, target, info.did, tell)
    blobs += more
    blobs += _copy_blobs(source, target, info.did, tell)
    sides = 0
    after: tuple[str, str] | None = ("", "")
    while after is not None:
        page = source.answer(info.did, SidesOut(after))
        head, more = _copy_commits(source, target, info.did, tell)
        blobs += more
        target.answer(info.did, SidesIn(page))
        sides += len(page.rows)
        after = page.until
    _copy_vectors(source, target, info.did, since=head.version, tell=tell)
    report = target.begin(info.did, Verify()).result(tell)
    arrived = target.answer(info.did, GetHead(head.version)).hash == head.hash
    return CopyReport(
        ok=report.ok and arrived,
        did=info.did,
        name=adopted.name,
        version=head.version,
        head=head.hash,
        since=before,
        commits=head.version - before - gone,
        sides=sides,
        blobs=blobs,
        with_key=with_key,
        verified=report,
    )


def _check_target(source: Port, target: Port, info: SpaceInfo) -> None:
    """Raise InvalidInput unless the target has nothing of this space, or the beginning of it."""
    if all(there.did != info.did for there in all_spaces(target)):
        return
    ours, theirs = (port.answer(info.did, GetHead()) for port in (source, target))
    if theirs.version > ours.version:
        raise InvalidInput(
            f"the target is ahead: its {info.name!r} is at version {theirs.version}, the source at"
            f" {ours.version}; copy the other way, or to another store",
            space=info.did,
            source_version=ours.version,
            target_version=theirs.version,
        )
    try:
        here = source.answer(info.did, GetHead(theirs.version))
    except Compacted as error:
        raise _too_far_back(info.did, theirs.version) from error
    if theirs.hash != here.hash:
        raise InvalidInput(
            f"{info.name!r} has another history in the two stores: version {theirs.version} is not"
            " the same commit; copy to another store",
            space=info.did,
            version=theirs.version,
        )
    _check_sides(source, target, info.did)


def _check_sides(source: Port, target: Port, did: str) -> None:
    """Raise InvalidInput when a side row of the target is not older than the source's, nor equal.

    SidesIn checks again when it writes.
    """
    rows = _sides(target, did)
    there = next(rows, None)
    for sent in _sides(source, did):
        while there is not None and (there.kind, there.key) < (sent.kind, sent.key):
            there = next(rows, None)
        if there is None:
            return
        if (there.kind, there.key) == (sent.kind, sent.key) and sent.kind != CHECKPOINT:
            check_row_follows(there, sent)


def _sides(port: Port, did: str) -> Iterator[SideRow]:
    after: tuple[str, str] | None = ("", "")
    while after is not None:
        page = port.answer(did, SidesOut(after))
        yield from page.rows
        after = page.until


def _too_far_back(did: str, version: int) -> InvalidInput:
    return InvalidInput(
        f"the target ends at version {version}, and the source was compacted past it; copy to a"
        " new store",
        space=did,
        version=version,
    )


def _copy_foundation(source: Port, target: Port, did: str, tell: Tell) -> int:
    """Copy the foundation of a compacted source; return how many commits below the horizon are gone."""
    commits = 0

    def pages() -> Iterator[bytes]:
        nonlocal commits
        page = source.answer(did, FoundationOut())
        while page is not None:
            commits += len(page.commits)
            yield encode_page(page)
            tell("foundation", commits, commits)
            page = None if page.next is None else source.answer(did, FoundationOut(page.next))

    if source.answer(did, FoundationOut()) is None:
        return 0
    upload = send(target, did, Joined(pages()))
    try:
        return target.answer(did, FoundationIn(upload)).version - commits
    finally:
        drop_upload(target, did, upload)


def _copy_commits(source: Port, target: Port, did: str, tell: Tell) -> tuple[Head, int]:
    """Copy commits up to the source's head; return that head, and the number of blobs copied.

    When something is erased meanwhile, go on to the head with that erasure.
    """
    head = source.answer(did, GetHead())
    done = target.answer(did, GetHead()).version
    blobs = _copy_blobs(source, target, did, tell) if done < head.version else 0
    while done < head.version:
        try:
            page = source.answer(did, CopyOut(done, head.version))
        except Compacted as error:
            raise _too_far_back(did, done) from error
        reached = target.answer(did, CopyIn(page)).version
        invariant(reached > done, "a page of a copy brought nothing")
        done = reached
        if page.erased_by() > head.version:
            # Erased since the head was read. Without the commit of the erasure the target would
            # have erased facts that nothing explains, which is a fault.
            head = source.answer(did, GetHead())
            blobs += _copy_blobs(source, target, did, tell)
        tell("copying", done, head.version)
    return head, blobs


def _copy_blobs(source: Port, target: Port, did: str, tell: Tell) -> int:
    """Copy the blobs that the target does not have; return their number."""
    brought, after = 0, ""
    while page := source.answer(did, ListBlobs(after)):
        for number, blob in enumerate(page, start=1):
            try:
                brought += _copy_blob(source, target, did, blob)
            except NotFound:
                continue  # collected since it was listed
            tell("blobs", number, len(page))
        after = page[-1].hash
    return brought


def _copy_blob(source: Port, target: Port, did: str, blob: BlobPart) -> bool:
    if target.answer(did, AdoptBlob(blob.hash)) is not None:
        return False
    upload = send(target, did, BlobFile(source, did, blob.hash, blob.size))
    try:
        return bool(target.answer(did, AdoptBlob(blob.hash, upload)))
    finally:
        drop_upload(target, did, upload)


def _copy_vectors(source: Port, target: Port, did: str, *, since: int, tell: Tell) -> None:
    """Copy the vectors of texts that have none in the target.

    `since` is the version that the target is at. A vector of a text that it does not have, because
    that is newer, waits there for it; after an erasure it is gone by the next copy.
    """
    for name in source.answer(did, ListVectorNames()):
        after, count = b"", 0
        while page := source.answer(did, VectorsOut(name, after)):
            hashes = [hash for hash, _ in split_rows(page, dimension_of(name))]
            target.answer(did, PutVectors(name, page, since))
            count += len(hashes)
            tell("vectors", count, count)
            after = hashes[-1]
