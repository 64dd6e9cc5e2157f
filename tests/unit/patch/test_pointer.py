"""JSON pointers as in RFC 6901."""

from typing import Any

import pytest

from rote.errors import InvalidInput
from rote.patch import find, format_pointer, parse_pointer
from rote.patch.pointer import parse_index

# RFC 6901 section 5 and the corners of section 4.
POINTERS: list[tuple[str, tuple[str, ...]]] = [
    ("", ()),
    ("/foo", ("foo",)),
    ("/foo/0", ("foo", "0")),
    ("/", ("",)),
    ("/a~1b", ("a/b",)),
    ("/c%d", ("c%d",)),
    ("/e^f", ("e^f",)),
    ("/i\\j", ("i\\j",)),
    ('/k"l', ('k"l',)),
    ("/ ", (" ",)),
    ("/m~0n", ("m~n",)),
    ("/~01", ("~1",)),
    ("/~0~1/~1~0", ("~/", "/~")),
    ("//", ("", "")),
    ("/a//b/", ("a", "", "b", "")),
    ("/\u00e9\0", ("\u00e9\0",)),
]


@pytest.mark.parametrize(("text", "tokens"), POINTERS)
def test_a_pointer_and_its_tokens_are_two_forms_of_one_thing(
    text: str, tokens: tuple[str, ...]
) -> None:
    assert parse_pointer(text) == tokens
    assert format_pointer(tokens) == text


@pytest.mark.parametrize(
    "text", ["foo", "0", " /a", "#/a", "/~", "/~2", "/a~", "/~~0", None, 1, b"/a"]
)
def test_other_texts_are_not_pointers(text: Any) -> None:
    with pytest.raises(InvalidInput, match="JSON pointer"):
        parse_pointer(text)


def test_integers_in_tokens_are_indexes() -> None:
    assert format_pointer(("a", 0, "b/c")) == "/a/0/b~1c"


@pytest.mark.parametrize(("token", "index"), [("0", 0), ("7", 7), ("10", 10), ("999999", 999999)])
def test_plain_decimals_are_indexes(token: str, index: int) -> None:
    assert parse_index(token) == index


@pytest.mark.parametrize(
    "token",
    [
        "",
        "-",
        "-1",
        "+1",
        "00",
        "01",
        "1.0",
        "1e0",
        " 1",
        "1\n",
        "1_0",
        "\u0661",
        "\u00b2",
        "a",
        "9" * 5000,
    ],
)
def test_other_tokens_are_not_indexes(token: str) -> None:
    assert parse_index(token) is None


def test_what_a_pointer_names_is_found_and_nothing_else() -> None:
    value = {"a": [1, {"b": None}, ("x",)], "": 5, "0": "zero"}
    there = {"": value, "/": 5, "/0": "zero", "/a/0": 1, "/a/1/b": None, "/a/2/0": "x"}
    absent = ["/b", "/a/3", "/a/-", "/a/01", "/a/-1", "/a/1/b/c", "/0/0", "/a/b", "//"]
    missing = object()
    for pointer, found in there.items():
        assert find(value, parse_pointer(pointer), missing) == found
    for pointer in absent:
        assert find(value, parse_pointer(pointer), missing) is missing
