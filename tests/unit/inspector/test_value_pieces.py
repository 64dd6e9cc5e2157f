import re
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from rote.inspector.html import Html
from rote.inspector.value_pieces import show_difference, show_value
from rote.values import Json, canonical, decode
from tests.lanes import examples

VALUES = some.recursive(
    some.none() | some.booleans() | some.integers(-9, 9) | some.text('ab "\\\n<é', max_size=8),
    lambda inner: (
        some.lists(inner, max_size=4)
        | some.dictionaries(some.text("ab\n", max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


def shown(made: Html) -> str:
    """Return what a person reads."""
    return unescape(re.sub(r"<[^>]*>", "", made.markup)).removeprefix("\n")


def json_of(made: Html) -> bytes:
    """Return the value that is shown; a line break after the escape of one is for people."""
    markup = re.sub(r'(<span class="escape">\\n)\n *', r"\1", made.markup)
    return canonical(decode(shown(Html(markup))))


def marked(made: Html) -> list[str]:
    found = re.findall(r"<mark>(.*?)</mark>", made.markup, re.DOTALL)
    return [unescape(re.sub(r"<[^>]*>", "", each)) for each in found]


def test_a_string_is_shown_as_the_text_it_is() -> None:
    assert shown(show_value("Hello,\n\n  Ada")) == "Hello,\n\n  Ada"


def test_a_small_value_stands_on_one_line() -> None:
    assert shown(show_value({"query": "a, b:", "limit": [1, 2]})) == (
        '{"limit": [1, 2], "query": "a, b:"}'
    )


def test_line_breaks_in_a_long_value_break_the_line() -> None:
    value = {"body": "Hello,\nyou \\n there", "more": "x" * 80}
    assert shown(show_value(value)) == (
        '{\n  "body": "Hello,\\n\n    you \\\\n there",\n  "more": "' + "x" * 80 + '"\n}'
    )


@given(VALUES)
@settings(max_examples=examples(150, 10_000))
def test_what_is_shown_of_a_value_is_the_value(value: Json) -> None:
    text = shown(show_value(value))
    if isinstance(value, str):
        assert text == value
    else:
        assert json_of(show_value(value)) == canonical(value)


@given(VALUES, VALUES)
@settings(max_examples=examples(100, 10_000))
def test_both_sides_are_whole_and_differ_exactly_when_something_is_marked(
    left: Json, right: Json
) -> None:
    sides = show_difference(left, right)
    is_same = canonical(left) == canonical(right)
    assert any(map(marked, sides)) != is_same
    if not isinstance(left, str) or not isinstance(right, str):
        assert list(map(json_of, sides)) == [canonical(left), canonical(right)]


@pytest.mark.parametrize(
    ("left", "right", "marks"),
    [
        ("runs out on 14 March.", "runs out on 4 April.", (["14 March"], ["4 April"])),
        ({"n": 1}, {"n": True}, (["1"], ["true"])),
        (1, "1", ([], ['"', '"'])),
        ({"q": "x"}, {"q": "x\u200b"}, ([], ["\\u{200B}"])),
        ({"a": [1, 2, 3]}, {"a": [1, 3]}, (["2, "], [])),
        ("same", "same", ([], [])),
    ],
)
def test_only_what_differs_is_marked(
    left: Json, right: Json, marks: tuple[list[str], list[str]]
) -> None:
    assert tuple(map(marked, show_difference(left, right))) == marks


def test_long_values_are_cut_and_their_size_is_told() -> None:
    for value in ("x" * 10_000, {"a": "x" * 9_992}, {"a": ["x\n"] * 1_998}):
        made = show_value(value)
        assert len(shown(made)) < 2_100
        assert "…" in shown(made)
        assert "cut, 1" in made.markup


def test_a_value_that_is_all_different_is_marked_as_a_whole() -> None:
    """Comparing each piece with each would take too long."""
    left, right = "a x " * 450, "b x " * 450
    assert marked(show_difference(left, right)[0]) == [left.removesuffix(" x ")]
