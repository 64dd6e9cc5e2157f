"""Postings in blocks: a row for each term would take a third more room, and much longer to write.

    block    term    the first of its terms
             terms   all of its terms in UTF-8, in order, with a byte 0xff between them, which is in none
             ends    2 bytes each, the lower first: where the body of a term ends, but for the last
             body    the bodies of its terms, one after the other

A block is at most POSTINGS_BLOCK_BYTES long, so that two fill a page of SQLite, or holds one term.
Frozen.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, pairwise
from struct import pack, unpack

from rote.errors import Corrupt, invariant
from rote.values.limits import POSTINGS_BLOCK_BYTES, POSTINGS_BLOCK_TERMS

# terms, ends and body of a block.
Block = tuple[bytes, bytes, bytes]

_BETWEEN = b"\xff"
_END_BYTES = 2


def blocks_of(postings: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes, bytes, bytes]]:
    """Yield the blocks of postings that come in the order of their terms."""
    terms: list[str] = []
    bodies: list[bytes] = []
    size, last = 0, ""
    for term, body in postings:
        invariant(last < term, "the postings of a segment are not in order")
        last = term
        more = len(term.encode()) + len(body) + len(_BETWEEN) + _END_BYTES
        if terms and size + more > POSTINGS_BLOCK_BYTES:
            yield _block(terms, bodies)
            terms, bodies, size = [], [], 0
        terms.append(term)
        bodies.append(body)
        size += more
    if terms:
        yield _block(terms, bodies)


def _block(terms: list[str], bodies: list[bytes]) -> tuple[str, bytes, bytes, bytes]:
    ends = list(accumulate(map(len, bodies[:-1])))
    return (
        terms[0],
        _BETWEEN.join(term.encode() for term in terms),
        pack(f"<{len(ends)}H", *ends),
        b"".join(bodies),
    )


def posting_in(block: Block, term: bytes) -> bytes | None:
    """Return the body of a term, given in UTF-8; None when the block does not have it."""
    terms = block[0].split(_BETWEEN)
    if term not in terms:
        return None
    bounds, place = _bounds(block, len(terms)), terms.index(term)
    return block[2][bounds[place] : bounds[place + 1]]


def postings_above(
    after: str, limit: int, blocks_from: Callable[[str, int], list[Block]]
) -> list[tuple[str, bytes]]:
    """Return postings above a term, in order.

    `blocks_from(term, count)` gives blocks, beginning with the one in which the term would be.
    """
    found: list[tuple[str, bytes]] = []
    while len(found) < limit:
        # One block more, since the first may have nothing above the term.
        count = 2 + (limit - len(found)) // POSTINGS_BLOCK_TERMS
        more = [
            posting
            for block in blocks_from(after, count)
            for posting in _postings_in(block)
            if posting[0] > after
        ]
        if not more:
            break
        found += more
        after = found[-1][0]
    return found[:limit]


def _postings_in(block: Block) -> list[tuple[str, bytes]]:
    terms, body = block[0].split(_BETWEEN), block[2]
    bounds = pairwise(_bounds(block, len(terms)))
    try:
        return [
            (term.decode(), body[start:end])
            for term, (start, end) in zip(terms, bounds, strict=True)
        ]
    except UnicodeDecodeError as error:
        raise _damaged() from error


def _bounds(block: Block, count: int) -> tuple[int, ...]:
    """Return where the bodies of so many terms begin, and where the last one ends."""
    _, ends, body = block
    if len(ends) != (count - 1) * _END_BYTES:
        raise _damaged()
    return (0, *unpack(f"<{count - 1}H", ends), len(body))


def _damaged() -> Corrupt:
    return Corrupt("the postings of an index are damaged; run `rote doctor --repair`")
