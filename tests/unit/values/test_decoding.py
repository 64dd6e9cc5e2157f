"""Text from outside is a value or a typed error; Rote's own bytes come back as they were written."""

from typing import Any

import pytest

from rote.errors import Corrupt, InvalidValue, LimitExceeded
from rote.values import canonical, decode, decode_canonical
from rote.values.limits import DEPTH_MAX

ACCEPTED: list[tuple[str, Any]] = [
    ("null", None),
    (" \t\r\n[ 1 , true , false ] \n", [1, True, False]),
    ("0", 0),
    ("-0", 0),
    ("-0.0", 0.0),
    ("-0e5", 0.0),
    ("[-0, -0.00, -1e-400, -0.5, -0.05]", [0, 0.0, 0.0, -0.5, -0.05]),
    ('{"a":-0.0,"b":[-0.0,1,-0.0]}', {"a": 0.0, "b": [0.0, 1, 0.0]}),
    ("\t-0.0\n", 0.0),
    ("1e-400", 0.0),
    ("1.0", 1.0),
    ("1E2", 100.0),
    ("9007199254740993", 9007199254740993),
    ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)),
    # Longer integers only as the canonical text of a double below 1e21, and then as that double.
    ("9223372036854776000", 2.0**63),
    ("-9223372036854776000", -(2.0**63)),
    ("10000000000000000000", 1e19),
    ("18446744073709552000", 2.0**64),
    ("999999999999999900000", 999999999999999900000.0),
    ("1e21", 1e21),
    ('"\\u0000\\u00e9\\ud83d\\ude00\\/"', "\0\u00e9\U0001f600/"),
    ('{"a":{"a":1},"b":{"a":2}}', {"a": {"a": 1}, "b": {"a": 2}}),
    ('{"a\\"":1,"a\\\\":2,"\\u0022":3}', {'a"': 1, "a\\": 2, '"': 3}),
    ('{"":1}', {"": 1}),
    (
        '["2026-01-31","2026-00","1e-77","-0","part-0"]',
        ["2026-01-31", "2026-00", "1e-77", "-0", "part-0"],
    ),
    ('"12345678901234567890123"', "12345678901234567890123"),
]


def shape(value: Any) -> Any:
    """Return a value with the types that == does not tell apart."""
    if isinstance(value, list):
        return [shape(item) for item in value]
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    return (type(value), repr(value))


@pytest.mark.parametrize(("text", "value"), ACCEPTED)
def test_accepted_text_has_the_value_of_the_table(text: str, value: Any) -> None:
    assert shape(decode(text)) == shape(value)
    assert shape(decode(text.encode())) == shape(value)
    assert shape(decode("[[[[[[[[" + text + "]]]]]]]]")) == shape([[[[[[[[value]]]]]]]])
    assert shape(decode(text, duplicates="last")) == shape(value)


REFUSED: list[tuple[bytes, str, str]] = [
    (b"", "", "not JSON at character 0"),
    (b" ", "", "not JSON"),
    (b"[1", "", "not JSON"),
    (b'{"a": 1,\n "b" 2}', "", "not JSON at line 2, column 6"),
    (b"[1,]", "", "not JSON"),
    (b"{'a':1}", "", "not JSON at character 1"),
    (b'{"a":1,}', "", "not JSON"),
    (b'{"a" 1}', "", "not JSON"),
    (b"{1:1}", "", "not JSON"),
    (b"1 2", "", "not JSON at character 2"),
    (b"01", "", "not JSON"),
    (b"-", "", "not JSON"),
    (b"+1", "", "not JSON"),
    (b"1.", "", "not JSON"),
    (b".5", "", "not JSON"),
    (b"1e", "", "not JSON"),
    (b"0x10", "", "not JSON"),
    (b"nul", "", "not JSON"),
    (b"True", "", "not JSON"),
    (b"\x0c1", "", "not JSON"),
    (b'"\x01"', "", "not JSON"),
    (b'"a\nb"', "", "not JSON"),
    (b'"\\x"', "", "not JSON"),
    (b'"\\u12"', "", "not JSON"),
    (b"// c\n1", "", "not JSON"),
    (b"\xef\xbb\xbf1", "", "byte order mark"),
    (b"\xff\xfe1\x00", "", "not UTF-8 at byte 0"),
    (b'"\xff"', "", "not UTF-8 at byte 1"),
    (b'{"\xc0\x80":1}', "", "not UTF-8 at byte 2"),
    (b'"\xed\xa0\x80"', "", "not UTF-8"),
    (b"NaN", "", "NaN is not JSON"),
    (b'{"a":[0,NaN]}', "/a/1", "NaN is not JSON"),
    (b"[Infinity]", "/0", "Infinity is not JSON"),
    (b"[-Infinity]", "/0", "-Infinity is not JSON"),
    (b"[1e400]", "/0", "does not fit in a double"),
    (b"[-1e400]", "/0", "does not fit in a double"),
    (b"[1,9223372036854775808]", "/1", "does not fit in 64 bits"),
    (b"[-9223372036854775809]", "/0", "does not fit in 64 bits"),
    (b"18446744073709551615", "", "does not fit in 64 bits"),
    (b"18446744073709551616", "", "does not fit in 64 bits"),
    (b"10000000000000000001", "", "does not fit in 64 bits"),
    (b"1000000000000000000000", "", "does not fit in 64 bits"),
    (b'{"n":' + b"1" * 5000 + b"}", "/n", "does not fit in 64 bits"),
    (b'["\\ud800"]', "/0", "lone surrogate"),
    (b'["\\udc00\\ud800"]', "/0", "lone surrogate"),
    (b'{"a":{"\\udfff":1}}', "/a/\\udfff", "lone surrogate"),
    (b'{"a":1,"a":2}', "/a", "twice"),
    (b'{"a":1,"b":1,"\\u0061":1}', "/a", "twice"),
    (b'[{"x/~":{"k":[],"k":[]}}]', "/0/x~1~0/k", "twice"),
    (b'{"":0,"":0}', "/", "twice"),
    (b'{"a":"\\"","a":"\\\\"}', "/a", "twice"),
]


