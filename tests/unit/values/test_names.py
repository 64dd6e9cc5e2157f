"""Names: the rules table of contract `values`, each refusal with its way out."""

from collections.abc import Callable
from typing import Any

import pytest

from rote.errors import InvalidInput
from rote.values import (
    check_author,
    check_branch_name,
    check_entity_id,
    check_key,
    check_run_id,
    check_space_name,
    check_trace_name,
)

ENTITY_IDS = [
    "urn:entity:1",
    "a:b",
    "did:key:z6Mk",
    "https://example.org/a?b=c#d",
    "x-y+z.1:rest",
    "urn:entity:caf\u00e9",
    "urn:entity:\U0001f600",
    "urn:*:a",
    "a:" + "b" * 1022,
    "a:" + "\u00e9" * 511,
    "urn:a\u200bb",
]


@pytest.mark.parametrize("text", ENTITY_IDS)
def test_absolute_uris_are_entity_ids(text: str) -> None:
    check_entity_id(text)


NOT_ENTITY_IDS: list[tuple[Any, str]] = [
    ("", "empty"),
    ("plain", "urn:entity:plain"),
    ("my note", "urn:entity:my-note"),
    ("***", "drop the"),
    ("???", "urn:entity:name"),
    (":rest", "urn:entity:rest"),
    ("1a:rest", "urn:entity:"),
    ("-a:rest", "urn:entity:"),
    ("\u00e9:rest", "urn:entity:"),
    ("a_b:rest", "urn:entity:"),
    ("urn:", "nothing after the colon"),
    ("urn:entity:*", "drop the"),
    ("urn:a b", "space"),
    ("urn:a\n", "space"),
    ("urn:a\t", "space"),
    ("urn:a\x00", "control"),
    ("urn:a\x7f", "control"),
    ("urn:a\x85b", "control"),
    ("urn:a\x9fb", "control"),
    ("urn:a\u00a0b", "space"),
    ("urn:a\u2003b", "space"),
    ("urn:a\u2028", "space"),
    ("urn:a\u2029", "space"),
    ("urn:a\u3000b", "space"),
    ("urn:\ud800", "surrogate"),
    ("a:" + "b" * 1023, "1024 bytes"),
    ("a:" + "\u00e9" * 512, "1024 bytes"),
    ("urn:caf\u00e9*", "drop the"),
    (None, "NoneType"),
    (b"urn:a", "bytes"),
    (1, "int"),
]


@pytest.mark.parametrize(("text", "advice"), NOT_ENTITY_IDS)
def test_other_entity_ids_are_refused_with_the_fix(text: Any, advice: str) -> None:
    with pytest.raises(InvalidInput, match=advice):
        check_entity_id(text)


@pytest.mark.parametrize("text", ["a", "0", "A.b_c-d", "a" * 100, "9lives", "a.", "a-"])
def test_space_names_are_plain_words(text: str) -> None:
    check_space_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".a",
        "-a",
        "_a",
        "a b",
        "a/b",
        "a" * 101,
        "did:key:z6",
        "caf\u00e9",
        "a\n",
        "\u0661",
        None,
        1,
        b"a",
    ],
)
def test_other_space_names_are_refused(text: Any) -> None:
    with pytest.raises(InvalidInput, match="space name"):
        check_space_name(text)


@pytest.mark.parametrize(
    "text", ["main", "a", "-", "_", "feature/x.y_z-1", "a" * 200, "a//b", "a..b"]
)
def test_branch_names_are_paths_of_plain_words(text: str) -> None:
    check_branch_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        ".",
        "/a",
        "a/",
        ".a",
        "a.",
        "a b",
        "a:b",
        "a" * 201,
        "caf\u00e9",
        "a\n",
        None,
        1,
        b"a",
    ],
)
def test_other_branch_names_are_refused(text: Any) -> None:
    with pytest.raises(InvalidInput, match="branch name"):
        check_branch_name(text)


def test_keys_are_any_text_of_200_bytes() -> None:
    for text in ("a", " ", "k" * 200, "\u00e9" * 100, "Rote:x", "xrote:"):
        check_key(text)


@pytest.mark.parametrize(
    "text", ["", "k" * 201, "\u00e9" * 101, "\ud800", "a\0", "rote:", "rote:x", None, 1, b"a"]
)
def test_other_keys_are_refused(text: Any) -> None:
    with pytest.raises(InvalidInput, match="key"):
        check_key(text)


def test_the_reserved_prefix_is_open_to_rote_itself() -> None:
    check_key("rote:run:1", reserved_allowed=True)
    with pytest.raises(InvalidInput):
        check_key("rote:" + "x" * 200, reserved_allowed=True)


def test_authors_are_any_text_of_1024_bytes() -> None:
    for text in ("ada", "did:key:z6Mk", "a" * 1024, "\u00e9" * 512):
        check_author(text)


@pytest.mark.parametrize("text", ["", "a" * 1025, "\u00e9" * 513, "\ud800", "a\0", None, 1, b"a"])
def test_other_authors_are_refused(text: Any) -> None:
    with pytest.raises(InvalidInput, match="author"):
        check_author(text)


@pytest.mark.parametrize(
    "check", [check_entity_id, check_space_name, check_branch_name, check_key, check_author]
)
def test_a_huge_name_gives_a_short_message(check: Callable[[Any], None]) -> None:
    with pytest.raises(InvalidInput) as caught:
        check("x" * 10_000_000)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("text", ["a", "0" * 32, "A.b_c-9", "-x", "_", "x" * 100])
def test_run_ids_are_names_of_folders(text: str) -> None:
    check_run_id(text)


@pytest.mark.parametrize(
    "text", ["", ".", "..", ".a", "a/b", "a\\b", "a b", "\u00e9", "a\n", "x" * 101, None, 5]
)
def test_other_run_ids_are_refused(text: Any) -> None:
    with pytest.raises(InvalidInput):
        check_run_id(text)


def test_names_in_traces_are_any_text_of_1024_bytes() -> None:
    check_trace_name("\u00e9" * 512, "a role")
    for text in ("", "\u00e9" * 513, None, b"a", "\ud800"):
        with pytest.raises(InvalidInput, match="a role"):
            check_trace_name(text, "a role")
