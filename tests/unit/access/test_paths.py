"""Paths: what lies within one, of ids, ranges and selectors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rote.access.paths import check_path, is_narrower, range_within, selector_within, within
from rote.errors import InvalidInput

IDS = st.text("urn:ab/#!*é", min_size=1, max_size=10).map(lambda text: "urn:" + text)
PATHS = IDS.filter(lambda text: not text.endswith("*"))


@pytest.mark.parametrize(
    "path", ["urn:a", "urn:a:", "urn:", "http://h/a/", "urn:a#", "record:ops!!note!!", "urn:é:"]
)
def test_an_id_or_a_prefix_is_a_path(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize(
    "path",
    [None, 1, "", ":", "a", "/a/", "urn:a*", "urn: a:", "urn:\0:", "urn:\ud800:", "u" * 2000],
)
def test_anything_else_is_no_path(path: object) -> None:
    with pytest.raises(InvalidInput):
        check_path(path)


@pytest.mark.parametrize(
    ("id", "path", "expected"),
    [
        ("urn:a", None, True),
        ("urn:a", "urn:a", True),
        ("urn:ab", "urn:a", False),
        ("urn:a:b", "urn:a", False),
        ("urn:a:b", "urn:a:", True),
        ("urn:a:", "urn:a:", True),
        ("urn:a", "urn:a:", False),
        ("URN:a:b", "urn:a:", False),
        ("urn:a:%62", "urn:a:b", False),
        ("urn:a%3Ab", "urn:a:", False),
        ("http://h/a/../b", "http://h/a/", True),
        ("urn:a#b", "urn:a#", True),
        ("record:ops!!note!!x!!", "record:ops!!note!!", True),
        ("record:ops!!notes!!x!!", "record:ops!!note!!", False),
        ("urn:a!b", "urn:a!", False),
        ("urn:e\u0301:x", "urn:\u00e9:", False),
    ],
)
def test_an_id_is_within_a_path_code_point_by_code_point(
    id: str, path: str | None, expected: bool
) -> None:
    assert within(id, path) is expected


@given(PATHS, PATHS, IDS)
def test_a_narrower_path_covers_nothing_that_the_other_does_not(
    inner: str, outer: str, id: str
) -> None:
    if is_narrower(inner, outer) and within(id, inner):
        assert within(id, outer)


def test_no_path_is_wider_than_every_path() -> None:
    assert is_narrower("urn:a", None)
    assert is_narrower(None, None)
    assert not is_narrower(None, "urn:a:")


@given(IDS, st.none() | IDS, PATHS, IDS)
def test_a_range_within_a_path_holds_only_ids_within_it(
    start: str, end: str | None, path: str, id: str
) -> None:
    if range_within(start, end, path) and start <= id and (end is None or id < end):
        assert within(id, path)


def test_a_range_within_a_path_may_be_all_of_it() -> None:
    assert range_within("urn:a:", "urn:a;", "urn:a:")
    assert not range_within("urn:a:", "urn:a<", "urn:a:")
    assert not range_within("urn:a", "urn:a;", "urn:a:")
    assert not range_within("urn:a:", None, "urn:a:")
    assert range_within("urn:a", "urn:a\0", "urn:a")
    assert range_within("", None, None)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [("urn:a:*", True), ("urn:a:b*", True), ("urn:a*", False), ("*", False), ("urn:a:b", True)],
)
def test_a_selector_is_within_a_path_if_all_it_selects_is(selector: str, expected: bool) -> None:
    assert selector_within(selector, "urn:a:") is expected
    assert selector_within(selector, None)
