"""Sharing: several engines on one place, in turn and at once."""

import threading

from rote.contract.operations import DELETE
from rote.engines import Engine
from rote.engines.rows import MAIN, DerivedRow
from rote.testing.engine_suite.ground import MAIN_BRANCH, ON_MAIN, EngineGround, fact, side

ROUNDS = 20


class SharingTests(EngineGround):
    def test_what_was_written_is_there_when_the_place_is_opened_again(self) -> None:
        self.write(fact("urn:a", 1, body=b'"kept"'), fact("urn:b", 2, branch=2))
        self.write(fact("urn:a", 3, op=DELETE))
        self.put_sides(side("run", "r"))
        self.derive(DerivedRow("a", "urn:a", MAIN, 1, 3), indexed=3)
        self.engine.close()
        again = self.open()
        assert [row.number for row in again.spaces()] == [self.space]
        reads = again.reader()
        assert reads.counts(self.space, until=9) == (3, 3)
        assert reads.facts(self.space, after=0, until=1)[0].body == b'"kept"'
        assert len(reads.entity_rows(self.space, after=None, limit=9)) == 2
        assert reads.side(self.space, "run", "r") == side("run", "r")
        assert reads.indexed(self.space, "words/1") == 3

    def test_each_engine_sees_the_commits_of_the_other_at_once(self) -> None:
        other = self.open()
        here, there = self.engine.reader(), other.reader()
        for version in range(1, 6):
            writer, reads = (self.engine, there) if version % 2 else (other, here)
            with writer.writer(self.space) as writes:
                head = writes.head(self.space)
                assert (0 if head is None else head.version) == version - 1
                writes.append(self.space, self.batch([fact("urn:a", version)]))
            head = reads.head(self.space)
            assert head is not None
            assert head.version == version
            assert reads.newest(self.space, ["urn:a"], ON_MAIN)[0].version == version

    def test_readers_do_not_wait_for_a_block_and_see_nothing_of_it(self) -> None:
        self.write(fact("urn:a", 1))
        with self.engine.writer(self.space) as writes:
            writes.append(self.space, self.batch([fact("urn:a", 2)]))
            for reads in (self.engine.reader(), self.open().reader()):
                head = reads.head(self.space)
                assert head is not None
                assert head.version == 1

    def test_a_space_made_by_one_engine_is_known_to_the_other(self) -> None:
        other = self.open()
        made = self.engine.create_space(did="did:key:z1", name="x", seal=b"1", main=MAIN_BRANCH)
        assert made in other.spaces()
        assert other.create_space(did="did:key:z2", name="x", seal=b"2", main=MAIN_BRANCH) == made

    def test_side_rows_of_one_engine_are_seen_by_the_other(self) -> None:
        other = self.open()
        self.put_sides(side("run", "r"))
        with other.writer(self.space) as writes:
            assert writes.side(self.space, "run", "r") == side("run", "r")
            writes.put_side(self.space, side("run", "r", fence=2))
        reads = self.engine.reader()
        assert reads.side(self.space, "run", "r") == side("run", "r", fence=2)

    def test_two_engines_that_write_at_once_lose_nothing(self) -> None:
        other = self.open()
        errors: list[BaseException] = []

        def count_up(engine: Engine) -> None:
            try:
                for _ in range(ROUNDS):
                    with engine.writer(self.space) as writes:
                        head = writes.head(self.space)
                        version = 1 if head is None else head.version + 1
                        writes.append(self.space, self.batch([fact("urn:a", version)]))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=count_up, args=(e,)) for e in (self.engine, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        reads = self.engine.reader()
        rows = reads.commits(self.space, after=0, limit=1_000)
        assert [row.version for row in rows] == list(range(1, 2 * ROUNDS + 1))

    def test_closing_one_engine_leaves_the_other_working(self) -> None:
        other = self.open()
        self.write(fact("urn:a", 1))
        self.engine.close()
        with other.writer(self.space) as writes:
            writes.append(self.space, self.batch([fact("urn:a", 2)]))
        reads = other.reader()
        assert reads.counts(self.space, until=9) == (2, 2)
