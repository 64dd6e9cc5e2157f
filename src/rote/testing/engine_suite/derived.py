"""Derived rows: disposable index rows, each valid for a range of versions."""

from itertools import product
from typing import Any

from rote.engines.rows import MAIN, DerivedRow, Line
from rote.testing.engine_suite.ground import ON_MAIN, EngineGround

WORDS = "words/1"


class DerivedRowTests(EngineGround):
    def derived_rows(
        self,
        start: str = "",
        end: str | None = None,
        *,
        after: tuple[str, str] | None = None,
        line: Line = ON_MAIN,
        limit: int = 99,
        **more: Any,
    ) -> list[DerivedRow]:
        reads = self.engine.reader()
        return reads.derived(
            self.space, WORDS, line, start=start, end=end, after=after, limit=limit, **more
        )

    def open_at(self, version: int) -> list[DerivedRow]:
        """Return the rows of main that count at a version."""
        return self.derived_rows(line=((MAIN, version),))

    def test_rows_come_in_term_and_id_order(self) -> None:
        rows = [
            DerivedRow("a", "urn:1", MAIN, 1, None),
            DerivedRow("a", "urn:\U00010000", MAIN, 1, None),
            DerivedRow("aa", "urn:1", MAIN, 1, None),
            DerivedRow("\uffff", "urn:1", MAIN, 1, None),
            DerivedRow("\U00010000", "urn:1", MAIN, 1, None),
        ]
        self.derive(*reversed(rows))
        assert self.derived_rows() == rows

    def test_terms_are_within_a_half_open_range(self) -> None:
        rows = [DerivedRow(term, "urn:1", MAIN, 1, None) for term in ("", "a", "a!", "b", "c")]
        self.derive(*rows)
        assert [row.term for row in self.derived_rows("a", "c")] == ["a", "a!", "b"]
        assert [row.term for row in self.derived_rows("a", "a\0")] == ["a"]
        assert [row.term for row in self.derived_rows("a\0", None)] == ["a!", "b", "c"]
        assert [row.term for row in self.derived_rows("", "a")] == [""]

    def test_rows_come_in_the_reverse_order_too(self) -> None:
        ids = ("urn:1", "urn:1!", "urn:2", "urn:\U00010000")
        rows = [
            DerivedRow(term, id, branch, 1, None)
            for term in ("", "a", "a!", "b", "\U00010000")
            for id in ids
            for branch in (MAIN, 2)
        ]
        self.derive(*rows)
        line = ((2, 9), (MAIN, 9))
        bounds: list[tuple[str, str | None]] = [("", None), ("a", "b"), ("a\0", "b\0"), ("c", "b")]
        places = [None, ("a", "urn:1"), ("a", "urn:1!\0"), ("b", "urn:2"), ("z", "")]
        for (start, end), after, prefix, limit in product(
            bounds, places, ("", "urn:1"), (1, 3, 99)
        ):
            within = [
                row
                for row in sorted(rows, key=lambda row: (row.term, row.id), reverse=True)
                if row.term >= start and (end is None or row.term < end)
                if row.id.startswith(prefix) and (after is None or (row.term, row.id) < after)
            ]
            found = self.derived_rows(
                start, end, after=after, line=line, limit=limit, prefix=prefix, descending=True
            )
            # A pair is never split, so a page may have one row more.
            assert found == within[: limit + limit % 2]

    def test_rows_of_ids_with_a_prefix_are_found_without_the_others(self) -> None:
        rows = [
            DerivedRow(term, id, MAIN, 1, None)
            for term in ("a", "b")
            for id in ("urn:%", "urn:%1", "urn:1", "urn:\U00010000")
        ]
        self.derive(*rows)
        for prefix in ("", "urn:", "urn:%", "urn:\U00010000", "urn:2", "urn:_"):
            expected = [row for row in rows if row.id.startswith(prefix)]
            assert self.derived_rows(prefix=prefix) == expected
            assert self.derived_rows(prefix=prefix, limit=1) == expected[:1]

    def test_a_row_is_open_from_its_start_until_before_its_end(self) -> None:
        row = DerivedRow("a", "urn:1", MAIN, 3, 5)
        self.derive(row)
        assert [version for version in range(1, 8) if self.open_at(version)] == [3, 4]

    def test_a_row_without_end_stays_open(self) -> None:
        self.derive(DerivedRow("a", "urn:1", MAIN, 3, None))
        assert [version for version in range(1, 6) if self.open_at(version)] == [
            3,
            4,
            5,
        ]

    def test_ending_a_row_closes_it_and_no_other(self) -> None:
        first = DerivedRow("a", "urn:1", MAIN, 1, None)
        others = [
            DerivedRow("a", "urn:1", 2, 1, None),
            DerivedRow("a", "urn:2", MAIN, 1, None),
            DerivedRow("b", "urn:1", MAIN, 1, None),
        ]
        self.derive(first, *others)
        again = DerivedRow("a", "urn:1", MAIN, 6, None)
        ended = DerivedRow("a", "urn:1", MAIN, 1, 4)
        with self.engine.writer(self.space) as writes:
            writes.derive(self.space, WORDS, rows=[], ended=[ended], indexed=4)
        assert self.open_at(4) == others[1:]
        with self.engine.writer(self.space) as writes:
            writes.derive(self.space, WORDS, rows=[again], ended=[], indexed=6)
        reads = self.engine.reader()
        rows = reads.derived_of(self.space, WORDS, "urn:1")
        assert reads.derived_count(self.space, WORDS, until=1_000_000) == 5
        assert set(rows) == {ended, again, others[0], others[2]}
        assert self.open_at(3) == [ended, *others[1:]]
        # A writer that ends a row need not know where it began. A closed row keeps its end.
        with self.engine.writer(self.space) as writes:
            unknown = DerivedRow("a", "urn:1", MAIN, 0, 8)
            writes.derive(self.space, WORDS, rows=[], ended=[unknown], indexed=8)
        rows = self.engine.reader().derived_of(self.space, WORDS, "urn:1")
        assert set(rows) == {ended, DerivedRow("a", "urn:1", MAIN, 6, 8), others[0], others[2]}

    def test_rows_count_on_the_branches_of_the_line_each_up_to_its_cap(self) -> None:
        on_main = DerivedRow("a", "urn:1", MAIN, 1, 4)
        late_on_main = DerivedRow("a", "urn:1", MAIN, 4, None)
        on_child = DerivedRow("b", "urn:2", 2, 5, None)
        self.derive(on_main, late_on_main, on_child, DerivedRow("a", "urn:1", 3, 1, None))
        assert self.derived_rows(line=((2, 9), (MAIN, 3))) == [on_main, on_child]
        assert self.derived_rows(line=((2, 4), (MAIN, 3))) == [on_main]
        assert self.derived_rows(line=((MAIN, 9),)) == [late_on_main]

    def test_an_index_is_complete_up_to_what_was_said_last(self) -> None:
        reads = self.engine.reader()
        assert reads.indexed(self.space, WORDS) == 0
        self.derive(indexed=4)
        self.derive(indexed=7)
        self.derive(index="other/1", indexed=2)
        reads = self.engine.reader()
        assert reads.indexed(self.space, WORDS) == 7
        assert reads.indexed(self.space, "other/1") == 2

    def test_pages_lose_nothing_and_never_split_a_term_and_id(self) -> None:
        rows = [
            DerivedRow(term, id, branch, 1, None)
            for term in ("a", "b")
            for id in ("urn:1", "urn:2", "urn:3")
            for branch in (1, 2, 3)
        ]
        self.derive(*rows, DerivedRow("a", "urn:1", 4, 1, None))
        line: Line = ((3, 9), (2, 9), (1, 9))
        for limit in (1, 2, 3, 4, 5, 7):
            paged: list[DerivedRow] = []
            after: tuple[str, str] | None = None
            while page := self.derived_rows(after=after, line=line, limit=limit):
                pairs = {(row.term, row.id) for row in page}
                assert len(page) == 3 * len(pairs), f"a pair was split at limit {limit}"
                paged += page
                after = (page[-1].term, page[-1].id)
            assert sorted(paged, key=lambda row: (row.term, row.id, row.branch)) == rows

    def test_a_page_with_less_than_its_limit_is_the_last(self) -> None:
        """The kernel stops at a short page, so a closed row must not shorten a page in the middle."""
        ids = [f"urn:{number}" for number in range(6)]
        self.derive(
            *(
                DerivedRow("a", id, MAIN, 1, 2 if number % 2 else None)
                for number, id in enumerate(ids)
            )
        )
        assert [row.id for row in self.derived_rows(limit=2)] == ["urn:0", "urn:2"]
        assert [row.id for row in self.derived_rows(after=("a", "urn:2"), limit=2)] == ["urn:4"]

    def test_a_count_is_of_rows_that_start_at_or_below_a_version(self) -> None:
        rows = [DerivedRow("a", f"urn:{start}", MAIN, start, None) for start in (1, 3, 5)]
        self.derive(*rows, DerivedRow("b", "urn:3", MAIN, 3, 4))
        reads = self.engine.reader()
        counts = [reads.derived_count(self.space, WORDS, until=until) for until in range(7)]
        assert counts == [0, 1, 1, 3, 3, 4, 4]

    def test_rows_that_start_or_end_above_the_indexed_version_are_strays(self) -> None:
        rows = [
            DerivedRow("a", "urn:1", MAIN, 1, None),
            DerivedRow("a", "urn:2", MAIN, 1, 3),
            DerivedRow("b", "urn:3", MAIN, 3, None),
        ]
        strays = []
        for indexed in (3, 2):
            with self.engine.writer(self.space) as writes:
                writes.drop_derived(self.space, WORDS)
                writes.derive(self.space, WORDS, rows=rows, ended=[], indexed=indexed)
            reads = self.engine.reader()
            strays.append(reads.derived_strays(self.space, WORDS))
        assert strays == [0, 2]

    def test_dropping_an_index_leaves_the_others(self) -> None:
        self.derive(DerivedRow("a", "urn:1", MAIN, 1, None))
        self.derive(DerivedRow("a", "urn:1", MAIN, 1, None), index="other/1")
        with self.engine.writer(self.space) as writes:
            writes.drop_derived(self.space, WORDS)
        reads = self.engine.reader()
        assert reads.derived_count(self.space, WORDS, until=1_000_000) == 0
        assert reads.indexed(self.space, WORDS) == 0
        assert reads.derived_count(self.space, "other/1", until=1_000_000) == 1
        assert reads.indexed(self.space, "other/1") == 1
        assert self.derived_rows() == []
