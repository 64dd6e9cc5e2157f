"""Optimistic blocks: an engine may hold no lock for them, and then proves at their end that none
was needed. Their writes are made whole or not at all, like those of any other block."""

import contextlib
import threading
from typing import Any

import pytest

from rote.contract.operations import DELETE
from rote.engines import Contended, Writer
from rote.engines.rows import MAIN, DerivedRow, HeadRow
from rote.errors import NotFound
from rote.testing.engine_suite.ground import ON_MAIN, EngineGround, commit, fact, side

THREADS = 4
ROUNDS = 25
# The same number as in the kernel: after so many attempts it takes the lock.
HOPES = 2
WAYS = ("one", "many", "with a side row", "in turn", "nothing")


class Interruption(Exception):
    """Raised inside a block, to test what the block leaves behind."""


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

    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize(
        "presumed",
        [
            {"ids": ["urn:a"]},
            {"ids": ["urn:new", "urn:gone"]},
            {"ids": ["urn:elsewhere"]},
            {"sides": [("run", "r")]},
            {"ids": ["urn:new"], "sides": [("run", "new"), ("run", "r")]},
        ],
        ids=str,
    )
    def test_a_block_that_presumes_what_is_not_so_leaves_nothing(
        self, presumed: dict[str, list[Any]], way: str
    ) -> None:
        self.write(fact("urn:a", 1), fact("urn:gone", 1, index=1))
        self.write(fact("urn:gone", 2, op=DELETE))
        self.write(fact("urn:elsewhere", 3, branch=2))
        self.put_sides(side("run", "r"))
        presumes = False
        with contextlib.suppress(Contended):
            with self.engine.writer(self.space, optimistic=True) as writes:
                presumes = writes.presume_absent(self.space, **presumed)
                if presumes:
                    ids, sides = presumed.get("ids", ["urn:x"]), presumed.get("sides", [("", "s")])
                    self._write_by(writes, way, ids[0], version=4, key=sides[-1][1])
            assert not presumes, "it was written"
        reads = self.engine.reader()
        assert reads.counts(self.space, until=9) == (3, 4)
        assert reads.sides(self.space, None, after=("", ""), limit=9) == [side("run", "r")]

    @pytest.mark.parametrize("way", WAYS)
    def test_a_block_that_presumes_what_is_so_goes_its_way(self, way: str) -> None:
        self.write(fact("urn:a", 1))
        self.put_sides(side("run", "r"))
        with self.engine.writer(self.space, optimistic=True) as writes:
            writes.presume_absent(self.space, ids=["urn:new"], sides=[("run", "new")])
            self._write_by(writes, way, "urn:new", version=2, key="new")
        found = self.engine.reader().newest(self.space, ["urn:new"], ON_MAIN)
        assert [row.version for row in found] == ([] if way == "nothing" else [2])

    def test_a_block_under_the_lock_looks(self) -> None:
        with self.engine.writer(self.space) as writes:
            assert not writes.presume_absent(self.space, ids=["urn:new"])

    def _write_by(self, writes: Writer, way: str, id: str, *, version: int, key: str) -> None:
        """Write in one of the ways that an engine has for the writes it kept back."""
        facts = [fact(id, version)] if way != "nothing" else []
        if way == "many":
            facts.append(fact(f"{id}:2", version, index=1))
        if facts:
            writes.append(self.space, self.batch(facts))
        if way in ("with a side row", "in turn"):
            writes.put_side(self.space, side("run", key, fence=2))
        if way == "in turn":
            writes.put_side(self.space, side("run", key, fence=3))

    def test_an_error_that_was_decided_on_what_is_not_so_is_not_answered(self) -> None:
        self.write(fact("urn:a", 1))
        presumes = False
        with (
            pytest.raises((Contended, NotFound)) as caught,
            self.engine.writer(self.space, optimistic=True) as writes,
        ):
            presumes = writes.presume_absent(self.space, ids=["urn:a"])
            raise NotFound("there is nothing to delete")
        assert caught.type is (Contended if presumes else NotFound)

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
