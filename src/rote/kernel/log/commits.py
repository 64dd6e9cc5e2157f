"""Commits and facts as users see them, made from their rows."""

from collections.abc import Sequence

from rote.contract import Commit, Fact
from rote.engines.rows import CommitRow, FactRow
from rote.errors import Corrupt
from rote.kernel.log.chain import OPERATION_NAMES
from rote.kernel.log.erased_facts import remains_in
from rote.values import decode_canonical, format_time


def commit_of(
    row: CommitRow,
    facts: Sequence[FactRow],
    *,
    previous: bytes | None,
    branch: str,
    at: str | None = None,
) -> Commit:
    """Return a commit as users see it; `at` is its time as text, if the caller has it already."""
    hash, author, meta = row.hash.hex(), row.author, row.meta
    at = format_time(row.at) if at is None else at
    return Commit(
        row.version,
        hash,
        None if previous is None else previous.hex(),
        branch,
        tuple([fact_of(fact, hash, at, author, meta) for fact in facts]),
        at,
        author,
        row.key,
        meta,
        None if row.event is None else decode_canonical(row.event),
    )


def fact_of(
    row: FactRow,
    commit: str | None,
    at: str | None,
    author: str | None,
    meta: bytes | None,
) -> Fact:
    """Return a fact as users see it, with hash, time, author and meta of its commit."""
    name = OPERATION_NAMES.get(row.op)
    if name is None:
        raise Corrupt(f"a fact of {row.id} is no known operation; run `rote verify`")
    is_erased = row.salt is None
    if is_erased:
        remains_in(row)
    return Fact(
        row.id,
        name,
        row.body,
        None if row.salt is None else row.salt.hex(),
        row.parent.hex(),
        row.hash.hex(),
        row.version,
        row.index,
        commit,
        is_erased,
        at,
        author,
        meta,
    )
