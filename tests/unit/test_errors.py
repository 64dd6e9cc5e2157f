"""Errors as programs receive them: their contents can be sent."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rote import Memory, canonical, errors
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


def codes_in(path: Path) -> Iterator[str]:
    """Yield the codes of errors that a file names: `code="…"`, `code = "…"`, `_CODE = "…"`."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "code":
            named = node.value
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name != "code" and not name.endswith("_CODE"):
                continue
            named = node.value
        else:
            continue
        if isinstance(named, ast.Constant) and isinstance(named.value, str):
            yield named.value


def test_every_code_that_a_file_names_has_its_class_in_the_table() -> None:
    """The codes of retrievals were missing: over a wire their InvalidInput became a RoteError."""
    root = Path(errors.__file__).parent
    files = [path for path in root.rglob("*.py") if path.relative_to(root).parts[0] != "cli"]
    codes = {code for path in files for code in codes_in(path)}
    assert {"store_not_found", "invalid_query", "trust_snapshot_invalid"} <= codes
    unknown = {code for code in codes if errors._class_of(code) is RoteError}
    assert unknown - {RoteError.code} == set()


def test_a_finer_code_is_no_class_s_own() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    own = {kind.code for kind in kinds if issubclass(kind, RoteError)}
    assert not own & errors.FINER_CODES.keys()
