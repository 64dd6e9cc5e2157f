"""Every command, answer and error decodes to what was encoded, whatever it holds."""

import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Struct, UnsetType, structs

import rote
from rote import errors
from rote.contract import AnswerRead, CopyPage, FoundationPage, Guard, Head, commands
from rote.contract.answer_data import shown
from rote.contract.branches import Resolution
from rote.contract.commands import Command, CopyIn, MakeCommit, Rehearse, StoreCommand, Work
from rote.contract.copies import LeftFact
from rote.contract.facts import Commit, Fact
from rote.contract.wire import (
    Message,
    _coder,
    answer_type,
    decode_answer,
    decode_command,
    decode_error,
    decode_page,
    encode_answer,
    encode_command,
    encode_error,
    encode_page,
)
from rote.errors import InvalidInput, ReadConflict, RoteError
from rote.kernel.kernel import TABLE
from rote.testing.strategies import entity_ids, json_values, operations
from rote.values import canonical, decode, decode_canonical
from tests.lanes import examples

ROWS = list(TABLE.rows.values())
INTEGERS = st.integers(-(2**63), 2**63 - 1)
HASHES = st.from_regex(r"\A[0-9a-f]{64}\Z")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


# Values as they come out of a store: a zero there has no sign.
STORED = json_values().map(lambda value: decode_canonical(canonical(value)))
METAS = st.none() | json_values().filter(lambda value: value is not None).map(canonical)


def with_own_facts(commit: Commit) -> Commit:
    """Return a commit whose facts say of it what it says itself."""
    said = {"at": commit.at, "author": commit.author, "meta_data": commit.meta_data}
    return structs.replace(
        commit, facts=tuple(structs.replace(fact, **said) for fact in commit.facts)
    )


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type as it is declared."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in (Fact, LeftFact):
        return facts(kind)
    if kind is Commit:
        members = {name: values(hint) for name, hint in get_type_hints(Commit).items()}
        members["meta_data"] = METAS
        return st.builds(Commit, **members).map(with_own_facts)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return st.builds(
            kind, **{name: values(hint) for name, hint in get_type_hints(kind).items()}
        )
    if origin in (Union, types.UnionType):
        if Resolution in arguments:
            return st.just(Resolution.DELETE) | STORED
        return st.one_of(*map(values, arguments))
    if origin is tuple and arguments[-1] is not Ellipsis:
        return st.tuples(*map(values, arguments))
    if origin in (tuple, Sequence):
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is list:
        return st.lists(values(arguments[0]), max_size=3)
    if origin in (dict, Mapping):
        return st.dictionaries(TEXTS, values(arguments[1]), max_size=3)
    plain: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXTS, int: INTEGERS, bool: st.booleans(), bytes: st.binary(max_size=9),
        float: st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: number != 0),
        type(None): st.none(), UnsetType: st.just(UNSET), Any: STORED,
    }  # fmt: skip
    return plain[kind]


@st.composite
def facts(draw: st.DrawFn, kind: type[Any]) -> Any:
    """Facts whose data is there where it can be."""
    members = {
        name: draw(values(hint)) for name, hint in get_type_hints(kind).items() if name != "data"
    }
    members["op"] = draw(st.sampled_from(["set", "patch", "delete"]))
    if kind is Fact:
        members["meta_data"] = draw(METAS)
    is_gone = members.get("erased") or members.get("remains") is not None
    body = st.lists(json_values(), max_size=2) if members["op"] == "patch" else json_values()
    has_data = members["op"] != "delete" and not is_gone
    return kind(data=canonical(draw(body)) if has_data else None, **members)


