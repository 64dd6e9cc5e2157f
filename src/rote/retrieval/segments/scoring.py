"""The scores of lexical-1 over segments: all rows of a term at once, by whole numbers only.

Without threads each row adds up its weights. With threads a row has of each term the greatest of its
own share and six that its neighbours lend, and there are three ways to find it:

    few blocks  bounds tell which blocks of cells may have one of the best; only these are looked at
    few rows    each row offers its seven shares to the cells around it
    many rows   all cells are one large integer, 32 bits each; shifting it lends to all neighbours, and
                the greater of two such integers is found in all cells by a few operations
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import compress
from operator import add, itemgetter

from msgspec import Struct

from rote.retrieval.ranking import weights
from rote.retrieval.ranking.scoring import AFTER, BEFORE, OWN, Telling
from rote.retrieval.segments.layout import Layout
from rote.retrieval.segments.living import Living, Part
from rote.retrieval.segments.segment import ROW, Numbers, Posting, from_bytes, to_bytes
from rote.values.limits import BLOCK_CELLS, CELLS_OF_MANY, WORDS_REMEMBERED

# A share is at most ten times a weight, which is below 2.2 * 2^16. So the highest bit of a lane is free.
_LANE_BITS = 32
_LANE_BYTES = _LANE_BITS // 8
_LANES_STEP = 1_024

_NO_ROWS: Numbers = array(ROW)

# The postings of each part, by term.
Postings = Sequence[Mapping[str, Posting]]


class PartTotals(Struct, frozen=True):
    """Totals of the rows of a part: the sum over terms of idf times ten times the weight.

    The term that most rows have is left out of those that have it once and no other term.
    """

    own: dict[int, int]  # by row; 0 for one that does not count
    waiting: Sequence[int]  # the rows that have this term once
    known: int  # so many of them are in `own`
    by_row: Sequence[int]  # weights
    times: int  # of its weights

    def whole(self) -> dict[int, int]:
        """Return the totals of all rows."""
        own, by_row = self.own, self.by_row
        return own | {row: self.times * by_row[row] for row in self.waiting if row not in own}


def plain_totals(
    living: Living,
    weighed: Sequence[Sequence[int]],
    postings: Postings,
    telling: Telling,
    frequent: str | None,
) -> list[PartTotals]:
    """Return the totals of each part; without a `frequent` term none are left out."""
    known = _weights_of(telling.average)
    totals = []
    for part, by_row, found in zip(living.parts, weighed, postings, strict=True):
        waiting, times = _NO_ROWS, 0
        asked = []
        for term, idf in telling.idf.items():
            posting = found.get(term)
            if posting is None:
                continue
            if term == frequent and part.is_whole:
                waiting, times = posting.singles, OWN * idf
                posting = Posting(_NO_ROWS, posting.repeats, posting.counts)
            asked.append((idf, posting))
        own = _part_totals(part, by_row, asked, known)
        others = [row for row in waiting if row in own]
        for row in others:
            own[row] += times * by_row[row]
        totals.append(PartTotals(own, waiting, len(others), by_row, times))
    return totals


def frequent_term(postings: Postings, telling: Telling) -> str | None:
    """Return the term that most rows have once, of those that tell anything; None for a single term."""
    counts = {
        term: sum(len(found[term].singles) for found in postings if term in found)
        for term, idf in telling.idf.items()
        if idf
    }
    return max(counts, key=counts.__getitem__) if len(counts) > 1 else None


def _part_totals(
    part: Part, by_row: Sequence[int], asked: list[tuple[int, Posting]], known: "_Weights"
) -> dict[int, int]:
    # The longest posting first: there is nothing to add it to, and that is faster.
    asked.sort(key=lambda each: -len(each[1].singles))
    own: dict[int, int] = {}
    for idf, posting in asked:
        times = OWN * idf
        more = map(times.__mul__, map(by_row.__getitem__, posting.singles))
        if not own:
            own = dict(zip(posting.singles, more, strict=True))
        else:
            for row, share in zip(posting.singles, more, strict=True):
                # Faster than with a default: most rows have one term.
                if row in own:
                    own[row] += share
                else:
                    own[row] = share
        for row, weight in _repeated(part, posting, known):
            if by_row[row]:
                own[row] = own.get(row, 0) + times * weight
    return own


class _Weights(dict[tuple[int, int], int]):
    """Weights of a term, by its occurrences in a memory and the length of that."""

    def __init__(self, average: int) -> None:
        self._average = average

    def __missing__(self, key: tuple[int, int]) -> int:
        if len(self) >= WORDS_REMEMBERED:
            self.clear()
        weight = self[key] = weights.weight(*key, self._average)
        return weight


# An average stays for many questions.
_weights_of = lru_cache(maxsize=4)(_Weights)


def _repeated(part: Part, posting: Posting, known: _Weights) -> Iterable[tuple[int, int]]:
    """Return the rows that have a term more than once, with its weight."""
    lengths = map(part.segment.length.__getitem__, posting.repeats)
    keys = zip(posting.counts, lengths, strict=True)
    return zip(posting.repeats, map(known.__getitem__, keys), strict=True)


class CellPosting(Struct, frozen=True):
    """The cells that have one term, and their weights; 0 for one that does not count."""

    idf: int
    cells: list[int]
    weights: list[int]
    blocks: list[int]  # of the cells
    places: list[int]  # and in these

    @staticmethod
    def of(idf: int, cells: list[int], weights: list[int]) -> "CellPosting":
        blocks = [cell // BLOCK_CELLS for cell in cells]
        places = [cell % BLOCK_CELLS for cell in cells]
        return CellPosting(idf, cells, weights, blocks, places)


def cell_postings(
    living: Living, weighed: Sequence[Sequence[int]], postings: Postings, telling: Telling
) -> list[CellPosting]:
    """Return the cells of all terms that tell anything."""
    known = _weights_of(telling.average)
    return [
        CellPosting.of(idf, *_by_cell(living, weighed, postings, term, known))
        for term, idf in telling.idf.items()
        if idf
    ]


def _by_cell(
    living: Living,
    weighed: Sequence[Sequence[int]],
    postings: Postings,
    term: str,
    known: _Weights,
) -> tuple[list[int], list[int]]:
    """Return the cells that have a term, and their weights."""
    cells: list[int] = []
    found: list[int] = []
    for part, places, by_row, terms in zip(
        living.parts, living.layout.cells, weighed, postings, strict=True
    ):
        posting = terms.get(term)
        if posting is not None:
            cells += map(places.__getitem__, posting.singles)
            found += map(by_row.__getitem__, posting.singles)
            for row, weight in _repeated(part, posting, known):
                if by_row[row]:
                    cells.append(places[row])
                    found.append(weight)
    return cells, found


def threaded_totals(layout: Layout, found: Sequence[CellPosting]) -> list[int]:
    """Return the total of each cell of the layout; that of an empty one means nothing."""
    size = len(layout.rows)
    totals, lanes = [0] * size, None
    for each in found:
        if len(each.cells) * CELLS_OF_MANY < size:
            _offer(totals, layout, each)
        else:
            lanes = lanes or _Lanes(layout)
            lanes.add(each)
    return totals if lanes is None else list(map(add, totals, lanes.totals()))


# What a cell offers to itself and to those around it.
_OFFERS = (
    (0, OWN),
    *((step, share) for step, share in enumerate(AFTER, 1)),
    *((-step, share) for step, share in enumerate(BEFORE, 1)),
)


def _reached(place: int) -> tuple[int, int]:
    """Return the block beside its own that a cell reaches, from there, and the most it offers to it."""
    offers = [((place + step) // BLOCK_CELLS, times) for step, times in _OFFERS]
    return max((each for each in offers if each[0]), key=itemgetter(1), default=(0, 0))


# By the place of a cell in its block.
_REACHED = tuple(map(_reached, range(BLOCK_CELLS)))


def _offer(totals: list[int], layout: Layout, posting: CellPosting) -> None:
    """Add the greatest share in a term of each cell that has one."""
    shares = [0] * len(totals)
    idf, free, get = posting.idf, layout.free, shares.__getitem__
    for cell, weight in zip(posting.cells, posting.weights, strict=True):
        if not weight:
            continue
        for step, times in _OFFERS if cell >= free else _OFFERS[:1]:
            share = times * weight
            before = get(cell + step)
            if before < share:
                shares[cell + step] = share
                totals[cell + step] += idf * (share - before)


def block_bounds(layout: Layout, found: Sequence[CellPosting]) -> Numbers:
    """Return for each block of cells a number that no total in it is above."""
    size = len(layout.rows) // BLOCK_CELLS + 1
    bounds = 0  # all of them, 64 bits each
    for each in found:
        shares = array("Q", bytes(8 * size))
        get = shares.__getitem__
        for block, place, weight in zip(each.blocks, each.places, each.weights, strict=True):
            if get(block) < OWN * weight:
                shares[block] = OWN * weight
            step, times = _REACHED[place]
            if step and get(block + step) < times * weight:
                shares[block + step] = times * weight
        bounds += each.idf * int.from_bytes(to_bytes(shares), "little")
    return from_bytes("Q", bounds.to_bytes(8 * size, "little"))


def totals_in(
    blocks: Set[int], layout: Layout, found: Sequence[CellPosting]
) -> Iterator[tuple[int, int]]:
    """Yield the cells of some blocks that have a total, with it; that of an empty one means nothing."""
    near = {block + step for block in blocks for step in (-1, 0, 1)}
    totals: dict[int, int] = {}
    for each in found:
        shares: dict[int, int] = {}
        weighed = zip(each.cells, each.weights, strict=True)
        for cell, weight in compress(weighed, map(near.__contains__, each.blocks)):
            for step, times in _OFFERS if cell >= layout.free else _OFFERS[:1]:
                share = times * weight
                if shares.get(cell + step, 0) < share:
                    shares[cell + step] = share
        for cell, share in shares.items():
            totals[cell] = totals.get(cell, 0) + each.idf * share
    # Those of the blocks beside may lack shares.
    return ((cell, total) for cell, total in totals.items() if cell // BLOCK_CELLS in blocks)


def count_reached(layout: Layout, filled: bytes, found: Sequence[CellPosting]) -> int:
    """Return how many cells that are filled have a share in any term."""
    marks = bytearray(len(layout.rows))
    for each in found:
        for cell in compress(each.cells, each.weights):
            marks[cell] = 1
    # A byte for each cell, as one number.
    own = reached = int.from_bytes(marks, "little")
    lending = own >> 8 * layout.free << 8 * layout.free
    for step in range(1, len(AFTER) + 1):
        reached |= lending << 8 * step
    for step in range(1, len(BEFORE) + 1):
        reached |= lending >> 8 * step
    return (reached & int.from_bytes(filled, "little")).bit_count()


class _Lanes:
    """Totals of all cells, each in 64 bits of one of two integers: those of even and of odd cells."""

    def __init__(self, layout: Layout) -> None:
        self._free_bits = _LANE_BITS * layout.free
        self._count = len(layout.rows)
        # In steps, so that a few more cells have the same masks.
        self._size = -(-self._count // _LANES_STEP) * _LANES_STEP
        self._guards, self._evens = _masks(self._size)
        self._even = self._odd = 0

    def add(self, posting: CellPosting) -> None:
        """Add the shares of all cells in one term."""
        lanes = array("I", bytes(_LANE_BYTES * self._size))
        for cell, weight in zip(posting.cells, posting.weights, strict=True):
            lanes[cell] = weight
        own = int.from_bytes(to_bytes(lanes), "little")
        lending = own >> self._free_bits << self._free_bits
        shares = OWN * own
        for step, times in enumerate(AFTER, 1):
            shares = self._greater(shares, times * (lending << _LANE_BITS * step))
        for step, times in enumerate(BEFORE, 1):
            shares = self._greater(shares, times * (lending >> _LANE_BITS * step))
        self._even += posting.idf * (shares & self._evens)
        self._odd += posting.idf * (shares >> _LANE_BITS & self._evens)

    def totals(self) -> Numbers:
        found = array("Q", bytes(8 * self._size))
        for start, integer in enumerate((self._even, self._odd)):
            found[start::2] = from_bytes("Q", integer.to_bytes(_LANE_BYTES * self._size, "little"))
        return found[: self._count]

    def _greater(self, one: int, other: int) -> int:
        """Return the greater of two numbers in every lane."""
        # A guard stays where the first is not less; the bits below it then become a mask.
        stays = ((one | self._guards) - other) & self._guards
        mask = stays - (stays >> _LANE_BITS - 1)
        return other ^ (one ^ other) & mask


@lru_cache(maxsize=8)
def _masks(size: int) -> tuple[int, int]:
    """Return the guards of all lanes, and all bits of the even ones."""
    guards = int.from_bytes(b"\x00\x00\x00\x80" * size, "little")
    return guards, int.from_bytes(b"\xff\xff\xff\xff\x00\x00\x00\x00" * (size // 2), "little")
