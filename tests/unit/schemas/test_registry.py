"""The registry: its valid forms, and the schema that governs an id."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.schemas.registry import Registry, parse_registry
from rote.schemas.violations import Violation
from rote.values import canonical
from rote.values.limits import SCHEMA_PREFIXES_MAX
from tests.lanes import examples


@pytest.mark.parametrize(
    ("registry", "pointer"),
    [
        ([], ""),
        ("note", ""),
        ({"urn:a": 1}, "/urn:a"),
        ({"urn:a": ""}, "/urn:a"),
        ({"urn:a": "a name"}, "/urn:a"),
        ({"urn:a*": "note"}, "/urn:a*"),
        ({"urn:schema:a": "note"}, "/urn:schema:a"),
        ({f"urn:{n}": "note" for n in range(SCHEMA_PREFIXES_MAX + 1)}, ""),
    ],
    ids=lambda part: str(part)[:40],
)
def test_what_is_no_registry_is_refused(registry: Any, pointer: str) -> None:
    violation = parse_registry(canonical(registry))
    assert isinstance(violation, Violation)
    assert (violation.pointer, violation.rule) == (pointer, "registry")


def test_the_largest_registry_is_taken() -> None:
    names = {f"urn:{number}": "note" for number in range(SCHEMA_PREFIXES_MAX)}
    assert isinstance(parse_registry(canonical(names)), Registry)


IDS = st.text("ab", max_size=5).map(lambda text: f"urn:{text}")
PREFIXES = st.builds(lambda id, length: id[:length], IDS, st.integers(0, 8))


@settings(max_examples=examples(100, 5_000), deadline=None)
@given(st.dictionaries(PREFIXES, st.sampled_from(["x", "y"]), max_size=6), IDS)
def test_the_longest_prefix_decides(names: dict[str, str], id: str) -> None:
    registry = parse_registry(canonical(names))
    assert isinstance(registry, Registry)
    matching = [prefix for prefix in names if id.startswith(prefix)]
    expected = names[max(matching, key=len)] if matching else None
    assert registry.name_for(id) == expected
