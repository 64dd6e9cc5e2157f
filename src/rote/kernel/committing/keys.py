"""Keys and attempts: the commit that one has made, and whether it is the one that is asked for."""

from collections.abc import Sequence

from rote.contract import Commit
from rote.contract.commands import GetMade, Settle
from rote.engines import Abandoning
from rote.engines.rows import CommitRow, FactRow, SideRecord
from rote.errors import Compacted, Corrupt, Denied, InvalidInput, PayloadMismatch
from rote.kernel.committing.jobs import call_digest_on
from rote.kernel.log.commits import commit_of
from rote.kernel.log.key_rows import meaning_of, settled_record
from rote.kernel.log.seals import ATTEMPT, KEY
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values import check_attempt, check_branch_name, check_key, format_time


def get_made(space: OpenSpace, command: GetMade) -> Commit | None:
    check_key(command.key)
    check_branch_name(command.branch)
    if not isinstance(command.ids, list | tuple):
        raise InvalidInput("ids: they are a list of texts", argument="ids")
    if command.attempt is not None:
        check_attempt(command.attempt)
    payload = call_digest_on(command.branch, command.call)
    reads = space.reader()
    return reads.steadily(None, lambda _: _made(reads, command, payload))


def _made(reads: SpaceReader, command: GetMade, payload: str) -> Commit | None:
    for kind, name in ((ATTEMPT, command.attempt), (KEY, command.key)):
        row = None if name is None else reads.rows.side(reads.number, kind, name)
        if row is None:
            continue
        version, made_of = commit_version(row), meaning_of(row)[1]
        made = stored_commit(reads, version)
        if made_of != payload and (made_of is not None or not _could_be(reads, command, made)):
            raise PayloadMismatch(row.key, version=version, kind=kind)
        return made
    return None


def commit_version(row: SideRecord) -> int:
    """Return the version of the commit that a key or an attempt made; Denied when it never will."""
    version, _ = meaning_of(row)
    if version == 0:
        raise Denied(
            f"attempt {row.key} was settled before it came; nothing was written, and it will not be",
            code="settled",
            attempt=row.key,
        )
    return version


def _could_be(reads: SpaceReader, command: GetMade, made: Commit) -> bool:
    """Whether a call may have made a commit whose payload digest an erasure has removed."""
    if made.event is not None or made.branch != command.branch:
        return False
    is_left = made.version >= reads.space.oldest
    return not is_left or [fact.id for fact in made.facts] == list(command.ids)


def settle(space: OpenSpace, command: Settle) -> Commit | None:
    """Return the commit of an attempt. One that has made none is ended: it may still be on its way."""
    check_attempt(command.attempt)
    reads, is_looking = space.reader(), space.engine.read_only is not None
    made = reads.steadily(None, lambda _: _settled(reads, command.attempt))
    if made is None and not is_looking:
        made = _end(space, command.attempt)
    elif made is not None and not is_looking:
        space.engine.harden()  # its writer may have died before its sync
    return made


def _settled(reads: SpaceReader, attempt: str) -> Commit | None:
    row = reads.rows.side(reads.number, ATTEMPT, attempt)
    version = 0 if row is None else meaning_of(row)[0]
    return stored_commit(reads, version) if version else None


def _end(space: OpenSpace, attempt: str) -> Commit | None:
    """Note that an attempt makes no commit any more, unless it has just made one."""
    at = format_time(space.wiring.now())
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        writes.sync()
        if writes.rows.side(writes.number, ATTEMPT, attempt) is None:
            writes.rows.put_side(writes.number, settled_record(space.did, attempt, at))
        return _settled(writes, attempt)


def stored_commit(
    reads: SpaceReader,
    version: int,
    *,
    commits: Sequence[CommitRow] = (),
    facts: Sequence[FactRow] = (),
) -> Commit:
    """Return a commit that has a key or an event; a compaction may have taken its facts.

    `commits` and `facts` are not stored yet, and come first.
    """
    number = reads.number
    rows = [*reads.rows.commits(number, after=max(version - 2, 0), limit=2), *commits]
    by_version = {row.version: row for row in rows}
    row, previous = by_version.get(version), by_version.get(version - 1)
    if row is None and version < reads.space.oldest:
        raise Compacted(version, oldest=reads.space.oldest)
    if row is None:
        raise Corrupt(f"commit {version} is missing; run `rote verify`")
    return commit_of(
        row,
        facts or reads.rows.facts(number, after=version - 1, until=version),
        previous=None if previous is None else previous.hash,
        branch=reads.space.branches.name(row.branch),
    )
