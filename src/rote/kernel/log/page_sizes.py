"""Page sizes: how many rows to ask for next when their bytes are known only afterwards."""

from collections.abc import Iterable

from rote.engines.rows import FactRow
from rote.errors import InvalidInput
from rote.values.limits import COPY_CHUNK_MAX, PAGE_MAX, VERIFY_PAGE_BYTES, VERIFY_PAGE_ROWS


class Pace:
    """Fill a page with items in chunks that grow while the items are small.

    A page ends with the item that reaches its limit of bytes. Later items of that chunk were read for
    nothing, at most one chunk of them, and chunks are small. A chunk is also small enough that items
    as large as the largest so far fit into the rest of the page.
    """

    def __init__(self, size_bytes_max: int) -> None:
        self._size_bytes_max = size_bytes_max
        self._taken = 0
        self._size_bytes = 0
        self._largest_bytes = 1
        self._chunk = 1

    @property
    def wanted(self) -> int:
        """The number of items to ask for; 0 when the page is full."""
        room_bytes = self._size_bytes_max - self._size_bytes
        if room_bytes <= 0 or self._taken >= PAGE_MAX:
            return 0
        fitting = max(room_bytes // self._largest_bytes, 1)
        return min(self._chunk, PAGE_MAX - self._taken, fitting)

    def took(self, sizes_bytes: Iterable[int]) -> int:
        """Count the items of a chunk; return how many of them, from the first on, belong to the page."""
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
    """Return the number of rows to ask for after a page with so many rows and bytes.

    Pages grow while rows are small and shrink when they are large, so that memory stays bounded.
    """
    if size_bytes > VERIFY_PAGE_BYTES:
        return max(rows // 4, 1)
    return min(rows * 2, VERIFY_PAGE_ROWS)


def page_size(limit: int) -> int:
    if type(limit) is not int or limit < 1:
        raise InvalidInput("a limit is an integer from 1 on")
    return min(limit, PAGE_MAX)
