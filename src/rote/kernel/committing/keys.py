"""Idempotency keys: the commit that a key has made, and whether it is the one that is asked for."""

from collections.abc import Sequence

from rote.contract import Commit
from rote.contract.commands import GetMade
from rote.engines.rows import CommitRow, FactRow
from rote.errors import Corrupt, PayloadMismatch
from rote.kernel.committing.jobs import call_digest_on
from rote.kernel.log.commits import commit_of
from rote.kernel.log.key_rows import meaning_of
from rote.kernel.log.seals import KEY
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.values import check_branch_name, check_key


def get_made(space: OpenSpace, command: GetMade) -> Commit | None:
    check_key(command.key)
    check_branch_name(command.branch)
    payload = call_digest_on(command.branch, command.call)
    reads = space.reader()
    return reads.steadily(None, lambda _: _made(reads, command, payload))


def _made(reads: SpaceReader, command: GetMade, payload: str) -> Commit | None:
    row = reads.rows.side(reads.number, KEY, command.key)
    if row is None:
        return None
    version, made_of = meaning_of(row)
    made = stored_commit(reads, version)
    if made_of != payload and (made_of is not None or not _could_be(reads, command, made)):
        raise PayloadMismatch(command.key, version=version)
    return made


def _could_be(reads: SpaceReader, command: GetMade, made: Commit) -> bool:
    """Whether a call may have made a commit whose payload digest an erasure has removed."""
    if made.event is not None or made.branch != command.branch:
        return False
    is_left = made.version >= reads.space.oldest
    return not is_left or [fact.id for fact in made.facts] == list(command.ids)


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
    if row is None:
        raise Corrupt(f"commit {version} is missing; run `rote verify`")
    return commit_of(
        row,
        facts or reads.rows.facts(number, after=version - 1, until=version),
        previous=None if previous is None else previous.hash,
        branch=reads.space.branches.name(row.branch),
    )