@pytest.mark.parametrize(("data", "pointer", "reason"), REFUSED)
def test_refused_text_is_told_where_and_why(data: bytes, pointer: str, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason) as caught:
        decode(data)
    assert caught.value.details["pointer"] == pointer


def test_text_that_is_no_json_is_not_called_a_value() -> None:
    for data in (b"{", b"\xff"):
        with pytest.raises(InvalidValue, match=r"\Anot (JSON|UTF-8) at"):
            decode(data)


def test_duplicate_keys_can_be_told_to_end_with_the_last() -> None:
    text = '{"a":1,"b":{"x":-0.0,"x":10000000000000000000},"a":[2]}'
    assert shape(decode(text, duplicates="last")) == shape({"a": [2], "b": {"x": 1e19}})
    deep = '{"a":[[[[[[[{"k":1,"k":2}]]]]]]]}'
    assert decode(deep, duplicates="last") == {"a": [[[[[[[{"k": 2}]]]]]]]}
    with pytest.raises(InvalidValue, match="twice"):
        decode(deep)


def test_text_in_str_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(InvalidValue, match="lone surrogate at character 1"):
        decode('"\ud800"')


@pytest.mark.parametrize("data", [None, 1, bytearray(b"1"), memoryview(b"1"), ["1"]])
def test_what_is_neither_bytes_nor_str_is_refused(data: Any) -> None:
    with pytest.raises(InvalidValue, match="bytes or str"):
        decode(data)


def test_64_levels_are_fine_and_65_are_not() -> None:
    assert decode("[" * 64 + "]" * 64)
    assert decode('{"a":' * 64 + "1" + "}" * 64)
    assert decode("[" * 67 + "]" * 67, depth_max=DEPTH_MAX + 3)
    for text in ("[" * 65 + "]" * 65, '{"a":' * 65 + "1" + "}" * 65, '["]","\\"",' + "[" * 64):
        with pytest.raises(InvalidValue, match="deeper than 64"):
            decode(text)


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_text_of_a_hundred_thousand_levels_is_refused_without_a_crash(opening: str) -> None:
    with pytest.raises(InvalidValue, match="deeper than 64"):
        decode(opening * 100_000)


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    text = '["' + "[{" * 1000 + '","\\"' + "[" * 100 + '","\\\\"]'
    assert decode(text) == ["[{" * 1000, '"' + "[" * 100, "\\"]


def test_text_longer_than_allowed_is_a_limit_and_not_parsed() -> None:
    assert decode('"123"', size_bytes_max=5) == "123"
    for data in ('"1234"', b'"1234"', '"\u00e9\u00e9"', b"[" * 6):
        with pytest.raises(LimitExceeded) as caught:
            decode(data, size_bytes_max=5)
        assert caught.value.details["limit"] == 5


@pytest.mark.parametrize(
    "number", [1e19, -1e19, 2.0**63, 2.0**64, 1e20, 999999999999999900000.0, 1e21, -(2.0**63)]
)
def test_whole_floats_beyond_64_bits_come_back_as_floats_that_can_be_written_again(
    number: float,
) -> None:
    data = canonical({"a": [number]})
    for value in (decode_canonical(data), decode(data)):
        assert shape(value) == shape({"a": [number]})
        assert canonical(value) == data


def test_stored_values_of_any_depth_come_back() -> None:
    value: Any = 1e19
    for level in range(DEPTH_MAX):
        value = [value] if level % 2 else {"k": value}
    assert shape(decode_canonical(canonical(value))) == shape(value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1,]",
        b"\xff",
        b'"\xff"',
        b"NaN",
        b"1 2",
        b"[" * 100_000,
        b'[12345678901234567890,"' + b"[" * 9,
        b"[1234567890123456789012]",
    ],
)
def test_stored_bytes_that_are_not_json_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match="not canonical JSON"):
        decode_canonical(data)


def test_long_runs_of_digits_in_texts_and_fractions_are_not_taken_for_integers() -> None:
    """Hashes hold such runs; the fast decoder still reads a text with them, and gives the same value."""
    deep = '[[[[[[[{"a":"x1234567890123456789012","b":0.1234567890123456789012}]]]]]]]'
    assert decode(deep) == [[[[[[[{"a": "x1234567890123456789012", "b": 0.12345678901234568}]]]]]]]
    for number in ("10000000000000000000", " 10000000000000000000", "-10000000000000000000"):
        text = f'[[[[[[[{{"hash":"1234567890123456789012","n":{number}}}]]]]]]]'
        assert shape(decode(text)) == shape(
            [[[[[[[{"hash": "1234567890123456789012", "n": float(number)}]]]]]]]
        )
    with pytest.raises(InvalidValue, match="64 bits"):
        decode("[[[[[[[[12345678901234567890]]]]]]]]")
