"""Redaction: values that are neither recorded nor shown, though a replay can still tell them apart.

The value of a member with one of some names is replaced, at any depth, by

    {"$redacted": "<salt>:<SHA-256 of salt + canonical(value)>"}       in hex

Names are compared without case, and without the number that a repeated column has (`password_2`). Where an
object has a `path` with such a name on it, as operations of patches and calls of a frame have, its `value`
and its `default` count, too.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256

from rote.values import Json, canonical, decode_canonical
from rote.values.limits import DEPTH_MAX
from rote.values.tier_limits import (
    HOST_CALL_LEVELS,
    REDACTED_BEGINNING_CHARACTERS,
    REDACTED_CHARACTERS_MIN,
)

_MARK = "$redacted"
_SHOWN = "[redacted]"
_DEPTH_MAX = DEPTH_MAX + HOST_CALL_LEVELS
_AT_PATH = ("value", "default")
_place = re.compile(r"([0-9a-f]{32}):[0-9a-f]{64}").fullmatch
_salt = re.compile(rb'"\$redacted":"([0-9a-f]{32}):[0-9a-f]{64}"').search
_steps = re.compile(r"[./]").split
_number = re.compile(r"_[0-9]+\Z").sub


class Redaction:
    """The names whose values are hidden in one recording, by one salt."""

    def __init__(self, names: Iterable[str], salt: bytes) -> None:
        self._names = frozenset(name.casefold() for name in names)
        self._salt = salt

    def __bool__(self) -> bool:
        return bool(self._names)

    def with_names(self, names: Iterable[str]) -> "Redaction":
        """Return the redaction of more names, by the same salt."""
        return Redaction((*self._names, *names), self._salt)

    def hidden(self, value: Json) -> Json:
        """Return a copy of a value in which redacted values are hidden."""
        return self._replaced(value, self.hidden_whole)

    def hidden_whole(self, value: Json) -> Json:
        """Return what stands for a value. One that stands for another by the same salt stays."""
        if _is_mark(value) and value[_MARK].startswith(self._salt.hex()):
            return value
        return {_MARK: _digest(self._salt, value)}

    def blanked(self, value: Json) -> Json:
        """Return a copy of a value without redacted values, which cannot be told apart then."""
        return self._replaced(value, lambda _: _SHOWN)

    def blanked_whole(self) -> Json:
        """Return what stands for any redacted value where they cannot be told apart."""
        return _SHOWN

    def texts(self, value: Json) -> set[str]:
        """Return the texts of redacted values in a value, long enough to be told in a message."""
        if not self._names:
            return set()
        parts = [holder[place] for holder, place in self._places([value])]
        return {text for part in parts if not _is_mark(part) for text in texts_of(part)}

    def is_on_path(self, path: Json) -> bool:
        """Return whether a dotted path or a JSON pointer leads through a redacted member."""
        if type(path) is not str or not self._names:
            return False
        members = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")]
        return any(map(self._is_named, (*_steps(path), *members)))

    def _replaced(self, value: Json, replace: Callable[[Json], Json]) -> Json:
        if not self._names:
            return value
        whole = [_copy(value)]
        for holder, place in self._places(whole):
            holder[place] = replace(holder[place])
        return whole[0]

    def _places(self, whole: list[Json]) -> Iterator[tuple[Json, Json]]:
        """Yield the container and the place of each redacted value; what is in it is passed by.

        A value in the form of a redacted one counts under any name: others may have written it, and a
        recording has one salt.
        """
        pending: list[Json] = [whole]
        while pending:
            holder = pending.pop()
            is_object = type(holder) is dict
            by_path = is_object and self.is_on_path(holder.get("path"))
            for place, part in list(holder.items() if is_object else enumerate(holder)):
                is_at_path = by_path and place in _AT_PATH
                if is_at_path or _is_mark(part) or (is_object and self._is_named(place)):
                    yield holder, place
                elif type(part) in (dict, list):
                    pending.append(part)

    def _is_named(self, name: str) -> bool:
        plain = name.casefold()
        return plain in self._names or _number("", plain) in self._names


NOTHING = Redaction((), b"")  # is hidden


def without_texts(message: str, texts: Iterable[str]) -> str:
    """Return a message without redacted texts, and without the beginnings of long ones."""
    for text in sorted(texts, key=lambda text: (-len(text), text)):
        message = message.replace(text, _SHOWN)
        start = text[:REDACTED_BEGINNING_CHARACTERS]
        if len(text) > len(start) and start in message:
            message = _without_beginnings(message, text, start)
    return message


def matches(value: Json, recorded: Json) -> bool:
    """Return whether a value is a recorded one; where that is redacted, whether its digest is the same."""
    pending = [(value, recorded)]
    while pending:
        left, right = pending.pop()
        if _is_mark(right):
            salt = bytes.fromhex(right[_MARK][:32])
            if left != right and _digest(salt, left) != right[_MARK]:
                return False
        elif type(left) is not type(right):
            return False
        elif type(left) is dict:
            if left.keys() != right.keys():
                return False
            pending += [(left[name], right[name]) for name in left]
        elif type(left) is list:
            if len(left) != len(right):
                return False
            pending += zip(left, right, strict=True)
        elif left != right:
            return False
    return True


def salt_in(data: bytes) -> bytes | None:
    """Return the salt by which something is redacted in a line of a recording."""
    found = _salt(data)
    return None if found is None else bytes.fromhex(found[1].decode())


def texts_of(value: Json) -> Iterator[str]:
    """Yield the texts in a value that are long enough to be told in a message, numbers and names too."""
    pending = [value]
    while pending:
        part = pending.pop()
        if type(part) is dict:
            pending += [*part, *part.values()]
        elif type(part) is list:
            pending += part
        elif type(part) is str or type(part) in (int, float):
            text = part if type(part) is str else canonical(part).decode()
            if len(text) >= REDACTED_CHARACTERS_MIN:
                # As it is, and as messages and JSON quote it, alone or in a longer text.
                quoted = (repr(text)[1:-1], repr(f'"{text}')[2:-1], canonical(text).decode()[1:-1])
                yield from (text, *quoted)


def _without_beginnings(message: str, text: str, start: str) -> str:
    """Return a message without the places where a text begins and is cut off."""
    pieces = message.split(start)
    left = [pieces[0]]
    for piece in pieces[1:]:
        end = next(
            (
                at
                for at, (a, b) in enumerate(zip(piece, text[len(start) :], strict=False))
                if a != b
            ),
            min(len(piece), len(text) - len(start)),
        )
        left.append(_SHOWN + piece[end:])
    return "".join(left)


def _digest(salt: bytes, value: Json) -> str:
    data = canonical(value, depth_max=_DEPTH_MAX)
    return f"{salt.hex()}:{sha256(salt + data).hexdigest()}"


def _is_mark(value: Json) -> bool:
    return (
        type(value) is dict
        and value.keys() == {_MARK}
        and type(value[_MARK]) is str
        and _place(value[_MARK]) is not None
    )


def _copy(value: Json) -> Json:
    return decode_canonical(canonical(value, depth_max=_DEPTH_MAX))
