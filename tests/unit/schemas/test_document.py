"""Schemas that are accepted: valid by their draft, alone, and within bounds."""

from typing import Any

import pytest

from rote.schemas.validator import Validator, compile_schema
from rote.schemas.violations import Violation
from rote.values import canonical
from rote.values.limits import SCHEMA_BYTES_MAX


@pytest.mark.parametrize(
    ("schema", "pointer", "rule"),
    [
        (1, "", "type"),
        ([], "", "type"),
        ({"type": "text"}, "/type", "anyOf"),
        ({"properties": {"a": {"minLength": -1}}}, "/properties/a/minLength", "minimum"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "/$schema", "$schema"),
        ({"$ref": "http://127.0.0.1:9/schema"}, "/$ref", "$ref"),
        ({"items": {"$ref": "file:///etc/hostname"}}, "/items/$ref", "$ref"),
        ({"$ref": "urn:schema:person"}, "/$ref", "$ref"),
        ({"$dynamicRef": "other#x"}, "/$dynamicRef", "$dynamicRef"),
        ({"$ref": "#/$defs/missing"}, "/$ref", "$ref"),
        ({"items": {"$id": "http://127.0.0.1:9/"}}, "/items/$id", "$id"),
        ({"$ref": "#"}, "", "$ref"),
        ({"pattern": r"(a)\1"}, "/pattern", "pattern"),
        ({"pattern": "(?=a)"}, "/pattern", "pattern"),
        ({"patternProperties": {"(?<!a)b": True}}, "/patternProperties/(?<!a)b", "pattern"),
        ({"description": "x" * SCHEMA_BYTES_MAX}, "", "schema"),
        ({"$ref": "#/properties"}, "/$ref", "$ref"),
        ({"$ref": "#/enum/0", "enum": [{}]}, "/$ref", "$ref"),
        ({"$ref": "#/allOf/00", "allOf": [{}]}, "/$ref", "$ref"),
        ({"$ref": "#/~2"}, "/$ref", "$ref"),
        ({"$ref": "#name"}, "/$ref", "$ref"),
        ({"items": {"$schema": "a"}}, "/items/$schema", "$schema"),
        ({"$anchor": "a", "items": {"$anchor": "a"}}, "/items/$anchor", "$anchor"),
        ({"properties": []}, "/properties", "type"),
        ({"$defs": {"a": 1}}, "/$defs/a", "type"),
        ({"$ref": 1}, "/$ref", "type"),
    ],
    ids=lambda part: str(part)[:40],
)
def test_what_is_no_schema_that_stands_alone_is_refused(
    schema: Any, pointer: str, rule: str
) -> None:
    violation = compile_schema(canonical(schema))
    assert isinstance(violation, Violation)
    assert (violation.pointer, violation.rule) == (pointer, rule)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        False,
        {},
        {"$schema": "https://json-schema.org/draft/2020-12/schema#"},
        {"$ref": "#/$defs/a%20b", "$defs": {"a b": {}}},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {}}},
        {"$ref": "#/allOf/0/items", "allOf": [{"items": True}]},
        {"items": {"$ref": "#here"}, "$defs": {"a": {"$anchor": "here"}}},
        {"$dynamicAnchor": "node", "items": {"$dynamicRef": "#node"}},
        {"default": {"$ref": "http://127.0.0.1:9/"}, "examples": [{"$id": 1}]},
        {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
        {"unheard-of": 1},
    ],
    ids=ascii,
)
def test_what_stands_alone_is_taken(schema: Any) -> None:
    assert isinstance(compile_schema(canonical(schema)), Validator)


def test_a_schema_of_the_largest_size_is_taken() -> None:
    room = SCHEMA_BYTES_MAX - len(canonical({"description": ""}))
    assert isinstance(compile_schema(canonical({"description": "x" * room})), Validator)
    assert isinstance(compile_schema(canonical({"description": "x" * (room + 1)})), Violation)
