"""The canonical form: the tables of contract `values`, RFC 8785, and every refusal."""

import dataclasses
import datetime
import decimal
import enum
import re
import uuid
from collections import OrderedDict, defaultdict, namedtuple
from hashlib import sha256
from types import MappingProxyType
from typing import Any

import orjson
import pytest

from rote.errors import InvalidValue
from rote.values import canonical, digest, fingerprint, json_v1, sha256_hex
from rote.values.exact import encode_exact
from rote.values.limits import DEPTH_MAX, INTEGER_MAX, INTEGER_MIN
from rote.values.types import Json


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


class Answer(str, enum.Enum):  # noqa: UP042 - the older form, which shows itself as "Answer.NO"
    NO = "no"


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Ratio(float):
    pass


class Items(list[Any]):
    pass


class Members(dict[str, Any]):
    pass


Pair = namedtuple("Pair", "x y")


@dataclasses.dataclass
class Point:
    x: int


def nested(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value]
    return value


def nested_objects(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def slow(value: Json) -> bytes:
    return encode_exact(value, depth_max=DEPTH_MAX)


CANONICAL: list[tuple[Json, str]] = [
    (None, "null"),
    (True, "true"),
    (False, "false"),
    (0, "0"),
    (-1, "-1"),
    ("", '""'),
    ([], "[]"),
    ({}, "{}"),
    ((), "[]"),
    ((1, (2,)), "[1,[2]]"),
    ({"b": 2, "a": 1}, '{"a":1,"b":2}'),
    ([1.0, -0.0, 1e16, 1e21, 0.000001, 1e-7], "[1,0,10000000000000000,1e+21,0.000001,1e-7]"),
    (0.1 + 0.2, "0.30000000000000004"),
    (9007199254740993, "9007199254740993"),
    (INTEGER_MAX, "9223372036854775807"),
    (INTEGER_MIN, "-9223372036854775808"),
    (1.0, "1"),
    (-1.0, "-1"),
    (0.0, "0"),
    (-0.0, "0"),
    ({"a": -0.0, "b": -10.0, "c": 10.05, "d": -0.05}, '{"a":0,"b":-10,"c":10.05,"d":-0.05}'),
    (1e20, "100000000000000000000"),
    (123456789012345680000.0, "123456789012345680000"),
    (2.0**63, "9223372036854776000"),
    (-(2.0**63), "-9223372036854776000"),
    (1e21, "1e+21"),
    (-1e21, "-1e+21"),
    (1.5e300, "1.5e+300"),
    (5e-324, "5e-324"),
    (1.7976931348623157e308, "1.7976931348623157e+308"),
    (0.00001, "0.00001"),
    (5.5e-6, "0.0000055"),
    (0.1, "0.1"),
    (12345678.9, "12345678.9"),
    ('a"b\\c/\b\f\n\r\t\x00\x1f\x7f\u2028', '"a\\"b\\\\c/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\u2028"'),
    ({"\ufb33": 1, "\U0001f600": 2}, '{"\U0001f600":2,"\ufb33":1}'),
    ({"\U0001f600": 2, "\ue000": 1, "\ud7ff": 3}, '{"\ud7ff":3,"\U0001f600":2,"\ue000":1}'),
    ({"\U00100000": 2, "\uffff": 1}, '{"\U00100000":2,"\uffff":1}'),
    ({'\U0001f600\\"x': 2, "\uffff": 1}, '{"\U0001f600\\\\\\"x":2,"\uffff":1}'),
    ({"e\u0301": 1}, '{"e\u0301":1}'),
    ({"\u00e9": 1, "e\u0301": 2}, '{"e\u0301":2,"\u00e9":1}'),
    # Texts that look like numbers stay as they are beside numbers that are rewritten.
    (["1.0", 1.0, "x:1.0,", ",2.0]", -0.0], '["1.0",1,"x:1.0,",",2.0]",0]'),
    (['say "1.0"', "back\\", 2.0, '\\"3.0,'], '["say \\"1.0\\"","back\\\\",2,"\\\\\\"3.0,"]'),
    (["1e-7", 1e-7, "3e-4", 1e22], '["1e-7",1e-7,"3e-4",1e+22]'),
    ({"v1.0": 1.0, "-0.0": -0.0}, '{"-0.0":0,"v1.0":1}'),
    (["[[[[", "}}", 1], '["[[[[","}}",1]'),
]


@pytest.mark.parametrize(("value", "text"), CANONICAL, ids=lambda item: repr(item)[:40])
def test_the_canonical_bytes_are_those_of_the_table(value: Json, text: str) -> None:
    assert canonical(value) == text.encode()
    assert slow(value) == text.encode()
    assert canonical({"inside": [value]}) == b'{"inside":[' + text.encode() + b"]}"


JSON_V1: list[tuple[Json, str]] = [
    ({"b": 2, "a": 1}, '{"a":1,"b":2}'),
    ([1.0, -0.0, 1e16, 1e21, 0.000001, 1e-7], "[1,0,10000000000000000,1e+21,0.000001,0]"),
    (-1e-7, "0"),
    (0.1 + 0.2, "0.3"),
    (9007199254740993, "9007199254740993"),
    # Keys sort as they are after NFC, and U+FB33 is then U+05D3 U+05BC.
    ({"\ufb33": 1, "\U0001f600": 2}, '{"\u05d3\u05bc":1,"\U0001f600":2}'),
    ({"\ufb01": 1, "\U0001f600": 2}, '{"\U0001f600":2,"\ufb01":1}'),
    ({"e\u0301": 1}, '{"\u00e9":1}'),
    ("e\u0301", '"\u00e9"'),
    # Exactly half in binary goes to the even digit.
    (0.0000005, "0"),
    (2.0**-7, "0.007812"),
    (3 * 2.0**-7, "0.023438"),
    (1.0000005, "1.000001"),
    (1e300, "1e+300"),
    (1.5, "1.5"),
    ({"a": None}, '{"a":null}'),
    ({}, "{}"),
    ("1.5e-7 is text", '"1.5e-7 is text"'),
]


@pytest.mark.parametrize(("value", "text"), JSON_V1, ids=lambda item: repr(item)[:40])
def test_the_json_v1_bytes_are_those_of_the_table(value: Json, text: str) -> None:
    assert json_v1(value) == text.encode()
    assert encode_exact(value, depth_max=DEPTH_MAX, version_1=True) == text.encode()


def test_two_keys_equal_after_nfc_are_refused_by_json_v1_only() -> None:
    value = {"x": {"\u00e9": 1, "e\u0301": 2}}
    assert canonical(value)
    with pytest.raises(InvalidValue) as caught:
        json_v1(value)
    assert caught.value.details["pointer"] == "/x/\u00e9"


LIST_IN_ITSELF: list[Any] = []
LIST_IN_ITSELF.extend([LIST_IN_ITSELF, LIST_IN_ITSELF])
DICT_IN_ITSELF: dict[str, Any] = {}
DICT_IN_ITSELF.update(a=DICT_IN_ITSELF, b=DICT_IN_ITSELF)
VERY_DEEP = nested(100_000)

REFUSED: list[tuple[str, Any]] = [
    ("nan", float("nan")),
    ("infinity", float("inf")),
    ("minus infinity", float("-inf")),
    ("2**63", INTEGER_MAX + 1),
    ("2**64-1", 2**64 - 1),
    ("2**64", 2**64),
    ("-2**63-1", INTEGER_MIN - 1),
    ("10**5000", 10**5000),
    ("uuid", uuid.UUID(int=1)),
    ("enum", Colour.RED),
    ("mapping that is no dict", MappingProxyType({"a": 1})),
    ("str subclass", Text("x")),
    ("int subclass", Whole(1)),
    ("float subclass", Ratio(1.5)),
    ("set", {1}),
    ("frozenset", frozenset([1])),
    ("bytes", b"x"),
    ("bytearray", bytearray(b"x")),
    ("memoryview", memoryview(b"x")),
    ("date", datetime.date(2026, 1, 1)),
    ("datetime", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
    ("time", datetime.time(1)),
    ("decimal", decimal.Decimal(1)),
    ("complex", 1j),
    ("dataclass", Point(1)),
    ("ellipsis", ...),
    ("stop iteration", StopIteration),
    ("fragment", orjson.Fragment(b"1")),
    ("code", (lambda: None).__code__),
    ("object", object()),
    ("lone high surrogate", "a\ud800"),
    ("lone low surrogate", "\udc00a"),
    ("surrogates the wrong way round", "\udc00\ud800"),
    ("range", range(3)),
    ("dict view", {"a": 1}.values()),
]


@pytest.mark.parametrize("value", [v for _, v in REFUSED], ids=[name for name, _ in REFUSED])
def test_what_is_not_json_is_refused_with_its_pointer(value: Any) -> None:
    for place, pointer in [
        (value, ""),
        ([0, value], "/1"),
        ({"a/b": {"m~n": [value]}}, "/a~1b/m~0n/0"),
        ((None, 1.5, "text", (value,)), "/3/0"),
    ]:
        for encode in (canonical, slow, json_v1, digest, fingerprint):
            with pytest.raises(InvalidValue) as caught:
                encode(place)
            assert caught.value.details["pointer"] == pointer


TAKEN: list[tuple[Any, Any]] = [
    (Level.LOW, 1),
    (Word.YES, "yes"),
    (Answer.NO, "no"),
    ({Word.YES: 1, Answer.NO: 2}, {"yes": 1, "no": 2}),
    (Items([1]), [1]),
    (Members(a=1), {"a": 1}),
    (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
    (defaultdict(list, a=[1]), {"a": [1]}),
    (Pair(1, 2), [1, 2]),
]


@pytest.mark.parametrize(("value", "plain"), TAKEN, ids=[repr(value) for value, _ in TAKEN])
def test_subclasses_of_json_types_are_taken_as_what_they_are(value: Any, plain: Any) -> None:
    for place, meant in (
        (value, plain),
        ([value, 1e21], [plain, 1e21]),
        ({"a": OrderedDict(b=[value])}, {"a": {"b": [plain]}}),
    ):
        for encode in (canonical, slow, json_v1, digest, fingerprint):
            assert encode(place) == encode(meant)
    with pytest.raises(InvalidValue) as caught:
        canonical(OrderedDict(a=[value, b"x"]))
    assert caught.value.details["pointer"] == "/a/1"


@pytest.mark.parametrize(
    ("value", "instead"),
    [
        (MappingProxyType({}), "dict(value)"),
        (decimal.Decimal(1), "its text"),
        (datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), "2026-01-31T12:00:00Z"),
        (b"x", "put_blob"),
        ({1}, "a sorted list"),
    ],
)
def test_a_refusal_says_what_to_store_instead(value: Any, instead: str) -> None:
    with pytest.raises(InvalidValue, match=re.escape(instead)) as caught:
        canonical({"a": [value]})
    assert caught.value.details["pointer"] == "/a/0"


def test_many_floats_that_are_not_finite_are_found_wherever_they_stand() -> None:
    for bad in (float("nan"), -float("nan"), float("inf"), float("-inf")):
        for before in range(40):
            value = [*range(-3, before), "g" * before, 0.5, bad, "after"]
            with pytest.raises(InvalidValue) as caught:
                canonical(value)
            assert caught.value.details["pointer"] == f"/{len(value) - 2}"


@pytest.mark.parametrize(
    "key", [1, 1.5, None, True, b"a", ("a",), Text("a"), Level.LOW, Colour.RED, uuid.UUID(int=1)]
)
def test_a_key_that_is_not_exactly_str_is_refused(key: Any) -> None:
    with pytest.raises(InvalidValue, match="keys must be str") as caught:
        canonical([{"x": {key: 1}}])
    assert caught.value.details["pointer"] == "/0/x"


def test_a_key_with_a_lone_surrogate_is_refused_with_a_pointer_that_can_be_encoded() -> None:
    with pytest.raises(InvalidValue) as caught:
        canonical({"a": {"\ud800": 1}})
    assert caught.value.details["pointer"].encode() == b"/a/\\ud800"


@pytest.mark.parametrize("build", [nested, nested_objects])
def test_64_levels_are_fine_and_65_are_not(build: Any) -> None:
    assert canonical(build(DEPTH_MAX)) == slow(build(DEPTH_MAX))
    assert canonical([build(DEPTH_MAX - 1)] * 100)
    for encode in (canonical, slow, json_v1, digest):
        with pytest.raises(InvalidValue, match="deeper than 64"):
            encode(build(DEPTH_MAX + 1))
    with pytest.raises(InvalidValue, match="deeper than 64"):
        canonical(["[" * 100, '"', "\\", build(DEPTH_MAX)])


def test_an_empty_container_at_the_65th_level_is_too_deep() -> None:
    value: Json = []
    for _ in range(DEPTH_MAX - 1):
        value = [value]
    assert canonical(value) == b"[" * 64 + b"]" * 64
    with pytest.raises(InvalidValue):
        canonical([value])


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    value = {"a": "[" * 100, 'b"': ['{"' * 100, "\\" * 3 + "[" * 100]}
    assert canonical(value) == slow(value)


@pytest.mark.parametrize("value", [LIST_IN_ITSELF, DICT_IN_ITSELF, VERY_DEEP])
def test_endless_and_very_deep_values_are_refused_without_a_crash(value: Json) -> None:
    for encode in (canonical, slow, json_v1):
        with pytest.raises(InvalidValue, match="deeper than 64"):
            encode(value)


def test_the_depth_allowed_can_be_raised_for_what_stands_around_a_value() -> None:
    assert canonical(nested(DEPTH_MAX + 3), depth_max=DEPTH_MAX + 3)
    with pytest.raises(InvalidValue):
        canonical(nested(DEPTH_MAX + 4), depth_max=DEPTH_MAX + 3)


def test_a_list_that_stands_in_two_places_is_written_twice() -> None:
    shared = [1.0, {"a": "b"}]
    assert canonical([shared, shared]) == b'[[1,{"a":"b"}],[1,{"a":"b"}]]'


def test_nanosecond_times_are_integers_like_others() -> None:
    for number in (2**60, 2**61, 1_770_000_000_123_456_789, 2**62, INTEGER_MAX, INTEGER_MIN):
        assert canonical({"at": number, "s": "x" * 5}) == b'{"at":%d,"s":"xxxxx"}' % number


def test_digest_and_fingerprint_are_the_sha256_of_their_forms() -> None:
    value = {"b": [1.0, 0.1 + 0.2], "a": "e\u0301"}
    assert digest(value) == sha256(canonical(value)).hexdigest() == sha256_hex(canonical(value))
    assert fingerprint(value) == sha256(json_v1(value)).hexdigest()
    assert digest(value) != fingerprint(value)
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_the_value_is_not_changed_by_encoding_it() -> None:
    value = {"b": [1.0, (2.0,)], "a": {"z": -0.0, "y": None}}
    before = repr(value)
    canonical(value), json_v1(value)
    assert repr(value) == before
