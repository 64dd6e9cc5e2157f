"""The fast encoder is the exact one, the exact one is RFC 8785, and decoding is its inverse."""

import random
from math import inf, nextafter
from typing import Any

import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rote.errors import InvalidValue, LimitExceeded
from rote.values import canonical, decode, decode_canonical, depth_of, json_v1
from rote.values.depth import text_is_deeper
from rote.values.exact import encode_exact
from rote.values.limits import DEPTH_MAX, INTEGER_MAX, INTEGER_MIN
from rote.values.numbers import float_text
from rote.values.parsing import parse_exact
from tests.draws import Draws, check_drawn
from tests.lanes import examples

# Characters around every boundary that the encoder knows, many of which confuse a text scan.
CHARACTERS = st.sampled_from('"\\[]{}:,.+-0123e\x00\x1f\x7f\u0301e\u00e9\u05d3\u2028\ud7ff\ue000')
WIDE = st.sampled_from("\uffff\ufb33\U00010000\U0001f600\U0010ffff\ufe0f")
TEXTS = st.text(st.one_of(CHARACTERS, WIDE, st.characters(exclude_categories=["Cs"])), max_size=8)
NUMBERS_IN_TEXT = st.sampled_from(["1.0", "1e-7", "-0.0", "x:1.0,", "2e+30]", '"5.0"', "\\1.0"])
INTEGERS = st.one_of(
    st.integers(INTEGER_MIN, INTEGER_MAX),
    st.sampled_from([2**53, 2**53 + 1, 2**60, 2**60 - 1, 2**62, INTEGER_MAX, INTEGER_MIN, 0, -1]),
)
FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**70), 2**70).map(float),
    st.integers(-100, 100).map(float),
    st.sampled_from([1e-6, 9.99e-6, 1e-5, 1e-7, 1e15, 1e16, 1e17, 1e20, 1e21, 1e22, -0.0, 2.0**63]),
    st.floats(1e-7, 1e-4),
)
SCALARS = st.one_of(st.none(), st.booleans(), INTEGERS, FLOATS, TEXTS, NUMBERS_IN_TEXT)
KEYS = st.one_of(TEXTS, NUMBERS_IN_TEXT)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=5),
    )


VALUES = st.recursive(SCALARS, containers, max_leaves=12)
STRANGERS = st.one_of(
    VALUES,
    st.recursive(
        st.one_of(
            SCALARS,
            st.floats(),
            st.integers(),
            st.text(st.characters(), max_size=3),
            st.binary(max_size=2),
            st.uuids(),
            st.frozensets(st.integers(), max_size=2),
            st.dates(),
            st.complex_numbers(),
        ),
        lambda inner: st.one_of(
            containers(inner), st.dictionaries(st.one_of(KEYS, st.integers()), inner, max_size=3)
        ),
        max_leaves=6,
    ),
)


def outcome(encode: Any, value: Any) -> Any:
    try:
        return encode(value)
    except InvalidValue as error:
        return error.details


def exact(value: Any) -> bytes:
    return encode_exact(value, depth_max=DEPTH_MAX)


def exact_v1(value: Any) -> bytes:
    return encode_exact(value, depth_max=DEPTH_MAX, version_1=True)


def typed(value: Any) -> Any:
    """Return a value with the types that == does not tell apart."""
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    return (type(value), repr(value))


@settings(max_examples=examples(300, 3_000))
@given(VALUES)
def test_the_fast_encoder_writes_what_the_exact_one_writes(value: Any) -> None:
    assert canonical(value) == exact(value)
    assert outcome(json_v1, value) == outcome(exact_v1, value)


def test_very_many_values_are_written_the_same_by_all_encoders_and_read_back() -> None:
    def check(value: Any) -> None:
        data = canonical(value)
        assert data == exact(value)
        if within_reference(value):
            assert data == rfc8785.dumps(value)
        assert outcome(json_v1, value) == outcome(exact_v1, value)
        check_decoding(value, data)

    check_drawn(examples(2_000, 100_000), Draws.value, check)


def test_floats_of_few_and_of_many_decimals_are_rounded_as_the_exact_encoder_rounds_them() -> None:
    chance = random.Random(6)
    for _ in range(examples(5_000, 500_000)):
        number = chance.uniform(-1, 1) * 2.0 ** chance.randrange(-30, 60)
        value = {"x": round(number, chance.randrange(9)), "y": 2.0 ** chance.randrange(-30, 60)}
        assert json_v1(value) == exact_v1(value)


@settings(max_examples=examples(500, 5_000))
@given(STRANGERS)
def test_the_fast_encoder_refuses_what_the_exact_one_refuses(value: Any) -> None:
    assert outcome(canonical, value) == outcome(exact, value)
    assert outcome(json_v1, value) == outcome(exact_v1, value)


@settings(max_examples=examples(300, 3_000))
@given(st.lists(FLOATS, min_size=1, max_size=4))
def test_floats_are_written_the_same_by_both(numbers: list[float]) -> None:
    check_floats(numbers)


