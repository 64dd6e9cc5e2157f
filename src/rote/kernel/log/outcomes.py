"""Settling the outcome of a COMMIT that failed without a clear answer, before callers are answered."""

from collections.abc import Sequence

from rote.engines import Engine, OutcomeUnknown
from rote.engines.rows import CommitRow
from rote.errors import RoteError, Unavailable


def settle(
    engine: Engine,
    space: int,
    commits: Sequence[CommitRow],
    error: OutcomeUnknown,
    *,
    refusal: str,
) -> None:
    """Return when the commits are durable.

    Raise Unavailable with `refusal` when none was written, and `error` when that cannot be found out.
    """
    if not commits:
        raise error
    first = commits[0]
    try:
        durable = engine.settle(space, first.version, first.attempt)
    except RoteError:
        raise error from None
    if not durable:
        raise Unavailable(refusal, outcome="not_written") from error
