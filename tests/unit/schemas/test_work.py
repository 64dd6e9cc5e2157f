"""The work that a schema can cause is known before the schema is used."""

from typing import Any

import pytest

from rote.schemas.document import Document
from rote.schemas.violations import Violated
from rote.schemas.work import evaluations
from rote.testing.naive_schema import NaiveJudge
from rote.values.limits import DEPTH_MAX, SCHEMA_EVALUATIONS_MAX, SCHEMA_STEPS_MAX

ANY_DEPTH = DEPTH_MAX + 1


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def chain(length: int) -> Any:
    links = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{length}": True}}


def repeating(levels: int) -> Any:
    """Return a schema that judges one value four times as often with every definition."""
    links = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 4} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{levels}": True}}


def test_a_flat_schema_judges_each_place_once() -> None:
    assert set(evaluations(Document({"properties": {"a": {"type": "string"}}}))) == {1}


def test_a_schema_that_goes_one_way_at_every_level_takes_values_of_every_depth() -> None:
    tree = {"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "additionalProperties": False}
    work = evaluations(Document(tree))
    assert (len(work), max(work)) == (ANY_DEPTH, 2)


def test_a_list_and_what_comes_after_its_beginning_are_different_places() -> None:
    work = evaluations(Document({"prefixItems": [{"$ref": "#"}] * 3, "items": {"$ref": "#"}}))
    assert (len(work), max(work)) == (ANY_DEPTH, 2)


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"properties": {"a": {"$ref": "#"}}}] * 2},
        {"anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"additionalProperties": {"$ref": "#"}}]},
        {"patternProperties": {"a": {"$ref": "#"}, "^a": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "#"}}, "patternProperties": {"a": {"$ref": "#"}}},
    ],
    ids=ascii,
)
def test_a_schema_that_doubles_at_every_level_has_a_depth_where_it_ends(schema: Any) -> None:
    work = evaluations(Document(schema))
    deepest = len(work) - 1
    assert 2**deepest <= SCHEMA_EVALUATIONS_MAX < 2 ** (deepest + 4)
    naive = NaiveJudge(schema)
    for depth in range(8):
        naive.allows(nested(depth))
        assert 2**depth <= max(naive.met.values()) <= work[depth]


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$ref": "#"}, ""),
        ({"not": {"$ref": "#"}}, ""),
        ({"if": {"allOf": [{"$ref": "#/if"}]}}, "/if"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "/$defs/a"),
        ({"dependentSchemas": {"a": {"$ref": "#"}}}, ""),
        ({"$dynamicAnchor": "x", "anyOf": [{"$dynamicRef": "#x"}]}, ""),
        ({"items": {"$anchor": "y", "oneOf": [{"$ref": "#y"}]}}, "/items"),
    ],
    ids=ascii,
)
def test_a_schema_that_never_ends_is_refused(schema: Any, pointer: str) -> None:
    with pytest.raises(Violated) as caught:
        evaluations(Document(schema))
    assert (caught.value.violation.pointer, caught.value.violation.rule) == (pointer, "$ref")


def test_references_one_behind_the_other_are_bounded() -> None:
    assert evaluations(Document(chain(SCHEMA_STEPS_MAX - 2)))[0] == SCHEMA_STEPS_MAX
    with pytest.raises(Violated, match="one behind the other"):
        evaluations(Document(chain(SCHEMA_STEPS_MAX - 1)))


def test_references_that_repeat_for_one_value_are_bounded() -> None:
    naive = NaiveJudge(repeating(4))
    assert naive.allows(1)
    assert evaluations(Document(repeating(4)))[0] == naive.met[()] > 4**4
    with pytest.raises(Violated, match="repeat too much"):
        evaluations(Document(repeating(SCHEMA_EVALUATIONS_MAX.bit_length() // 2)))


def test_a_schema_that_names_too_much_in_too_many_places_is_refused() -> None:
    names = {"properties": {f"p{n}": True for n in range(3_000)}}
    users = {f"x{n}": {"$ref": "#/$defs/names", "minLength": 1} for n in range(10)}
    with pytest.raises(Violated, match="too many members"):
        evaluations(Document({"$defs": {"names": names, **users}}))
