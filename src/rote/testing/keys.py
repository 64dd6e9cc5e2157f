"""Keys and delegations that a test can repeat."""

from typing import Any

from rote.access.delegations import SECOND, make_delegation
from rote.testing.clocks import START
from rote.values import Identity, micros_of

NOW = micros_of(START)


def seed_of(name: str) -> bytes:
    """Return the seed of a key that is known by a name."""
    return name.encode().ljust(32, b"\0")


def did_of(name: str) -> str:
    return Identity.from_seed(seed_of(name)).did


def lend(
    issuer: str,
    to: str,
    *,
    space: str,
    right: str = "write",
    path: str | None = None,
    begins: int = 0,
    seconds: int = 3_600,
    now: int = NOW,
    nonce: bytes = bytes(16),
) -> dict[str, Any]:
    """Return a delegation between two keys; `begins` are seconds after now."""
    return make_delegation(
        seed_of(issuer),
        to=did_of(to),
        space=space,
        right=right,
        path=path,
        seconds=seconds,
        not_before=now + begins * SECOND,
        nonce=nonce,
    )