def commands_of(kind: type[Command[Any]]) -> st.SearchStrategy[Any]:
    members = {name: values(hint) for name, hint in get_type_hints(kind).items()}
    if "operations" in members:
        members["operations"] = operations(entity_ids())
    if "reads" in members:
        read = st.builds(
            lambda id, version: {"id": id, "version": version}, entity_ids(), st.integers(0, 9)
        )
        members["reads"] = st.lists(read, max_size=2)
        members["branch"] = st.just("main")
    if kind is CopyIn:
        members = {}
        return st.just(CopyIn(CopyPage((), ())))
    return st.builds(kind, **members)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, sequences of any kind by their elements."""
    if isinstance(one, Struct):
        return type(one) is type(other) and all(
            same(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__
        )
    if isinstance(one, list | tuple):
        return (
            isinstance(other, list | tuple)
            and len(one) == len(other)
            and all(map(same, one, other))
        )
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same(one[name], other[name]) for name in one)
        )
    return bool(one == other) and (isinstance(one, bool) == isinstance(other, bool))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@settings(max_examples=examples(8, 1_000))
@given(data=st.data())
def test_a_command_decodes_to_what_was_encoded(row: Any, data: st.DataObject) -> None:
    command = data.draw(commands_of(row.command))
    assert same(decode_command(row.command, encode_command(command)), command)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@settings(max_examples=examples(8, 1_000))
@given(data=st.data())
def test_an_answer_decodes_to_what_was_encoded(row: Any, data: st.DataObject) -> None:
    answer = data.draw(values(answer_type(row.command)))
    decoded = decode_answer(row, encode_answer(row, answer))
    assert same(decoded, answer)
    assert encode_answer(row, decoded) == encode_answer(row, answer)


@settings(max_examples=examples(8, 1_000))
@given(values(FoundationPage))
def test_a_page_of_a_foundation_is_one_line(page: Any) -> None:
    line = encode_page(page)
    assert line.count(b"\n") == 1
    assert same(decode_page(line), page)


def tree(kind: type[RoteError]) -> list[type[RoteError]]:
    # Not those that are also an error of Python, which RecordedError.of makes.
    is_ours = kind.__module__ == errors.__name__ and len(kind.__bases__) == 1
    found = [kind] if is_ours else []
    return found + [each for below in kind.__subclasses__() for each in tree(below)]


CONFLICT = ReadConflict("urn:a", None, None, None, "main", 1, 2, "ab")
MADE: dict[str, RoteError] = {
    "InvalidValue": errors.InvalidValue("no", pointer="/a"),
    "PatchFailed": errors.PatchFailed("no", index=1, pointer="/a"),
    "VersionNotFound": errors.VersionNotFound(9, newest=2),
    "Compacted": errors.Compacted(1, oldest=2),
    "Conflict": errors.Conflict((CONFLICT,)),
    "DependencyRejected": errors.DependencyRejected(3),
    "PayloadMismatch": errors.PayloadMismatch("k", version=1),
    "RunAborted": errors.RunAborted("policy_rejected", message="no", conflicts=(CONFLICT,)),
    "RecordedError": errors.RecordedError.of("ValueError", "no"),
    "LimitExceeded": errors.LimitExceeded("the value", size=2, limit=1),
}


@pytest.mark.parametrize("kind", tree(RoteError), ids=lambda kind: kind.__name__)
def test_an_error_decodes_to_what_was_encoded(kind: type[RoteError]) -> None:
    error = MADE.get(kind.__name__) or kind("no", id="urn:a", size=1)
    decoded = decode_error(encode_error(error))
    assert isinstance(decoded, kind)
    assert decoded.to_dict() == error.to_dict()
    for name in ("conflicts", "reason_code"):
        assert getattr(decoded, name, None) == getattr(error, name, None)


@pytest.mark.parametrize(("code", "kind"), errors.FINER_CODES.items())
def test_a_finer_code_is_of_its_class(code: str, kind: type[RoteError]) -> None:
    decoded = decode_error(encode_error(kind("no", code=code)))
    assert (type(decoded), decoded.code) == (kind, code)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@settings(max_examples=examples(8, 1_000))
@given(data=st.data())
def test_the_fast_way_to_the_bytes_of_an_answer_equals_the_slow_one(
    row: Any, data: st.DataObject
) -> None:
    kind = answer_type(row.command)
    if kind in (bytes, type(None)):
        return
    answer = data.draw(values(kind))
    plain = msgspec.json.encode(_coder(kind).plain(answer))
    assert decode(msgspec.json.encode(shown(kind)(answer)), depth_max=100) == decode(
        plain, depth_max=100
    )


def test_an_unknown_code_is_an_error_all_the_same() -> None:
    decoded = decode_error(encode_error(RoteError("no", code="from_tomorrow")))
    assert (type(decoded), decoded.code, str(decoded)) == (RoteError, "from_tomorrow", "no")


def test_an_unknown_argument_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="more"):
        decode_command(commands.Scan, Message(b'{"start":"","more":1}'))
    with pytest.raises(InvalidInput, match="object"):
        decode_command(commands.Scan, Message(b"[]"))


def test_an_unknown_member_of_an_answer_is_left_out() -> None:
    row = TABLE.names["head"]
    message = Message(b'{"version":1,"hash":null,"at":null,"tomorrow":{}}')
    assert decode_answer(row, message) == Head(1, None, None)


@pytest.mark.parametrize("value", [float("nan"), {1}, b"x", "\ud800", 2**70, {1: 2}], ids=repr)
def test_what_json_cannot_carry_is_refused_before_it_is_sent(value: Any) -> None:
    operation = {"op": "set", "id": "urn:a", "value": value}
    guard = Guard("note", "n", 1, value)
    for command in (
        MakeCommit([operation]),
        Rehearse([operation], {}, 0),
        MakeCommit([{"op": "delete", "id": "urn:a"}], meta=value),
        MakeCommit([{"op": "delete", "id": "urn:a"}], guards=[guard]),
        MakeCommit(
            [{"op": "delete", "id": "urn:a"}], answers=[AnswerRead({"x": value}, "", (), 0, "", 0)]
        ),
        commands.PutSide("note", "n", value, 0),
        commands.Query({"select": value}),
        commands.Merge("other", resolutions={"urn:a": value}),
    ):
        with pytest.raises(InvalidInput):
            encode_command(command)


def test_commands_are_of_three_kinds() -> None:
    for row in ROWS:
        assert issubclass(row.command, Command)
        assert not issubclass(row.command, StoreCommand) or not issubclass(row.command, Work)


def mutations(plain: Any) -> st.SearchStrategy[Any]:
    """Arguments of a command with a member left out, replaced by anything, or added."""
    names = sorted(plain)
    left_out = st.sampled_from(names or [""]).map(
        lambda name: {key: part for key, part in plain.items() if key != name}
    )
    replaced = st.builds(
        lambda name, part: {**plain, name: part},
        st.sampled_from(names or ["more"]),
        json_values() | st.sampled_from([None, True, -1, 2**63 - 1, 1.5, "", [], {}, [[]], [{}]]),
    )
    return left_out | replaced | st.just({**plain, "more": 1})


@pytest.fixture(scope="module")
def target() -> Iterator[tuple[Any, str]]:
    with rote.open(":memory:") as store:
        space = store.space("notes")
        space.set("urn:a", {"x": [1, None]})
        space.create_branch("topic").set("urn:a", 2)
        space.put_blob(b"abc")
        yield store._port, space.did


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@settings(max_examples=examples(20, 2_000))
@given(data=st.data())
def test_a_malformed_message_is_an_error_of_ours(
    target: tuple[Any, str], row: Any, data: st.DataObject
) -> None:
    port, did = target
    message = encode_command(data.draw(commands_of(row.command)))
    plain = data.draw(mutations(decode(message.head)))
    try:
        command = decode_command(row.command, Message(canonical(plain), message.body))
    except RoteError:
        return
    space = "" if issubclass(row.command, StoreCommand) else did
    with suppress(RoteError):
        if issubclass(row.command, Work):
            port.begin(space, command).result()
        elif row.command is commands.Watch:
            port.watch(space, command).close()
        else:
            port.answer(space, command)


@pytest.mark.parametrize("reads", [None, {}, "", 1, True])
def test_reads_that_are_no_list_are_refused(reads: Any) -> None:
    arguments = {"operations": [{"op": "set", "id": "urn:b", "value": 1}], "reads": reads}
    with pytest.raises(InvalidInput, match="reads: it must be a list"):
        decode_command(commands.MakeCommit, Message(canonical(arguments)))


@pytest.mark.parametrize("call", [[], "", 1])
def test_the_call_that_a_key_stands_for_is_an_object(target: tuple[Any, str], call: Any) -> None:
    port, did = target
    operations = [{"op": "set", "id": "urn:b", "value": 1}]
    for command in (
        commands.MakeCommit(operations, key="k", call=call),
        commands.GetMade("k", call, ["urn:b"]),
    ):
        with pytest.raises(InvalidInput):
            port.answer(did, command)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b"\xff", b'{"a":1,"a":2}', b'{"ids":NaN}', b"7"]
)
def test_what_is_no_object_is_no_command(text: bytes) -> None:
    for row in ROWS:
        with pytest.raises((InvalidInput, errors.Corrupt)):
            decode_command(row.command, Message(text))


@pytest.mark.parametrize(
    "resolution", [{}, {"delete": False}, {"delete": 1}, {"delete": True, "value": 1}, 1, [], None]
)
def test_only_a_resolution_that_says_so_deletes(resolution: Any) -> None:
    arguments = canonical({"source": "topic", "resolutions": {"urn:a": resolution}})
    with pytest.raises(InvalidInput):
        decode_command(commands.Merge, Message(arguments))
