"""Ids of records: the key (namespace, record_kind, record_id) as the id of one entity, and back.

    record:<namespace>!!<record_kind>!!<record_id>!!

In a part every character up to U+0021 is written as `!` and two hex digits. So `!!` ends a part, and
sorts below everything that can continue the part. The order of ids is therefore the order of (kind,
id), code point by code point. Frozen: the ids are in the log.
"""

import re
from collections.abc import Iterable

from rote.errors import InvalidInput, LimitExceeded
from rote.values import Json
from rote.values.limits import (
    NAMESPACE_BYTES_MAX,
    NAMESPACES_MAX,
    RECORD_ID_BYTES_MAX,
    RECORD_KIND_BYTES_MAX,
)
from rote.values.names import check_text

PREFIX = "record:"
NAMESPACES = ("daily_log", "long_term", "ops", "session", "workflow")
_END = "!!"

_escaped = re.compile(r"[\x00-\x21]").sub
_unescaped = re.compile(r"!([0-9a-f]{2})").sub
# Characters that no entity id may hold. Escaped, they would change the order of ids.
_refused = re.compile(r"[\x7f-\x9f]|(?![\x00-\x20])\s").search
_plain = re.compile(r"[\x22-\x7e]+").fullmatch
_is_namespace = re.compile(r"[a-z0-9_-]{1,64}").fullmatch


def check_namespaces(namespaces: Iterable[str] | None) -> tuple[str, ...]:
    """Return the namespaces of a host, in order; those of the contract when it names none."""
    if namespaces is None:
        return NAMESPACES
    if isinstance(namespaces, str) or not isinstance(namespaces, Iterable):
        raise InvalidInput("namespaces are a list of names", argument="namespaces")
    named = list(namespaces)
    for name in named:
        if type(name) is not str or not _is_namespace(name):
            raise InvalidInput(
                f"{name!r:.80} is not a namespace; use 1 to {NAMESPACE_BYTES_MAX} characters"
                " of a-z 0-9 _ -",
                argument="namespaces",
            )
    if not 1 <= len(named) <= NAMESPACES_MAX:
        raise InvalidInput(
            f"a memory has 1 to {NAMESPACES_MAX:,} namespaces", argument="namespaces"
        )
    return tuple(sorted(set(named)))


def entity_id(namespace: str, kind: str, id: str) -> str:
    """Return the id of the entity that holds a record."""
    if type(namespace) is not str or not _is_namespace(namespace):
        if type(namespace) is str and len(namespace) > NAMESPACE_BYTES_MAX:
            raise LimitExceeded(
                "the namespace in bytes", size=len(namespace), limit=NAMESPACE_BYTES_MAX
            )
        raise InvalidInput(
            f"{namespace!r:.80} is not a namespace; use a-z 0-9 _ -", argument="namespace"
        )
    written_kind = _part(kind, "record_kind", RECORD_KIND_BYTES_MAX)
    written_id = _part(id, "record_id", RECORD_ID_BYTES_MAX)
    return f"{PREFIX}{namespace}{_END}{written_kind}{_END}{written_id}{_END}"


def is_key(entity: str, namespace: Json, kind: Json, id: Json) -> bool:
    """Whether an entity is the one that holds the record of this key."""
    if type(namespace) is not str or type(kind) is not str or type(id) is not str:
        return False
    if not kind or not id or not _is_namespace(namespace):
        return False
    # The most frequent case, faster: without `!` nothing in an entity id was escaped.
    if entity == f"{PREFIX}{namespace}{_END}{kind}{_END}{id}{_END}" and "!" not in kind + id:
        return True
    return entity == f"{PREFIX}{namespace}{_END}{_written(kind)}{_END}{_written(id)}{_END}"


def ids_under(namespace: str, kind: str | None = None, id_prefix: str = "") -> str:
    """Return the prefix of the ids of a namespace, of a kind, or of a kind and an id prefix."""
    if kind is None:
        return f"{PREFIX}{namespace}{_END}"
    return f"{PREFIX}{namespace}{_END}{_written(kind)}{_END}{_written(id_prefix)}"


def key_of(entity: str) -> tuple[str, str, str] | None:
    """Return the key (namespace, record_kind, record_id) in the id of a record; None for another id."""
    parts = entity.removeprefix(PREFIX).split(_END)
    if not entity.startswith(PREFIX) or len(parts) != 4:
        return None
    namespace, kind, id, _ = parts
    if "!" in kind + id:  # rarely
        kind, id = (_unescaped(lambda match: chr(int(match[1], 16)), part) for part in (kind, id))
    return (namespace, kind, id) if is_key(entity, namespace, kind, id) else None


def namespace_of(entity: str) -> str | None:
    """Return the namespace in the id of a record; None for another id."""
    name, end, _ = entity.removeprefix(PREFIX).partition(_END)
    return name if entity.startswith(PREFIX) and end and _is_namespace(name) else None


def check_kind(kind: object) -> str:
    _part(kind, "record_kind", RECORD_KIND_BYTES_MAX)
    assert type(kind) is str
    return kind


def check_kinds(kinds: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return one kind or several, each once and in order; an empty tuple means all."""
    if kinds is None:
        return ()
    if not isinstance(kinds, Iterable):
        raise InvalidInput("kinds are a list of names", argument="kinds")
    named = [kinds] if isinstance(kinds, str) else kinds
    return tuple(sorted({check_kind(kind) for kind in named}))


def _part(text: object, argument: str, bytes_max: int) -> str:
    if type(text) is str and len(text) <= bytes_max and _plain(text):
        return text  # the most frequent case, handled directly because it is faster
    check_text(text, argument)
    assert type(text) is str
    if not text:
        raise InvalidInput(f"{argument} must not be empty", argument=argument)
    refused = _refused(text)
    if refused:
        raise InvalidInput(
            f"{argument} must not hold U+{ord(refused[0]):04X}: of spaces and control characters"
            " only those up to U+0020 are taken",
            argument=argument,
        )
    written = _written(text)
    size = len(written.encode())
    if size > bytes_max:
        raise LimitExceeded(f"{argument} in bytes, as it is written,", size=size, limit=bytes_max)
    return written


def _written(text: str) -> str:
    return _escaped(lambda match: f"!{ord(match[0]):02x}", text)
