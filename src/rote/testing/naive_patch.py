"""Patches applied the slow way: copy everything, then walk. Tests compare the fast way with it.

Takes well formed operations only; knows nothing of limits.
"""

import copy
import re
from typing import Any

from rote.values import Json, canonical


class DoesNotApply(Exception):
    """An operation does not fit the document."""


def apply_naively(value: Json, operations: list[dict[str, Any]]) -> Json:
    """Return a new value that shares nothing with `value` or `operations`."""
    root = [copy.deepcopy(value)]
    for operation in copy.deepcopy(operations):
        _apply_one(root, operation)
    return root[0]


def _apply_one(root: list[Json], operation: dict[str, Any]) -> None:
    name, path = operation["op"], tokens_of(operation["path"])
    if name == "add":
        _add(root, path, operation["value"])
    elif name == "replace":
        _find(root, path)
        _put(root, path, operation["value"])
    elif name == "remove":
        _remove(root, path)
    elif name == "test":
        if canonical(_find(root, path)) != canonical(operation["value"]):
            raise DoesNotApply("the test failed")
    elif name == "copy":
        _add(root, path, copy.deepcopy(_find(root, tokens_of(operation["from"]))))
    elif name == "move":
        source = tokens_of(operation["from"])
        moved = _find(root, source)
        if path != source:
            if path[: len(source)] == source:
                raise DoesNotApply("a value cannot be moved into itself")
            _remove(root, source)
            _add(root, path, moved)
    else:
        items = _find(root, path)
        if not isinstance(items, list) or operation["index"] > len(items):
            raise DoesNotApply("splice needs an array that reaches to its index")
        start = operation["index"]
        items[start : start + operation["remove"]] = operation["add"]


def tokens_of(pointer: str) -> list[str]:
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _find(root: list[Json], path: list[str]) -> Json:
    node = root[0]
    for token in path:
        if isinstance(node, dict) and token in node:
            node = node[token]
        elif isinstance(node, list):
            node = node[_index(token, len(node) - 1)]
        else:
            raise DoesNotApply(f"nothing at {path}")
    return node


def _index(token: str, highest: int) -> int:
    if not re.fullmatch("0|[1-9][0-9]*", token, re.ASCII) or int(token) > highest:
        raise DoesNotApply(f"{token} is no index here")
    return int(token)


def _put(root: list[Json], path: list[str], value: Json) -> None:
    """Replace a value that is known to exist."""
    if not path:
        root[0] = value
        return
    parent = _find(root, path[:-1])
    parent[path[-1] if isinstance(parent, dict) else int(path[-1])] = value


def _add(root: list[Json], path: list[str], value: Json) -> None:
    if not path:
        root[0] = value
        return
    parent = _find(root, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        last = path[-1]
        parent.insert(len(parent) if last == "-" else _index(last, len(parent)), value)
    else:
        raise DoesNotApply(f"{path} lies below a scalar")


def _remove(root: list[Json], path: list[str]) -> None:
    if not path:
        raise DoesNotApply("the whole document cannot be removed")
    _find(root, path)
    parent = _find(root, path[:-1])
    del parent[path[-1] if isinstance(parent, dict) else int(path[-1])]
