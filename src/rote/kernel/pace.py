"""How much to ask for next when the sizes of what comes are known only afterwards."""

from collections.abc import Iterable

from rote.values.limits import COPY_CHUNK_MAX, PAGE_MAX


class Pace:
    """Fills a page in chunks that grow while what comes is small.

    A page ends with the thing that passes its bytes. What a chunk brought beyond it is not of the
    page, so no more than a chunk is ever read for nothing, and chunks are few things each. By the
    largest thing so far, a chunk is not expected to hold more than the room that is left.
    """

    def __init__(self, size_bytes_max: int) -> None:
        self._size_bytes_max = size_bytes_max
        self._taken = 0
        self._size_bytes = 0
        self._largest_bytes = 1
        self._chunk = 1

    @property
    def wanted(self) -> int:
        """How many to ask for; 0 when the page is full."""
        room_bytes = self._size_bytes_max - self._size_bytes
        if room_bytes <= 0 or self._taken >= PAGE_MAX:
            return 0
        fitting = max(room_bytes // self._largest_bytes, 1)
        return min(self._chunk, PAGE_MAX - self._taken, fitting)

    def took(self, sizes_bytes: Iterable[int]) -> int:
        """Count what came; how many of it, from the first on, are of the page."""
        taken = self._taken
        for size in sizes_bytes:
            if self._size_bytes >= self._size_bytes_max:
                break
            self._taken += 1
            self._size_bytes += size
            self._largest_bytes = max(self._largest_bytes, size)
        self._chunk = min(self._chunk * 2, COPY_CHUNK_MAX)
        return self._taken - taken
