"""Bullets and paragraphs under headings: related text stays together, and no text is lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.bridges.blocks import read_blocks
from rote.bridges.pages import parse_page
from tests.lanes import examples

Read = list[tuple[tuple[str, ...], str]]


def blocks(text: str) -> Read:
    return [
        (block.headings, block.text) for block in read_blocks(parse_page("x.md", text.encode()))
    ]


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
        ("1. a\n   b\n10) c", [((), "a\nb"), ((), "c")]),
        ("-a\n*b*\n1.c", [((), "-a\n*b*\n1.c")]),
        ("- a\n  ```\n  # b\n\n  - c\n  ```\n- d", [((), "a\n```\n# b\n\n- c\n```"), ((), "d")]),
        ("```\n# a\n", [((), "```\n# a")]),
        ("a\n***\nb\n- - -\nc\n_ _ _", [((), "a"), ((), "b"), ((), "c")]),
        ("# T\na\n## S ##\nb\n#### U\nc\n## V\nd\n# W\ne", [
            ((), "a"), (("S",), "b"), (("S", "U"), "c"), (("V",), "d"), (("W",), "e"),
        ]),
        ("a\n# S\nb", [((), "a"), (("S",), "b")]),
        ("## S\n# T\na", [(("T",), "a")]),
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
        ("---\ntags: x\n---\n- b", [((), "b")]),
        ("---\ntags: x", [((), "tags: x")]),
    ],
)  # fmt: skip
def test_what_belongs_together_is_one_block(text: str, found: Read) -> None:
    assert blocks(text) == found
    assert blocks(text.replace("\n", "\r\n")) == found
