import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rote.cli.output import indented, print_rows, printable
from rote.values import Json, canonical, decode

VALUES = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**53), 2**53) | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
)


@given(VALUES)
def test_an_indented_value_is_the_same_value(value: Json) -> None:
    assert canonical(decode(indented(value))) == canonical(value)


@pytest.mark.parametrize("value", [{}, [], [[], {}], {"a": [1, {"b": []}], "c": "{,:["}, "x", 1])
def test_an_indented_value_looks_like_json_of_the_standard_library(value: Json) -> None:
    assert indented(value) == json.dumps(value, indent=2)


@given(some.text())
def test_printable_text_holds_nothing_that_a_terminal_would_obey(text: str) -> None:
    assert printable(text).isprintable()


def test_printable_text_is_left_as_it_is() -> None:
    assert printable("Ada trinkt Tee, 茶") == "Ada trinkt Tee, 茶"


def test_printable_json_is_still_the_same_json() -> None:
    text = canonical("\x00\x9b\u202e\U000e0001").decode()
    assert decode(printable(text)) == decode(text)


@pytest.mark.parametrize("width", [20, 40, 100])
def test_a_table_breaks_only_what_may_be_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    """A narrow table cut words that were too long for their column, and broke times and ids."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    whole, long = "urn:entity:ada-lovelace", "z" * 200
    print_rows(("id", "number", "value"), [(whole, 1_000, long), (whole, 2, "")])
    shown = capsys.readouterr().out
    assert sum(whole in line for line in shown.splitlines()) == 2
    assert shown.count("z") == 200
    assert "1,000" in shown
