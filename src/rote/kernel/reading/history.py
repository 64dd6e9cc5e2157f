"""Reading the past: the facts of an entity, the log, and the head at a version or an instant."""

from rote.contract import Commit, FactPage, Head, SpaceSummary
from rote.contract.commands import Describe, GetHead, GetHistory, GetLog
from rote.engines.rows import CommitRow, FactRow, HeadRow, Line
from rote.errors import Compacted, Corrupt, InvalidInput
from rote.kernel.log.chain import commit_hash
from rote.kernel.log.commits import commit_of, fact_of
from rote.kernel.log.erased_facts import check_fact
from rote.kernel.log.page_sizes import page_size, size_of
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.values import check_entity_id, format_time
from rote.values.limits import INTEGER_MAX, PAGE_BYTES_MAX, ROWS_READ_FIRST

EMPTY = Head(0, None, None)


def history(space: OpenSpace, command: GetHistory) -> FactPage:
    """Return a page of one entity's facts as of a view, newest first."""
    id, view = command.id, command.view
    check_entity_id(id)
    limit, reads = page_size(command.limit), space.reader()
    return reads.steadily(
        view.version,
        lambda version: _facts(
            reads, id, reads.line(view.branch, version), before=command.before, limit=limit
        ),
    )


def _facts(
    reads: SpaceReader,
    id: str,
    line: Line,
    *,
    before: tuple[int, int] | None,
    limit: int,
) -> FactPage:
    rows: list[FactRow] = []
    size, wanted = 0, ROWS_READ_FIRST
    while len(rows) < limit and size < PAGE_BYTES_MAX:
        wanted = min(wanted, limit - len(rows))
        chunk = reads.rows.history(reads.number, id, line, before=before, after=0, limit=wanted)
        rows += chunk
        size += sum(size_of(fact) for fact in chunk)
        if len(chunk) < wanted:
            before = None
            break
        before, wanted = (chunk[-1].version, chunk[-1].index), wanted * 4
    for row in rows:
        check_fact(row)
    hashes = {version: _hash_of(reads, version) for version in {row.version for row in rows}}
    facts = tuple(fact_of(row, hashes[row.version]) for row in rows)
    return FactPage(facts, before)


def _hash_of(reads: SpaceReader, version: int) -> str | None:
    """Return the hash of the commit at a version; None when it was compacted away."""
    rows = reads.rows.commits(reads.number, after=version - 1, limit=1)
    if version < reads.space.oldest and (not rows or rows[0].version != version):
        return None
    return commit_row(reads, version).hash.hex()


def log(space: OpenSpace, command: GetLog) -> tuple[Commit, ...]:
    """Return a page of commits above `since`, oldest first; empty only at the end."""
    since, reads = command.since, space.reader()
    if type(since) is not int or not 0 <= since <= INTEGER_MAX:
        raise InvalidInput("since must be a version, an integer from 0 on")
    limit = page_size(command.limit)
    return reads.steadily(None, lambda newest: _log(reads, since=since, limit=limit, newest=newest))


def _log(reads: SpaceReader, *, since: int, limit: int, newest: int) -> tuple[Commit, ...]:
    if since + 1 < reads.space.oldest:
        raise Compacted(since + 1, oldest=reads.space.oldest)
    previous = commit_row(reads, since).hash if 0 < since <= newest else None
    commits: list[Commit] = []
    size, wanted = 0, ROWS_READ_FIRST
    while len(commits) < limit and size < PAGE_BYTES_MAX:
        rows = reads.rows.commits(
            reads.number, after=since, limit=min(wanted, limit - len(commits))
        )
        # A newer commit may be on a branch that is not known here yet.
        rows = [row for row in rows if row.version <= newest]
        if not rows:
            break
        facts: dict[int, list[FactRow]] = {row.version: [] for row in rows}
        for fact in reads.rows.facts(reads.number, after=since, until=rows[-1].version):
            facts[fact.version].append(fact)
            size += size_of(fact)
        for row in rows:
            is_next = row.version == since + 1
            commits.append(_checked(reads, row, facts[row.version], previous, is_next=is_next))
            previous, since = row.hash, row.version
        # Chunks grow while commits are small.
        wanted *= 4
    return tuple(commits)


