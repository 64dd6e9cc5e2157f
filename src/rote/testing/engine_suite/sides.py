"""Side rows: small mutable rows beside the log."""

from rote.engines.rows import SideRecord
from rote.testing.engine_suite.ground import EngineGround, side


class SideTests(EngineGround):
    def side_keys(
        self, kind: str | None, after: tuple[str, str] = ("", ""), limit: int = 99
    ) -> list[tuple[str, str]]:
        reads = self.engine.reader()
        rows = reads.sides(self.space, kind, after=after, limit=limit)
        return [(row.kind, row.key) for row in rows]

    def test_a_side_row_comes_back_field_by_field(self) -> None:
        row = SideRecord("run", "a key, \U0001f600", 2**40, b"\0body\xff", b"\0seal")
        self.put_sides(row)
        reads = self.engine.reader()
        assert reads.side(self.space, "run", row.key) == row

    def test_a_row_that_was_never_put_is_none(self) -> None:
        self.put_sides(side("run", "a"))
        reads = self.engine.reader()
        assert reads.side(self.space, "run", "b") is None
        assert reads.side(self.space, "other", "a") is None

    def test_putting_again_replaces_the_row(self) -> None:
        self.put_sides(side("run", "a"), side("run", "a", fence=2, body=b"new"))
        self.put_sides(side("run", "a", fence=3, body=b"newest"))
        reads = self.engine.reader()
        assert reads.side(self.space, "run", "a") == side("run", "a", fence=3, body=b"newest")
        assert self.side_keys("run") == [("run", "a")]

    def test_a_dropped_row_is_gone_and_others_stay(self) -> None:
        self.put_sides(side("run", "a"), side("run", "b"), side("other", "a"))
        with self.engine.writer(self.space) as writes:
            writes.drop_side(self.space, "run", "a")
            writes.drop_side(self.space, "run", "never there")
        assert self.side_keys(None) == [("other", "a"), ("run", "b")]

    def test_rows_of_one_kind_are_of_that_kind_alone_wherever_the_page_begins(self) -> None:
        self.put_sides(side("a", "1"), side("b", "1"), side("b", "2"), side("c", "1"))
        assert self.side_keys("b") == [("b", "1"), ("b", "2")]
        assert self.side_keys("b", after=("b", "1")) == [("b", "2")]
        assert self.side_keys("c", after=("b", "1")) == [("c", "1")]

    def test_rows_of_all_kinds_are_paged_by_kind_and_key_without_loss(self) -> None:
        keys = ["1", "10", "2", "é", "\uffff", "\U00010000"]
        self.put_sides(*(side(kind, key) for key in reversed(keys) for kind in ("z", "a", "key")))
        paged: list[tuple[str, str]] = []
        after = ("", "")
        while page := self.side_keys(None, after=after, limit=4):
            assert len(page) <= 4
            paged += page
            after = page[-1]
        assert paged == [(kind, key) for kind in ("a", "key", "z") for key in keys]
