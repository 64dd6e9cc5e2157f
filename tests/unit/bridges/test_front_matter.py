"""Front matter says what the records of its page are; what it cannot say is an error with its line."""

from typing import Any

import pytest

from rote.bridges.front_matter import FrontMatter, read_front_matter
from rote.bridges.pages import parse_page
from rote.errors import InvalidInput
from rote.records.keys import NAMESPACES


def front(text: str) -> FrontMatter:
    return read_front_matter(parse_page("x.md", text.encode()), NAMESPACES)


def said(*lines: str) -> FrontMatter:
    return front("\n".join(["---", *lines, "---", "text"]))


def test_every_member_is_taken() -> None:
    found = said(
        "ainl_namespace: long_term", "ainl_record_kind: 'it''s a kind'", 'ainl_record_id: "a\\nb"',
        "preference_key: theme", "preference_value: dark: blue", "tags: [a, 'b, c', \"d\"]",
        "source:   obsidian  ", "valid_at: 2026-03-20", "ainl_source_system: obsidian",
        "ainl_authored_by: human", "ainl_curated: true", "ainl_ephemeral: No",
    )  # fmt: skip
    assert (found.namespace, found.kind, found.id) == ("long_term", "it's a kind", "a\nb")
    assert found.preference == {"key": "theme", "value": "dark: blue"}
    assert found.metadata == {
        "tags": ["a", "b, c", "d"], "source": "obsidian", "valid_at": "2026-03-20T00:00:00Z",
    }  # fmt: skip
    assert found.carried == {
        "provenance": {"source_system": "obsidian", "authored_by": "human"},
        "flags": {"curated": True, "ephemeral": False},
    }
    assert (found.others, found.warnings, found.size) == ([], [], 14)
    plain = said("namespace: ops", "kind: k", "id: i", "valid_at: 2026-03-20T10:00:00+01:00")
    assert (plain.namespace, plain.kind, plain.id) == ("ops", "k", "i")
    assert plain.metadata == {"valid_at": "2026-03-20T10:00:00+01:00"}


@pytest.mark.parametrize(
    ("lines", "tags"),
    [
        (["tags: tea"], ["tea"]),
        (["tags: tea, green tea"], ["tea", "green tea"]),
        (["tags:", "  - tea", '  - "green, tea"'], ["tea", "green, tea"]),
        (["tags:", "- tea", "", "- vim"], ["tea", "vim"]),
        (["tags: [ tea,", "  vim ]"], ["tea", "vim"]),
        (["tags: [tea, tea]"], ["tea"]),
        (["tags: [tea"], ["[tea"]),
    ],
)
def test_tags_are_written_in_several_ways(lines: list[str], tags: list[str]) -> None:
    assert said(*lines).metadata["tags"] == tags


def test_other_members_are_kept_as_they_are_written() -> None:
    found = said("title: A: b", "nested:", "  a: 1", "", "  b: 2", "ainl_curated: perhaps")
    assert [(member.line, member.last, member.name, member.text) for member in found.others] == [
        (2, 2, "title", "A: b"), (3, 6, "nested", "\n  a: 1\n  b: 2"),
        (7, 7, "ainl_curated", "perhaps"),
    ]  # fmt: skip


def test_what_is_left_out_is_a_warning() -> None:
    found = said("# a comment", "id:", "tags: []", "source: null", "kind: ~")
    assert [problem.path for problem in found.warnings] == [f"x.md:{line}" for line in range(2, 7)]
    assert (found.id, found.kind, found.metadata) == (None, None, {})


@pytest.mark.parametrize(
    "text",
    ["", "text", "---", "---\n", "---\n---\ntext", "---\nno member\n---\n", "---\nid: 1\ntext",
     "\n---\nid: 1\n---\n", "--- \n\n\n---", "----\nid: 1\n----\n", "---\nhttp://x\n---"],
)  # fmt: skip
def test_a_page_without_front_matter_has_none(text: str) -> None:
    assert front(text) == FrontMatter()


@pytest.mark.parametrize("text", ["\ufeff---\r\nid: 1\r\n---\r\nx", "--- \nid: 1\n...\nx"])
def test_front_matter_is_found_as_editors_leave_it(text: str) -> None:
    found = front(text)
    assert (found.id, found.size) == ("1", 3)


BAD: list[tuple[list[str], int, str]] = [
    (["id: 1", "namespace: nope"], 3, "there is no namespace 'nope'"),
    (["ainl_namespace: OPS"], 2, "there is no namespace 'OPS'"),
    (["ainl_namespace: ops", "namespace: session"], 3, "'ops' further up"),
    (["id: a", "# b", "id: a"], 4, "there already, in line 2"),
    (["kind: ''"], 2, "must not be empty"),
    (["id: a\u00a0b"], 2, "U\\+00A0"),
    ([f"id: {'a' * 513}"], 2, "513"),
    (["valid_at: yesterday"], 2, "valid_at"),
    (["valid_at: 2026-02-30"], 2, "valid_at"),
    (["source: ''"], 2, "not empty"),
]


@pytest.mark.parametrize(("lines", "line", "told"), BAD)
def test_a_value_that_is_refused_is_told_with_its_line(
    lines: list[str], line: int, told: str
) -> None:
    with pytest.raises(InvalidInput, match=told) as raised:
        said(*lines)
    details: dict[str, Any] = raised.value.details
    assert (details["file"], details["line"]) == ("x.md", line)
    assert str(raised.value).startswith(f"x.md:{line}: ")
