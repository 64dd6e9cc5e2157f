"""The frame: scratch values of one workflow run, an object that dotted paths lead into.

Its canonical size is kept along with it, so a call costs what it touches and not what is there.
"""

import re
import threading
from collections.abc import Mapping
from typing import Any

from rote.errors import InvalidInput, LimitExceeded
from rote.tiers.verbs import Parameter, Verb, table
from rote.values import Encoded, Json, canonical, depth_of
from rote.values.limits import DEPTH_MAX

_PATH = {"type": "string"}
VERBS = table(
    [
        Verb("get", (Parameter("path", _PATH, ""), Parameter("default", {}, None)), writes=False),
        Verb("set", (Parameter("path", _PATH), Parameter("value", {})), writes=True),
        Verb("delete", (Parameter("path", _PATH),), writes=True, destructive=True),
    ]
)
_MISSING: Any = object()
_EMPTY_BYTES = len(b"{}")
_index = re.compile(r"0|[1-9][0-9]{0,18}").fullmatch


class Frame:
    """The values of one run. Any thread may call it."""

    name = "frame"
    verbs = VERBS
    switches: Mapping[str, bool] = {}

    def __init__(self, values: Mapping[str, Json] | None, *, size_bytes_max: int) -> None:
        """values  the first values, which the frame keeps as its own"""
        self._root: dict[str, Json] = {}
        self._size = _EMPTY_BYTES
        self._size_max = size_bytes_max
        self._lock = threading.Lock()
        if values is not None:
            self._set("", dict(values))

    def call(
        self, verb: str, arguments: Mapping[str, Json], granted: Mapping[str, Json], /
    ) -> Json:
        with self._lock:
            if verb == "get":
                found = _found(self._root, _steps(arguments["path"]))
                # As bytes: nothing of the frame leaves it, and no other thread changes it meanwhile.
                return Encoded(canonical(arguments["default"] if found is _MISSING else found))
            if verb == "set":
                self._set(arguments["path"], arguments["value"])
                return {"ok": True, "bytes": self._size}
            return {"ok": True, "deleted": self._delete(arguments["path"])}

    def close(self) -> None:
        pass

    def _set(self, path: str, value: Json) -> None:
        steps = _steps(path)
        if len(steps) + depth_of(value) > DEPTH_MAX:
            raise _bad_path(path, f"the frame would nest deeper than {DEPTH_MAX} levels")
        if not steps:
            if type(value) is not dict:
                raise InvalidInput("set: the whole frame is an object", code="bad_arguments")
            self._resize(len(canonical(value)), is_empty=not value)
            self._root = value
            return
        holder, step, rest = _place(self._root, steps, path)
        for name in reversed(rest):
            value = {name: value}
        before = _below(holder, step)
        grown = len(canonical(value))
        grown += _around(holder, step) if before is _MISSING else -len(canonical(before))
        self._resize(self._size + grown, is_empty=False)
        if type(holder) is dict:
            holder[step] = value
        elif before is _MISSING:
            holder.append(value)
        else:
            holder[int(step)] = value

    def _delete(self, path: str) -> bool:
        steps = _steps(path)
        if not steps:
            had_values = bool(self._root)
            self._root, self._size = {}, _EMPTY_BYTES
            return had_values
        holder = _found(self._root, steps[:-1])
        value = _MISSING if holder is _MISSING else _below(holder, steps[-1])
        if value is _MISSING:
            return False
        del holder[steps[-1] if type(holder) is dict else int(steps[-1])]
        self._size -= len(canonical(value)) + _around(holder, steps[-1])
        return True

    def _resize(self, size: int, *, is_empty: bool) -> None:
        if size > self._size_max and not is_empty:
            raise LimitExceeded(
                "max_frame_bytes: the frame in bytes",
                size=size,
                limit=self._size_max,
                advice="keep less in it, or put large values into another tier",
            )
        self._size = size


def _steps(path: str) -> list[str]:
    if not path:
        return []
    steps = path.split(".")
    if "" in steps:
        raise _bad_path(path, "a step is empty")
    return steps


def _found(value: Json, steps: list[str]) -> Json:
    for step in steps:
        value = _below(value, step)
        if value is _MISSING:
            break
    return value


def _below(value: Json, step: str) -> Json:
    """Return the member or element that a step leads to."""
    if type(value) is dict:
        return value.get(step, _MISSING)
    if type(value) is list and _index(step) and int(step) < len(value):
        return value[int(step)]
    return _MISSING


def _place(root: dict[str, Json], steps: list[str], path: str) -> tuple[Any, str, list[str]]:
    """Return the container that is there, the step in it that is set, and the steps that are missing."""
    holder: Json = root
    for number, step in enumerate(steps):
        if type(holder) not in (dict, list):
            raise _bad_path(path, f"{'.'.join(steps[:number])!r:.80} holds no object and no list")
        if type(holder) is list and not (_index(step) and int(step) <= len(holder)):
            raise _bad_path(path, f"{step!r:.80} is no index from 0 to {len(holder)}")
        rest = steps[number + 1 :]
        below = _below(holder, step)
        if not rest or below is _MISSING:
            return holder, step, rest
        holder = below
    raise AssertionError("a path has a last step")


def _around(holder: dict[str, Json] | list[Json], step: str) -> int:
    """Return the bytes that one more member or element takes beside its value."""
    comma = 1 if holder else 0
    return comma if type(holder) is list else comma + len(canonical(step)) + 1


def _bad_path(path: str, reason: str) -> InvalidInput:
    return InvalidInput(f"the path {path!r:.200} cannot be used: {reason}", code="bad_path")