def test_very_many_floats_are_written_the_same_by_both() -> None:
    check_drawn(examples(5_000, 300_000), Draws.float, lambda number: check_floats([number]))


def test_long_arrays_of_floats_are_written_the_same_by_all_whatever_is_among_them() -> None:
    """Embeddings: one number that orjson writes otherwise once made the whole array slow."""

    def draw(draws: Draws) -> Any:
        numbers = [draws.embedded(rare=0.02) for _ in range(200)]
        return [numbers, {"model": "e-6,1.0", "e+17]": numbers}, [[number] for number in numbers]]

    def check(value: Any) -> None:
        assert canonical(value[0]) == exact(value[0]) == rfc8785.dumps(value[0])
        assert canonical(value) == exact(value)

    check_drawn(examples(60, 3_000), draw, check)


def test_floats_beside_every_power_of_ten_are_written_the_same_by_both() -> None:
    for exponent in range(-30, 31):
        numbers = [float(f"1e{exponent}")]
        for _ in range(3):
            numbers = [nextafter(numbers[0], -inf), *numbers, nextafter(numbers[-1], inf)]
        check_floats([sign * number for number in numbers for sign in (1, -1)])


def check_floats(numbers: list[float]) -> None:
    assert canonical(numbers) == exact(numbers)
    assert canonical(numbers[0]) == exact(numbers[0])
    assert [float(float_text(number)) for number in numbers] == numbers


def within_reference(value: Any) -> bool:
    """Whether the rfc8785 package accepts the value; it refuses integers from 2**53 on."""
    if isinstance(value, list | tuple):
        return all(map(within_reference, value))
    if isinstance(value, dict):
        return all(map(within_reference, value.values()))
    return type(value) is not int or abs(value) < 2**53


@settings(max_examples=examples(300, 3_000))
@given(VALUES.filter(within_reference))
def test_the_bytes_are_those_of_the_rfc8785_package(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@settings(max_examples=examples(300, 3_000))
@given(VALUES)
@example([1e19, 2.0**63, -(2.0**63), 1e20, 999999999999999900000.0])
def test_decoding_gives_back_what_writes_the_same_bytes(value: Any) -> None:
    check_decoding(value, canonical(value))


def check_decoding(value: Any, data: bytes) -> None:
    decoded = decode(data)
    assert canonical(decoded) == data
    assert typed(decode_canonical(data)) == typed(decoded)
    assert typed(parse_exact(data, duplicates="refuse")) == typed(decoded)
    assert not text_is_deeper(data, depth_of(value))
    assert depth_of(value) == 0 or text_is_deeper(data, depth_of(value) - 1)


@settings(max_examples=examples(300, 3_000))
@given(VALUES)
def test_json_v1_is_stable_under_itself(value: Any) -> None:
    try:
        data = json_v1(value)
    except InvalidValue as error:
        assert "NFC" in error.details["reason"]
        return
    assert json_v1(decode(data)) == data


PIECES = st.sampled_from(
    b'[ ] { } " : , - 0 1 . e E + / 400 null true NaN \\ \\u \\n d800 \\ud83d\\ude00'.split()
    + b"9223372036854775807 -9223372036854775808 10000000000000000000 -0.0 1e-9 'a'".split()
    + b'"a": "a" "b":1, \xff \xc3\xa9 \xed\xa0\x80 \x00'.split()
    + [b" ", b"\n"]
)
# Mostly not JSON, but near it.
NEARLY = st.one_of(
    st.lists(PIECES, max_size=12).map(b"".join),
    st.binary(max_size=12),
    st.tuples(VALUES.map(canonical), st.integers(0, 200), PIECES).map(
        lambda row: row[0][: row[1]] + row[2] + row[0][row[1] :]
    ),
)


@settings(max_examples=examples(1_000, 10_000))
@given(NEARLY)
def test_any_text_is_a_value_or_a_typed_error_and_the_fast_decoder_agrees(data: bytes) -> None:
    def slow(text: bytes) -> Any:
        return typed(parse_exact(text, duplicates="refuse"))

    def fast(text: bytes) -> Any:
        return typed(decode(text))

    if data.startswith(b"\xef\xbb\xbf"):
        return
    result = outcome(fast, data)
    assert result == outcome(slow, data)
    if not (isinstance(result, dict) and "reason" in result):
        value = decode(data)
        assert typed(decode(canonical(value))) == typed(decode_canonical(canonical(value)))


@settings(max_examples=examples(200, 2_000))
@given(NEARLY, st.integers(0, 20))
def test_the_size_is_looked_at_first(data: bytes, size_bytes_max: int) -> None:
    try:
        decode(data, size_bytes_max=size_bytes_max)
    except LimitExceeded:
        assert len(data) > size_bytes_max
    except InvalidValue:
        assert len(data) <= size_bytes_max
    else:
        assert len(data) <= size_bytes_max
