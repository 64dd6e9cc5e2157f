"""Commands, answers and errors as bytes: one encoder and one decoder for every transport.

The bytes are JSON objects with the members under their own names; defaults are written. Exceptions:

    view          becomes its members `branch` and `version`
    Fact.data, LeftFact.data, and meta_data of facts and commits
                  become `body`, `data` and `meta`: the stored canonical bytes, copied as they are
    data of a set that was left out
                  the member `body` is left out
    facts of a commit
                  leave out `at`, `author` and `meta`, which their commit says
    resolutions   {"value": …} or {"delete": true}
    bytes         of a piece of a blob are never in the JSON: they are the body of the message;
                  all others are a text in base64
    UNSET         the member is left out

The encoder of a command refuses what JSON cannot carry, by the checks that the kernel would make. Its
decoder refuses unknown members; the handler checks what they hold. Answers may get new members, so
their decoder leaves unknown ones out.
"""

import types
from binascii import a2b_base64
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Raw, Struct, structs

from rote.contract.answer_data import OF_COMMIT, STORED, is_left_out, shown
from rote.contract.branches import Resolution
from rote.contract.commands import Command, CopyIn, MakeCommit, Rehearse
from rote.contract.copies import FoundationPage, LeftFact
from rote.contract.facts import Commit
from rote.contract.operations import parse_operations
from rote.contract.page_checks import check_page
from rote.contract.reads import parse_reads
from rote.contract.requests import View
from rote.contract.table import Row
from rote.errors import Corrupt, InvalidInput, RoteError
from rote.values import Encoded, canonical, decode
from rote.values.limits import DEPTH_MAX, MESSAGE_BYTES_MAX, MESSAGE_LEVELS

S = TypeVar("S", bound=Struct)


class Message(Struct, frozen=True):
    """A JSON object and, with a piece of a blob, its bytes."""

    head: bytes
    body: bytes | None = None


def encode_command(command: Command[Any]) -> Message:
    _check_sendable(command)
    with _as_damage(type(command)):
        members = _coder(type(command)).plain(command)
    body = members.pop("data") if type(members.get("data")) is bytes else None
    return Message(_encoded(members), body)


def decode_command(command: type[Command[Any]], message: Message) -> Command[Any]:
    members = decode_members(command, message.head)
    if message.body is not None:
        members["data"] = message.body
    made: Command[Any] = struct_of(command, members)
    return made


def decode_members(kind: type[Struct], data: bytes) -> dict[str, Any]:
    """Return the members of a command, or of another struct of arguments, before anything in them
    is looked at."""
    with _as_damage(kind):
        members = _decoded(data, kind)
    if type(members) is not dict:
        raise InvalidInput("the arguments of a command are a JSON object")
    return members


def struct_of(kind: type[Struct], members: dict[str, Any]) -> Any:
    """Return the command, or the struct of arguments, that has these members."""
    with _as_damage(kind):
        _check_known(kind, members)
        try:
            return _coder(kind).value(members)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise InvalidInput(f"the arguments of the command are malformed: {error}") from None


def _check_known(kind: Any, plain: Any) -> None:
    """Refuse the first member of a command, or of a struct in it, that nobody knows."""
    waiting = [(kind, plain)]
    while waiting:
        kind, plain = waiting.pop()
        if not _holds_struct(kind):
            continue
        arguments = get_args(kind)
        if isinstance(kind, type) and type(plain) is dict:
            names = _coder(kind).names
            if not plain.keys() <= names:
                unknown = min(plain.keys() - names)
                known = ", ".join(sorted(names)) or "none"
                raise InvalidInput(
                    f"the command has no argument {unknown!r:.80}; there are {known}",
                    argument=unknown,
                )
            waiting += [
                (hint, plain[name]) for name, hint in _holding(kind).items() if name in plain
            ]
        elif get_origin(kind) in (Union, types.UnionType):
            waiting += [(argument, plain) for argument in arguments]
        elif get_origin(kind) in (tuple, Sequence, list) and type(plain) is list:
            waiting += [(arguments[0], part) for part in plain]
        elif get_origin(kind) in (dict, Mapping) and type(plain) is dict:
            waiting += [(arguments[1], part) for part in plain.values()]


