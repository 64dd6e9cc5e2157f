"""Bullets and paragraphs under headings: related text stays together, and no text is lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.bridges.blocks import read_blocks
from rote.bridges.pages import parse_page
from tests.lanes import examples

Read = list[tuple[tuple[str, ...], str]]


def blocks(text: str) -> Read:
    found = read_blocks(parse_page("x.md", text.encode()))
    return [(block.headings, block.text) for block in found if block.text]


STARTS = st.sampled_from(
    ["", "- ", "* ", "+ ", "1. ", "2) ", " ", "  ", "   - ", "    ", "\t", "\t- ", "# ", "### ", "#", "> ",
     "| ", "```", "~~~~", "<!-- ", "--> ", "---", "[ ] ", "\\", "=="]
)  # fmt: skip
LINES = st.lists(st.none() | STARTS, max_size=14)


@settings(max_examples=examples(200, 5_000))
@given(starts=LINES)
def test_every_line_that_is_no_heading_is_in_one_block(starts: list[str | None]) -> None:
    lines = ["" if start is None else f"{start}word{place}." for place, start in enumerate(starts)]
    found = blocks("\n".join(lines))
    said = "\n".join(text for _, text in found)
    for line in lines:
        word = line[line.find("word") :] if line else ""
        if not line.lstrip().startswith(("# ", "### ")):
            assert said.count(word) == 1 or not word


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("-\n- \n", []),
        ("a\nb\n\nc", [((), "a\nb"), ((), "c")]),
        ("a\n- b\nc\n- d", [((), "a"), ((), "b\nc"), ((), "d")]),
        ("- a\n\n  b\n\nc", [((), "a\n\nb"), ((), "c")]),
        ("   - a\n   - b\n     - c", [((), "a"), ((), "b\n- c")]),
        ("1. a\n   b\n2) c", [((), "a\nb"), ((), "c")]),
        ("1. a\n\n2. b\n1. c\n2. d", [((), "a"), ((), "b"), ((), "c"), ((), "d")]),
        ("4. a\n5. b\n\nc\n\n2. d", [((), "4. a"), ((), "5. b"), ((), "c"), ((), "2. d")]),
        ("- a\n  4. b\n     5. c\n4. d", [((), "a\n4. b\n   5. c"), ((), "4. d")]),
        ("It was in\n1986. A good year", [((), "It was in\n1986. A good year")]),
        ("a\n1. b\n2. c", [((), "a"), ((), "b"), ((), "c")]),
        ("a\n1.\n*\n2) b", [((), "a\n1.\n*\n2) b")]),
        ("a\n\n14. b", [((), "a"), ((), "14. b")]),
        ("-a\n*b*\n1.c", [((), "-a\n*b*\n1.c")]),
        ("- a\n  ```\n  # b\n\n  - c\n  ```\n- d", [((), "a\n```\n# b\n\n- c\n```"), ((), "d")]),
        ("```\n# a\n", [((), "```\n# a")]),
        ("a\n***\nb\n- - -\nc\n_ _ _", [((), "a"), ((), "b"), ((), "c")]),
        ("# T\na\n## S ##\nb\n#### U\nc\n## V\nd\n# W\ne", [
            ((), "a"), (("S",), "b"), (("S", "U"), "c"), (("V",), "d"), (("W",), "e"),
        ]),
        ("a\n# S\nb", [((), "a"), (("S",), "b")]),
        ("## S\n# T\na", [((), "S"), (("T",), "a")]),
        ("# T", [((), "T")]),
        ("# T\n##", [((), "T")]),
        ("# T\n## S\n### U\n## V\na\n# W", [(("S",), "U"), (("V",), "a"), ((), "W")]),
        ("S\n---\nT\n===\n", [((), "S"), ((), "T")]),
        ("## S\n<!-- a -->\n-\n***\n## T", [(("S",), "<!-- a -->"), ((), "S"), ((), "T")]),
        ("#a\n####### b\n## C#\nc", [((), "#a\n####### b"), (("C#",), "c")]),
        ("## \na", [((), "a")]),
        ("<!-- a\n\n# b\n-->\nc", [((), "<!-- a\n\n# b\n-->"), ((), "c")]),
        ("a\n<!-- b -->\nc", [((), "a"), ((), "<!-- b -->"), ((), "c")]),
        ("- a\n<!-- b -->\n- c", [((), "a"), ((), "<!-- b -->"), ((), "c")]),
        ("- a\n  <!-- b -->\n  c", [((), "a\n<!-- b -->\nc")]),
        ("a <!-- b -->\nc", [((), "a <!-- b -->\nc")]),
        ("T\n=\na\n\nS\n---\nb\nc\n===", [((), "a"), (("S",), "b\nc\n===")]),
        ("a\n\n===\nb", [((), "a"), ((), "===\nb")]),
        ("a\nb\n---\nc", [((), "a\nb"), ((), "c")]),
        ("- a\n---\nb", [((), "a"), ((), "b")]),
        ("---\n- a\n---\n- b", [((), "a"), ((), "b")]),
        ("---\ntags: x", [((), "tags: x")]),
    ],
)  # fmt: skip
def test_what_belongs_together_is_one_block(text: str, found: Read) -> None:
    assert blocks(text) == found
    assert blocks(text.replace("\n", "\r\n")) == found


def test_lines_without_text_and_places_are_told() -> None:
    text = "# T\n***\n-\n##\n\n<!-- a\nb -->\n- c\n\n  d\n"
    found = read_blocks(parse_page("x.md", text.encode()))
    assert [(block.line, block.last, block.title, block.text) for block in found] == [
        (2, 2, "", ""), (3, 3, "T", ""), (4, 4, "T", ""), (6, 7, "T", "<!-- a\nb -->"),
        (8, 10, "T", "c\n\nd"),
    ]  # fmt: skip
