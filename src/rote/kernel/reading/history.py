"""Reading the past: the facts of an entity, the log, and the head at a version or an instant."""

from rote.contract import Commit, Fact, FactPage, Head, SpaceSummary
from rote.contract.commands import Describe, GetHead, GetHistory, GetLog
from rote.engines.rows import CommitRow, FactRow, HeadRow, Line
from rote.errors import Compacted, Corrupt, InvalidInput
from rote.kernel.log.chain import commit_hash
from rote.kernel.log.commits import commit_of, fact_of
from rote.kernel.log.erased_facts import check_fact
from rote.kernel.log.page_sizes import answer_pace, page_size, size_of
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
    commits: dict[int, CommitRow | None] = {}
    pace = answer_pace(PAGE_BYTES_MAX, limit=limit, first=ROWS_READ_FIRST)
    while wanted := pace.wanted:
        chunk = reads.rows.history(reads.number, id, line, before=before, after=0, limit=wanted)
        for version in {fact.version for fact in chunk} - commits.keys():
            commits[version] = _commit_left(reads, version)
        metas = [commits[fact.version] for fact in chunk]
        fitting = pace.took(
            [size_of(fact) + _meta_bytes(commit) for fact, commit in zip(chunk, metas, strict=True)]
        )
        rows += chunk[:fitting]
        if fitting == len(chunk) < wanted:
            before = None
            break
        before = (rows[-1].version, rows[-1].index)
    for row in rows:
        check_fact(row)
    facts = tuple([_fact_of(row, commits[row.version]) for row in rows])
    return FactPage(facts, before)


def _meta_bytes(commit: CommitRow | None) -> int:
    return 0 if commit is None else len(commit.meta or b"")


def _fact_of(row: FactRow, commit: CommitRow | None) -> Fact:
    if commit is None:
        return fact_of(row, None, None, None, None)
    return fact_of(row, commit.hash.hex(), _time_of(commit), commit.author, commit.meta)


def _commit_left(reads: SpaceReader, version: int) -> CommitRow | None:
    """Return the commit at a version; None when it was compacted away."""
    rows = reads.rows.commits(reads.number, after=version - 1, limit=1)
    if version < reads.space.oldest and (not rows or rows[0].version != version):
        return None
    return commit_row(reads, version)


def log(space: OpenSpace, command: GetLog) -> tuple[Commit, ...]:
    """Return a page of commits in (since, before); empty only at the end."""
    for version, name in ((command.since, "since"), (command.before, "before")):
        if version is not None and (type(version) is not int or not 0 <= version <= INTEGER_MAX):
            raise InvalidInput(f"{name} must be a version, an integer from 0 on")
    if type(command.newest) is not bool:
        raise InvalidInput("newest is True or False")
    limit, reads = page_size(command.limit), space.reader()
    return reads.steadily(None, lambda newest: _log(reads, command, limit=limit, newest=newest))


def _log(reads: SpaceReader, command: GetLog, *, limit: int, newest: int) -> tuple[Commit, ...]:
    oldest = reads.space.oldest
    low = max(oldest - 1, 0) if command.since is None else command.since
    if low + 1 < oldest:
        raise Compacted(low + 1, oldest=oldest)
    # A newer commit than `newest` may be on a branch that is not known here yet.
    high = newest if command.before is None else min(command.before - 1, newest)
    commits: list[Commit] = []
    pace = answer_pace(PAGE_BYTES_MAX, limit=limit, first=ROWS_READ_FIRST)
    while low < high and (wanted := pace.wanted):
        # Versions have no gaps, so a chunk at either end is a range of them.
        count = min(wanted, high - low)
        if command.newest:
            high -= count
            chunk = commits_in(reads, high, high + count)[::-1]
        else:
            chunk = commits_in(reads, low, low + count)
            low += count
        fitting = pace.took(map(_size_of, chunk))
        commits += chunk[:fitting]
        if fitting < len(chunk):
            break
    return tuple(commits)


def commits_in(reads: SpaceReader, after: int, until: int) -> list[Commit]:
    """Return the commits in (after, until], oldest first."""
    previous = commit_row(reads, after).hash if after else None
    rows = reads.rows.commits(reads.number, after=after, limit=until - after)
    facts: dict[int, list[FactRow]] = {row.version: [] for row in rows}
    for version in range(after + 1, until + 1):
        if version not in facts:
            raise _missing(version)
    for fact in reads.rows.facts(reads.number, after=after, until=until):
        facts[fact.version].append(fact)
    commits: list[Commit] = []
    for row in rows:
        commits.append(_checked(reads, row, facts[row.version], previous))
        previous = row.hash
    return commits


def _checked(
    reads: SpaceReader, row: CommitRow, facts: list[FactRow], previous: bytes | None
) -> Commit:
    """Return a commit; Corrupt unless it and its facts have the hashes of their content.

    `previous` is the hash of the commit before; None for the first, and where it was compacted away.
    """
    branch, at = reads.space.branches.name(row.branch), _time_of(row)
    for fact in facts:
        check_fact(fact)
    if previous is not None or row.version == 1:
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


def _size_of(commit: Commit) -> int:
    return len(commit.meta_data or b"") + sum(len(fact.data or b"") for fact in commit.facts)


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
        raise _missing(version)
    if reads.rows.is_audit:
        _check(reads, rows[0])
    return rows[0]


def _check(reads: SpaceReader, row: CommitRow) -> None:
    before = reads.rows.commits(reads.number, after=row.version - 2, limit=1)
    previous = before[0].hash if before and before[0].version == row.version - 1 else None
    facts = reads.rows.facts(reads.number, after=row.version - 1, until=row.version)
    _checked(reads, row, facts, previous)


def _missing(version: int) -> Corrupt:
    return Corrupt(f"commit {version} is missing; run `rote verify`")
