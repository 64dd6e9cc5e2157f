"""Reads of segments, of their postings and of vectors from SQLite."""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from rote.engines.posting_blocks import posting_in, postings_above
from rote.engines.rows import SegmentRow, VectorRow
from rote.engines.sqlite.schema import FORMAT_WITH_SEGMENTS

_VECTOR = "v.hash, v.body, v.seal"
# Goes from name to name: a list of all rows would be as long as there are vectors.
_NAMES = """
with recursive names (name) as (
  select min(name) from vectors where space = ?1
  union all
  select (select min(v.name) from vectors as v where v.space = ?1 and v.name > names.name)
  from names where name is not null
)
select name from names where name is not null
"""


class PackedReader:
    """The part of a reader that is about packed indexes and vectors."""

    # False while the file is seen in an earlier format, without these tables.
    _is_up_to_date = True

    def _all(self, sql: str, bindings: tuple[Any, ...]) -> list[Any]:
        raise NotImplementedError

    def segments(self, space: int, index: str) -> list[SegmentRow]:
        rows = self._packed(
            "select segment, size, until, x'' from segments where space = ? and name = ?"
            " order by segment",
            (space, index),
        )
        return [SegmentRow(*row) for row in rows]

    def segment_bodies(self, space: int, index: str, numbers: Sequence[int]) -> dict[int, bytes]:
        return dict(
            self._packed(
                "select s.segment, s.body from carray(?) as wanted cross join segments as s"
                " where s.space = ? and s.name = ? and s.segment = wanted.value",
                (numbers_of(numbers), space, index),
            )
            if numbers
            else ()
        )

    def postings(
        self, space: int, index: str, numbers: Sequence[int], terms: Sequence[str]
    ) -> list[tuple[int, str, bytes]]:
        if not numbers or not terms:
            return []
        # Terms may hold NUL, which an array of texts may not.
        rows = self._packed(
            "select p.segment, sought.value, p.terms, p.ends, p.body"
            " from carray(?1) as wanted cross join carray(?2) as sought cross join postings as p"
            " where p.number = (select number from postings where space = ?3 and name = ?4"
            " and segment = wanted.value and term <= cast(sought.value as text)"
            " order by term desc limit 1)",
            (numbers_of(numbers), _bytes_of(term.encode() for term in terms), space, index),
        )
        found = ((number, term, posting_in(block, term)) for number, term, *block in rows)
        return [(number, term.decode(), body) for number, term, body in found if body is not None]

    def postings_of(
        self, space: int, index: str, number: int, *, after: str, limit: int
    ) -> list[tuple[str, bytes]]:
        def blocks_from(term: str, count: int) -> list[Any]:
            return self._packed(
                "select terms, ends, body from postings where space = ?1 and name = ?2"
                " and segment = ?3 and term >= coalesce((select max(term) from postings"
                " where space = ?1 and name = ?2 and segment = ?3 and term <= ?4), '')"
                " order by term limit ?5",
                (space, index, number, term, count),
            )

        return postings_above(after, limit, blocks_from)

    def vectors(self, space: int, name: str, hashes: Sequence[bytes]) -> dict[bytes, VectorRow]:
        if not hashes:
            return {}
        rows = self._packed(
            f"select {_VECTOR} from carray(?) as wanted cross join vectors as v"
            " where v.space = ? and v.name = ? and v.hash = wanted.value",
            (_bytes_of(hashes), space, name),
        )
        return {row[0]: VectorRow(*row) for row in rows}

    def vector_names(self, space: int) -> list[str]:
        rows = self._packed(_NAMES, (space,))
        return [name for (name,) in rows]

    def vector_rows(self, space: int, name: str, *, after: bytes, limit: int) -> list[VectorRow]:
        rows = self._packed(
            f"select {_VECTOR} from vectors as v where space = ? and name = ? and hash > ?"
            " order by hash limit ?",
            (space, name, after, limit),
        )
        return [VectorRow(*row) for row in rows]

    def _packed(self, sql: str, bindings: tuple[Any, ...]) -> list[Any]:
        """Return rows; none while the file has no such tables, which others may make at any time."""
        if not self._is_up_to_date:
            rows = self._all("pragma user_version", ())
            self._is_up_to_date = rows[0][0] >= FORMAT_WITH_SEGMENTS
        return self._all(sql, bindings) if self._is_up_to_date else []


def numbers_of(numbers: Sequence[int]) -> object:
    return apsw.carray(array("q", numbers), flags=apsw.SQLITE_CARRAY_INT64)


def _bytes_of(values: Iterable[bytes]) -> object:
    return apsw.carray(tuple(values), flags=apsw.SQLITE_CARRAY_BLOB)
