"""Ranges of bytes: one range, none, or the whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rote.errors import InvalidInput
from rote.server.ranges import parse_range


@pytest.mark.parametrize(
    ("text", "size", "wanted"),
    [
        ("bytes=0-0", 10, (0, 1)),
        ("bytes=0-9", 10, (0, 10)),
        ("bytes=2-5", 10, (2, 6)),
        ("bytes=5-", 10, (5, 10)),
        ("bytes=5-99", 10, (5, 10)),
        ("bytes=-3", 10, (7, 10)),
        ("bytes=-99", 10, (0, 10)),
        (None, 10, None),
        ("", 10, None),
        ("bytes=", 10, None),
        ("bytes=-", 10, None),
        ("bytes=5-2", 10, None),
        ("bytes=0-1,3-4", 10, None),
        ("bytes= 0-1", 10, None),
        ("lines=0-1", 10, None),
        ("bytes=0x0-1", 10, None),
        ("bytes=\u0661-2", 10, None),
        ("bytes=0-" + "9" * 30, 10, None),
    ],
)
def test_a_header_stands_for_a_range_or_the_whole(
    text: str | None, size: int, wanted: tuple[int, int] | None
) -> None:
    assert parse_range(text, size) == wanted


@pytest.mark.parametrize(
    ("text", "size"), [("bytes=10-", 10), ("bytes=10-12", 10), ("bytes=-0", 10), ("bytes=0-", 0)]
)
def test_a_range_with_no_byte_is_refused(text: str, size: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_range(text, size)
    assert refused.value.code == "range" and refused.value.details == {"size": size}


@given(st.text(max_size=20).map("bytes={}".format) | st.text(max_size=20), st.integers(0, 100))
def test_no_header_leads_outside_the_blob(text: str, size: int) -> None:
    try:
        found = parse_range(text, size)
    except InvalidInput:
        return
    assert found is None or 0 <= found[0] < found[1] <= size
