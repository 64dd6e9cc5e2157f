"""Compiled schemas: bounded time, nothing fetched, nothing loaded before it is needed."""

import subprocess
import sys
from typing import Any

import pytest

from rote.schemas.validator import Validator, compile_schema
from rote.schemas.violations import Violation
from rote.values import canonical
from rote.values.limits import JUDGING_WORK_MAX, TELLING_WORK_MAX, VIOLATION_CHARACTERS_MAX


def compiled(schema: Any) -> Validator:
    validator = compile_schema(canonical(schema))
    assert isinstance(validator, Validator), validator
    return validator


def judged(schema: Any, value: Any) -> Violation | None:
    return compiled(schema).judge(value, size=len(canonical(value)))


def rule_of(schema: Any) -> str:
    violation = compile_schema(canonical(schema))
    assert isinstance(violation, Violation)
    return violation.rule


@pytest.mark.parametrize(
    "pattern", [r"(a)\1", "(?=a)a", "(?!a)b", "(?<=a)b", "(?<!a)b", r"(?<n>a)\k<n>", "(?>a+)b"]
)
def test_patterns_that_need_to_go_back_are_refused(pattern: str) -> None:
    """The engine that runs patterns cannot backtrack at all, so no text makes it slow."""
    assert rule_of({"pattern": pattern}) == "pattern"
    assert rule_of({"patternProperties": {pattern: True}}) == "pattern"


@pytest.mark.parametrize("pattern", ["(a{1000}){1000}", "(((x{100}){100}){100})", "[", "*"])
def test_patterns_that_are_too_large_or_none_are_refused(pattern: str) -> None:
    assert rule_of({"items": {"pattern": pattern}}) == "pattern"


@pytest.mark.parametrize("schema", [{"pattern": "("}, {"patternProperties": {"(": True}}])
def test_what_is_no_pattern_is_not_said_to_look_around(schema: Any) -> None:
    violation = compile_schema(canonical(schema))
    assert isinstance(violation, Violation)
    assert violation.reason.startswith("not a valid pattern")
    assert "look-around" not in violation.reason


@pytest.mark.parametrize("type", ["strin", 5, ["string", "strin"], ["string", "string"]])
def test_a_type_that_there_is_not_is_told_with_those_that_there_are(type: Any) -> None:
    """The error said that the type is not valid under any of the schemas listed in 'anyOf'."""
    violation = compile_schema(canonical({"properties": {"a": {"type": type}}}))
    assert isinstance(violation, Violation)
    assert (violation.pointer, violation.rule) == ("/properties/a/type", "anyOf")
    assert "array, boolean, integer, null, number, object, string" in violation.reason


def test_other_options_of_a_schema_are_not_told_as_types() -> None:
    violation = compile_schema(canonical({"dependencies": {"type": 5}}))
    assert isinstance(violation, Violation)
    assert (violation.pointer, violation.rule) == ("/dependencies/type", "anyOf")
    assert "boolean" not in violation.reason


@pytest.mark.parametrize(
    ("schema", "value", "rule", "words"),
    [
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "dependentRequired", '"b" is a required'),
        ({"contains": {"const": 1}, "maxContains": 1}, [1, 1], "maxContains", "too many"),
        ({"contains": {"const": 1}, "minContains": 2}, [1], "minContains", "too few"),
        ({"contains": {"const": 1}}, [2], "contains", "None of it"),
        ({"required": ["b"]}, {"a": 1}, "required", '"b" is a required property'),
        ({"anyOf": [{"type": "null"}, {"type": "array"}]}, 1, "anyOf", "not valid under any"),
    ],
)
def test_the_rule_is_the_keyword_that_refused(
    schema: Any, value: Any, rule: str, words: str
) -> None:
    """dependentRequired was reported as required, and a list with too many of something as one that
    has none of it."""
    violation = judged(schema, value)
    assert violation is not None
    assert violation.rule == rule
    assert words in violation.reason


def test_a_pattern_that_ruins_other_engines_is_judged_on_a_long_text() -> None:
    """Backtracking would take 2 to the power of the length: this test would never end."""
    text = "a" * 1_000_000 + "!"
    assert judged({"pattern": "^(a+)+$"}, text) == Violation(
        "", "pattern", 'it does not match "^(a+)+$"'
    )
    assert judged({"pattern": "^(a+)+!$"}, text) is None