@cache
def _hints(kind: type[Struct]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {name: hints[name] for name in kind.__struct_fields__}


@cache
def _holding(kind: type[Struct]) -> dict[str, Any]:
    """Return the types of those members that can hold a struct."""
    return {name: hint for name, hint in _hints(kind).items() if _holds_struct(hint)}


@cache
def _holds_struct(kind: Any) -> bool:
    """Whether values of a type can hold a struct."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return True
    return any(_holds_struct(each) for each in get_args(kind) if each is not Ellipsis)


class _as_damage:  # noqa: N801 - it reads as what it does
    """Raise Corrupt instead of InvalidValue for a page that comes from another store."""

    __slots__ = ("_command",)

    def __init__(self, command: type[Struct]) -> None:
        self._command = command

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, stack: object) -> None:
        if isinstance(error, InvalidInput) and issubclass(self._command, CopyIn):
            raise Corrupt(f"a page of the source is not what was written: {error}") from None


def encode_answer(row: Row, answer: Any) -> Message:
    if type(answer) is bytes:
        return Message(b"{}", answer)
    kind = answer_type(row.command)
    plain = {} if kind is type(None) else shown(kind)(answer)
    return Message(_encoded(plain if row.member is None else {row.member: plain}))


def encode_value(value: Struct) -> bytes:
    """Return one value of an answer, for example a commit, as it stands in a longer one."""
    return _encoded(shown(type(value))(value))


def decode_value(kind: type[S], data: bytes) -> S:
    """Return a value that `encode_value` has encoded."""
    value: S = _coder(kind).value(_decoded(data, kind))
    return value


def decode_answer(row: Row, message: Message) -> Any:
    kind = answer_type(row.command)
    if kind is bytes:
        return message.body
    if kind is type(None):
        return None
    # An answer under a member is one level deeper, so the type is that of the object around it.
    around: Any = kind if row.member is None else dict[str, kind]  # type: ignore[valid-type]
    plain = _decoded(message.head, around)
    return _coder(kind).value(plain if row.member is None else plain[row.member])


def encode_members(members: dict[str, Any]) -> bytes:
    """Return an object as JSON; InvalidInput for what JSON cannot carry.

    Its operations may hold values that are encoded already.
    """
    _checked(members)
    operations: Any = members.get("operations")
    if type(operations) in (list, tuple) and all(type(each) is dict for each in operations):
        members = {**members, "operations": _operations(operations)}
    return _encoded(members)


def encode_error(error: RoteError) -> bytes:
    return _encoded({"error": error.to_dict()})


def decode_error(data: bytes) -> RoteError:
    try:
        return RoteError.from_dict(_decoded(data, Any)["error"])
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"the text is no error of Rote: {error}") from None


def encode_page(page: FoundationPage) -> bytes:
    """Return a page of a foundation as one line."""
    return _encoded(_coder(FoundationPage).plain(page)) + b"\n"


def decode_page(line: bytes) -> FoundationPage:
    try:
        page: FoundationPage = _coder(FoundationPage).value(_decoded(line, FoundationPage))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidInput(f"a line is no page of a foundation: {error}") from None
    return page


def answer_type(command: type[Command[Any]]) -> Any:
    """Return what a command says about the type of its answer."""
    (base,) = command.__orig_bases__  # type: ignore[attr-defined]
    (answer,) = get_args(base)
    return answer


def _encoded(plain: Any) -> bytes:
    try:
        return msgspec.json.encode(plain)
    except UnicodeEncodeError:
        raise InvalidInput("a text holds a lone surrogate, which JSON cannot carry") from None


def _decoded(data: bytes, kind: Any) -> Any:
    """Return plain data of strict JSON, with members that hold stored bytes as they are."""
    plain = decode(data, size_bytes_max=MESSAGE_BYTES_MAX, depth_max=DEPTH_MAX + MESSAGE_LEVELS)
    sliced = _sliced_type(kind)
    if sliced is Any:
        return plain
    try:
        return _with_slices(plain, msgspec.json.decode(data, type=sliced))
    except msgspec.ValidationError:
        return plain  # of another shape; the handler refuses it


def _check_sendable(command: Command[Any]) -> None:
    """Make those checks of the kernel whose messages are clearer than that JSON cannot carry it."""
    if isinstance(command, MakeCommit | Rehearse):
        parse_operations(command.operations)
    if isinstance(command, MakeCommit):
        parse_reads(command.reads, command.branch)
    if isinstance(command, CopyIn):
        check_page(command.page)


# -- coders ----------------------------------------------------------------------------------------


class Coder(Struct):
    """Two functions that turn values of one type into plain data and back."""

    plain: Callable[[Any], Any]
    value: Callable[[Any], Any]
    names: frozenset[str] = frozenset()  # of a struct: its members on the wire


def _checked(value: Any) -> Any:
    """Return the value if JSON can carry it. The encoder alone would write NaN as null, a UUID as text."""
    canonical(value, depth_max=DEPTH_MAX + MESSAGE_LEVELS)
    return value


def _operations(operations: Any) -> Any:
    """Return checked operations, with the bytes of values that are encoded already."""
    return [
        {name: Raw(part.data) if type(part) is Encoded else part for name, part in each.items()}
        for each in operations
    ]


_WORDS = {str: "a text", int: "an integer", float: "a number", bool: "true or false"}


def _exactly(*kinds: type) -> Coder:
    """Return a coder of scalars of exact types: true is no integer, and 1.0 no version."""
    words = " or ".join(_WORDS[kind] for kind in kinds)

    def taken(plain: Any) -> Any:
        if type(plain) in kinds:
            return plain
        raise InvalidInput(f"it must be {words}, not {plain!r:.80}")

    return Coder(_checked, taken)


_SCALARS = {
    str: _exactly(str),
    int: _exactly(int),
    float: _exactly(int, float),
    bool: _exactly(bool),
}
_NOTHING = Coder(lambda value: None, lambda plain: None)
_BODY = Coder(lambda value: value, lambda plain: plain)  # the body of a message
_BYTES = Coder(lambda value: value, lambda plain: a2b_base64(plain, strict_mode=True))
_ANYTHING = Coder(_checked, lambda plain: plain)
_OPERATIONS = Coder(_operations, lambda plain: plain)


def _of(kind: type, plain: Any) -> Any:
    if type(plain) is kind:
        return plain
    raise InvalidInput(f"it must be {'a list' if kind is list else 'an object'}, not {plain!r:.80}")


@cache
def _coder(kind: Any) -> Coder:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Commit:
        return _commit_coder(_struct_coder(Commit))
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _struct_coder(kind)
    if origin in (Union, types.UnionType):
        return _optional_coder(arguments)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return _sequence_coder(arguments[0])
    if origin is tuple:
        coders = [_coder(argument) for argument in arguments]
        return Coder(
            lambda value: [each.plain(part) for each, part in zip(coders, value, strict=True)],
            lambda plain: tuple(
                [each.value(part) for each, part in zip(coders, _of(list, plain), strict=True)]
            ),
        )
    if origin is list:
        return Coder(_sequence_coder(arguments[0]).plain, lambda plain: plain)
    if origin is Sequence:
        return _sequence_coder(arguments[0])
    if origin in (dict, Mapping) and arguments[1] is not Any:
        part = _coder(arguments[1])
        return Coder(
            lambda value: (
                {name: part.plain(inner) for name, inner in value.items()}
                if isinstance(value, Mapping)
                else _checked(value)
            ),
            lambda plain: {name: part.value(inner) for name, inner in _of(dict, plain).items()},
        )
    if kind is bytes:
        return _BYTES
    if kind in _SCALARS:
        return _SCALARS[kind]
    return _ANYTHING if kind is Any or origin in (dict, Mapping) else _NOTHING


def _sequence_coder(kind: Any) -> Coder:
    part = _coder(kind)
    return Coder(
        lambda value: (
            [part.plain(inner) for inner in value]
            if isinstance(value, list | tuple)
            else _checked(value)
        ),
        lambda plain: tuple([part.value(inner) for inner in _of(list, plain)]),
    )


def _optional_coder(kinds: tuple[Any, ...]) -> Coder:
    if Resolution in kinds:
        return Coder(
            lambda value: (
                {"delete": True} if value is Resolution.DELETE else {"value": _checked(value)}
            ),
            _resolution,
        )
    rest = [kind for kind in kinds if kind is not type(None)]
    inner = _coder(rest[0])
    return Coder(
        lambda value: None if value is None else inner.plain(value),
        lambda plain: None if plain is None else inner.value(plain),
    )


def _resolution(plain: Any) -> Any:
    if plain == {"delete": True} and plain["delete"] is True:
        return Resolution.DELETE
    if type(plain) is dict and plain.keys() == {"value"}:
        return plain["value"]
    raise InvalidInput('a resolution is {"value": …} or {"delete": true}')


def _struct_coder(kind: type[Struct]) -> Coder:
    hints = get_type_hints(kind)
    own = {"operations": _OPERATIONS}
    if issubclass(kind, Command):
        own["data"] = _BODY
    members = [
        (name, STORED.get((kind, name), name), own.get(name) or _coder(hints[name]))
        for name in kind.__struct_fields__
    ]
    stored = {name for name, _, _ in members if (kind, name) in STORED}
    flat = {name for name, _, _ in members if name == "view" and hints[name] is View}

    def plain(value: Any) -> Any:
        if not isinstance(value, kind):
            return _checked(value)  # of another type; the handler refuses it
        made: dict[str, Any] = {}
        for name, wire_name, coder in members:
            part = getattr(value, name)
            if name in stored:
                if part is not None or not is_left_out(value, name):
                    made[wire_name] = None if part is None else Raw(part)
            elif name in flat:
                made |= coder.plain(part)
            elif part is not UNSET:
                made[wire_name] = coder.plain(part)
        return made

    def value(plain: Any) -> Any:
        _of(dict, plain)
        made: dict[str, Any] = {}
        for name, wire_name, coder in members:
            if name in flat:
                made[name] = coder.value(plain)
            elif wire_name not in plain:
                if name in stored:
                    made[name] = None
            elif name in stored:
                made[name] = _stored_bytes(kind, plain, wire_name)
            else:
                try:
                    made[name] = coder.value(plain[wire_name])
                except InvalidInput as error:
                    raise InvalidInput(f"{wire_name}: {error}", key=wire_name) from None
        return kind(**made)

    names = {wire_name for name, wire_name, _ in members if name not in flat}
    names |= {"branch", "version"} if flat else set()
    return Coder(plain, value, frozenset(names))


def _commit_coder(coder: Coder) -> Coder:
    """Return the coder of commits whose facts do not repeat what the commit says: meta may be large."""

    def plain(commit: Any) -> Any:
        made = coder.plain(commit)
        if isinstance(commit, Commit):
            for fact in made["facts"]:
                for name in OF_COMMIT:
                    del fact[name]
        return made

    def value(plain: Any) -> Any:
        commit: Commit = coder.value(plain)
        of_commit = {"at": commit.at, "author": commit.author, "meta_data": commit.meta_data}
        facts = tuple([structs.replace(fact, **of_commit) for fact in commit.facts])
        return structs.replace(commit, facts=facts)

    return Coder(plain, value, coder.names)


def _stored_bytes(kind: type[Struct], plain: dict[str, Any], name: str) -> bytes | None:
    """Return canonical bytes that were copied as they are.

    JSON null stands for no bytes, or for the value null: of a set, or of a patch that a compaction
    kept as its result.
    """
    stored = plain[name]
    if stored is not None and not isinstance(stored, Raw):
        raise InvalidInput(f"{name}: it is not where it can be")
    if stored is None or bytes(stored) == b"null":
        is_value = plain.get("op") == "set" or (kind is LeftFact and plain["op"] == "patch")
        is_gone = plain.get("erased") or plain.get("remains") is not None
        return b"null" if is_value and not is_gone and name != "meta" else None
    return bytes(stored)


# -- slices ----------------------------------------------------------------------------------------


@cache
def _sliced_type(kind: Any) -> Any:
    """Return the type that decodes stored bytes as slices of the text; Any for a type without them."""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Struct):
        hints = get_type_hints(kind)
        fields: list[tuple[str, Any, Any]] = [
            (STORED[kind, name], Raw, Raw(b"null"))
            if (kind, name) in STORED
            else (name, _sliced_type(hints[name]), None)
            for name in kind.__struct_fields__
        ]
        if all(inner is Any for _, inner, _ in fields):
            return Any
        return msgspec.defstruct(f"Sliced{kind.__name__}", fields)
    inner = [_sliced_type(each) for each in arguments if each not in (Ellipsis, type(None))]
    found = next((each for each in inner if each is not Any), Any)
    if found is Any:
        return Any
    if origin in (tuple, list, Sequence):
        return list[found]  # type: ignore[valid-type]
    return dict[str, found] if origin is dict else found | None  # type: ignore[valid-type]


def _with_slices(plain: Any, sliced: Any) -> Any:
    if isinstance(sliced, Raw):
        return sliced
    if isinstance(sliced, list):
        return [_with_slices(*each) for each in zip(plain, sliced, strict=True)]
    if isinstance(sliced, Struct):
        names = sliced.__struct_fields__
        return {
            name: _with_slices(part, getattr(sliced, name)) if name in names else part
            for name, part in plain.items()
        }
    if isinstance(sliced, dict) and isinstance(plain, dict):
        return {name: _with_slices(part, sliced[name]) for name, part in plain.items()}
    return plain
