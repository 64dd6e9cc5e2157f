"""Writing: one block is one transaction, for itself and for all others."""

import threading

import pytest

from rote.contract.operations import DELETE
from rote.engines.rows import MAIN, DerivedRow, HeadRow
from rote.testing.engine_suite.ground import ON_MAIN, EngineGround, commit, fact, side

THREADS = 4
ROUNDS = 25


class Stop(Exception):
    """Raised inside a block, to test what the block leaves behind."""


class WritingTests(EngineGround):
    def test_an_exception_in_the_block_leaves_nothing_of_any_kind(self) -> None:
        self.write(fact("urn:a", 1))
        self.put_sides(side("run", "kept"))
        batch = self.batch([fact("urn:a", 2, op=DELETE), fact("urn:b", 2, index=1)])
        with pytest.raises(Stop), self.engine.writer(self.space) as writes:
            writes.append(self.space, batch)
            writes.put_side(self.space, side("run", "new"))
            writes.drop_side(self.space, "run", "kept")
            row = DerivedRow("a", "urn:b", MAIN, 2, None)
            writes.derive(self.space, "words/1", rows=[row], ended=[], indexed=2)
            raise Stop
        reads = self.engine.reader()
        assert reads.head(self.space) == HeadRow(1, commit(1).hash, commit(1).at)
        assert reads.counts(self.space, until=9) == (1, 1)
        assert reads.entities(
            self.space, ((MAIN, 2),), start="", end=None, limit=9
        ) == ["urn:a"]  # fmt: skip
        assert [row.key for row in reads.sides(self.space, None, after=("", ""), limit=9)] == [
            "kept"
        ]
        assert reads.indexed(self.space, "words/1") == 0
        assert reads.derived_count(self.space, "words/1", until=1_000_000) == 0

    def test_the_engine_writes_on_after_a_block_that_failed(self) -> None:
        with pytest.raises(Stop), self.engine.writer(self.space) as writes:
            writes.append(self.space, self.batch([fact("urn:a", 1)]))
            assert writes.head(self.space) is not None
            raise Stop
        with self.engine.writer(self.space) as writes:
            assert writes.head(self.space) is None
        self.write(fact("urn:b", 1))
        reads = self.engine.reader()
        assert [row.id for row in reads.facts(self.space, after=0, until=1)] == ["urn:b"]

    def test_a_block_whose_end_was_never_reached_can_be_abandoned(self) -> None:
        """An interruption may come before the first line of the end of a block."""
        block = self.engine.writer(self.space)
        block.__enter__().append(self.space, self.batch([fact("urn:a", 1)]))
        self.engine.abandon()
        self.engine.abandon()  # with nothing left to abandon
        writer = threading.Thread(target=self.write, args=[fact("urn:b", 1)])
        writer.start()
        writer.join()
        reads = self.engine.reader()
        assert [row.id for row in reads.facts(self.space, after=0, until=1)] == ["urn:b"]

    def test_reads_inside_the_block_see_what_it_has_written(self) -> None:
        self.write(fact("urn:gone", 1))
        batch = self.batch([fact("urn:gone", 2, op=DELETE), fact("urn:b", 2, index=1)])
        with self.engine.writer(self.space) as writes:
            writes.append(self.space, batch)
            writes.put_side(self.space, side("run", "r"))
            row = DerivedRow("a", "urn:b", MAIN, 2, None)
            writes.derive(self.space, "words/1", rows=[row], ended=[], indexed=2)
            assert writes.head(self.space) == HeadRow(2, commit(2).hash, commit(2).at)
            assert [row.id for row in writes.newest(self.space, ["urn:b"], ON_MAIN)] == ["urn:b"]
            assert writes.entities(
                self.space, ((MAIN, 2),), start="", end=None, limit=9
            ) == ["urn:b"]  # fmt: skip
            assert writes.side(self.space, "run", "r") == side("run", "r")
            assert writes.indexed(self.space, "words/1") == 2
            assert writes.derived_of(self.space, "words/1", "urn:b") == [row]

    def test_a_reader_that_is_kept_sees_every_commit_made_since(self) -> None:
        reads = self.engine.reader()
        for version in range(1, 5):
            self.write(fact("urn:a", version))
            head = reads.head(self.space)
            assert head is not None
            assert head.version == version
            assert reads.newest(self.space, ["urn:a"], ON_MAIN)[0].version == version

    def test_what_is_at_or_below_a_version_never_changes(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:b", 2))
        line = ((MAIN, 2),)
        reads = self.engine.reader()
        before = reads.newest(self.space, ["urn:a", "urn:b"], line)
        self.write(fact("urn:a", 3), fact("urn:b", 4, op=DELETE))
        assert reads.newest(self.space, ["urn:a", "urn:b"], line) == before

    def test_writers_of_a_space_never_overlap(self) -> None:
        """Each thread reads the head and appends the next version; an overlap would lose one."""
        errors: list[BaseException] = []

        def count_up() -> None:
            try:
                for _ in range(ROUNDS):
                    with self.engine.writer(self.space) as writes:
                        head = writes.head(self.space)
                        version = 1 if head is None else head.version + 1
                        writes.append(self.space, self.batch([fact("urn:a", version)]))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=count_up) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        reads = self.engine.reader()
        rows = reads.commits(self.space, after=0, limit=1_000)
        assert [row.version for row in rows] == list(range(1, THREADS * ROUNDS + 1))

    def test_a_block_without_writes_changes_nothing(self) -> None:
        with self.engine.writer(self.space) as writes:
            assert writes.head(self.space) is None
        assert self._head_version() is None

    def _head_version(self) -> int | None:
        reads = self.engine.reader()
        head = reads.head(self.space)
        return None if head is None else head.version
