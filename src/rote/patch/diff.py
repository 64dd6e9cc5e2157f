"""The patch that turns one value into another.

Objects are compared member by member. Arrays are compared without their equal elements at both ends.
The answer is exact, deterministic and usually short; it is not always the shortest.
"""

from typing import Any

from rote.patch.operations import Operation
from rote.patch.pointer import format_pointer
from rote.values.canonical import canonical
from rote.values.types import Json

# About the bytes of an operation without its value. Smaller replacements are not split.
_OPERATION_BYTES = 40

_Path = tuple[str | int, ...]
_Pair = tuple[_Path, Json, Json]


def diff(before: Json, after: Json) -> list[Operation]:
    """Return the operations that turn `before` into `after`; none when they are equal.

    The operations hold parts of `after`, not copies of them.
    """
    if canonical(before) == canonical(after):
        return []
    operations: list[Operation] = []
    # Last in, first out: members are pushed in reverse, so that the answer is in key order.
    pending: list[_Pair | Operation] = [((), before, after)]
    while pending:
        entry = pending.pop()
        if isinstance(entry, dict):
            operations.append(entry)
            continue
        path, old, new = entry
        if type(old) is dict and type(new) is dict and (not old or not new or old.keys() & new):
            pending.extend(reversed(_object_steps(path, old, new)))
        elif _is_array(old) and _is_array(new):
            pending.extend(reversed(_array_steps(path, old, new)))
        elif not _same(old, new):
            operations.append({"op": "replace", "path": format_pointer(path), "value": new})
    return operations


def _object_steps(
    path: _Path, old: dict[str, Json], new: dict[str, Json]
) -> list[_Pair | Operation]:
    steps: list[_Pair | Operation] = []
    for key in sorted(old.keys() | new.keys()):
        inner = (*path, key)
        if key not in new:
            steps.append({"op": "remove", "path": format_pointer(inner)})
        elif key not in old:
            steps.append({"op": "add", "path": format_pointer(inner), "value": new[key]})
        elif old[key] is not new[key]:
            steps.append((inner, old[key], new[key]))
    return steps


def _array_steps(path: _Path, old: Any, new: Any) -> list[_Pair | Operation]:
    start = _equal_run(old, new)
    room = min(len(old), len(new)) - start
    end = _equal_run(old[::-1][:room], new[::-1][:room])
    old_middle, new_middle = old[start : len(old) - end], new[start : len(new) - end]
    if not old_middle and not new_middle:
        return []
    if len(old_middle) == len(new_middle):
        changed = [
            ((*path, start + index), *pair)
            for index, pair in enumerate(zip(old_middle, new_middle, strict=True))
            if not _same(*pair)
        ]
        if sum(map(_weight, changed)) <= _OPERATION_BYTES + len(canonical(list(new_middle))):
            return list(changed)
    return [
        {
            "op": "splice",
            "path": format_pointer(path),
            "index": start,
            "remove": len(old_middle),
            "add": list(new_middle),
        }
    ]


def _equal_run(old: Any, new: Any) -> int:
    """Return the number of equal elements at the start."""
    count = 0
    for pair in zip(old, new, strict=False):
        if not _same(*pair):
            break
        count += 1
    return count


def _weight(pair: _Pair) -> int:
    """Return about the bytes that changing one element on its own adds to the patch."""
    _, old, new = pair
    inside = (type(old) is dict and type(new) is dict) or (_is_array(old) and _is_array(new))
    return _OPERATION_BYTES + (0 if inside else len(canonical(new)))


def _is_array(value: Json) -> bool:
    return type(value) is list or type(value) is tuple


def _same(old: Json, new: Json) -> bool:
    return old is new or bool(canonical(old) == canonical(new))
