"""Paths: the part of a space that a right is for, as one entity id or a prefix of ids.

A prefix ends with `:`, `/`, `#` or `!!`, so `urn:a:` covers `urn:a:b`, and `urn:a` covers neither
`urn:ab` nor `urn:a:b`. Texts are compared code point by code point; nothing is normalised.
"""

import re
from typing import Any

from rote.errors import InvalidInput
from rote.values import check_entity_id
from rote.values.ranges import above, prefix_end

_ENDS = (":", "/", "#", "!!")
_is_scheme = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:").fullmatch
_SCHEME_CHARACTERS_MAX = 64


def check_path(text: Any) -> None:
    """Check for an entity id, or a prefix that has a scheme and ends where a part of an id ends."""
    if type(text) is str and len(text) <= _SCHEME_CHARACTERS_MAX and _is_scheme(text):
        return
    try:
        check_entity_id(text)
    except InvalidInput as error:
        ends = ", ".join(_ENDS)
        raise InvalidInput(
            f"a path is an entity id, or a prefix that ends with {ends}: {error}"
        ) from None


def within(id: str, path: str | None) -> bool:
    """Whether an id, or another path, lies within a path; None stands for the whole space."""
    return path is None or id == path or (path.endswith(_ENDS) and id.startswith(path))


def is_narrower(inner: str | None, outer: str | None) -> bool:
    """Whether a path covers nothing that another does not cover."""
    return outer is None or (inner is not None and within(inner, outer))


def range_within(start: str, end: str | None, path: str | None) -> bool:
    """Whether the ids of a half open range all lie within a path; end None: no upper bound."""
    if path is None:
        return True
    last = prefix_end(path) if path.endswith(_ENDS) else above(path)
    return start >= path and end is not None and last is not None and end <= last


def selector_within(selector: str, path: str | None) -> bool:
    """Whether a selector of a query, an id or a prefix with `*`, selects only within a path."""
    if selector.endswith("*"):
        return range_within(selector[:-1], prefix_end(selector[:-1]), path)
    return within(selector, path)
