"""rote.delegate: lend a right to somebody else, from now on, by the system's clock and randomness."""

from datetime import datetime
from typing import Any

from rote.access.delegations import NONCE_BYTES, make_delegation
from rote.opening.sources import SystemClock, SystemIds
from rote.values import micros_of
from rote.values.server_limits import DELEGATION_SECONDS_DEFAULT
from rote.values.times import instant


def delegate(
    seed: bytes,
    *,
    to: str,
    space: str,
    right: str,
    path: str | None = None,
    seconds: int = DELEGATION_SECONDS_DEFAULT,
    not_before: datetime | str | None = None,
) -> dict[str, Any]:
    """Return a delegation: a signed statement that lends a right in a space to another did.

    seed        32 bytes: the key of who lends
    to          the did that gets the right
    space       the did of the space
    right       "read", "write" or "owner"; nobody can lend more than they hold
    path        the entities it is for: an id, or a prefix that ends with : / # or !!
    seconds     how long it holds, at most 366 days
    not_before  when it begins; now when left out
    """
    begins = micros_of(SystemClock().now()) if not_before is None else instant(not_before)
    return make_delegation(
        seed,
        to=to,
        space=space,
        right=right,
        path=path,
        seconds=seconds,
        not_before=begins,
        nonce=SystemIds().random_bytes(NONCE_BYTES),
    )
