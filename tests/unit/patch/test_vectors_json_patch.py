"""The public json-patch-tests suite passes whole; entries marked disabled are not part of it."""

from typing import Any

import pytest

from rote.errors import InvalidInput
from rote.patch import apply
from rote.values import canonical, decode
from tests.vectors import FOLDER, FOUND


def entries() -> list[Any]:
    if not FOUND:
        return []
    files = sorted((FOLDER / "json-patch").glob("*.json"))
    # The suite itself holds an operation with its member `op` twice; the last one counts.
    tests = [entry for file in files for entry in decode(file.read_bytes(), duplicates="last")]
    return [entry for entry in tests if "patch" in entry and not entry.get("disabled")]


@pytest.mark.skipif(not FOUND, reason=f"the public JSON Patch vectors are not at {FOLDER}")
def test_the_vectors_are_all_there() -> None:
    assert len(entries()) >= 108


@pytest.mark.parametrize(
    "entry", entries(), ids=lambda entry: str(entry.get("comment", entry.get("error", "-")))[:60]
)
def test_the_suite_passes(entry: Any) -> None:
    before = canonical(entry["doc"])
    if "error" in entry:
        with pytest.raises(InvalidInput):
            apply(entry["doc"], entry["patch"])
    else:
        after = apply(entry["doc"], entry["patch"])
        assert "expected" not in entry or canonical(after) == canonical(entry["expected"])
    assert canonical(entry["doc"]) == before
