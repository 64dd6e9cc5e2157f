"""The table of commands: one row for each, whose handler takes that command and gives that answer, and no
command or answer holds what cannot travel."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct, UnsetType

from rote.contract import Caller, Tell, commands
from rote.contract.commands import Command, Read, StoreCommand, Work
from rote.contract.table import Row, Table
from rote.contract.wire import answer_type
from rote.errors import InternalError
from rote.kernel.kernel import TABLE
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.spaces import Spaces
from rote.kernel.watching.watches import SpaceWatching

COMMANDS = [
    kind
    for kind in vars(commands).values()
    if isinstance(kind, type)
    and issubclass(kind, Command)
    and kind not in (Command, StoreCommand, Work)
]
PLAIN = {str, int, bool, float, bytes, type(None), UnsetType, Any}
CONTAINERS = {tuple, list, dict, Sequence, Mapping}


def parts_of(kind: Any) -> Iterator[Any]:
    """Yield the types that values of a type are made of."""
    waiting: list[Any] = [kind]
    seen: set[Any] = set()
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, TypeVar) or kind in (Ellipsis, *seen):
            continue
        seen.add(kind)
        if isinstance(kind, type) and issubclass(kind, Struct):
            waiting += get_type_hints(kind).values()
        elif get_origin(kind) is not None:
            waiting += [part for part in get_args(kind) if not isinstance(part, list)]
            if get_origin(kind) not in (*CONTAINERS, Union, UnionType):
                yield get_origin(kind)
        else:
            yield kind


def cannot_travel(kind: Any) -> list[Any]:
    return [
        part
        for part in parts_of(kind)
        if part not in PLAIN
        and part not in CONTAINERS
        and not (isinstance(part, type) and issubclass(part, Enum))
    ]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda kind: kind.__name__)
class TestEveryCommand:
    def test_has_a_row(self, command: type[Command[Any]]) -> None:
        assert TABLE.row(command).command is command

    def test_has_a_handler_that_takes_it_and_gives_its_answer(
        self, command: type[Command[Any]]
    ) -> None:
        row = TABLE.row(command)
        handler = row.load()
        hints = get_type_hints(handler)
        answer = hints.pop("return")
        place = Spaces if issubclass(command, StoreCommand) else OpenSpace
        more: list[Any] = [Tell] if issubclass(command, Work) else []
        more += [Caller] if row.by_caller else []
        assert list(hints.values()) == [place, command, *more]
        expected = SpaceWatching if command is commands.Watch else answer_type(command)
        assert answer == expected

    def test_and_its_answer_hold_only_what_can_travel(self, command: type[Command[Any]]) -> None:
        assert cannot_travel(command) == []
        assert cannot_travel(answer_type(command)) == []

    def test_is_documented(self, command: type[Command[Any]]) -> None:
        assert inspect.getdoc(command)


def test_every_row_is_of_a_command() -> None:
    assert set(TABLE.rows) == set(COMMANDS)


def test_names_and_commands_have_one_row_each() -> None:
    row = Row(Read, "read", "nowhere:read", "read", "ids", "always")
    with pytest.raises(InternalError, match="two rows"):
        Table([row, Row(Read, "other", "nowhere:read", "read", "ids", "always")])
    with pytest.raises(InternalError, match="two rows"):
        Table([row, Row(commands.Scan, "read", "nowhere:read", "read", "ids", "always")])


def test_a_command_without_a_row_is_not_answered() -> None:
    with pytest.raises(InternalError, match="Scan has no row"):
        Table([]).row(commands.Scan)


def test_a_row_without_a_handler_is_found() -> None:
    with pytest.raises(ImportError):
        Row(Read, "read", "rote.kernel.nowhere:read", "read", "ids", "always").load()
    with pytest.raises(AttributeError):
        Row(Read, "read", "rote.kernel.reading.entities:nothing", "read", "ids", "always").load()


@pytest.mark.parametrize("kind", [Callable[[], None], Path, Iterator[str], object, set[str]])
def test_a_struct_that_holds_what_cannot_travel_is_found(kind: Any) -> None:
    class Planted(Command[None], frozen=True):
        member: kind

    Planted.__annotations__["member"] = kind
    assert cannot_travel(Planted) != []
    assert cannot_travel(tuple[kind, ...]) != []


def test_the_ids_of_a_command_are_those_that_it_names() -> None:
    named = {row.name: row.ids for row in TABLE.rows.values() if row.ids is not None}
    names = {"states", "read", "glance", "history", "rehearse", "made", "commit", "erase"}
    assert named.keys() == names
    command = commands.MakeCommit(
        [{"op": "delete", "id": "urn:a"}], reads=[{"id": "urn:b", "version": 1}, {"prefix": "x"}]
    )
    assert list(named["commit"](command)) == ["urn:a", "urn:b"]
    assert list(named["read"](Read(("urn:a", "urn:b")))) == ["urn:a", "urn:b"]
    assert list(named["erase"](commands.Erase("asked to", "urn:a"))) == ["urn:a"]
