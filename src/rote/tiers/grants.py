"""Grants: what a host, and each scope of it, lets a workflow do.

A grant is an object; each member that it has narrows what was there before, and nothing widens:

    lists       what both name
    numbers     the smaller one
    booleans    both

A checked grant holds tuples, numbers, booleans and objects of them, without members that are null.
"""

from collections.abc import Mapping
from string import ascii_uppercase
from typing import Any, TypeAlias

from rote.errors import Denied, InvalidInput
from rote.tiers.profiles import ADAPTERS, plain
from rote.values import Json
from rote.values.names import told
from rote.values.tier_limits import HOST_NAMES_MAX

Grant: TypeAlias = Mapping[str, Any]

LIMITS = ("max_adapter_calls", "max_frame_bytes")
_NAMES, _NUMBER, _FLAG = "a list of texts", "an integer from 0 on", "true or false"
_PARTS: dict[str, dict[str, str]] = {
    "limits": dict.fromkeys(LIMITS, _NUMBER),
    "sqlite": {"allow_tables": _NAMES, "allow_write": _FLAG},
    "fs": {
        "allow_extensions": _NAMES,
        "max_read_bytes": _NUMBER,
        "max_write_bytes": _NUMBER,
        "allow_delete": _FLAG,
    },
    "memory": {"namespaces": _NAMES},
    "queue": {"queues": _NAMES},
    "agent": {"targets": _NAMES},
}
_SMALL = {ord(letter): letter.lower() for letter in ascii_uppercase}
_MEMBERS = ("adapters", "verbs", *_PARTS)


def parse_grant(grant: object, verb_names: Mapping[str, Mapping[str, str]]) -> Grant:
    """Return a checked grant.

    verb_names  for each adapter, the verb that each name stands for
    """
    given = _object(grant, "grant", _MEMBERS)
    taken: dict[str, Any] = {}
    for member, value in given.items():
        if member == "adapters":
            taken[member] = _adapters(value)
        elif member == "verbs":
            taken[member] = _verbs_by_adapter(value, verb_names)
        else:
            taken[member] = _part(member, value)
    return taken


def parse_limits(limits: object, what: str = "limits") -> dict[str, int]:
    """Return limits that are integers from 0 on, without those that are null."""
    given = _object(limits, what, LIMITS)
    return {name: _checked(f"{what}.{name}", _NUMBER, value) for name, value in given.items()}


def narrowed(before: Any, after: Any) -> Any:
    """Return what two grants both allow; also for two equal members of them."""
    if isinstance(before, Mapping):
        both = {name: narrowed(before[name], after[name]) for name in before if name in after}
        return {**before, **after, **both}
    if type(before) is bool:
        return before and after
    if type(before) is int:
        return min(before, after)
    return tuple(name for name in before if name in after)


def check_granted(granted: Grant, member: str, name: Json) -> None:
    """Raise Denied unless the adapter's part of a grant lists a name, or has no such list."""
    if member in granted and name not in granted[member]:
        raise Denied(
            f"{name!r:.80} is not among the {member} of the grant; {told(granted[member])}",
            code="grant_denied",
        )


def as_sqlite_compares(name: str) -> str:
    """Return the name of a table in small letters, A to Z only: SQLite tells É and é apart."""
    return name.translate(_SMALL)


def _object(value: object, what: str, known: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Return the members that are not null."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{what} is an object")
    for name in value:
        if type(name) is not str or (known is not None and name not in known):
            raise InvalidInput(f"{what} has no member {name!r:.80}; {told(known or ())}")
    return {name: each for name, each in value.items() if each is not None}


def _part(member: str, value: object) -> dict[str, Any]:
    kinds, what = _PARTS[member], f"grant.{member}"
    given = _object(value, what, tuple(kinds))
    taken = {name: _checked(f"{what}.{name}", kinds[name], each) for name, each in given.items()}
    if "*" in taken.get("allow_tables", ()):
        del taken["allow_tables"]  # every table: as it was
    elif "allow_tables" in taken:
        taken["allow_tables"] = _once(map(as_sqlite_compares, taken["allow_tables"]))
    return taken


def _checked(what: str, kind: str, value: Any) -> Any:
    if kind == _NAMES:
        if (
            isinstance(value, list | tuple)
            and len(value) <= HOST_NAMES_MAX
            and all(type(name) is str for name in value)
        ):
            return _once(value)
    elif kind == _FLAG:
        if type(value) is bool:
            return value
    elif type(value) is int and value >= 0:
        return value
    raise InvalidInput(f"{what} is {kind}")


def _once(names: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _adapters(value: object) -> tuple[str, ...]:
    names = _checked("grant.adapters", _NAMES, value)
    return _once(_adapter(name) for name in names)


def _adapter(name: str) -> str:
    if plain(name) not in ADAPTERS:
        raise InvalidInput(f"grant: there is no adapter {name!r:.80}; {told(ADAPTERS)}")
    return plain(name)


def _verbs_by_adapter(
    value: object, verb_names: Mapping[str, Mapping[str, str]]
) -> dict[str, tuple[str, ...]]:
    taken: dict[str, tuple[str, ...]] = {}
    for name, verbs in _object(value, "grant.verbs").items():
        if _adapter(name) in taken:
            raise InvalidInput(f"grant.verbs names {_adapter(name)} twice")
        taken[_adapter(name)] = _verbs(name, verbs, verb_names)
    return taken


def _verbs(
    adapter: str, value: object, verb_names: Mapping[str, Mapping[str, str]]
) -> tuple[str, ...]:
    names = _checked(f"grant.verbs.{adapter}", _NAMES, value)
    known = verb_names[plain(adapter)]
    for name in names:
        if plain(name) not in known:
            raise InvalidInput(
                f"grant: {adapter} has no verb {name!r:.80}; {told(sorted(set(known.values())))}"
            )
    return _once(known[plain(name)] for name in names)
