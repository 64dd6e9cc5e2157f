"""A daily log as Markdown is exactly its record, whatever people write into it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.bridges.daily_logs import parse_log, render_log
from rote.bridges.pages import parse_page
from rote.errors import InvalidInput
from rote.testing.strategies import json_values
from rote.values import canonical
from tests.lanes import examples

AT = "2026-03-20T09:00:00Z"
EARLIER = "2026-03-20T09:30:00+02:00"
FRONT = f"""---
rote: "daily_log/1"
record_kind: "note"
record_id: "2026-03-20"
created_at: "{AT}"
updated_at: "{AT}"
ttl_seconds: null
metadata: null
"""


def log(payload: Any, metadata: Any = None) -> dict[str, Any]:
    return {
        "namespace": "daily_log", "record_kind": "note", "record_id": "2026-03-20",
        "created_at": AT, "updated_at": AT, "ttl_seconds": None, "payload": payload,
        "metadata": metadata,
    }  # fmt: skip


def entries(*found: Any) -> dict[str, Any]:
    return log({"entries": list(found)})


def read(text: str) -> Any:
    return parse_log(parse_page("2026/2026-03-20.md", text.encode()))


def body(record: dict[str, Any]) -> str:
    """Return the text below the front matter and the heading."""
    return render_log(record).partition("# 2026-03-20\n\n")[2]


# Pieces of text that could be taken for something else, and that meet each other often.
PIECES = st.sampled_from(
    [
        "\n", "\r", "\r\n", "[", "]", "\\", "`", "{", "}", "`{", "}`", "`{}`", "---", "- ", "-", " ", "  ",
        "\t", "&", "#", "# ", "amp;", "&#13;", "&amp;#13;", "&#65;", "13;", "```", "~~~", f"[{AT}]",
        f"[{AT}] ", f"[ts {AT}]", "[x] ", "rote: ", "1. ", "* ", "> ", "<!--", "a", "é", "e\u0301",
        "\u2028", "\u0085", "\x00", "\ufeff", "\x7f", "\U0001f600",
    ]
)  # fmt: skip
TEXTS = st.one_of(
    st.lists(PIECES, max_size=8).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
TIMES = st.sampled_from(
    [AT, EARLIER, "2026-03-20 08:00:00z", "0001-01-01T00:00:00Z", "soon", 7, None]
)
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXTS | st.just(5), "at": TIMES, "ts": TIMES, "time": TIMES,
        "more": json_values(leaves_max=4), "`": TEXTS,
    },
)  # fmt: skip
PAYLOADS = st.one_of(
    st.fixed_dictionaries(
        {"entries": st.lists(ENTRIES, max_size=4)}, optional={"title": TEXTS, "order": TEXTS}
    ),
    st.dictionaries(st.sampled_from(["entries", "text"]), json_values(leaves_max=6), max_size=2),
)


@settings(max_examples=examples(200, 5_000))
@given(payload=PAYLOADS, metadata=st.none() | st.fixed_dictionaries({"tags": st.lists(TEXTS)}))
def test_what_is_written_is_read_back_exactly(payload: Any, metadata: Any) -> None:
    record = log(payload, metadata)
    text = render_log(record)
    assert canonical(read(text)) == canonical(record)
    assert canonical(read(text.replace("\n", "\r\n"))) == canonical(record)
    assert render_log(read(text)) == text


@settings(max_examples=examples(200, 5_000))
@given(text=TEXTS)
def test_a_text_never_becomes_two_entries_or_a_time(text: str) -> None:
    assert read(render_log(entries({"text": text})))["payload"] == {"entries": [{"text": text}]}


def test_a_log_reads_like_a_log() -> None:
    record = entries(
        {"at": AT, "text": "asked about [teapots](x)"},
        {"text": "two\n\n- lines\n---\n```\ncode\n```", "price": 20},
        {"ts": "2026-03-20T10:00:00Z", "text": ""},
        {"n": 1},
    )
    assert (
        render_log(record)
        == f"""{FRONT}---

# 2026-03-20

- [{AT}] asked about [teapots](x)
- two

  - lines
  ---
  ```
  code
  ```
  `{{"price":20}}`
