"""Schemas: values are judged as by the naive judge, and never with more work than was computed before."""

from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from rote.patch import format_pointer, parse_pointer
from rote.schemas.document import Document
from rote.schemas.validator import Validator, compile_schema
from rote.schemas.violations import Violation
from rote.schemas.work import evaluations
from rote.testing.naive_schema import NaiveJudge
from rote.values import canonical, decode_canonical, depth_of
from tests.lanes import examples

NAMES = st.sampled_from(["a", "b", "ab", ""])
PATTERNS = st.sampled_from(["a", "^b", "b$", "^$", "a+b?", "[^a]"])
REFERENCES = st.sampled_from(["#", "#/$defs/x", "#/$defs/y"])
COUNTS = st.integers(0, 3)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-1, 3), st.sampled_from([0.5, 1.0]), NAMES
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=12,
)
TYPES = st.sampled_from(
    ["null", "boolean", "integer", "number", "string", "array", "object", "object", "array"]
)
SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "type": TYPES,
    "const": VALUES,
    "enum": st.lists(SCALARS, min_size=1, max_size=3),
    "pattern": PATTERNS,
    "minimum": st.integers(-1, 2),
    "maximum": st.integers(0, 3),
    "required": st.lists(NAMES, max_size=2, unique=True),
    "uniqueItems": st.booleans(),
    "$ref": REFERENCES,
    **{
        f"{end}{what}": COUNTS
        for end in ("min", "max")
        for what in ("Length", "Items", "Properties")
    },
}


def compound(inner: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    lists = st.lists(inner, min_size=1, max_size=3)
    single = ("not", "if", "then", "else", "items", "contains", "additionalProperties")
    return {
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), lists),
        **dict.fromkeys(single, inner),
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "propertyNames": st.fixed_dictionaries({"pattern": PATTERNS}),
    }


def of_keywords(keywords: dict[str, st.SearchStrategy[Any]], most: int) -> st.SearchStrategy[Any]:
    chosen = st.lists(st.sampled_from(sorted(keywords)), max_size=most, unique=True)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({n: keywords[n] for n in names}))


PARTS = st.recursive(
    st.booleans() | of_keywords(SIMPLE, 2),
    lambda inner: of_keywords({**SIMPLE, **compound(inner)}, 3),
    max_leaves=6,
)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    root = draw(of_keywords({**SIMPLE, **compound(PARTS)}, 4))
    return {**root, "$defs": {"x": draw(PARTS), "y": draw(PARTS)}}


@settings(max_examples=examples(80, 5_000), deadline=None)
@given(schemas(), st.lists(VALUES, min_size=1, max_size=6))
def test_values_are_judged_as_by_the_naive_judge(schema: Any, values: list[Any]) -> None:
    validator = compile_schema(canonical(schema))
    if isinstance(validator, Violation):
        event(f"refused: {validator.rule}")
        assert validator.rule == "$ref", validator
        return
    assert isinstance(validator, Validator)
    work = evaluations(Document(schema))
    naive = NaiveJudge(schema)
    for value in values:
        data = canonical(value)
        value = decode_canonical(data)
        violation = validator.judge(value, size=len(data))
        allowed = naive.allows(value)
        event(f"allowed: {allowed}")
        assert (violation is None) == allowed, violation
        assert max(naive.met.values()) <= work[min(depth_of(value), len(work) - 1)]
        if violation is not None:
            assert_leads_somewhere(value, violation.pointer)


def assert_leads_somewhere(value: Any, pointer: str) -> None:
    tokens = parse_pointer(pointer)
    assert format_pointer(tokens) == pointer
    for token in tokens:
        value = value[int(token)] if type(value) is list else value[token]
