"""Keeping: durability, integrity, and backups."""

from pathlib import Path

import pytest

from rote.contract.operations import DELETE
from rote.engines import Engine
from rote.engines.rows import MAIN, ChunkRow, DerivedRow
from rote.engines.sqlite import SqliteEngine
from rote.errors import InvalidInput, RoteError, Unavailable
from rote.testing.engine_suite.ground import EngineGround, blob, commit, fact, side
from rote.testing.engine_suite.packed import segment, vector


class KeepingTests(EngineGround):
    def test_settle_finds_an_attempt_that_is_in_the_log(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:a", 2))
        assert self.engine.settle(self.space, 1, commit(1).attempt)
        assert self.engine.settle(self.space, 2, commit(2).attempt)

    def test_settle_refuses_another_attempt_and_a_version_that_is_not_there(self) -> None:
        self.write(fact("urn:a", 1))
        assert not self.engine.settle(self.space, 1, b"another")
        assert not self.engine.settle(self.space, 2, commit(1).attempt)
        assert not self.engine.settle(self.make_space("other"), 1, commit(1).attempt)

    def test_hardening_changes_no_answer(self) -> None:
        self.engine.harden()
        self.write(fact("urn:a", 1))
        self.engine.harden()
        reads = self.engine.reader()
        assert reads.counts(self.space, until=1) == (1, 1)

    def test_a_healthy_engine_reports_no_damage(self) -> None:
        self.write(fact("urn:a", 1))
        assert self.engine.damage() == []

    def test_a_backup_is_a_sqlite_store_with_everything_in_it(self) -> None:
        other = self.make_space("other")
        self.write(fact("urn:a", 1), fact("urn:b", 1, index=1))
        self.write(fact("urn:b", 2, op=DELETE), fact("urn:c", 3, branch=2))
        self.write(fact("urn:there", 1), space=other)
        # Keys and terms may hold NUL, which not every server accepts as text.
        self.put_sides(side("key", "k"), side("run", "r"), side("run", "r\0é"))
        self.derive(
            DerivedRow("a", "urn:a", MAIN, 1, None),
            DerivedRow("a\0é", "urn:a", MAIN, 1, None),
            indexed=3,
        )
        with self.engine.writer(self.space) as writes:
            writes.put_blob(self.space, blob(b"one", hash=b"h", size=4))
            writes.put_blob(self.space, blob(b"two"))
            writes.put_chunks(self.space, b"one", [ChunkRow(2, b"ab"), ChunkRow(4, b"cd")])
            writes.put_segment(
                self.space, "words/1", segment(7, until=3), [("a", b"1"), ("a\0é", b"2")]
            )
            writes.put_vectors(self.space, "v", [vector(b"\0" * 32), vector(b"\xff" * 32)])
        path = self.place / "copy.db"
        self.engine.backup(path)
        copy = SqliteEngine(path)
        try:
            assert [(row.did, row.name, row.seal) for row in copy.spaces()] == [
                (row.did, row.name, row.seal) for row in self.engine.spaces()
            ]
            for row in self.engine.spaces():
                number = next(found.number for found in copy.spaces() if found.did == row.did)
                assert _contents(copy, number) == _contents(self.engine, row.number)
        finally:
            copy.close()

    def test_a_backup_overwrites_no_file(self) -> None:
        path = self.place / "precious.txt"
        path.write_text("mine")
        with pytest.raises(InvalidInput):
            self.engine.backup(path)
        assert path.read_text() == "mine"

    def test_a_backup_into_a_missing_folder_is_an_error_of_ours(self, tmp_path: Path) -> None:
        with pytest.raises(RoteError):
            self.engine.backup(tmp_path / "nowhere" / "copy.db")

    def test_a_closed_engine_says_so_in_every_call(self) -> None:
        self.engine.check_usable()
        self.engine.close()
        with pytest.raises(Unavailable):
            self.engine.check_usable()
        with pytest.raises(Unavailable):
            self.engine.spaces()
        with pytest.raises(Unavailable):
            self.engine.reader().head(self.space)
        with pytest.raises(Unavailable), self.engine.writer(self.space) as writes:
            writes.head(self.space)
        with pytest.raises(Unavailable):
            self.engine.harden()
        with pytest.raises(Unavailable):
            self.engine.settle(self.space, 1, b"")
        with pytest.raises(Unavailable):
            self.engine.damage()
        with pytest.raises(Unavailable):
            self.engine.backup(self.place / "copy.db")

    def test_tidying_leaves_the_store_and_its_neighbours_alone(self) -> None:
        before = _contents(self.engine, self.space)
        neighbour = self.place / "notes.txt"
        neighbour.write_text("of somebody else")
        self.engine.tidy()
        assert neighbour.read_text() == "of somebody else"
        assert _contents(self.engine, self.space) == before

    def test_closing_twice_is_closing_once(self) -> None:
        self.engine.close()
        self.engine.close()


def _contents(engine: Engine, space: int) -> list[object]:
    """Return everything that an engine stores of a space."""
    reads = engine.reader()
    ids = ["urn:a", "urn:b", "urn:c", "urn:there"]
    return [
        reads.head(space),
        reads.branches(space),
        reads.commits(space, after=0, limit=99),
        reads.facts(space, after=0, until=99),
        reads.entity_rows(space, after=None, limit=99),
        reads.sides(space, None, after=("", ""), limit=99),
        reads.indexed(space, "words/1"),
        [reads.derived_of(space, "words/1", id) for id in ids],
        reads.segments(space, "words/1"),
        reads.segment_bodies(space, "words/1", [7]),
        reads.postings_of(space, "words/1", 7, after="", limit=99),
        reads.vector_rows(space, "v", after=b"", limit=99),
        reads.blobs(space, after=b"", limit=99),
        reads.uploads(space, after=b"", limit=99),
        reads.chunks(space, b"one", after=0, limit=99),
    ]