- [ts 2026-03-20T10:00:00Z]
- `{{"n":1}}`
"""
    )


def test_only_what_would_be_misread_is_escaped() -> None:
    for text, shown in [
        ("[x] done", "- [x] done\n"),
        (f"[{AT}] said", f"- \\[{AT}] said\n"),
        ("\\d+", "- \\\\d+\n"),
        ("  indented", "-   indented\n"),
        ("ends\n", "- ends\n  \\\n"),
        ("a\r\nb", "- a&#13;\n  b\n"),
        ("AT&amp;T &lt; &#13;", "- AT&amp;T &lt; &amp;#13;\n"),
        ("`{}`", "- \\`{}`\n"),
        ("", "-\n"),
    ]:
        assert body(entries({"text": text})) == shown
        assert read(render_log(entries({"text": text}))) == entries({"text": text})


def test_bullets_are_by_time_and_the_record_keeps_its_order() -> None:
    record = entries(
        {"at": AT, "text": "second"}, {"text": "behind it"}, {"at": EARLIER, "text": "first"}
    )
    text = render_log(record)
    assert [line.rpartition(" ")[2] for line in body(record).splitlines()] == [
        "first", "second", "it",
    ]  # fmt: skip
    assert "\norder: [2,0,1]\n" in text
    assert read(text) == record


def test_bullets_may_be_written_by_hand() -> None:
    written = f"\ufeff{FRONT}---\n- one\n\n# not a heading"
    with pytest.raises(InvalidInput, match=r"2026/2026-03-20.md:12: "):
        read(written)
    written = f"\ufeff{FRONT}---\n# Any title\n\n- [{AT}] one\n\n\n-   two\n  \\d\n\n  three\n\n\n"
    assert read(written)["payload"]["entries"] == [
        {"at": AT, "text": "one"}, {"text": "  two\n\\d\n\nthree"},
    ]  # fmt: skip
    assert read(f"{FRONT}---")["payload"] == {"entries": []}


BAD: list[tuple[str, int]] = [
    ('---\nrote: "daily_log/2"\n---\n', 2),
    (FRONT, 9),
    (f"{FRONT}unknown: 1\n---\n", 9),
    (f"{FRONT}metadata: null\n---\n", 9),
    (f"{FRONT}more: {{\n---\n", 9),
    (f"{FRONT}more: []\n---\n", 9),
    (f'{FRONT}more: {{"entries":[]}}\n---\n', 9),
    (f"{FRONT}payload: {{}}\n---\n- x\n", 9),
    (f"{FRONT}payload: {{}}\nmore: {{}}\n---\n", 9),
    (f"{FRONT}order: [0]\n---\n- x\n- y\n", 9),
    (f"{FRONT}order: [0,0]\n---\n- x\n- y\n", 9),
    (f"{FRONT}order: {{}}\n---\n", 9),
    (f"{FRONT}---\ntext\n", 10),
    (f"{FRONT}---\n- x\ntext\n", 11),
    (f"{FRONT}---\n## more\n", 10),
    (f"{FRONT}---\n- x\n  `{{1}}`\n", 10),
    (f'{FRONT}---\n- x\n  `{{"text":1}}`\n', 10),
    (f'{FRONT}---\n- [{AT}] x\n  `{{"at":1}}`\n', 10),
]


@pytest.mark.parametrize(("text", "line"), BAD)
def test_what_is_wrong_is_told_by_file_and_line(text: str, line: int) -> None:
    with pytest.raises(InvalidInput) as raised:
        read(text)
    assert raised.value.details["file"] == "2026/2026-03-20.md"
    assert raised.value.details["line"] == line
    assert str(raised.value).startswith(f"2026/2026-03-20.md:{line}: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{FRONT}order: [0]\n---\n- x\n- y\n", "does not fit the 2 .* delete the line order:"),
        (f"{FRONT}---\n* x\n", "a bullet begins with - and a blank"),
        (f"{FRONT}---\n- x\n - y\n", "a bullet begins with - and a blank"),
        (f"{FRONT}---\n1. x\n", "a bullet begins with - and a blank"),
        (f"{FRONT}---\n- x\n\ty\n", "two blanks, not by a tab"),
        (f"{FRONT}---\n- x\n## y\n", "one heading, above its bullets"),
        (f"{FRONT}mood: good\n---\n", "no such line: it has record_kind, .* a member of metadata"),
        (FRONT.replace("ttl_seconds: null", "ttl_seconds: never"), "86400, or null for never"),
        (FRONT.replace("metadata: null", "metadata: tea"), '{"tags":'),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        read(text)


def test_text_that_is_not_utf_8_is_told_by_its_line() -> None:
    with pytest.raises(InvalidInput, match=r"x\.md:3: it is not UTF-8"):
        parse_page("x.md", b"one\ntwo\n\xff\n")
