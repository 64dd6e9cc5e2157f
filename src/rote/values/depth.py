"""How deep values nest. A scalar has depth 0, `[]` and `{}` depth 1, `[[]]` depth 2.

The text of a value is measured without parsing it, so that a parser or an encoder never meets
what it would have to recurse into.
"""

from itertools import accumulate

from rote.values.types import Json

_OPEN, _CLOSE = ord("["), ord("]")
_KEPT = b'[]{}"\\'
_REST = bytes(byte for byte in range(256) if byte not in _KEPT)
_ONE_KIND = bytes.maketrans(b"{}", b"[]")


def depth_of(value: Json) -> int:
    """The nesting depth of a value that holds no cycle; each level is one pass."""
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
    """Whether JSON text nests deeper than `depth_max`; any bytes get an answer, in linear time."""
    if data.count(b"[") + data.count(b"{") <= depth_max:
        return False
    brackets = _brackets(data)
    rest = brackets
    for _ in range(depth_max):
        # One pass takes away the innermost level everywhere, so the passes count the depth.
        shorter = rest.replace(b"[]", b"")
        if len(shorter) == len(rest):
            break
        rest = shorter
    if not rest:
        return False
    # Either too deep or not balanced, and unbalanced text may still be too deep.
    steps = ((byte == _OPEN) - (byte == _CLOSE) for byte in brackets)
    return max(accumulate(steps)) > depth_max


def _brackets(data: bytes) -> bytes:
    """The brackets of JSON text that stand outside its strings, all of one kind."""
    marks = data
    if b"\\" in marks:
        # Backslashes escape from the left, so whole pairs go first and what is left escapes a quote.
        marks = marks.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = marks.translate(_ONE_KIND, _REST)
    # Two neighbouring quotes go together: what lies before and after keeps its side of the string.
    marks = marks.replace(b'""', b"")
    if b'"' in marks:
        marks = b"".join(marks.split(b'"')[::2])
    return marks.replace(b"\\", b"")
