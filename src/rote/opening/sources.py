"""The system's clock and randomness: the only place in the library that asks for them."""

import os
from datetime import UTC, datetime
from itertools import count


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class SystemIds:
    def random_bytes(self, size: int, /) -> bytes:
        return os.urandom(size)


class SystemTokens:
    """Tokens of a random part for the process and a counter: unique without more randomness."""

    def __init__(self) -> None:
        self._process = os.urandom(8)
        self._numbers = count()

    def token(self) -> bytes:
        return self._process + next(self._numbers).to_bytes(8, "big")
