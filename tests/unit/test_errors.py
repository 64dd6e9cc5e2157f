"""Errors as programs receive them: their contents can be sent."""

from typing import Any

import pytest

from rote import Memory, canonical
from rote.errors import InvalidInput, ReadConflict, RoteError, RunAborted
from rote.opening import open as open_store


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a\ud800b", "a\\ud800b"),
        (["\udfff", ["\ud800", 1]], ["\\udfff", ["\\ud800", 1]]),
        (("\ud800",), ["\\ud800"]),
        ({"\ud800": {"deep": ["\ud800", None]}}, {"\\ud800": {"deep": ["\\ud800", None]}}),
        ("é\U0001f600", "é\U0001f600"),
        ([None, True, 1, 2.5], [None, True, 1, 2.5]),
    ],
    ids=ascii,
)
def test_details_hold_only_what_json_can(given: Any, kept: Any) -> None:
    error = InvalidInput("no", what=given)
    assert error.details == {"what": kept}
    canonical(error.to_dict())


def test_details_of_errors_with_fields_hold_only_what_json_can() -> None:
    conflict = ReadConflict("urn:\ud800", None, None, None, "main", 1, 2, None)
    error = RunAborted("conflict", message="no", conflicts=(conflict,))
    assert error.details["conflicts"][0]["id"] == "urn:\\ud800"
    assert error.conflicts == (conflict,)


def test_what_callers_misspell_comes_back_as_what_json_can_hold() -> None:
    """Lone surrogates in names of filters and of a query's keys were in the details unchanged."""
    with open_store(":memory:") as store:
        space = store.space("notes")
        filters: Any = {"\ud800": 1}
        with pytest.raises(RoteError) as of_list:
            Memory(space).list("ops", filters=filters)
        with pytest.raises(RoteError) as of_query:
            space.query({"select": {}, "\ud800": 1})
    for refused in (of_list, of_query):
        canonical(refused.value.to_dict())
