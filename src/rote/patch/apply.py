"""Applying patches: RFC 6902 and `splice`. Only containers on a changed path are copied.

    before  {a, b, c}            after  {a, b, c'}       a and b are the same objects in both
                 └ [x, y, z]                   └ [x, y', z]

A container is copied the first time an operation writes into it; later operations of the same call
write into that copy. So neither the input nor the values of operations are mutated, and a hundred
operations on one list copy it once. `copy` makes a copy of the value, not a second reference to it.
"""

from collections.abc import Iterable
from typing import Any

from rote.errors import InvalidInput, LimitExceeded, PatchFailed
from rote.patch.operations import Operation, normalize
from rote.patch.pointer import parse_index, parse_pointer
from rote.values.canonical import canonical
from rote.values.decoding import decode_canonical
from rote.values.limits import VALUE_BYTES_MAX
from rote.values.types import Json


def apply(value: Json, operations: Any) -> Json:
    """Return `value` after the operations; PatchFailed names the first one that does not apply.

    The result shares unchanged parts with `value`, and inserted parts with `operations`.
    """
    return replay(value, (normalize(operations),))


def replay(value: Json, patches: Iterable[list[Operation]]) -> Json:
    """Return `value` after many patches in normal form; each changed container is copied once."""
    document = _Document(value)
    for operations in patches:
        document.copied_bytes = 0
        for index, operation in enumerate(operations):
            try:
                _APPLIERS[operation["op"]](document, operation)
            except _Fails as failure:
                pointer = operation[failure.member]
                raise PatchFailed(failure.reason, index=index, pointer=pointer) from None
    return document.root


class _Fails(Exception):
    """The reason why an operation does not apply, and the member with the pointer at fault."""

    def __init__(self, reason: str, member: str = "path") -> None:
        self.reason = reason
        self.member = member


class _Document:
    """A value being patched, and the containers in it that are copies already."""

    __slots__ = ("copied_bytes", "owned", "root")

    def __init__(self, root: Json) -> None:
        self.root = root
        # By id. The reference keeps the container alive, so no other object gets its id.
        self.owned: dict[int, Any] = {}
        self.copied_bytes = 0

    def find(self, tokens: tuple[str, ...], member: str) -> Json:
        """Return the value at a path."""
        node = self.root
        for token in tokens:
            node = _child(node, token, member)
        return node

    def writable(self, tokens: tuple[str, ...], member: str) -> Any:
        """Return the container at a path, after copying it and all containers above it once."""
        node = self.root = self._own(self.root)
        for token in tokens:
            child = _child(node, token, member)
            owned = self._own(child)
            if owned is not child:
                node[token if type(node) is dict else int(token)] = owned
            node = owned
        return node

    def duplicate(self, value: Json) -> Json:
        """Return a copy that shares no container with the value.

        One patch may copy a bounded number of bytes: each copy of a value into itself doubles it.
        """
        try:
            data = canonical(value)
        except InvalidInput as error:
            raise _Fails(str(error), "from") from None
        self.copied_bytes += len(data)
        if self.copied_bytes > VALUE_BYTES_MAX:
            raise LimitExceeded(
                "what one patch copies, in bytes", size=self.copied_bytes, limit=VALUE_BYTES_MAX
            )
        return decode_canonical(data) if type(value) in (dict, list, tuple) else value

    def _own(self, node: Any) -> Any:
        if id(node) in self.owned:
            return node
        kind = type(node)
        if kind is dict:
            node = node.copy()
        elif kind is list or kind is tuple:
            node = list(node)
        else:
            return node
        self.owned[id(node)] = node
        return node


def _child(node: Any, token: str, member: str) -> Json:
    kind = type(node)
    if kind is dict:
        if token in node:
            return node[token]
        raise _Fails(f"there is no member {token!r:.80}", member)
    if kind is list or kind is tuple:
        return node[_index(token, len(node) - 1, member)]
    raise _Fails(f"{token!r:.80} lies below a value that is neither object nor array", member)


def _index(token: str, highest: int, member: str) -> int:
    index = parse_index(token)
    if index is None:
        raise _Fails(f"{token!r:.80} is not an array index", member)
    if index > highest:
        raise _Fails(f"the array index {index} is past the end", member)
    return index


def _add(document: _Document, operation: Operation) -> None:
    _insert(document, parse_pointer(operation["path"]), operation["value"])


def _insert(document: _Document, tokens: tuple[str, ...], value: Json) -> None:
    if not tokens:
        document.root = value
        return
    last = tokens[-1]
    parent = document.writable(tokens[:-1], "path")
    if type(parent) is dict:
        parent[last] = value
    elif type(parent) is list:
        parent.insert(len(parent) if last == "-" else _index(last, len(parent), "path"), value)
    else:
        raise _Fails(f"{last!r:.80} lies below a value that is neither object nor array")


def _remove(document: _Document, operation: Operation) -> None:
    _take(document, parse_pointer(operation["path"]), "path")


def _take(document: _Document, tokens: tuple[str, ...], member: str) -> Json:
    """Remove the value at a path and return it."""
    if not tokens:
        raise _Fails("the whole document cannot be removed; delete the entity instead", member)
    last = tokens[-1]
    parent = document.writable(tokens[:-1], member)
    value = _child(parent, last, member)
    del parent[last if type(parent) is dict else int(last)]
    return value


def _replace(document: _Document, operation: Operation) -> None:
    tokens = parse_pointer(operation["path"])
    if not tokens:
        document.root = operation["value"]
        return
    last = tokens[-1]
    parent = document.writable(tokens[:-1], "path")
    _child(parent, last, "path")
    parent[last if type(parent) is dict else int(last)] = operation["value"]


def _move(document: _Document, operation: Operation) -> None:
    source, target = parse_pointer(operation["from"]), parse_pointer(operation["path"])
    if target[: len(source)] == source:
        document.find(source, "from")
        if len(target) > len(source):
            raise _Fails("a value cannot be moved into its own child")
        return
    _insert(document, target, _take(document, source, "from"))


def _copy(document: _Document, operation: Operation) -> None:
    value = document.find(parse_pointer(operation["from"]), "from")
    _insert(document, parse_pointer(operation["path"]), document.duplicate(value))


def _test(document: _Document, operation: Operation) -> None:
    value = document.find(parse_pointer(operation["path"]), "path")
    expected = operation["value"]
    try:
        # Canonical bytes decide: 1 equals 1.0, and true does not equal 1.
        equal = canonical(value) == canonical(expected)
    except InvalidInput as error:
        raise _Fails(str(error)) from None
    if not equal:
        raise _Fails("the value is not the expected one")


def _splice(document: _Document, operation: Operation) -> None:
    target = document.writable(parse_pointer(operation["path"]), "path")
    if type(target) is not list:
        raise _Fails("splice needs an array")
    index = operation["index"]
    if index > len(target):
        raise _Fails(f"the array index {index} is past the end")
    target[index : index + operation["remove"]] = operation["add"]


_APPLIERS = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
    "splice": _splice,
}
