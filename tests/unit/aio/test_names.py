"""Every public name of a class has its async form, with the same signature."""

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

import rote
import rote.aio
from rote.aio.faces import FACES, Has, Lists, Name
from rote.aio.sessions import SessionTransaction as SessionTransactionFace
from rote.errors import InvalidInput
from rote.runs.events import Event
from rote.sessions.transactions import SessionTransaction
from rote.tiers.profiles import ADAPTERS

PAIRS: dict[type, type[Any]] = {
    rote.Store: rote.aio.Store,
    rote.Space: rote.aio.Space,
    rote.Transaction: rote.aio.Transaction,
    rote.Session: rote.aio.Session,
    SessionTransaction: SessionTransactionFace,
    rote.Pending: rote.aio.Pending,
    rote.Memory: rote.aio.Memory,
    rote.Run: rote.aio.Run,
    Event: rote.aio.Event,
    rote.Host: rote.aio.Host,
}
# For the layers above a space inside of Rote, which are synchronous.
INTERNAL: dict[type, set[str]] = {rote.Space: {"open_store", "searching"}}
# Attributes that __init__ sets.
ATTRIBUTES: dict[type, set[str]] = {
    rote.Store: {"url", "read_only"},
    rote.Transaction: {"space", "commit"},
    rote.Session: {"space"},
    SessionTransaction: {"space", "commit", "pending"},
    rote.Memory: {"space", "profile", "namespaces"},
    rote.Run: {"memory", "memory_snapshot_id", "commit_id"},
    Event: {"index"},
    rote.Host: set(ADAPTERS),
}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("kind", PAIRS, ids=lambda kind: kind.__name__)
def test_a_face_has_every_public_name_and_no_other(kind: type) -> None:
    wanted = (public(kind) - INTERNAL.get(kind, set())) | ATTRIBUTES.get(kind, set())
    assert public(PAIRS[kind]) == wanted


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, face in PAIRS.items() for name in sorted(public(face))],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_name_of_a_face_takes_what_the_name_behind_it_takes(kind: type, name: str) -> None:
    member: Any = inspect.getattr_static(PAIRS[kind], name)
    behind = inspect.getattr_static(kind, name, None)
    if isinstance(member, Has):
        assert behind is None or isinstance(behind, property)
    elif isinstance(member, Name | Lists):
        # Its signature is the function's: that it is the right one is all that can be wrong.
        assert member.function is getattr(kind, name)
    elif isinstance(member, staticmethod):
        assert member.__func__ is getattr(kind, name)
    else:
        assert parameters(member) == parameters(getattr(kind, name))


def parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    return [
        (each.name, each.kind, each.default)
        for each in inspect.signature(function).parameters.values()
    ]


def test_open_takes_what_rote_open_takes_and_the_number_of_threads() -> None:
    [*taken, threads] = parameters(rote.aio.open)
    assert taken == parameters(rote.open)
    assert threads == ("threads", inspect.Parameter.KEYWORD_ONLY, 16)
    hints = get_type_hints(rote.open)
    assert {name: get_type_hints(rote.aio.open)[name] for name in hints if name != "return"} == {
        name: hint for name, hint in hints.items() if name != "return"
    }


def test_there_is_a_face_of_each_class_that_the_contract_names() -> None:
    # A host that rote.Host makes is one of the tiers.
    assert all(any(each in FACES for each in kind.__mro__) for kind in PAIRS)


def test_of_refuses_what_has_no_face() -> None:
    with pytest.raises(InvalidInput, match="no async face of dict"):
        rote.aio.of({})  # type: ignore[call-overload]
