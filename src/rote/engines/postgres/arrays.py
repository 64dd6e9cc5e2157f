"""Arrays as parameters, written as the bytes PostgreSQL takes.

The driver can write lists by itself, but looks at every element to find out what they have in
common; here the kind is known, and a commit of one fact sends more than twenty arrays.

    bytes of an array    dimensions 1 | has nulls | element type | length | lower bound 1 | elements
    of an element        its size, or -1 for null | its bytes
"""

from collections.abc import Iterable
from struct import Struct

from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format

_header = Struct(">iiIii").pack
_bigint = Struct(">iq").pack
_size = Struct(">i").pack
_NULL = _size(-1)

# Numbers of types that PostgreSQL has had for ever: src/include/catalog/pg_type.dat.
_BYTEA, _BIGINT, _TEXT = 17, 20, 25


class Bigints(bytes):
    """A bigint[]."""


class Texts(bytes):
    """A text[]."""


class Byteas(bytes):
    """A bytea[]."""


def bigints(values: Iterable[int | None]) -> Bigints:
    return Bigints(_array(_BIGINT, [_NULL if v is None else _bigint(8, v) for v in values]))


def texts(values: Iterable[str | None]) -> Texts:
    return Texts(_array(_TEXT, [_NULL if v is None else _sized(v.encode()) for v in values]))


def byteas(values: Iterable[bytes | None]) -> Byteas:
    return Byteas(_array(_BYTEA, [_NULL if v is None else _sized(v) for v in values]))


def _sized(value: bytes) -> bytes:
    return _size(len(value)) + value


def _array(kind: int, elements: list[bytes]) -> bytes:
    # The flag is for the reader's convenience; PostgreSQL looks at the elements all the same.
    return _header(1, 1, kind, len(elements), 1) + b"".join(elements)


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: bytes) -> bytes:
        return obj


class _BigintsDumper(_ArrayDumper):
    oid = 1016


class _TextsDumper(_ArrayDumper):
    oid = 1009


class _ByteasDumper(_ArrayDumper):
    oid = 1001


def register_arrays(adapters: AdaptersMap) -> None:
    adapters.register_dumper(Bigints, _BigintsDumper)
    adapters.register_dumper(Texts, _TextsDumper)
    adapters.register_dumper(Byteas, _ByteasDumper)
