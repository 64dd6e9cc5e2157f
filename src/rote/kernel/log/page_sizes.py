"""How much to ask for next when the sizes of what comes are known only afterwards."""

from collections.abc import Iterable

from rote.engines.rows import FactRow
from rote.errors import InvalidInput
from rote.values.limits import COPY_CHUNK_MAX, PAGE_MAX, VERIFY_PAGE_BYTES, VERIFY_PAGE_ROWS


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


def size_of(fact: FactRow) -> int:
    return len(fact.body or b"") + len(fact.value or b"")


def next_page(rows: int, size_bytes: int) -> int:
    """How many rows to ask for after a page of so many and of that size: pages grow while what
    comes is small, so that memory stays bounded whatever is stored."""
    if size_bytes > VERIFY_PAGE_BYTES:
        return max(rows // 4, 1)
    return min(rows * 2, VERIFY_PAGE_ROWS)


def page_size(limit: int) -> int:
    if type(limit) is not int or limit < 1:
        raise InvalidInput("a limit is an integer from 1 on")
    return min(limit, PAGE_MAX)
