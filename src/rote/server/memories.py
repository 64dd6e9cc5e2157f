"""The verbs of a memory as commands of a server.

A call names the arguments of the Python verb, or lists them by position; `namespaces`, `profile`,
`branch` and `version` say which memory it is. The answer is the result of the verb.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from msgspec import Struct, structs

from rote.contract import Port, PortLayer
from rote.contract.commands import Command, GetMade, MakeCommit
from rote.contract.table import PathRule, Right
from rote.errors import InvalidInput
from rote.records.keys import NAMESPACES, entity_id, ids_under
from rote.records.listing import find_namespaces
from rote.records.memory import Memory
from rote.records.profiles import V1_1
from rote.space import Space
from rote.values import Json
from rote.values.ranges import prefix_end

R = TypeVar("R")


class MemoryCall(Struct, frozen=True, kw_only=True):
    """The arguments of a memory command."""

    arguments: Any = {}
    namespaces: Any = None  # None: those of the contract, and those that hold records
    profile: str = V1_1
    branch: str = "main"
    version: int | None = None
    key: str | None = None
    attempt: str | None = None


class Verb(Struct, frozen=True):
    """A verb of a memory, and the right that it takes."""

    name: str  # of the method of Memory
    right: Right
    path: PathRule
    is_keyed: bool = False  # whether it takes a key and an attempt


# By the name of the command.
VERBS = {
    "memory_put": Verb("put", "write", "ids", is_keyed=True),
    "memory_put_many": Verb("put_many", "write", "ids", is_keyed=True),
    "memory_get": Verb("get", "read", "ids"),
    "memory_append": Verb("append", "write", "ids", is_keyed=True),
    "memory_update": Verb("update", "write", "ids", is_keyed=True),
    "memory_list": Verb("list", "read", "range"),
    "memory_search": Verb("search", "read", "range"),
    "memory_history": Verb("history", "read", "ids"),
    "memory_delete": Verb("delete", "write", "ids", is_keyed=True),
    "memory_erase": Verb("erase", "owner", "none"),
    "memory_prune": Verb("prune", "write", "none"),
    "memory_touch": Verb("touch", "write", "ids", is_keyed=True),
    "memory_stats": Verb("stats", "read", "none"),
    "memory_report": Verb("retention_report", "read", "none"),
}


def call_verb(space: Space, command: str, call: MemoryCall) -> dict[str, Json]:
    """Call a verb on the memory that a call names."""
    verb = VERBS[command]
    arguments = bind(command, call)
    if call.key is not None or call.attempt is not None:
        if not verb.is_keyed:
            raise InvalidInput(f"{command} takes no key and no attempt", argument="key")
        key = f"attempt:{call.attempt}" if call.key is None else call.key
        if arguments.setdefault("key", key) != key and call.key is not None:
            raise InvalidInput("key: it is given twice, and differs", argument="key")
    result: dict[str, Json] = getattr(memory_of(space, call), verb.name)(**arguments)
    return result


def is_repeatable(command: str, call: MemoryCall) -> bool:
    """Whether a call that was made before gets its first answer."""
    return bool(call.key or call.attempt or bind(command, call).get("key"))


class AttemptPort(PortLayer):
    """A port for one verb, whose commit is made under an attempt.

    A verb that has no key gets one in the place of the attempt (`call_verb`), and this port turns it
    back: the attempt is no part of the commit.
    """

    def __init__(self, port: Port, attempt: str) -> None:
        super().__init__(port)
        self._attempt = attempt
        self._key = f"attempt:{attempt}"

    def answer(self, space: str, command: Command[R], /) -> R:
        if isinstance(command, GetMade) and command.key == self._key:
            asked = structs.replace(command, attempt=self._attempt)
            return super().answer(space, asked)  # type: ignore[return-value]
        if isinstance(command, MakeCommit):
            key = None if command.key == self._key else command.key
            made = structs.replace(command, key=key, attempt=self._attempt)
            return super().answer(space, made)  # type: ignore[return-value]
        return super().answer(space, command)


def memory_of(space: Space, call: MemoryCall) -> Memory:
    view = space.on(call.branch)
    if call.version is not None:
        view = view.at(call.version)
    namespaces = known_namespaces(view) if call.namespaces is None else call.namespaces
    return Memory(view, namespaces=namespaces, profile=call.profile)


def known_namespaces(view: Space) -> list[str]:
    """Return the namespaces of the contract, and those that hold records."""
    return [*NAMESPACES, *find_namespaces(view)]


# -- which entities a call names -------------------------------------------------------------------


def ids_of(command: str, call: MemoryCall) -> list[str]:
    """Return the entities that a call of a verb with the path rule `ids` names."""
    arguments = bind(command, call)
    if command != "memory_put_many":
        return [entity_id(arguments["namespace"], arguments["kind"], arguments["id"])]
    records = arguments["records"]
    if type(records) is not list or not all(type(each) is dict for each in records):
        raise InvalidInput("put_many takes a list of records", argument="records")
    names = ("namespace", "record_kind", "record_id")
    return [entity_id(*(each.get(name) for name in names)) for each in records]


def range_of(command: str, call: MemoryCall) -> tuple[str, str | None]:
    """Return the range of ids, half open, that a call with the path rule `range` reads."""
    prefix = "record:"
    if command == "memory_list":
        arguments = bind(command, call)
        kind, id_prefix = arguments.get("kind"), arguments.get("id_prefix")
        namespace = arguments["namespace"]
        if type(namespace) is not str or not isinstance(kind, str | None):
            raise InvalidInput("a namespace and a kind are texts", argument="namespace")
        if not isinstance(id_prefix, str | None):
            raise InvalidInput("id_prefix is a text", argument="id_prefix")
        # Without a kind, records of all kinds are compared with the prefix of ids.
        prefix = ids_under(namespace, kind, "" if kind is None else id_prefix or "")
    return prefix, prefix_end(prefix)


def bind(command: str, call: MemoryCall) -> dict[str, Any]:
    """Return the arguments of a call by the names of the verb's parameters."""
    verb, given = VERBS[command].name, call.arguments
    if type(given) is list:
        names, changes = _positions(verb), {}
        if verb == "update" and len(given) == len(names) + 1:
            # As in `Memory.call`: its changes have names and no places.
            changes, given = given[-1], given[:-1]
            if type(changes) is not dict:
                raise InvalidInput("changes must be an object", argument="changes")
        if len(given) > len(names):
            raise InvalidInput(
                f"{verb} takes at most {len(names)} arguments by position, not {len(given)}",
                argument="arguments",
            )
        given = {**changes, **dict(zip(names, given, strict=False))}
    if type(given) is not dict:
        raise InvalidInput("arguments are an object, or a list by position", argument="arguments")
    parameters = _parameters(verb)
    takes_more = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    for name in given:
        if not takes_more and name not in parameters:
            raise InvalidInput(f"{verb} has no argument {name!r:.80}", argument=name)
    for name, each in parameters.items():
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD and name not in given:
            raise InvalidInput(f"{verb}: the argument {name} is missing", argument=name)
    return dict(given)


@cache
def _parameters(verb: str) -> Mapping[str, inspect.Parameter]:
    method: Callable[..., Any] = getattr(Memory, verb)
    found = dict(inspect.signature(method).parameters)
    del found["self"]
    return found


@cache
def _positions(verb: str) -> tuple[str, ...]:
    return tuple(
        name for name, each in _parameters(verb).items() if each.kind is each.POSITIONAL_OR_KEYWORD
    )
