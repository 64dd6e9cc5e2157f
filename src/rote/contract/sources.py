"""Sources of time, randomness and keys. A store takes them as arguments, so equal inputs give equal
bytes."""

from datetime import datetime
from typing import Protocol

from rote.values import Identity


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
        ...


class IdSource(Protocol):
    """Randomness that becomes part of the history: key seeds, salts, run ids."""

    def random_bytes(self, size: int, /) -> bytes: ...


class TokenSource(Protocol):
    """Tokens that tell attempts apart and never become part of the history."""

    def token(self) -> bytes: ...


class KeyRing(Protocol):
    """Keeper of the private keys of spaces, outside the database."""

    place: str  # for messages

    def save(self, did: str, seed: bytes) -> None:
        """Keep a private key, durably."""
        ...

    def load(self, did: str) -> Identity | None: ...

    def discard(self, did: str) -> None: ...
