"""Randomness that can be repeated."""

from hashlib import shake_256


class SeededIds:
    """An IdSource: the same seed gives the same bytes, draw by draw, on every machine."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self.draws: list[bytes] = []  # everything that was given out, in order

    def random_bytes(self, size: int, /) -> bytes:
        drawn = self.bytes_of(len(self.draws), size)
        self.draws.append(drawn)
        return drawn

    def bytes_of(self, draw: int, size: int) -> bytes:
        """Return the bytes of draw number `draw`, counted from 0, for a request of `size` bytes."""
        return shake_256(f"{self._seed}/{draw}".encode()).digest(size)
