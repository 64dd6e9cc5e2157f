"""Each line of a page that others wrote is in a record, or a warning names it."""

import re
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from rote.bridges.front_matter import read_front_matter
from rote.bridges.notes import Notes, notes_of
from rote.bridges.pages import parse_page
from rote.errors import InvalidInput
from rote.records.keys import NAMESPACES
from rote.values import canonical
from tests.lanes import examples

# Each @ becomes a word that no other line has.
LINES = st.sampled_from(
    ["", "", "", "@", "@, and @", "- @", "* @", "+ @", "1. @", "2) @", "4. @", "14. @", "1986) @",
     " - @", "  - @", "  4. @", "    @", "\t- @", "\t@", "# @", "## @", "## @ ##", "###### @", "#@",
     "> @", "| @ | b |", "|---|---|", "--- | ---", "```", "```py @", "~~~~", "<!-- @ -->", "<!-- @",
     "@ -->", "<!--", "-->", "---", "***", "- - -", "===", "--", "-", "*", "1.", "##", "- [ ] @",
     "- [2026-03-20T09:00:00Z] @", "[2026-03-20] @", "\\- @", "![@](x.png)", "🫖 @", "  \u00a0",
     "- ```", "- <!-- @", "&nbsp;@", "@: value", "\x0c", "<div>@</div>", "- same"]
)  # fmt: skip
MEMBERS = st.sampled_from(
    ["title: @", "tags: [@, b]", "tags:\n  - @\n- @", "source: @", "id: @", "kind: '@'",
     "preference_key: @", 'preference_value: "@"', "valid_at: 2026-03-20", "# @", "date: ",
     "nested:\n  @ : @", "text: |\n  @", "ainl_authored_by: @", "ainl_curated: @",
     "namespace: ops", "namespace: daily_log", "odd line @"]
)  # fmt: skip
FRONTS = st.lists(MEMBERS, max_size=6, unique_by=lambda member: member.partition(":")[0])
NAMES = st.sampled_from(["MEMORY.md", "2026-03-20.md", "topics/x.md"])
_number = re.compile(r"\s*((?:14\.|1986\)) w[0-9]+w)").match
_underline = re.compile(r" {0,3}(?:=+|-{2,})\s*").fullmatch


@settings(max_examples=examples(400, 20_000))
@given(name=NAMES, front=FRONTS, lines=st.lists(LINES, max_size=14), crlf=st.booleans())
def test_each_line_is_in_a_record_or_named_in_a_warning(
    name: str, front: list[str], lines: list[str], crlf: bool
) -> None:
    words = (f"w{number}w" for number in count())
    drawn = "\n".join(["---", *front, "---", *lines] if front else lines)
    text = re.sub("@", lambda _: next(words), drawn)
    data = text.replace("\n", "\r\n" if crlf else "\n").encode()
    page = parse_page(name, (b"\xef\xbb\xbf" if crlf else b"") + data)
    try:
        matter = read_front_matter(page, NAMESPACES)
    except InvalidInput as error:
        assert 1 < error.details["line"] <= len(page.lines)
        return  # nothing of the page is imported
    for alone in (True, False):
        check(text.split("\n"), notes_of(page, matter, alone=alone), after=matter.size)


def check(lines: list[str], notes: Notes, *, after: int) -> None:
    kept = "\n".join(canonical(item.record).decode() for item in notes.records)
    named = places(notes)
    for number, line in enumerate(lines, start=1):
        if not line.strip() or number in named:
            continue
        assert all(word in kept for word in re.findall("w[0-9]+w", line)), line
        written = _number(line)
        assert written is None or written[1] in kept or number <= after, line
        if not re.search(r"\w", line) and number > after:
            mark = canonical(line.strip().removeprefix("- ")).decode()[1:-1]
            assert mark in kept or is_mark(lines, number), line


def is_mark(lines: list[str], number: int) -> bool:
    """Whether a line only marks another one: it underlines a heading, or begins the bullet below."""
    line = lines[number - 1]
    if _underline(line) and number > 1 and lines[number - 2].strip():
        return True
    return line.strip() in ("-", "*") and any(map(str.strip, lines[number:]))


def places(notes: Notes) -> set[int]:
    """Return the numbers of the lines that warnings name."""
    found: set[int] = set()
    for problem in notes.warnings:
        numbers = problem.path.rpartition(":")[2].split("-")
        found.update(range(int(numbers[0]), int(numbers[-1]) + 1))
        if problem.message.startswith("lines without text"):
            found.update(map(int, problem.message.rpartition(":")[2].split(",")))
    return found
