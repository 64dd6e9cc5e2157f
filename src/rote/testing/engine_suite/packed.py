"""Packed indexes: segments with their postings, which never change. And vectors, by name and hash."""

from collections.abc import Sequence
from random import Random

import pytest

from rote.engines.rows import MAIN, DerivedRow, SegmentRow, VectorRow
from rote.errors import InternalError, RoteError
from rote.testing.engine_suite.ground import EngineGround, fact

WORDS = "words/1"
SMALL = "vectors/small@1/4"
# In code point order. A term may hold NUL, which not every server accepts as text.
TERMS = ["a", "a\0", "a\0b", "aa", "b", "\uffff", "\U00010000"]
BODY_BYTES = 300_000


def segment(number: int, *, size: int = 1, until: int = 1, body: bytes = b"body") -> SegmentRow:
    return SegmentRow(number, size, until, body)


def vector(hash: bytes, body: bytes = b"v") -> VectorRow:
    return VectorRow(hash, body, b"seal of a vector")


class PackedRowTests(EngineGround):
    def put_segments(self, *rows: SegmentRow, index: str = WORDS, terms: str = "ab") -> None:
        """Write the segments in one transaction; the postings of each tell its number."""
        with self.engine.writer(self.space) as writes:
            for row in rows:
                postings = [(term, f"{term}{row.number}".encode()) for term in terms]
                writes.put_segment(self.space, index, row, postings)

    def put_vectors(self, *rows: VectorRow, name: str = SMALL) -> None:
        with self.engine.writer(self.space) as writes:
            writes.put_vectors(self.space, name, rows)

    def found(self, numbers: list[int], terms: list[str], index: str = WORDS) -> set[object]:
        rows = self.engine.reader().postings(self.space, index, numbers, terms)
        assert len(set(rows)) == len(rows)
        return set(rows)

    # -- segments ----------------------------------------------------------------------------------

    def test_segments_come_by_number_without_their_bodies(self) -> None:
        self.put_segments(segment(10, size=3, until=7), segment(9, until=5), segment(2**40))
        reads = self.engine.reader()
        assert reads.segments(self.space, WORDS) == [
            SegmentRow(9, 1, 5, b""), SegmentRow(10, 3, 7, b""), SegmentRow(2**40, 1, 1, b"")
        ]  # fmt: skip
        assert reads.segments(self.space, "other/1") == []

    def test_bodies_are_those_of_the_segments_that_exist(self) -> None:
        long = bytes(range(256)) * (BODY_BYTES // 256)
        self.put_segments(segment(1, body=b""), segment(2, body=long), segment(3))
        reads = self.engine.reader()
        assert reads.segment_bodies(self.space, WORDS, [2, 1, 7]) == {1: b"", 2: long}
        assert reads.segment_bodies(self.space, WORDS, []) == {}
        assert reads.segment_bodies(self.space, "other/1", [1]) == {}

    def test_postings_are_those_of_the_terms_and_segments_asked_for(self) -> None:
        self.put_segments(segment(1), segment(2), segment(3), terms="abc")
        self.put_segments(segment(1), index="other/1")
        assert self.found([1, 3, 4], ["c", "a", "none"]) == {
            (1, "a", b"a1"), (1, "c", b"c1"), (3, "a", b"a3"), (3, "c", b"c3")
        }  # fmt: skip
        assert self.found([1], ["c"], "other/1") == set()
        assert self.found([], ["a"]) == self.found([1], []) == self.found([9], ["a"]) == set()

    def test_postings_are_told_apart_by_every_character_of_their_term(self) -> None:
        postings = [(term, bytes([place])) for place, term in enumerate(TERMS)]
        with self.engine.writer(self.space) as writes:
            writes.put_segment(self.space, WORDS, segment(1), iter(postings))
        for term, body in postings:
            assert self.found([1], [term]) == {(1, term, body)}
        assert len(self.found([1], TERMS)) == len(TERMS)

    def test_postings_may_be_empty_and_long(self) -> None:
        long = bytes(BODY_BYTES)
        with self.engine.writer(self.space) as writes:
            writes.put_segment(self.space, WORDS, segment(1), [("a", b""), ("b", long)])
            writes.put_segment(self.space, WORDS, segment(2), ())
        assert self.found([1, 2], ["a", "b"]) == {(1, "a", b""), (1, "b", long)}

    def test_the_postings_of_a_segment_come_by_term_in_pages(self) -> None:
        postings = [(term, term.encode()) for term in TERMS]
        with self.engine.writer(self.space) as writes:
            for number in (1, 2, 3):
                writes.put_segment(self.space, WORDS, segment(number), postings)
        reads = self.engine.reader()
        for limit in range(1, len(TERMS) + 2):
            found: list[tuple[str, bytes]] = []
            while page := reads.postings_of(
                self.space, WORDS, 2, after=found[-1][0] if found else "", limit=limit
            ):
                assert len(page) <= limit
                found += page
            assert found == postings
        assert reads.postings_of(self.space, WORDS, 4, after="", limit=9) == []

    def test_many_postings_of_any_length_are_found_and_no_others(self) -> None:
        random = Random(21)
        sizes = (0, 3, 60, 900, 1_900, 1_950, 70_000)
        weights = (5, 60, 30, 8, 3, 3, 1)
        letters = "abé\uffff\U00010000\0"
        terms = sorted(
            {"".join(random.choices(letters, k=random.randint(1, 6))) for _ in range(400)}
        )
        postings = {
            term: random.randbytes(random.choices(sizes, weights)[0]) for term in terms[1:-1:2]
        }
        with self.engine.writer(self.space) as writes:
            writes.put_segment(self.space, WORDS, segment(7), postings.items())
        found = self.found([7], terms)
        assert found == {(7, term, body) for term, body in postings.items()}
        reads = self.engine.reader()
        for limit in (1, 40, 1_000):
            for after in ("", *random.sample(terms, 20)):
                page = reads.postings_of(self.space, WORDS, 7, after=after, limit=limit)
                above = [posting for posting in postings.items() if posting[0] > after]
                assert page == above[:limit]

    def test_a_number_that_is_taken_is_refused_and_nothing_is_written(self) -> None:
        self.put_segments(segment(1))
        with pytest.raises(RoteError), self.engine.writer(self.space) as writes:
            writes.put_segment(self.space, WORDS, segment(2), [])
            writes.put_segment(self.space, WORDS, segment(1, size=9), [("c", b"c")])
        rows = self.engine.reader().segments(self.space, WORDS)
        assert rows == [SegmentRow(1, 1, 1, b"")]
        assert self.found([1, 2], ["a", "c"]) == {(1, "a", b"a1")}

    @pytest.mark.parametrize("terms", ["ba", "aa", ["", "a"], ["\U00010000", "\uffff"]])
    def test_postings_that_are_not_in_order_are_refused_and_nothing_is_written(
        self, terms: Sequence[str]
    ) -> None:
        with pytest.raises(InternalError), self.engine.writer(self.space) as writes:
            writes.put_segment(self.space, WORDS, segment(1), [(term, b"") for term in terms])
        assert self.engine.reader().segments(self.space, WORDS) == []

    def test_dropped_segments_are_gone_with_their_postings_and_the_others_stay(self) -> None:
        self.put_segments(segment(1), segment(2), segment(3))
        self.put_segments(segment(1), segment(2), index="other/1")
        with self.engine.writer(self.space) as writes:
            writes.drop_segments(self.space, WORDS, [1, 3, 7])
            writes.drop_segments(self.space, WORDS, [])
        reads = self.engine.reader()
        assert [row.number for row in reads.segments(self.space, WORDS)] == [2]
        assert reads.segment_bodies(self.space, WORDS, [1, 2, 3]) == {2: b"body"}
        assert self.found([1, 2, 3], ["a"]) == {(2, "a", b"a2")}
        assert reads.postings_of(self.space, WORDS, 1, after="", limit=9) == []
        assert self.found([1, 2], ["a"], "other/1") == {(1, "a", b"a1"), (2, "a", b"a2")}

    @pytest.mark.parametrize("optimistic", [False, True])
    def test_segments_take_the_place_of_others_in_one_block(self, optimistic: bool) -> None:
        self.write(fact("urn:a", 1))
        self.put_segments(segment(1), segment(2))
        with self.engine.writer(self.space, optimistic=optimistic) as writes:
            writes.append(self.space, self.batch([fact("urn:a", 2)]))
            writes.put_segment(self.space, WORDS, segment(3, until=2), [("a", b"a3")])
            writes.drop_segments(self.space, WORDS, [1, 2])
            writes.derive(self.space, WORDS, rows=(), ended=(), indexed=2)
            writes.put_segment(self.space, "other/1", segment(1), [])
        reads = self.engine.reader()
        assert reads.segments(self.space, WORDS) == [SegmentRow(3, 1, 2, b"")]
        assert self.found([1, 2, 3], ["a"]) == {(3, "a", b"a3")}
        assert reads.indexed(self.space, WORDS) == 2
        assert reads.segments(self.space, "other/1") == [SegmentRow(1, 1, 1, b"")]

    @pytest.mark.parametrize("optimistic", [False, True])
    def test_a_dropped_index_has_no_segments_but_those_written_afterwards(
        self, optimistic: bool
    ) -> None:
        self.put_segments(segment(1), segment(2))
        self.put_segments(segment(1), index="other/1")
        row = DerivedRow("a", "urn:a", MAIN, 1, None)
        self.derive(row, indexed=4)
        with self.engine.writer(self.space, optimistic=optimistic) as writes:
            writes.put_segment(self.space, WORDS, segment(3), [("a", b"a3")])
            writes.drop_derived(self.space, WORDS)
            writes.put_segment(self.space, WORDS, segment(4), [("a", b"a4")])
        reads = self.engine.reader()
        assert [row.number for row in reads.segments(self.space, WORDS)] == [4]
        assert self.found([1, 2, 3, 4], ["a"]) == {(4, "a", b"a4")}
        assert reads.indexed(self.space, WORDS) == 0
        assert [row.number for row in reads.segments(self.space, "other/1")] == [1]
        assert self.found([1], ["a"], "other/1") == {(1, "a", b"a1")}

    def test_a_writer_reads_its_own_segments(self) -> None:
        with self.engine.writer(self.space) as writes:
            writes.put_segment(self.space, WORDS, segment(1), [("a", b"1")])
            assert [row.number for row in writes.segments(self.space, WORDS)] == [1]
            assert writes.segment_bodies(self.space, WORDS, [1]) == {1: b"body"}
            assert writes.postings(self.space, WORDS, [1], ["a"]) == [(1, "a", b"1")]
            assert writes.postings_of(self.space, WORDS, 1, after="", limit=9) == [("a", b"1")]
            writes.drop_segments(self.space, WORDS, [1])
            assert writes.segments(self.space, WORDS) == []
            assert writes.postings(self.space, WORDS, [1], ["a"]) == []

    # -- vectors -----------------------------------------------------------------------------------

    def test_vectors_are_found_by_name_and_hash(self) -> None:
        rows = [vector(b"%032d" % number, bytes([number])) for number in range(3)]
        self.put_vectors(*rows)
        self.put_vectors(vector(rows[0].hash, b"other"), name="vectors/other@1/4")
        reads = self.engine.reader()
        wanted = [rows[2].hash, rows[0].hash, b"none"]
        expected = {row.hash: row for row in (rows[0], rows[2])}
        assert reads.vectors(self.space, SMALL, wanted) == expected
        assert reads.vectors(self.space, SMALL, []) == {}
        assert reads.vectors(self.space, "vectors/none@1/4", wanted) == {}
        assert reads.vector_names(self.space) == ["vectors/other@1/4", SMALL]

    def test_names_of_vectors_are_listed_while_there_are_any(self) -> None:
        names = ["vectors/A@1/4", "vectors/a@1/4", "vectors/a@1/8", "vectors/\U00010000@1/4"]
        assert self.engine.reader().vector_names(self.space) == []
        for name in reversed(names):
            self.put_vectors(vector(b"one"), vector(b"two"), name=name)
        assert self.engine.reader().vector_names(self.space) == names
        with self.engine.writer(self.space) as writes:
            writes.drop_vectors(self.space, names[1], [b"one", b"two"])
            writes.drop_vectors(self.space, names[2], [b"one"])
        assert self.engine.reader().vector_names(self.space) == [names[0], *names[2:]]

    def test_vectors_come_by_hash_in_pages(self) -> None:
        rows = [vector(bytes([byte]) * 32) for byte in (0, 1, 127, 128, 255)]
        self.put_vectors(*reversed(rows))
        reads = self.engine.reader()
        for limit in range(1, 7):
            found: list[VectorRow] = []
            while page := reads.vector_rows(
                self.space, SMALL, after=found[-1].hash if found else b"", limit=limit
            ):
                assert len(page) <= limit
                found += page
            assert found == rows

    @pytest.mark.parametrize("optimistic", [False, True])
    def test_a_vector_that_is_there_stays_as_it_is(self, optimistic: bool) -> None:
        self.put_vectors(vector(b"one", b"first"))
        with self.engine.writer(self.space, optimistic=optimistic) as writes:
            new = [vector(b"one", b"second"), vector(b"two", b"third"), vector(b"two", b"fourth")]
            writes.put_vectors(self.space, SMALL, new)
            writes.put_vectors(self.space, SMALL, [vector(b"two", b"fifth")])
        found = self.engine.reader().vector_rows(self.space, SMALL, after=b"", limit=9)
        assert found == [vector(b"one", b"first"), vector(b"two", b"third")]

    @pytest.mark.parametrize("optimistic", [False, True])
    def test_dropped_vectors_are_gone_and_may_come_again(self, optimistic: bool) -> None:
        self.put_vectors(vector(b"one"), vector(b"two"), vector(b"three"))
        self.put_vectors(vector(b"one"), name="vectors/other@1/4")
        with self.engine.writer(self.space, optimistic=optimistic) as writes:
            writes.drop_vectors(self.space, SMALL, [b"one", b"two", b"none"])
            writes.put_vectors(self.space, SMALL, [vector(b"one", b"again")])
        reads = self.engine.reader()
        found = reads.vector_rows(self.space, SMALL, after=b"", limit=9)
        assert found == [vector(b"one", b"again"), vector(b"three")]
        assert len(reads.vectors(self.space, "vectors/other@1/4", [b"one"])) == 1

    def test_indexes_and_vectors_are_independent(self) -> None:
        self.put_segments(segment(1))
        self.put_vectors(vector(b"one"))
        with self.engine.writer(self.space) as writes:
            writes.drop_derived(self.space, WORDS)
        assert self.engine.reader().vector_names(self.space) == [SMALL]
