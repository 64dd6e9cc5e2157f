"""The patch that turns one value into another.

Objects are compared member by member. Of arrays the elements that stay are found first; what lies
between them is spliced, or changed element by element when that is shorter. The answer is exact,
deterministic and usually short; it is not always the shortest.

Values are compared as twins: the same values read back from their canonical bytes, with numbers in
place of booleans. Two twins are equal in Python exactly when the values have the same canonical
bytes, so equal parts of any size are passed at the speed of ==.
"""

from typing import Any

import orjson

from rote.patch.alignment import Gap, find_gaps
from rote.patch.operations import Operation
from rote.patch.pointer import format_pointer
from rote.values.canonical import canonical, outside_strings
from rote.values.types import Json

# About the bytes of an operation without its value. Smaller replacements are not split.
_OPERATION_BYTES = 40

# In Python True equals 1. These integers of 64 bits without a sign are no value of the domain.
_TRUE, _FALSE = b"18446744073709551615", b"18446744073709551614"

_Path = tuple[str | int, ...]
# A path, the twins of what was and will be there, and the part of `after` itself.
_Pair = tuple[_Path, Any, Any, Any]


def diff(before: Json, after: Json) -> list[Operation]:
    """Return the operations that turn `before` into `after`; none when they are equal.

    The operations hold parts of `after`, not copies of them.
    """
    old_text, new_text = canonical(before), canonical(after)
    if old_text == new_text:
        return []
    operations: list[Operation] = []
    # Last in, first out: members are pushed in reverse, so that the answer is in key order.
    pending: list[_Pair | Operation] = [((), twin(old_text), twin(new_text), after)]
    while pending:
        entry = pending.pop()
        if isinstance(entry, dict):
            operations.append(entry)
            continue
        path, old, new, part = entry
        if type(old) is dict and type(new) is dict and _are_alike(old, new):
            pending.extend(reversed(_object_steps(path, old, new, part)))
        elif type(old) is list and type(new) is list:
            pending.extend(reversed(_array_steps(path, old, new, part)))
        else:
            operations.append({"op": "replace", "path": format_pointer(path), "value": part})
    return operations


def twin(text: bytes) -> Any:
    """Return the twin of a value, given its canonical bytes."""
    return orjson.loads(outside_strings(text, _without_booleans))


def _without_booleans(text: bytes) -> bytes:
    return text.replace(b"true", _TRUE).replace(b"false", _FALSE)


def _are_alike(old: dict[str, Any], new: dict[str, Any]) -> bool:
    return not old or not new or not old.keys().isdisjoint(new)


def _object_steps(
    path: _Path, old: dict[str, Any], new: dict[str, Any], part: Any
) -> list[_Pair | Operation]:
    steps: list[_Pair | Operation] = []
    for key in sorted(_changed_keys(old, new)):
        inner = (*path, key)
        if key not in new:
            steps.append({"op": "remove", "path": format_pointer(inner)})
        elif key not in old:
            steps.append({"op": "add", "path": format_pointer(inner), "value": part[key]})
        else:
            steps.append((inner, old[key], new[key], part[key]))
    return steps


def _changed_keys(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    changed = [key for key in new if key not in old or old[key] != new[key]]
    return changed + [key for key in old if key not in new]


def _array_steps(path: _Path, old: list[Any], new: list[Any], part: Any) -> list[_Pair | Operation]:
    steps: list[_Pair | Operation] = []
    for gap in _joined(find_gaps(old, new), part):
        steps += _gap_steps(path, old, new, part, gap)
    return steps


def _joined(gaps: list[Gap], part: Any) -> list[Gap]:
    """Return gaps as one where the elements between them are shorter than another operation."""
    joined: list[Gap] = []
    for gap in gaps:
        if joined:
            between = part[joined[-1].new_end : gap.new_start]
            if len(between) < _OPERATION_BYTES and len(canonical(between)) <= _OPERATION_BYTES:
                last = joined.pop()
                gap = Gap(last.old_start, gap.old_end, last.new_start, gap.new_end)
        joined.append(gap)
    return joined


def _gap_steps(
    path: _Path, old: list[Any], new: list[Any], part: Any, gap: Gap
) -> list[_Pair | Operation]:
    """Return the steps at one gap. All before it is done, so places are those of the new array."""
    added = list(part[gap.new_start : gap.new_end])
    if gap.old_count == gap.new_count:
        room = _OPERATION_BYTES + len(canonical(added))
        changed: list[_Pair | Operation] = []
        for place, value in enumerate(added):
            was, will_be = old[gap.old_start + place], new[gap.new_start + place]
            if was != will_be:
                pair = ((*path, gap.new_start + place), was, will_be, value)
                changed.append(pair)
                room -= _weight(pair)
                if room < 0:
                    break
        else:
            return changed
    return [
        {
            "op": "splice",
            "path": format_pointer(path),
            "index": gap.new_start,
            "remove": gap.old_count,
            "add": added,
        }
    ]


def _weight(pair: _Pair) -> int:
    """Return about the bytes that changing one element on its own adds to the patch."""
    _, old, new, part = pair
    if type(old) is dict and type(new) is dict and _are_alike(old, new):
        keys = _changed_keys(old, new)
        return sum(_cost(old.get(key), new.get(key), part.get(key)) for key in keys)
    return _cost(old, new, part)


def _cost(old: Any, new: Any, part: Any) -> int:
    inside = type(old) is type(new) and type(new) in (dict, list)
    return _OPERATION_BYTES + (0 if inside else len(canonical(part)))
