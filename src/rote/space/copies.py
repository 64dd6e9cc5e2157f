"""Copying a space between two stores, page by page, whoever answers their ports.

    blobs       those that the target does not have, one by one, each with its bytes
    foundation  into an empty target, when the source was compacted: as a whole, in one transaction
    commits     up to the source's head as it was before the blobs were listed, each page one
                transaction of the target; so no commit describes a blob that is not there.
                What was erased comes erased, and what the target still has of it goes.
    side rows   page by page. Before a page is written the log is brought up to what the source
                had when the page was read, so no row knows of a commit that is not there.
                No fence moves back, and rows that only the target has stay.
    verify      the whole target, and its head against the source's

Nothing is remembered between runs but the target itself: a run continues where it ends.
"""

from collections.abc import Iterator

from rote.contract import (
    CHECKPOINT,
    CopyProgress,
    CopyReport,
    FoundationPage,
    Head,
    Port,
    SideRow,
    SpaceInfo,
    check_row_follows,
)
from rote.errors import Compacted, InvalidInput, NotFound, invariant
from rote.space.blobs import BlobFile
from rote.values.limits import PAGE_MAX


def copy_space(
    source: Port,
    target: Port,
    info: SpaceInfo,
    *,
    with_key: bool,
    progress: CopyProgress | None,
) -> CopyReport:
    tell: CopyProgress = progress or (lambda phase, done, total: None)
    # First, so that neither a missing key nor a target that cannot be continued changes anything.
    seed = source.seed(info.did) if with_key else None
    _check_target(source, target, info)
    adopted = target.adopt(info.did, info.name, seed=seed)
    before = target.head(info.did).version
    blobs = _copy_blobs(source, target, info.did, tell)
    gone = 0 if before else _copy_foundation(source, target, info.did, tell)
    head, more = _copy_commits(source, target, info.did, tell)
    blobs += more
    blobs += _copy_blobs(source, target, info.did, tell)
    sides = 0
    after: tuple[str, str] | None = ("", "")
    while after is not None:
        page = source.sides_out(info.did, after=after)
        head, more = _copy_commits(source, target, info.did, tell)
        blobs += more
        target.sides_in(info.did, page)
        sides += len(page.rows)
        after = page.until
    report = target.verify(
        info.did,
        against=None,
        progress=lambda done, total: tell("verifying", done, total),
    )
    arrived = target.head_at(info.did, version=head.version).hash == head.hash
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
    """The target has nothing of this space, or the beginning of it."""
    if all(there.did != info.did for there in target.spaces()):
        return
    ours, theirs = source.head(info.did), target.head(info.did)
    if theirs.version > ours.version:
        raise InvalidInput(
            f"the target is ahead: its {info.name!r} is at version {theirs.version}, the source at"
            f" {ours.version}; copy the other way, or to another store",
            space=info.did,
            source_version=ours.version,
            target_version=theirs.version,
        )
    try:
        here = source.head_at(info.did, version=theirs.version)
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
    """No side row of the target has gone its own way; sides_in looks again, when it writes."""
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
        page = port.sides_out(did, after=after)
        yield from page.rows
        after = page.until


def _too_far_back(did: str, version: int) -> InvalidInput:
    return InvalidInput(
        f"the target ends at version {version}, and the source was compacted past it; copy to a"
        " new store",
        space=did,
        version=version,
    )


def _copy_foundation(source: Port, target: Port, did: str, tell: CopyProgress) -> int:
    """What a compacted source stands on comes first, as a whole; how many commits it has not."""
    commits = 0

    def pages() -> Iterator[FoundationPage]:
        nonlocal commits
        page = source.foundation_out(did, after=None)
        while page is not None:
            commits += len(page.commits)
            yield page
            tell("foundation", commits, commits)
            page = None if page.next is None else source.foundation_out(did, after=page.next)

    if source.foundation_out(did, after=None) is None:
        return 0
    return target.foundation_in(did, pages()).version - commits


def _copy_commits(source: Port, target: Port, did: str, tell: CopyProgress) -> tuple[Head, int]:
    """Bring the target up to what is the source's head now, or a later one where something is
    erased meanwhile; that head, and how many blobs came."""
    head = source.head(did)
    done = target.head(did).version
    blobs = _copy_blobs(source, target, did, tell) if done < head.version else 0
    while done < head.version:
        try:
            page = source.copy_out(did, since=done, until=head.version)
        except Compacted as error:
            raise _too_far_back(did, done) from error
        reached = target.copy_in(did, page).version
        invariant(reached > done, "a page of a copy brought nothing")
        done = reached
        if page.erased_by() > head.version:
            # Erased since the head was read: without the commit that says so it would be a fault.
            head = source.head(did)
            blobs += _copy_blobs(source, target, did, tell)
        tell("copying", done, head.version)
    return head, blobs


def _copy_blobs(source: Port, target: Port, did: str, tell: CopyProgress) -> int:
    """Bring the blobs that the target does not have; how many."""
    brought, after = 0, ""
    while page := source.blobs(did, after=after, limit=PAGE_MAX):
        for number, blob in enumerate(page, start=1):
            try:
                stream = BlobFile(source, did, blob.hash, blob.size)
                brought += target.adopt_blob(did, blob.hash, stream)
            except NotFound:
                continue  # collected since it was listed
            tell("blobs", number, len(page))
        after = page[-1].hash
    return brought
