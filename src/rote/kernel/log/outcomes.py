"""After a COMMIT that failed without saying how: find out before anyone is answered."""

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
    """Returns when the commits are there, durably. Unavailable with `refusal` when none of them is;
    the error itself when that cannot be found out."""
    if not commits:
        raise error
    first = commits[0]
    try:
        durable = engine.settle(space, first.version, first.attempt)
    except RoteError:
        raise error from None
    if not durable:
        raise Unavailable(refusal, outcome="not_written") from error
