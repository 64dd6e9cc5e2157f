"""Spaces: numbered rows that keep everything else apart."""

import threading

import pytest

from rote.contract.operations import DELETE
from rote.engines.rows import ERASED_SPACE, MAIN, STORE, ChunkRow, DerivedRow, SpaceRow
from rote.errors import NotFound
from rote.testing.engine_suite.ground import MAIN_BRANCH, ON_MAIN, EngineGround, blob, fact, side
from rote.testing.engine_suite.packed import segment, vector

THREADS = 8


class SpaceRowTests(EngineGround):
    def test_a_space_is_listed_as_it_was_made(self) -> None:
        made = self.engine.create_space(did="did:key:z1", name="x", seal=b"\0s", main=MAIN_BRANCH)
        assert made == SpaceRow(made.number, "did:key:z1", "x", b"\0s")
        assert made in self.engine.spaces()

    def test_a_clock_that_all_share_does_not_go_back(self) -> None:
        instants = [self.engine.now() for _ in range(3)]
        told = [instant for instant in instants if instant is not None]
        assert told in ([], sorted(told))
        assert len(told) in (0, 3)

    def test_every_commit_moves_the_mark_where_there_is_one(self) -> None:
        marks = [self.engine.mark()]
        for name in ("b", "a"):
            self.make_space(name)
            marks.append(self.engine.mark())
        assert marks == [None] * 3 or (None not in marks and len(set(marks)) == 3)
        assert self.engine.mark() == marks[-1]

    def test_spaces_are_listed_by_name(self) -> None:
        for name in ("b", "a", "Z", "zz"):
            self.make_space(name)
        assert [row.name for row in self.engine.spaces()] == ["Z", "a", "b", "notes", "zz"]

    def test_a_space_is_found_by_its_name_and_by_its_did(self) -> None:
        made = self.engine.create_space(did="did:key:z1", name="x", seal=b"s", main=MAIN_BRANCH)
        assert self.engine.space("x") == self.engine.space("did:key:z1") == made
        assert self.engine.space("y") is None

    def test_spaces_with_leases_are_found_at_once(self) -> None:
        numbers = [self.make_space(name) for name in ("c", "b", "a")]
        assert self.engine.leased_spaces() == []
        for number in (numbers[0], numbers[2]):
            with self.engine.writer(number) as writes:
                writes.put_side(number, side("lease", "one"))
                writes.put_side(number, side("lease", "two"))
        with self.engine.writer(numbers[1]) as writes:
            writes.put_side(numbers[1], side("leases", "one"))
        assert [row.name for row in self.engine.leased_spaces()] == ["a", "c"]
        with self.engine.writer(numbers[2]) as writes:
            for key in ("one", "two"):
                writes.drop_side(numbers[2], "lease", key)
        assert [row.name for row in self.engine.leased_spaces()] == ["c"]

    def test_an_engine_that_may_write_has_no_reason_not_to(self) -> None:
        assert self.engine.why_not_written() is None
        assert self.engine.read_only is None

    def test_a_new_space_has_its_main_branch_and_nothing_else(self) -> None:
        reads = self.engine.reader()
        assert reads.branches(self.space) == [MAIN_BRANCH]
        assert reads.head(self.space) is None
        assert reads.commits(self.space, after=0, limit=9) == []
        assert reads.entity_rows(self.space, after=None, limit=9) == []
        assert reads.sides(self.space, None, after=("", ""), limit=9) == []
        assert reads.counts(self.space, until=9) == (0, 0)

    def test_a_name_that_is_taken_gives_the_space_that_has_it(self) -> None:
        first = self.engine.create_space(did="did:key:z1", name="x", seal=b"1", main=MAIN_BRANCH)
        second = self.engine.create_space(did="did:key:z2", name="x", seal=b"2", main=MAIN_BRANCH)
        assert second == first
        assert "did:key:z2" not in {row.did for row in self.engine.spaces()}

    def test_a_did_that_is_taken_gives_the_space_that_has_it(self) -> None:
        first = self.engine.create_space(did="did:key:z1", name="x", seal=b"1", main=MAIN_BRANCH)
        second = self.engine.create_space(did="did:key:z1", name="y", seal=b"2", main=MAIN_BRANCH)
        assert second == first
        assert "y" not in {row.name for row in self.engine.spaces()}

    def test_threads_that_race_for_a_name_all_get_one_space(self) -> None:
        barrier = threading.Barrier(THREADS)
        rows: list[SpaceRow] = []

        def make(number: int) -> None:
            barrier.wait()
            did = f"did:key:racer{number}"
            rows.append(self.engine.create_space(did=did, name="race", seal=b"s", main=MAIN_BRANCH))

        threads = [threading.Thread(target=make, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(rows) == THREADS
        assert len(set(rows)) == 1
        assert [row.name for row in self.engine.spaces()].count("race") == 1

    def test_nothing_of_one_space_is_seen_from_another(self) -> None:
        other = self.make_space("other")
        self.write(fact("urn:a", 1), fact("urn:gone", 1, index=1))
        self.write(fact("urn:gone", 2, op=DELETE))
        self.put_sides(side("run", "r"))
        self.derive(DerivedRow("term", "urn:a", MAIN, 1, None))
        with self.engine.writer(self.space) as writes:
            writes.put_segment(self.space, "words/1", segment(1), [("a", b"1")])
            writes.put_vectors(self.space, "v", [vector(b"h")])
        reads = self.engine.reader()
        assert reads.head(other) is None
        assert reads.commits(other, after=0, limit=9) == []
        assert reads.facts(other, after=0, until=9) == []
        assert reads.changed(other, after=0, until=9, limit=9) == []
        assert reads.newest(other, ["urn:a"], ON_MAIN) == []
        assert reads.newest(other, ["urn:a", "urn:gone"], ON_MAIN) == []
        assert reads.salts(other, ["urn:a"]) == {}
        assert reads.entities(other, ((MAIN, 0),), start="", end=None, limit=9) == []
        assert reads.entity_rows(other, after=None, limit=9) == []
        assert reads.pointers(other, MAIN, ["urn:a"]) == []
        assert reads.newest_in_range(other, ON_MAIN, start="", end=None, after=0) is None
        assert reads.side(other, "run", "r") is None
        assert reads.sides(other, None, after=("", ""), limit=9) == []
        assert reads.indexed(other, "words/1") == 0
        assert reads.derived_of(other, "words/1", "urn:a") == []
        assert reads.derived_count(other, "words/1", until=1_000_000) == 0
        assert reads.segments(other, "words/1") == []
        assert reads.segment_bodies(other, "words/1", [1]) == {}
        assert reads.postings(other, "words/1", [1], ["a"]) == []
        assert reads.postings_of(other, "words/1", 1, after="", limit=9) == []
        assert reads.vector_names(other) == []
        assert reads.vectors(other, "v", [b"h"]) == {}
        assert reads.vector_rows(other, "v", after=b"", limit=9) == []

    def test_a_dropped_space_is_gone_and_another_is_as_it_was(self) -> None:
        other = self.make_space("other")
        for space in (self.space, other):
            self.write(fact("urn:a", 1), fact("urn:gone", 1, index=1), space=space)
            self.write(fact("urn:gone", 2, op=DELETE), space=space)
            with self.engine.writer(space) as writes:
                writes.put_side(space, side("run", "r"))
                row = DerivedRow("term", "urn:a", MAIN, 1, None)
                writes.derive(space, "words/1", rows=[row], ended=[], indexed=1)
                writes.put_segment(space, "words/1", segment(1), [("a", b"1")])
                writes.put_vectors(space, "v", [vector(b"h")])
                writes.put_blob(space, blob(b"token", size=1))
                writes.put_chunks(space, b"token", [ChunkRow(1, b"x")])
        left = [side(ERASED_SPACE, "did:key:notes", fence=self.space), side("scrub", "n")]
        with self.engine.writer(self.space) as writes:
            writes.drop_space(self.space, left=left)
        reads = self.engine.reader()
        assert [row.name for row in self.engine.spaces()] == ["other"]
        assert reads.sides(STORE, None, after=("", ""), limit=9) == left
        with pytest.raises(NotFound):
            reads.head(self.space)
        for space, count in ((self.space, 0), (other, 1)):
            assert reads.counts(space, until=9) == (2 * count, 3 * count)
            assert len(reads.branches(space)) == count
            assert len(reads.entity_rows(space, after=None, limit=9)) == 2 * count
            assert len(reads.sides(space, None, after=("", ""), limit=9)) == count
            assert len(reads.derived_of(space, "words/1", "urn:a")) == count
            assert len(reads.indexes(space)) == count
            assert len(reads.segments(space, "words/1")) == count
            assert len(reads.postings(space, "words/1", [1], ["a"])) == count
            assert len(reads.vector_names(space)) == count
            assert len(reads.uploads(space, after=b"", limit=9)) == count
            assert len(reads.chunks(space, b"token", after=0, limit=9)) == count

    def test_the_number_of_a_dropped_space_is_not_given_again(self) -> None:
        with self.engine.writer(self.space) as writes:
            erased = side(ERASED_SPACE, "did:key:notes", fence=self.space)
            writes.drop_space(self.space, left=[erased])
        assert self.make_space("notes") > self.space

    def test_rows_of_the_store_are_dropped_one_by_one(self) -> None:
        with self.engine.writer(self.space) as writes:
            writes.drop_space(self.space, left=[side("scrub", "a"), side("scrub", "b")])
        self.engine.drop_store_row("scrub", "a")
        self.engine.drop_store_row("scrub", "none")
        left = self.engine.reader().sides(STORE, "scrub", after=("scrub", ""), limit=9)
        assert [row.key for row in left] == ["b"]

    def test_two_spaces_have_the_same_versions_and_ids_side_by_side(self) -> None:
        other = self.make_space("other")
        self.write(fact("urn:a", 1, body=b'"here"'))
        self.write(fact("urn:a", 1, body=b'"there"'), space=other)
        reads = self.engine.reader()
        assert reads.newest(self.space, ["urn:a"], ON_MAIN)[0].body == b'"here"'
        assert reads.newest(other, ["urn:a"], ON_MAIN)[0].body == b'"there"'
