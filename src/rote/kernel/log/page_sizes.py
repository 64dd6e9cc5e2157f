"""Page sizes: how many rows to ask for next when their bytes are known only afterwards."""

from collections.abc import Iterable

from rote.engines import Engine
from rote.engines.rows import FactRow
from rote.errors import InvalidInput
from rote.values.limits import (
    COPY_CHUNK_MAX,
    ENTITIES_COMPARED_AT_ONCE,
    PAGE_MAX,
    ROWS_READ_MAX,
    VERIFY_PAGE_BYTES,
    VERIFY_PAGE_ROWS,
)


class Pace:
    """Fill a page with items in chunks that grow while the items are small.

    A page ends with the item that reaches its limit of bytes. Later items of that chunk were read for
    nothing, at most one chunk of them, and chunks are small. A chunk is also small enough that items
    as large as the largest so far fit into the rest of the page.

    limit       the number of items that end a page, too; PAGE_MAX when it is None
    first, most the first chunk, and the largest
    growth      how much larger than the one before a chunk is
    """

    def __init__(
        self,
        size_bytes_max: int,
        *,
        limit: int | None = None,
        first: int = 1,
        most: int = COPY_CHUNK_MAX,
        growth: int = 2,
    ) -> None:
        self._size_bytes_max = size_bytes_max
        self._limit = PAGE_MAX if limit is None else limit
        self._growth = growth
        self._chunk_max = most
        self._taken = 0
        self._size_bytes = 0
        self._largest_bytes = 1
        self._chunk = first

    @property
    def wanted(self) -> int:
        """The number of items to ask for; 0 when the page is full."""
        room_bytes = self._size_bytes_max - self._size_bytes
        if room_bytes <= 0 or self._taken >= self._limit:
            return 0
        fitting = max(room_bytes // self._largest_bytes, 1)
        return min(self._chunk, self._limit - self._taken, fitting)

    def took(self, sizes_bytes: Iterable[int]) -> int:
        """Count the items of a chunk; return how many of them, from the first on, belong to the page."""
        taken = self._taken
        for size in sizes_bytes:
            if self._size_bytes >= self._size_bytes_max:
                break
            self._taken += 1
            self._size_bytes += size
            self._largest_bytes = max(self._largest_bytes, size)
        self._chunk = min(self._chunk * self._growth, self._chunk_max)
        return self._taken - taken


def answer_pace(size_bytes_max: int, *, limit: int, first: int) -> Pace:
    """Return the pace of a page that a caller waits for: few looks, because most items are small."""
    return Pace(size_bytes_max, limit=limit, first=first, most=ROWS_READ_MAX, growth=4)


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


def compared_at_once(engine: Engine) -> int:
    """Return how many entities to read at once from each of the states that are compared."""
    return PAGE_MAX if engine.is_remote else ENTITIES_COMPARED_AT_ONCE
