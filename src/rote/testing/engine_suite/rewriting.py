"""Rewriting history: the calls that only erasing, compacting and thinning need."""

from msgspec.structs import replace

from rote.contract.operations import DELETE, PATCH, SET
from rote.engines.rows import MAIN, Batch, DerivedRow, EntityRow, FactPlace, HeadRow
from rote.testing.engine_suite.ground import EngineGround, commit, fact
from rote.testing.engine_suite.packed import segment


class RewritingTests(EngineGround):
    def test_a_rewritten_fact_keeps_its_place_and_links_and_its_neighbours_are_as_they_were(
        self,
    ) -> None:
        rows = [fact("urn:a", version, op=PATCH, value=b"snapshot") for version in (1, 2, 3)]
        side_row = fact("urn:a", 4, branch=2, op=PATCH, value=b"snapshot")
        self.write(*rows, side_row)
        with self.engine.writer(self.space) as writes:
            bare = replace(rows[0], salt=None, body=None, value=b"remains")
            wrong = replace(rows[2], value=None, hash=b"not written", parent=b"neither", op=DELETE)
            writes.rewrite_facts(self.space, [bare, wrong])
            writes.rewrite_facts(self.space, [])
        reads = self.engine.reader()
        expected = [bare, rows[1], replace(rows[2], value=None), side_row]
        assert reads.facts(self.space, after=0, until=9) == expected

    def test_operations_are_told_by_place(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:a", 1, index=1, op=PATCH))
        self.write(fact("urn:a", 2, op=DELETE), fact("urn:a", 3, branch=2))
        places: list[FactPlace] = [("urn:a", 1, 1, MAIN), ("urn:a", 2, 0, MAIN), ("urn:a", 3, 0, 2)]
        nowhere: list[FactPlace] = [
            ("urn:a", 3, 0, MAIN), ("urn:b", 1, 0, MAIN), ("urn:a", 1, 2**63 - 1, MAIN)
        ]  # fmt: skip
        reads = self.engine.reader()
        found = reads.operations_at(self.space, places + nowhere)
        assert found == dict(zip(places, (PATCH, DELETE, SET), strict=True))
        assert reads.operations_at(self.space, []) == {}

    def test_facts_come_in_the_order_of_their_places(self) -> None:
        first = [fact("urn:b", 1), fact("urn:a", 1, index=1), fact("urn:a", 1, index=2)]
        self.write(*first)
        self.write(fact("urn:a", 2, branch=2))
        self.write(fact("urn:\uffff", 3), fact("urn:\U00010000", 3, index=1))
        reads = self.engine.reader()

        def found(after: FactPlace, until: int = 9, limit: int = 9) -> list[FactPlace]:
            rows = reads.facts_from(self.space, until=until, after=after, limit=limit)
            return [(row.id, row.version, row.index, row.branch) for row in rows]

        start: FactPlace = ("", 0, 0, 0)
        every: list[FactPlace] = [
            ("urn:a", 1, 1, MAIN), ("urn:a", 1, 2, MAIN), ("urn:a", 2, 0, 2), ("urn:b", 1, 0, MAIN),
            ("urn:\uffff", 3, 0, MAIN), ("urn:\U00010000", 3, 1, MAIN),
        ]  # fmt: skip
        assert found(start) == every
        assert found(start, until=1) == [place for place in every if place[1] == 1]
        for number, place in enumerate(every):
            assert found(place) == every[number + 1 :]
            assert found(start, limit=number) == every[:number]
        assert reads.facts_from(self.space, until=9, after=start, limit=1) == [first[1]]
        assert reads.places(self.space, branch=None, until=9, after=None, limit=9) == every

    def test_facts_are_dropped_by_their_places_and_the_pointers_stay(self) -> None:
        rows = [fact("urn:a", 1), fact("urn:b", 1, index=1), fact("urn:a", 2), fact("urn:a", 3)]
        self.write(rows[0], rows[1])
        self.write(rows[2])
        self.write(rows[3])
        with self.engine.writer(self.space) as writes:
            writes.drop_facts(self.space, [("urn:a", 1, 0, MAIN), ("urn:a", 2, 0, MAIN)])
            writes.drop_facts(self.space, [("urn:a", 3, 0, 2)])  # on a branch that has none
        reads = self.engine.reader()
        assert reads.facts(self.space, after=0, until=9) == [rows[1], rows[3]]
        assert len(reads.entity_rows(self.space, after=None, limit=9)) == 2

    def test_commits_are_dropped_below_a_version_but_for_those_with_a_key_or_an_event(self) -> None:
        rows = [
            replace(commit(1), key="kept"), commit(2), replace(commit(3), event=b"{}"), commit(4),
            commit(5),
        ]  # fmt: skip
        with self.engine.writer(self.space) as writes:
            writes.append(self.space, Batch(rows, [], []))
        with self.engine.writer(self.space) as writes:
            writes.drop_commits(self.space, before=4)
        reads = self.engine.reader()
        kept = [rows[0], rows[2], rows[3], rows[4]]
        assert reads.commits(self.space, after=0, limit=9) == kept
        assert reads.head(self.space) == HeadRow(5, rows[4].hash, rows[4].at)

    def test_places_come_in_order_in_pages_on_one_branch_or_all(self) -> None:
        self.write(fact("urn:b", 1), fact("urn:a", 1, index=1), fact("urn:b", 1, index=2))
        self.write(fact("urn:a", 2, branch=2))
        self.write(fact("urn:a", 3))
        on_all = [("urn:a", 1, 1, MAIN), ("urn:a", 2, 0, 2), ("urn:b", 1, 0, MAIN)]
        on_all.append(("urn:b", 1, 2, MAIN))
        for limit in range(1, 6):
            assert self._places(until=2, branch=None, limit=limit) == on_all
            on_main = [place for place in on_all if place[3] == MAIN]
            assert self._places(until=2, branch=MAIN, limit=limit) == on_main

    def _places(self, *, until: int, branch: int | None, limit: int) -> list[FactPlace]:
        found: list[FactPlace] = []
        while True:
            page = self.engine.reader().places(
                self.space,
                branch=branch,
                until=until,
                after=found[-1] if found else None,
                limit=limit,
            )
            assert len(page) <= limit
            found += page
            if len(page) < limit:
                return found

    def test_an_entity_leaves_every_index_and_its_neighbours_stay(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:b", 1, index=1))
        with self.engine.writer(self.space) as writes:
            for index in ("words/1", "tags/1"):
                rows = [DerivedRow("t", id, MAIN, 1, None) for id in ("urn:a", "urn:b")]
                writes.derive(self.space, index, rows=rows, ended=[], indexed=1)
        with self.engine.writer(self.space) as writes:
            writes.drop_derived_of(self.space, "urn:a")
        reads = self.engine.reader()
        for index in ("words/1", "tags/1"):
            assert reads.derived_of(self.space, index, "urn:a") == []
            assert len(reads.derived_of(self.space, index, "urn:b")) == 1
            assert reads.indexed(self.space, index) == 1

    def test_the_indexes_that_were_built_are_known_by_name(self) -> None:
        assert self.engine.reader().indexes(self.space) == []
        with self.engine.writer(self.space) as writes:
            for index in ("words/1", "tags/1"):
                writes.derive(self.space, index, rows=[], ended=[], indexed=1)
        assert self.engine.reader().indexes(self.space) == ["tags/1", "words/1"]
        with self.engine.writer(self.space) as writes:
            writes.drop_derived(self.space, "words/1")
            assert writes.indexes(self.space) == ["tags/1"]

    def test_facts_can_be_added_without_a_commit_and_move_no_head(self) -> None:
        self.write(fact("urn:a", 2))
        head, older = self.engine.reader().head(self.space), fact("urn:b", 1)
        with self.engine.writer(self.space) as writes:
            pointer = EntityRow(MAIN, "urn:b", 1, 0, True)
            writes.append(self.space, Batch([], [older], [pointer]))
            assert writes.head(self.space) == head
        reads = self.engine.reader()
        assert reads.head(self.space) == head
        assert reads.newest(self.space, ["urn:b"], ((MAIN, 9),)) == [older]

    def test_a_scrub_changes_no_answer(self) -> None:
        rows = [fact(f"urn:{number}", 1, index=number) for number in range(50)]
        self.write(*rows)
        with self.engine.writer(self.space) as writes:
            writes.drop_facts(self.space, [(row.id, 1, row.index, MAIN) for row in rows[:40]])
            for number in (1, 2):
                postings = [("a", b"%d" % number)]
                writes.put_segment(self.space, "words/1", segment(number), postings)
            writes.drop_segments(self.space, "words/1", [1])
        assert all(type(place) is str for place in self.engine.scrub().remaining)
        assert self.engine.reader().facts(self.space, after=0, until=9) == rows[40:]
        assert self.engine.reader().postings(self.space, "words/1", [2], ["a"]) == [(2, "a", b"2")]
        self.write(fact("urn:new", 2))
        assert self.engine.damage() == []