def _checked(
    reads: SpaceReader,
    row: CommitRow,
    facts: list[FactRow],
    previous: bytes | None,
    *,
    is_next: bool = True,
) -> Commit:
    """Return a commit; Corrupt unless it and its facts have the hashes of their content.

    previous  the hash of the commit before; None for the first, and where it was compacted away
    is_next   no commit is missing between the two
    """
    branch, at = reads.space.branches.name(row.branch), _time_of(row)
    for fact in facts:
        check_fact(fact)
    if is_next and (previous is not None or row.version == 1):
        hash = commit_hash(
            space=reads.space.did, version=row.version, branch=branch, previous=previous,
            facts=facts, at=at, author=row.author, key=row.key, meta=row.meta, event=row.event,
        )  # fmt: skip
        if hash != row.hash:
            raise Corrupt(f"commit {row.version} was changed; run `rote verify`")
    return commit_of(row, facts, previous=previous, branch=branch, at=at)


def _time_of(row: CommitRow) -> str:
    try:
        return format_time(row.at)
    except InvalidInput as error:
        raise Corrupt(f"commit {row.version} has no possible time; run `rote verify`") from error


def head(space: OpenSpace, command: GetHead) -> Head:
    if command.version is None and command.at is None:
        reads = space.reader()
        row = reads.sync()
        if row is not None and reads.rows.is_audit:
            commit_row(reads, row.version)
        return EMPTY if row is None else Head(row.version, row.hash.hex(), row.at)
    return head_at(space.reader(), version=command.version, at=command.at)


def describe(space: OpenSpace, _: Describe) -> SpaceSummary:
    row = space.reader().sync() or HeadRow(0, b"", 0)
    hash, at = (row.hash.hex(), row.at) if row.version else (None, None)
    return SpaceSummary(space.did, space.name, row.version, hash, at, max(space.oldest, 1))


def head_at(reads: SpaceReader, *, version: int | None, at: int | None) -> Head:
    """Return the head at a version, or the newest commit that is not after an instant."""
    if version is not None and (type(version) is not int or not 0 <= version <= INTEGER_MAX):
        raise InvalidInput("a version is an integer from 0 on, of 64 bits")
    if version is not None or at is None:
        return reads.steadily(version, lambda found: _head(reads, found))
    return reads.steadily(None, lambda newest: _head(reads, _version_at(reads, at, newest)))


def _head(reads: SpaceReader, version: int) -> Head:
    if version == 0:
        return EMPTY
    row = commit_row(reads, version)
    return Head(row.version, row.hash.hex(), row.at)


def _version_at(reads: SpaceReader, at: int, newest: int) -> int:
    """Return the version of the last commit that is not after `at`.

    Times never decrease along the log, so a binary search finds it.
    """
    low, high = max(reads.space.oldest - 1, 0), newest
    while low < high:
        middle = (low + high + 1) // 2
        if commit_row(reads, middle).at <= at:
            low = middle
        else:
            high = middle - 1
    if 0 < low < reads.space.oldest:
        raise Compacted(low, oldest=reads.space.oldest, at=format_time(at))
    return low


def commit_row(reads: SpaceReader, version: int) -> CommitRow:
    rows = reads.rows.commits(reads.number, after=version - 1, limit=1)
    if not rows or rows[0].version != version:
        raise Corrupt(f"commit {version} is missing; run `rote verify`")
    if reads.rows.is_audit:
        _check(reads, rows[0])
    return rows[0]


def _check(reads: SpaceReader, row: CommitRow) -> None:
    before = reads.rows.commits(reads.number, after=row.version - 2, limit=1)
    previous = before[0].hash if before and before[0].version == row.version - 1 else None
    facts = reads.rows.facts(reads.number, after=row.version - 1, until=row.version)
    _checked(reads, row, facts, previous)
