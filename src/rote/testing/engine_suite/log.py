"""The log: commits and their facts, as they were appended."""

from rote.contract.operations import DELETE, PATCH
from rote.engines.rows import MAIN, Batch, CommitRow, EntityRow, FactRow, HeadRow
from rote.testing.engine_suite.ground import EngineGround, commit, fact, places
from rote.values.limits import VALUE_BYTES_MAX


class LogTests(EngineGround):
    def test_the_head_is_the_newest_commit(self) -> None:
        self.write(fact("urn:a", 1))
        self.write(fact("urn:a", 2), fact("urn:b", 3))
        newest = commit(3)
        reads = self.engine.reader()
        assert reads.head(self.space) == HeadRow(3, newest.hash, newest.at)

    def test_a_commit_comes_back_field_by_field(self) -> None:
        full = CommitRow(
            1, MAIN, b"\0" * 32, 2**52, "Ann", "key 1", b'{"m":"\\u0000"}', b'{"e":1}', b"\xff" * 16
        )
        bare = CommitRow(2, MAIN, b"\xff" * 32, -1, None, None, None, None, b"")
        facts = [fact("urn:a", 1), fact("urn:a", 2)]
        with self.engine.writer(self.space) as writes:
            writes.append(self.space, Batch([full, bare], facts, []))
        reads = self.engine.reader()
        assert reads.commits(self.space, after=0, limit=9) == [full, bare]

    def test_a_fact_comes_back_field_by_field(self) -> None:
        rows = [
            FactRow(MAIN, 1, 0, "urn:a", PATCH, b"\0" * 32, b"\xff" * 32, b"s\0" * 8, b"\0", b"v"),
            FactRow(MAIN, 1, 1, "urn:\U0010ffff", DELETE, b"h" * 32, b"p" * 32, None, None, None),
        ]
        self.write(*rows)
        reads = self.engine.reader()
        assert reads.facts(self.space, after=0, until=1) == rows

    def test_commits_come_oldest_first_above_a_version_and_within_a_limit(self) -> None:
        for version in range(1, 6):
            self.write(fact("urn:a", version))
        reads = self.engine.reader()
        assert [row.version for row in reads.commits(self.space, after=2, limit=2)] == [3, 4]
        assert [row.version for row in reads.commits(self.space, after=0, limit=9)] == [
            1, 2, 3, 4, 5,
        ]  # fmt: skip
        assert reads.commits(self.space, after=5, limit=9) == []

    def test_facts_come_in_log_order_over_all_branches(self) -> None:
        self.write(fact("urn:z", 1), fact("urn:a", 1, index=1))
        self.write(fact("urn:a", 2, branch=2), fact("urn:b", 2, index=1, branch=2))
        self.write(fact("urn:a", 3))
        reads = self.engine.reader()
        assert places(reads.facts(self.space, after=0, until=3)) == [
            (1, 1, 0),
            (1, 1, 1),
            (2, 2, 0),
            (2, 2, 1),
            (1, 3, 0),
        ]
        assert places(reads.facts(self.space, after=1, until=2)) == [(2, 2, 0), (2, 2, 1)]
        assert reads.facts(self.space, after=3, until=3) == []

    def test_changed_names_branch_and_id_of_every_fact_in_a_stretch(self) -> None:
        self.write(fact("urn:a", 1))
        self.write(fact("urn:b", 2, branch=2), fact("urn:a", 2, index=1, branch=2))
        self.write(fact("urn:c", 3, op=DELETE))
        reads = self.engine.reader()
        assert set(reads.changed(self.space, after=1, until=3, limit=9)) == {
            (2, "urn:b"),
            (2, "urn:a"),
            (1, "urn:c"),
        }
        assert set(reads.changed(self.space, after=0, until=1, limit=9)) == {(1, "urn:a")}

    def test_changed_fills_its_limit_when_there_is_more(self) -> None:
        self.write(*(fact(f"urn:{index}", 1, index=index) for index in range(5)))
        reads = self.engine.reader()
        assert len(reads.changed(self.space, after=0, until=1, limit=3)) == 3

    def test_counts_are_of_commits_and_facts_up_to_a_version(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:b", 1, index=1))
        self.write(fact("urn:a", 2, branch=2))
        reads = self.engine.reader()
        assert reads.counts(self.space, until=1) == (1, 2)
        assert reads.counts(self.space, until=2) == (2, 3)

    def test_rows_of_a_version_that_no_commit_has_are_strays(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:b", 2, branch=2))
        reads = self.engine.reader()
        assert reads.strays(self.space) == 0
        facts = [fact("urn:a", 3), fact("urn:c", 9)]
        pointer = EntityRow(MAIN, "urn:d", 9, 0, True)
        with self.engine.writer(self.space) as writes:
            writes.append(self.space, Batch([commit(3)], facts, [pointer]))
        reads = self.engine.reader()
        assert reads.strays(self.space) == 2

    def test_several_commits_go_into_one_batch(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:a", 2), fact("urn:b", 3))
        reads = self.engine.reader()
        assert len(reads.commits(self.space, after=0, limit=9)) == 3
        assert reads.counts(self.space, until=3) == (3, 3)

    def test_the_largest_body_comes_back_whole(self) -> None:
        body = b'"' + b"\0" * (VALUE_BYTES_MAX - 2) + b'"'
        self.write(fact("urn:big", 1, body=body))
        reads = self.engine.reader()
        assert reads.facts(self.space, after=0, until=1)[0].body == body
