"""Values of statements, written as the bytes PostgreSQL takes.

The driver could do that, but it spends a good part of a commit's time on finding the type of each
value. It also gives small numbers types of their own, which the server then has to convert. Here
every integer is a bigint, and every array says the type of its elements.

    bytes of an array    dimensions 1 | has nulls | element type | length | lower bound 1 | elements
    of an element        its size, or -1 for null | its bytes
"""

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Any

_header = Struct(">iiIii").pack
_bigint = Struct(">q").pack
_element = Struct(">iq").pack
_size = Struct(">i").pack
_NULL = _size(-1)

# Numbers of types that PostgreSQL has had for ever: src/include/catalog/pg_type.dat.
_BOOLEAN, _BYTEA, _BIGINT, _TEXT = 16, 17, 20, 25
_BYTEAS, _TEXTS, _BIGINTS = 1001, 1009, 1016
_UNKNOWN = 0  # the server finds the type by itself


class Bigints(bytes):
    """A bigint[]."""


class Texts(bytes):
    """A text[]."""


class Byteas(bytes):
    """A bytea[]."""


def bigints(values: Iterable[int | None]) -> Bigints:
    return Bigints(_array(_BIGINT, [_NULL if v is None else _element(8, v) for v in values]))


def texts(values: Iterable[str | None]) -> Texts:
    return Texts(_array(_TEXT, _elements([None if v is None else v.encode() for v in values])))


def byteas(values: Iterable[bytes | None]) -> Byteas:
    return Byteas(_array(_BYTEA, _elements(list(values))))


def _elements(values: list[bytes | None]) -> list[bytes]:
    return [_NULL if value is None else _size(len(value)) + value for value in values]


def _array(kind: int, elements: list[bytes]) -> bytes:
    # The flag is only a convenience for readers; PostgreSQL looks at the elements anyway.
    return _header(1, 1, kind, len(elements), 1) + b"".join(elements)


def _as_it_is(value: bytes | None) -> bytes | None:
    return value


def _boolean(value: bool) -> bytes:
    return b"\1" if value else b"\0"


# The number of the type, and the function that writes a value of it.
_KINDS: dict[type, tuple[int, Callable[[Any], bytes | None]]] = {
    int: (_BIGINT, _bigint),
    str: (_TEXT, str.encode),
    bytes: (_BYTEA, _as_it_is),
    bool: (_BOOLEAN, _boolean),
    type(None): (_UNKNOWN, _as_it_is),
    Bigints: (_BIGINTS, _as_it_is),
    Texts: (_TEXTS, _as_it_is),
    Byteas: (_BYTEAS, _as_it_is),
}


def written(values: Sequence[Any]) -> tuple[list[bytes | None], list[int]]:
    """Return the bytes of the values, and the numbers of their types."""
    kinds = [_KINDS[type(value)] for value in values]
    return (
        [write(value) for (_, write), value in zip(kinds, values, strict=True)],
        [number for number, _ in kinds],
    )
