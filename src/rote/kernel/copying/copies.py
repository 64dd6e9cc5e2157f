"""Copies: commits and side rows of a space, out of one store and into another, a page at a time.

Pages go out as they are stored. adoption.py checks each page that comes in, and one transaction
appends it to the log, which it must continue exactly. Derived rows and snapshots are not sent: the
target makes its own snapshots, and its indexes catch up from the log.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from rote.contract import (
    UNDECIDED,
    CopyPage,
    Head,
    Remains,
    SidePage,
    SideRow,
    check_row_follows,
)
from rote.contract.commands import CopyIn, CopyOut, SidesIn, SidesOut
from rote.contract.page_checks import check_page
from rote.engines import Abandoning, Contended, OutcomeUnknown
from rote.engines.rows import CommitRow, FactRow, HeadRow, SideRecord
from rote.errors import Busy, Compacted, Corrupt, InvalidInput
from rote.kernel.committing.side_rows import check_names, sealed_row, seen
from rote.kernel.copying.adoption import Adoption
from rote.kernel.keeping import checkpoints
from rote.kernel.keeping.compactions import give_room_back
from rote.kernel.keeping.erasures import scrub
from rote.kernel.keeping.vectors import sweep_vectors
from rote.kernel.log.appender import Appender
from rote.kernel.log.commits import commit_of
from rote.kernel.log.erased_facts import remains_in
from rote.kernel.log.outcomes import settle
from rote.kernel.log.page_sizes import Pace, size_of
from rote.kernel.log.seals import ATTEMPT, COMPACTION, KEY, SCRUB, side_record
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values import canonical, decode_canonical
from rote.values.limits import (
    CONTENTION_ATTEMPTS_MAX,
    INTEGER_MAX,
    KEY_BYTES_MAX,
    PAGE_BYTES_MAX,
    VERIFY_PAGE_ROWS,
)

# Bytes in a page for two hashes, the salt and the hash of the commit.
_FACT_BYTES = 256
# Kinds of side rows that are not sent as such: commits bring them, or they are about the files of one
# store. Layers above declare more such kinds (SideRule.travels).
_LEFT_OUT = (KEY, ATTEMPT, COMPACTION, SCRUB)
_NOTHING = HeadRow(0, b"", 0)
# Of kinds with many rows, the place above them all: the last character, more often than a key can have it.
_ABOVE = {kind: (kind, "\U0010ffff" * (KEY_BYTES_MAX // 4 + 1)) for kind in (KEY, ATTEMPT)}


# -- commits ---------------------------------------------------------------------------------------


def copy_out(space: OpenSpace, command: CopyOut) -> CopyPage:
    """Return a page of the commits in (since, until], oldest first, as they are stored."""
    reads, since, until = space.reader(), command.since, command.until
    return reads.steadily(until, lambda _: _commits_out(reads, since=since, until=until))


def _commits_out(reads: SpaceReader, *, since: int, until: int) -> CopyPage:
    if since + 1 < reads.space.oldest:
        raise Compacted(since + 1, oldest=reads.space.oldest)
    number, pace = reads.number, Pace(PAGE_BYTES_MAX)
    below = reads.rows.commits(number, after=since - 1, limit=1) if since else []
    previous = below[0].hash if below else None
    commits, keys, remains = [], [], []
    while since < until and (wanted := min(pace.wanted, until - since)):
        rows = reads.rows.commits(number, after=since, limit=wanted)
        if not rows:
            raise Corrupt(f"commit {since + 1} is missing; run `rote verify`")
        facts = _by_version(rows, reads.rows.facts(number, after=since, until=rows[-1].version))
        rows = rows[: pace.took([_weight(row, facts[row.version]) for row in rows])]
        for row in rows:
            branch = reads.space.branches.name(row.branch)
            commits.append(commit_of(row, facts[row.version], previous=previous, branch=branch))
            previous = row.hash
            remains += [remains_in(fact) for fact in facts[row.version] if fact.salt is None]
            if row.key is not None:
                keys.append(
                    sealed_row(reads.space, reads.rows.side(number, KEY, row.key), KEY, row.key)
                )
        since = rows[-1].version
    return CopyPage(tuple(commits), tuple(keys), tuple(remains))


def _by_version(rows: Iterable[CommitRow], facts: Iterable[FactRow]) -> dict[int, list[FactRow]]:
    by_version: dict[int, list[FactRow]] = {row.version: [] for row in rows}
    for fact in facts:
        by_version[fact.version].append(fact)
    return by_version


def _weight(row: CommitRow, facts: Iterable[FactRow]) -> int:
    """Return the bytes of a commit in a page; also a fact without a body has some."""
    own = len(row.meta or b"") + len(row.event or b"")
    return own + sum(size_of(fact) + len(fact.id) + _FACT_BYTES for fact in facts)


def copy_in(space: OpenSpace, command: CopyIn) -> Head:
    """Append the commits that this store does not have, durably; or raise and write nothing."""
    page, attempt = command.page, space.wiring.tokens.token
    space.engine.check_usable()
    check_page(page)
    for _ in range(CONTENTION_ATTEMPTS_MAX):
        adoption, is_unclean = None, False
        try:
            with Abandoning(space.engine), space.engine.writer(space.number) as rows:
                writes = SpaceWriter(space, rows)
                adoption = _adopt(writes, page, attempt)
                is_unclean = adoption.erase(writes)
                if adoption.appender.commits:
                    adoption.appender.write(writes.rows, writes.number)
        except Contended:
            continue
        except OutcomeUnknown as error:
            settle(
                space.engine,
                space.number,
                [] if adoption is None else adoption.appender.commits,
                error,
                refusal="the store failed while committing; this page was not written,"
                " run the copy again",
            )
        assert adoption is not None
        appender = adoption.appender
        if not appender.commits:
            # All commits were found in the log; their writer may have died before its sync.
            space.engine.harden()
        # What came as erased, and was never here, may have left vectors of an earlier copy.
        elif is_unclean or (adoption.is_erasing and sweep_vectors(space)):
            # When others use the files, the note of the erasure stays, and gc scrubs later.
            with suppress(Busy):
                scrub(space)
        if adoption.has_shrunk:
            give_room_back(space)
        if appender.hash is None:
            return Head(0, None, None)
        return Head(appender.version, appender.hash.hex(), appender.at)
    raise Busy("others commit to this space all the time; try again")


def _adopt(writes: SpaceWriter, page: CopyPage, attempt: Callable[[], bytes]) -> Adoption:
    """Check the commits of the page that the log does not have, and add them to an appender."""
    head = writes.sync() or _NOTHING
    _check_continues(writes, page, head)
    appender = Appender(writes.space.did, head.version, head.hash or None, head.at)
    adoption = Adoption(writes, appender, attempt)
    keys = {row.key: row for row in page.keys}
    adoption.take(
        [
            (commit, None if commit.key is None else keys.get(commit.key))
            for commit in page.commits
            if commit.version > head.version
        ],
        _remains_by_place(page),
    )
    return adoption


def _remains_by_place(page: CopyPage) -> dict[tuple[int, int], Remains]:
    """Return the remains of each erased fact of the page, by version and index."""
    erased = [fact for commit in page.commits for fact in commit.facts if fact.erased]
    places = [(fact.version, fact.index) for fact in erased]
    return dict(zip(places, page.remains, strict=True))


def _check_continues(reads: SpaceReader, page: CopyPage, head: HeadRow) -> None:
    """Raise InvalidInput unless the page and the log have the same commit where they meet."""
    if not page.commits:
        return
    first, last = page.commits[0], page.commits[-1]
    if first.version > head.version + 1:
        raise InvalidInput(
            f"the page begins at version {first.version}, the log ends at {head.version};"
            " send what is between them first"
        )
    meeting = min(last.version, head.version)
    rows = reads.rows.commits(reads.number, after=meeting - 1, limit=1) if meeting else []
    there = rows[0].hash.hex() if rows else None
    sent = {commit.version: commit.hash for commit in page.commits}
    if there != sent.get(meeting, first.previous):
        raise InvalidInput(
            f"{reads.space.name!r} has another history in the two stores: version {meeting} is not the"
            " same commit; copy to another store",
            space=reads.space.did,
            version=meeting,
        )


# -- side rows -------------------------------------------------------------------------------------


def sides_out(space: OpenSpace, command: SidesOut) -> SidePage:
    """Return a page of side rows, without the kinds that are not sent as such."""
    reads, pace = space.reader(), Pace(PAGE_BYTES_MAX)
    start = after = command.after
    found: list[SideRow] = []
    while wanted := pace.wanted:
        rows = reads.rows.sides(reads.number, None, after=after, limit=wanted)
        kept = [row for row in rows if not _stays(space, row.kind)]
        fitting = pace.took([len(row.body) + len(row.kind) + len(row.key) for row in kept])
        found += [sealed_row(reads.space, row, row.kind, row.key) for row in kept[:fitting]]
        if fitting < len(kept):
            return SidePage(start, (found[-1].kind, found[-1].key), tuple(found))
        if len(rows) < wanted:
            return SidePage(start, None, tuple(found))
        last = rows[-1]
        after = _ABOVE.get(last.kind, (last.kind, last.key))
    return SidePage(start, after, tuple(found))


def sides_in(space: OpenSpace, command: SidesIn) -> None:
    """Write the rows of the page; no fence moves back.

    Rows that only this store has stay. So does a row that the source has dropped, because it looks
    the same.
    """
    space.engine.check_usable()
    incoming = {
        (row.kind, row.key): side_record(
            space.did, row.kind, row.key, row.fence, canonical(row.body)
        )
        for row in _checked(space, command.page)
    }
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        writes.sync()
        for record in incoming.values():
            _check_checkpoint(writes, record)
        for there in _rows_there(writes, command.page):
            place = (there.kind, there.key)
            if place in incoming and not _follows(there, incoming[place]):
                del incoming[place]
        for record in incoming.values():
            writes.rows.put_side(writes.number, record)


def _follows(there: SideRecord, record: SideRecord) -> bool:
    """Whether the record replaces the row there; InvalidInput when that would move a fence back."""
    if there == record:
        return False
    if there.kind == checkpoints.SIDE and there.body != record.body:
        return there.fence < record.fence
    check_row_follows(seen(there), seen(record))
    return True


def _checked(space: OpenSpace, page: SidePage) -> Sequence[SideRow]:
    place = page.after
    for row in page.rows:
        check_names(row.kind, row.key)
        is_fence = type(row.fence) is int and 1 <= row.fence <= INTEGER_MAX
        if _stays(space, row.kind) or not is_fence:
            raise Corrupt(f"the side row {row.kind} {row.key!r} of the source cannot be one")
        if not place < (row.kind, row.key):
            raise Corrupt("the side rows of the source are not in order")
        place = (row.kind, row.key)
    if page.until is not None and place > page.until:
        raise Corrupt("the side rows of the source are outside their page")
    return page.rows


def _check_checkpoint(reads: SpaceReader, record: SideRecord) -> None:
    if record.kind != checkpoints.SIDE:
        return
    checkpoint = checkpoints.check_shape(decode_canonical(record.body))
    faults = checkpoints.faults_against(reads, checkpoint, oldest=reads.space.oldest)
    if faults and faults[0].kind != UNDECIDED:
        raise Corrupt(f"a checkpoint of the source does not fit its log: {faults[0].message}")


def _rows_there(writes: SpaceWriter, page: SidePage) -> Iterable[SideRecord]:
    """Yield the rows of the page's range that this store has, without kinds that are not sent."""
    after = page.after
    while True:
        rows = writes.rows.sides(writes.number, None, after=after, limit=VERIFY_PAGE_ROWS)
        for row in rows:
            if page.until is not None and (row.kind, row.key) > page.until:
                return
            if not _stays(writes.space, row.kind):
                yield row
        if len(rows) < VERIFY_PAGE_ROWS:
            return
        last = rows[-1]
        after = _ABOVE.get(last.kind, (last.kind, last.key))


def _stays(space: OpenSpace, kind: str) -> bool:
    """Whether rows of a kind are not sent as such."""
    rule = space.wiring.side_rules.get(kind)
    return kind in _LEFT_OUT or (rule is not None and not rule.travels)
