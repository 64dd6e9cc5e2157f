"""The depth of values: a scalar has depth 0, `[]` and `{}` depth 1, `[[]]` depth 2.

The depth of a text is measured without parsing it, so that no parser or encoder has to recurse into
text that is too deep.
"""

from itertools import accumulate

from rote.values.types import Json

_OPEN, _CLOSE = ord("["), ord("]")
_KEPT = b'[]{}"\\'
_REST = bytes(byte for byte in range(256) if byte not in _KEPT)
_ONE_KIND = bytes.maketrans(b"{}", b"[]")


def depth_of(value: Json) -> int:
    """Return the nesting depth of a value that holds no cycle; each level takes one pass."""
    depth = 0
    level = [value] if type(value) in (list, tuple, dict) else []
    while level:
        depth += 1
        level = [
            child
            for container in level
            for child in (container.values() if type(container) is dict else container)
            if type(child) in (list, tuple, dict)
        ]
    return depth


def text_is_deeper(data: bytes, depth_max: int) -> bool:
    """Whether text nests deeper than `depth_max`; answers for any bytes, in linear time."""
    if data.count(b"[") + data.count(b"{") <= depth_max:
        return False
    brackets = _brackets(data)
    rest = brackets
    for _ in range(depth_max):
        # Each pass removes the innermost level everywhere, so the number of passes is the depth.
        shorter = rest.replace(b"[]", b"")
        if len(shorter) == len(rest):
            break
        rest = shorter
    if not rest:
        return False
    # The text is too deep or not balanced; unbalanced text may be too deep as well.
    steps = ((byte == _OPEN) - (byte == _CLOSE) for byte in brackets)
    return max(accumulate(steps)) > depth_max


def _brackets(data: bytes) -> bytes:
    """Return the brackets of JSON text that stand outside its strings, all as one kind."""
    marks = data
    if b"\\" in marks:
        # Backslashes pair up from the left. Pairs go first; one that is left escapes a quote.
        marks = marks.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = marks.translate(_ONE_KIND, _REST)
    # Removing two neighbouring quotes leaves all else inside or outside strings as it was.
    marks = marks.replace(b'""', b"")
    if b'"' in marks:
        marks = b"".join(marks.split(b'"')[::2])
    return marks.replace(b"\\", b"")
