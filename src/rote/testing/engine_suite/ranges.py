"""Ranges of ids: half open, in code point order, over a line."""

import pytest

from rote.contract.operations import DELETE
from rote.engines.rows import Line
from rote.testing.engine_suite.ground import (
    NEWEST,
    ON_MAIN,
    ORDERED_IDS,
    EngineGround,
    fact,
    places,
)


class RangeTests(EngineGround):
    def newest_in(
        self, start: str, end: str | None, *, after: int = 0, line: Line = ON_MAIN
    ) -> tuple[int, int, int] | None:
        reads = self.engine.reader()
        row = reads.newest_in_range(self.space, line, start=start, end=end, after=after)
        return None if row is None else places([row])[0]

    @pytest.mark.parametrize("position", range(len(ORDERED_IDS)))
    def test_a_range_begins_at_its_start_and_ends_before_its_end(self, position: int) -> None:
        id = ORDERED_IDS[position]
        self.write(fact(id, 1))
        below = ORDERED_IDS[position - 1] if position else ""
        above = ORDERED_IDS[position + 1] if position + 1 < len(ORDERED_IDS) else None
        assert self.newest_in(id, above) == (1, 1, 0)
        assert self.newest_in(below, above) == (1, 1, 0)
        assert self.newest_in(id, None) == (1, 1, 0)
        assert self.newest_in(below, id) is None
        if above is not None:
            assert self.newest_in(above, None) is None

    def test_a_bound_may_hold_nul_which_is_how_just_above_an_id_is_written(self) -> None:
        self.write(fact("urn:a", 1))
        assert self.newest_in("urn:a\0", None) is None
        assert self.newest_in("urn:a", "urn:a\0") == (1, 1, 0)

    def test_an_empty_range_holds_nothing(self) -> None:
        self.write(fact("urn:a", 1))
        assert self.newest_in("urn:a", "urn:a") is None
        assert self.newest_in("urn:b", "urn:a") is None

    def test_the_newest_write_in_a_range_is_by_version_then_by_place_in_the_commit(self) -> None:
        self.write(fact("urn:c", 1), fact("urn:a", 2), fact("urn:b", 2, index=1))
        self.write(fact("urn:x", 3))
        assert self.newest_in("urn:a", "urn:d") == (1, 2, 1)

    def test_writes_at_or_below_the_version_do_not_count(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:b", 2))
        assert self.newest_in("", None, after=1) == (1, 2, 0)
        assert self.newest_in("", None, after=2) is None

    def test_a_delete_in_a_range_is_a_write(self) -> None:
        self.write(fact("urn:a", 1))
        self.write(fact("urn:a", 2, op=DELETE))
        assert self.newest_in("urn:a", None, after=1) == (1, 2, 0)

    def test_a_range_follows_the_line_and_its_caps(self) -> None:
        line: Line = ((2, NEWEST), (1, 2))
        self.write(fact("urn:a", 1), fact("urn:a", 2), fact("urn:b", 3, branch=2))
        self.write(fact("urn:a", 4))
        assert self.newest_in("urn:a", "urn:b", line=line) == (1, 2, 0)
        assert self.newest_in("urn:a", None, line=line) == (2, 3, 0)
        assert self.newest_in("urn:a", "urn:b", line=line, after=2) is None
        assert self.newest_in("", None, line=ON_MAIN) == (1, 4, 0)
