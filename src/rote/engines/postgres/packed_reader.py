"""Reads of segments, of their postings and of vectors from PostgreSQL."""

from collections.abc import Sequence
from typing import Any

from rote.engines.postgres.parameters import bigints, byteas
from rote.engines.posting_blocks import posting_in, postings_above
from rote.engines.rows import SegmentRow, VectorRow
from rote.errors import Unavailable

_VECTOR = "hash, body, seal"
_NO_SUCH_TABLE = "42P01"


class PackedReader:
    """The part of a reader that is about packed indexes and vectors."""

    is_audit = False
    _schema: str

    def _all(self, text: str, *values: Any) -> list[Any]:
        raise NotImplementedError

    def segments(self, space: int, index: str) -> list[SegmentRow]:
        text = (
            f"select segment, size, until, ''::bytea from {self._schema}.segments"
            " where space = $1 and name = $2 order by segment"
        )
        return [SegmentRow(*row) for row in self._packed(text, space, index)]

    def segment_bodies(self, space: int, index: str, numbers: Sequence[int]) -> dict[int, bytes]:
        text = (
            f"select segment, body from {self._schema}.segments"
            " where space = $1 and name = $2 and segment = any($3)"
        )
        return dict(self._packed(text, space, index, bigints(numbers)))

    def postings(
        self, space: int, index: str, numbers: Sequence[int], terms: Sequence[str]
    ) -> list[tuple[int, str, bytes]]:
        # Each is looked up on its own: for arrays the planner may walk the whole index.
        text = (
            "select n.number, t.term, p.* from unnest($3) as n (number)"
            " cross join unnest($4) as t (term) cross join lateral"
            f" (select terms, ends, body from {self._schema}.postings where space = $1"
            " and name = $2 and segment = n.number and term <= t.term"
            " order by term desc limit 1) as p"
        )
        sought = byteas([term.encode() for term in terms])
        rows = self._packed(text, space, index, bigints(numbers), sought)
        found = ((number, term, posting_in(block, term)) for number, term, *block in rows)
        return [(number, term.decode(), body) for number, term, body in found if body is not None]

    def postings_of(
        self, space: int, index: str, number: int, *, after: str, limit: int
    ) -> list[tuple[str, bytes]]:
        place = f"{self._schema}.postings where space = $1 and name = $2 and segment = $3"
        text = (
            f"select terms, ends, body from {place} and term >= coalesce("
            f"(select term from {place} and term <= $4 order by term desc limit 1), '')"
            " order by term limit $5"
        )

        def blocks_from(term: str, count: int) -> list[Any]:
            return self._packed(text, space, index, number, term.encode(), count)

        return postings_above(after, limit, blocks_from)

    def vectors(self, space: int, name: str, hashes: Sequence[bytes]) -> dict[bytes, VectorRow]:
        text = (
            "select v.* from unnest($3) as wanted (hash) cross join lateral"
            f" (select {_VECTOR} from {self._schema}.vectors as v where v.space = $1"
            " and v.name = $2 and v.hash = wanted.hash limit 1) as v"
        )
        rows = self._packed(text, space, name, byteas(hashes))
        return {row[0]: VectorRow(*row) for row in rows}

    def vector_names(self, space: int) -> list[str]:
        # Goes from name to name: a list of all rows would be as long as there are vectors.
        table = f"{self._schema}.vectors"
        text = (
            f"with recursive names (name) as (select min(name) from {table} where space = $1"
            f" union all select (select min(v.name) from {table} as v where v.space = $1"
            " and v.name > names.name) from names where name is not null)"
            " select name from names where name is not null"
        )
        return [name for (name,) in self._packed(text, space)]

    def vector_rows(self, space: int, name: str, *, after: bytes, limit: int) -> list[VectorRow]:
        text = (
            f"select {_VECTOR} from {self._schema}.vectors"
            " where space = $1 and name = $2 and hash > $3 order by hash limit $4"
        )
        return [VectorRow(*row) for row in self._packed(text, space, name, after, limit)]

    def _packed(self, text: str, *values: Any) -> list[Any]:
        """Return rows; none of a store of an older format, which is only looked at."""
        try:
            return self._all(text, *values)
        except Unavailable as error:
            if self.is_audit and error.details.get("sqlstate") == _NO_SUCH_TABLE:
                return []
            raise
