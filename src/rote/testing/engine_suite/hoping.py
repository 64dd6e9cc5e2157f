"""Optimistic blocks: an engine may hold no lock for them, and then proves at their end that none
was needed. What is in them is written whole or not at all, like any other block."""

import threading

import pytest

from rote.engines import Contended
from rote.engines.rows import DELETE, MAIN, DerivedRow, HeadRow
from rote.testing.engine_suite.ground import ON_MAIN, EngineGround, commit, fact, side

THREADS = 4
ROUNDS = 25
# Like the kernel: after so many attempts the lock is taken.
HOPES = 2


class Interruption(Exception):
    """Raised inside a block to see what is left of it."""


class HopingTests(EngineGround):
    def test_an_optimistic_block_writes_everything_that_is_in_it(self) -> None:
        self.write(fact("urn:gone", 1), fact("urn:back", 1, index=1))
        self.write(fact("urn:back", 2, op=DELETE))
        self.put_sides(side("run", "old"), side("run", "kept"))
        self.derive(DerivedRow("a", "urn:gone", MAIN, 1, None), indexed=2)
        facts = [fact("urn:gone", 3, op=DELETE), fact("urn:back", 3, index=1), fact("urn:new", 4)]
        ended = DerivedRow("a", "urn:gone", MAIN, 1, 3)
        rows = [DerivedRow("b", id, MAIN, 3, None) for id in ("urn:back", "urn:new")]
        with self.engine.writer(self.space, optimistic=True) as writes:
            assert writes.head(self.space) == HeadRow(2, commit(2).hash, commit(2).at)
            writes.append(self.space, self.batch(facts))
            writes.put_side(self.space, side("run", "new"))
            writes.drop_side(self.space, "run", "old")
            writes.derive(self.space, "words/1", rows=rows, ended=[ended], indexed=4)
        reads = self.engine.reader()
        assert reads.head(self.space) == HeadRow(4, commit(4).hash, commit(4).at)
        assert reads.facts(self.space, after=2, until=4) == facts
        live = reads.entities(self.space, ((MAIN, 4),), start="", end=None, limit=9)
        assert live == ["urn:back", "urn:new"]
        keys = [row.key for row in reads.sides(self.space, None, after=("", ""), limit=9)]
        assert keys == ["kept", "new"]
        assert reads.derived_of(self.space, "words/1", "urn:gone") == [ended]
        assert reads.derived_count(self.space, "words/1", until=9) == 3
        assert reads.indexed(self.space, "words/1") == 4

    def test_writes_of_the_same_rows_happen_in_their_order(self) -> None:
        self.derive(DerivedRow("a", "urn:a", MAIN, 1, None))
        row = DerivedRow("a", "urn:a", MAIN, 1, 2)
        with self.engine.writer(self.space, optimistic=True) as writes:
            writes.put_side(self.space, side("run", "r"))
            writes.put_side(self.space, side("run", "r", fence=2))
            writes.append(self.space, self.batch([fact("urn:a", 1)]))
            writes.append(self.space, self.batch([fact("urn:a", 2, op=DELETE)]))
            writes.drop_derived(self.space, "words/1")
            writes.derive(self.space, "words/1", rows=[row], ended=[], indexed=2)
        reads = self.engine.reader()
        assert reads.side(self.space, "run", "r") == side("run", "r", fence=2)
        assert reads.counts(self.space, until=9) == (2, 2)
        assert reads.entities(self.space, ((MAIN, 2),), start="", end=None, limit=9) == []
        assert reads.derived_of(self.space, "words/1", "urn:a") == [row]

    def test_an_exception_in_an_optimistic_block_leaves_nothing(self) -> None:
        self.write(fact("urn:a", 1))
        with (
            pytest.raises(Interruption),
            self.engine.writer(self.space, optimistic=True) as writes,
        ):
            writes.append(self.space, self.batch([fact("urn:a", 2)]))
            writes.put_side(self.space, side("run", "r"))
            raise Interruption
        reads = self.engine.reader()
        assert reads.counts(self.space, until=9) == (1, 1)
        assert reads.side(self.space, "run", "r") is None
        self.write(fact("urn:b", 2))
        assert reads.counts(self.space, until=9) == (2, 2)

    def test_an_optimistic_block_without_writes_changes_nothing(self) -> None:
        self.write(fact("urn:a", 1))
        with self.engine.writer(self.space, optimistic=True) as writes:
            assert writes.newest(self.space, ["urn:a"], ON_MAIN)[0].version == 1
            assert writes.newest(self.space, ["urn:a", "urn:b"], ON_MAIN)[0].version == 1
            assert writes.newest(self.space, ["urn:b"], ON_MAIN) == []
            assert writes.newest(self.space, [], ON_MAIN) == []
        assert self.engine.reader().counts(self.space, until=9) == (1, 1)

    def test_writers_that_hope_and_writers_that_lock_never_overlap(self) -> None:
        errors: list[BaseException] = []

        def append_next(*, optimistic: bool) -> None:
            with self.engine.writer(self.space, optimistic=optimistic) as writes:
                head = writes.head(self.space)
                version = 1 if head is None else head.version + 1
                writes.append(self.space, self.batch([fact("urn:a", version)]))

        def count_up() -> None:
            try:
                for _ in range(ROUNDS):
                    for _ in range(HOPES):
                        try:
                            append_next(optimistic=True)
                            break
                        except Contended:
                            continue
                    else:
                        append_next(optimistic=False)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=count_up) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        rows = self.engine.reader().commits(self.space, after=0, limit=1_000)
        assert [row.version for row in rows] == list(range(1, THREADS * ROUNDS + 1))
