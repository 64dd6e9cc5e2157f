"""The parts of a document that a patch writes, for checking the reads of a commit.

Adding or removing an array element moves its neighbours, so such an operation writes the array.
A number in a path may be an index or the key of an object. Here it counts as an index: this never
misses an overlap, but may report one that does not exist.
"""

from collections.abc import Sequence

from rote.patch.operations import Operation
from rote.patch.pointer import parse_pointer

_Tokens = tuple[str, ...]


def written_paths(operations: Sequence[Operation]) -> list[_Tokens]:
    """Return the paths that operations in normal form write, in their order."""
    paths: list[_Tokens] = []
    for operation in operations:
        name = operation["op"]
        if name == "test":
            continue
        path = parse_pointer(operation["path"])
        if name in ("replace", "splice"):
            paths.append(path)
        elif name == "move":
            paths.append(_written(parse_pointer(operation["from"])))
            paths.append(_written(path))
        else:
            paths.append(_written(path))
    return paths


def overlaps(operations: Sequence[Operation], read: Sequence[str]) -> bool:
    """Whether the operations write at, above or below a path that was read."""
    tokens = tuple(read)
    return any(_on_one_line(path, tokens) for path in written_paths(operations))


def _written(path: _Tokens) -> _Tokens:
    if path and (path[-1] == "-" or (path[-1].isascii() and path[-1].isdigit())):
        return path[:-1]
    return path


def _on_one_line(written: _Tokens, read: _Tokens) -> bool:
    shared = min(len(written), len(read))
    return written[:shared] == read[:shared]
