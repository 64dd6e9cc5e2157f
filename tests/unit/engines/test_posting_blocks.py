"""Postings in blocks: they fill their rows, and damage of a row is told as that."""

import pytest

from rote.engines.posting_blocks import blocks_of, posting_in, postings_above
from rote.errors import Corrupt
from rote.values.limits import POSTINGS_BLOCK_BYTES


def test_short_postings_share_a_block_and_long_ones_have_their_own() -> None:
    long = bytes(POSTINGS_BLOCK_BYTES)
    postings = [("a", b"1"), ("b", b""), ("c", long), ("d", b"4"), ("e", b"55")]
    assert list(blocks_of(postings)) == [
        ("a", b"a\xffb", b"\1\0", b"1"),
        ("c", b"c", b"", long),
        ("d", b"d\xffe", b"\1\0", b"455"),
    ]
    assert list(blocks_of([])) == []


def test_a_block_of_several_terms_is_never_too_long() -> None:
    postings = [(f"{number:05}", bytes(number % 200)) for number in range(2_000)]
    lengths = [sum(map(len, block)) - len(block[0]) for block in blocks_of(postings)]
    assert max(lengths) <= POSTINGS_BLOCK_BYTES
    # All but the last are nearly full.
    assert min(lengths[:-1]) > POSTINGS_BLOCK_BYTES - 250


@pytest.mark.parametrize(
    "block",
    [
        (b"a", b"\1\0", b"1"),
        (b"a\xffb", b"", b"1"),
        (b"a\xffb", b"\1", b"1"),
        (b"a\xffb\xffc", b"\1\0", b"1"),
        (b"a\xff\xc3", b"\1\0", b"12"),
    ],
)
def test_a_block_that_is_none_is_corrupt(block: tuple[bytes, bytes, bytes]) -> None:
    with pytest.raises(Corrupt, match="repair"):
        postings_above("", 9, lambda term, count: [block])
    if b"\xc3" not in block[0]:
        with pytest.raises(Corrupt, match="repair"):
            posting_in(block, b"a")
