"""Looking back: an entity's facts, the log, and the head as it was."""

from rote.contract import Commit, FactPage, Head, View
from rote.engines import Reader
from rote.engines.rows import CommitRow, FactRow, Line
from rote.errors import Compacted, Corrupt, InvalidInput
from rote.kernel.log.commits import commit_of, fact_of
from rote.kernel.log.page_sizes import page_size, size_of
from rote.kernel.state.cache import SpaceCache
from rote.values import check_entity_id, format_time
from rote.values.limits import INTEGER_MAX, PAGE_BYTES_MAX

# Commits and facts looked at first: few, because they may be large.
CHUNK_MIN = 16
EMPTY = Head(0, None, None)


def history(
    cache: SpaceCache,
    reads: Reader,
    id: str,
    *,
    before: tuple[int, int] | None,
    limit: int,
    view: View,
) -> FactPage:
    """A page of one entity's facts as of a view, newest first."""
    check_entity_id(id)
    limit = page_size(limit)
    return cache.steadily(
        reads,
        view.version,
        lambda version: _facts(
            cache, reads, id, cache.line(reads, view.branch, version), before=before, limit=limit
        ),
    )


def _facts(
    cache: SpaceCache,
    reads: Reader,
    id: str,
    line: Line,
    *,
    before: tuple[int, int] | None,
    limit: int,
) -> FactPage:
    rows: list[FactRow] = []
    size, wanted = 0, CHUNK_MIN
    while len(rows) < limit and size < PAGE_BYTES_MAX:
        wanted = min(wanted, limit - len(rows))
        chunk = reads.history(cache.number, id, line, before=before, after=0, limit=wanted)
        rows += chunk
        size += sum(size_of(fact) for fact in chunk)
        if len(chunk) < wanted:
            before = None
            break
        before, wanted = (chunk[-1].version, chunk[-1].index), wanted * 4
    hashes = {version: _hash_of(cache, reads, version) for version in {row.version for row in rows}}
    facts = tuple(fact_of(row, hashes[row.version]) for row in rows)
    return FactPage(facts, before)


def _hash_of(cache: SpaceCache, reads: Reader, version: int) -> str | None:
    """Of the commit at a version; None when it was compacted away."""
    rows = reads.commits(cache.number, after=version - 1, limit=1)
    if rows and rows[0].version == version:
        return rows[0].hash.hex()
    if version < cache.oldest:
        return None
    raise Corrupt(f"commit {version} is missing; run `rote verify`")


def log(cache: SpaceCache, reads: Reader, *, since: int, limit: int) -> tuple[Commit, ...]:
    """A page of commits above `since`, oldest first; empty only at the end."""
    if type(since) is not int or not 0 <= since <= INTEGER_MAX:
        raise InvalidInput("since must be a version, an integer from 0 on")
    limit = page_size(limit)
    return cache.steadily(
        reads, None, lambda newest: _log(cache, reads, since=since, limit=limit, newest=newest)
    )


def _log(
    cache: SpaceCache, reads: Reader, *, since: int, limit: int, newest: int
) -> tuple[Commit, ...]:
    if since + 1 < cache.oldest:
        raise Compacted(since + 1, oldest=cache.oldest)
    previous = commit_row(cache, reads, since).hash if 0 < since <= newest else None
    commits: list[Commit] = []
    size, wanted = 0, CHUNK_MIN
    while len(commits) < limit and size < PAGE_BYTES_MAX:
        rows = reads.commits(cache.number, after=since, limit=min(wanted, limit - len(commits)))
        # What is newer may be on a branch that is not known here yet.
        rows = [row for row in rows if row.version <= newest]
        if not rows:
            break
        facts: dict[int, list[FactRow]] = {row.version: [] for row in rows}
        for fact in reads.facts(cache.number, after=since, until=rows[-1].version):
            facts[fact.version].append(fact)
            size += size_of(fact)
        for row in rows:
            branch = cache.branches.name(row.branch)
            commits.append(commit_of(row, facts[row.version], previous=previous, branch=branch))
            previous = row.hash
        # Chunks grow while commits are small.
        since, wanted = rows[-1].version, wanted * 4
    return tuple(commits)


def head_at(cache: SpaceCache, reads: Reader, *, version: int | None, at: int | None) -> Head:
    """The newest commit at a version, or not after an instant."""
    if version is not None and (type(version) is not int or not 0 <= version <= INTEGER_MAX):
        raise InvalidInput("a version is an integer from 0 on, of 64 bits")
    if version is not None or at is None:
        return cache.steadily(reads, version, lambda found: _head(cache, reads, found))
    return cache.steadily(
        reads, None, lambda newest: _head(cache, reads, _version_at(cache, reads, at, newest))
    )


def _head(cache: SpaceCache, reads: Reader, version: int) -> Head:
    if version == 0:
        return EMPTY
    row = commit_row(cache, reads, version)
    return Head(row.version, row.hash.hex(), row.at)


def _version_at(cache: SpaceCache, reads: Reader, at: int, newest: int) -> int:
    """Times never decrease along the log, so halving finds the last commit not after `at`."""
    low, high = max(cache.oldest - 1, 0), newest
    while low < high:
        middle = (low + high + 1) // 2
        if commit_row(cache, reads, middle).at <= at:
            low = middle
        else:
            high = middle - 1
    if 0 < low < cache.oldest:
        raise Compacted(low, oldest=cache.oldest, at=format_time(at))
    return low


def commit_row(cache: SpaceCache, reads: Reader, version: int) -> CommitRow:
    rows = reads.commits(cache.number, after=version - 1, limit=1)
    if not rows or rows[0].version != version:
        raise Corrupt(f"commit {version} is missing; run `rote verify`")
    return rows[0]