def test_a_value_below_the_depth_where_the_work_ends_is_refused_unjudged() -> None:
    part = {"properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    value: Any = {}
    for _ in range(40):
        value = {"a": value}
    violation = judged({"oneOf": [part, part, {"maxProperties": 0}]}, value)
    assert violation is not None
    assert (violation.pointer, violation.rule) == ("", "depth")


def test_a_value_too_large_for_a_schema_that_repeats_is_refused_unjudged() -> None:
    links = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 4} for n in range(8)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**links, "d8": {"type": "string"}}}
    assert judged(schema, "a") is None
    violation = judged(schema, "a" * (JUDGING_WORK_MAX // 4**8))
    assert violation is not None
    assert violation.rule == "size"


def test_a_long_enum_counts_for_each_of_its_members() -> None:
    """The library compares all of them with every element: a large list would take hours."""
    schema = {"items": {"enum": list(range(5_000))}}
    assert judged(schema, [4_999] * 10) is None
    violation = judged(schema, [4_999] * 200_000)
    assert violation is not None
    assert violation.rule == "size"


def test_where_options_fail_on_a_large_value_is_not_looked_for() -> None:
    """The search would cost the square of the number of values that no option allows."""
    schema = {"anyOf": [{"items": {"type": "string"}}, {"type": "object"}]}
    small, large = judged(schema, [1]), judged(schema, [1] * TELLING_WORK_MAX)
    assert small is not None and large is not None
    assert (small.rule, large.rule) == ("anyOf", "schema")
    plain = judged({"items": {"type": "string"}}, ["a"] * TELLING_WORK_MAX + [1])
    assert plain is not None
    assert (plain.pointer, plain.rule) == (f"/{TELLING_WORK_MAX}", "type")


def test_a_long_text_of_the_library_is_cut() -> None:
    value = {"member" * 1_000: 1}
    violation = judged({"properties": {"a": True}, "additionalProperties": False}, value)
    assert violation is not None
    assert len(violation.reason) == VIOLATION_CHARACTERS_MAX


def test_values_are_not_repeated_in_what_is_said_about_them() -> None:
    violation = judged({"properties": {"a": {"type": "integer"}}}, {"a": "a secret"})
    assert violation is not None
    assert "secret" not in violation.reason


def test_an_address_at_the_top_is_a_name_and_is_not_used() -> None:
    schema = {
        "$id": "https://json-schema.org/draft/2020-12/schema",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/text",
        "$defs": {"text": {"type": "string"}},
    }
    assert judged(schema, "a") is None
    assert judged(schema, True) is not None


def test_members_that_are_called_like_keywords_are_members() -> None:
    schema = {"properties": {"$id": {"type": "string"}, "$ref": {"type": "string"}}}
    assert judged(schema, {"$id": "a", "$ref": "b"}) is None
    assert judged({"enum": [{"$ref": "http://127.0.0.1:9/"}]}, {"$ref": "x"}) is not None


def test_a_schema_that_allows_nothing_is_named_false() -> None:
    assert judged({"properties": {"a": False}}, {"a": 1}) == Violation(
        "/a", "false", "it is not allowed here"
    )


def test_a_format_is_a_note() -> None:
    assert judged({"format": "email"}, "no address") is None


def test_the_same_schema_is_compiled_once() -> None:
    assert compiled({"minLength": 77}) is compiled({"minLength": 77})


def test_the_library_is_loaded_with_the_first_schema() -> None:
    program = (
        "import sys, rote\n"
        "space = rote.open(':memory:').space('notes')\n"
        "space.set('urn:note:1', 1)\n"
        "assert 'jsonschema_rs' not in sys.modules\n"
        "space.set('urn:schema:note', True)\n"
        "assert 'jsonschema_rs' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize(
    ("value", "pointer"),
    [({"": {"a": 1}}, "//a"), ({"": {"": [1]}}, "///0"), ({"b": {"": [0, 1]}}, "/b//1")],
)
def test_a_violation_below_a_member_without_a_name_says_where_it_is(
    value: Any, pointer: str
) -> None:
    nested = {"additionalProperties": {"$ref": "#"}, "items": {"$ref": "#"}, "not": {"const": 1}}
    violation = judged(nested, value)
    assert violation is not None
    assert (violation.pointer, violation.rule) == (pointer, "not")
