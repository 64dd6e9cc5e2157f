"""Lines: the facts of an entity that count for a branch.

main (1)   v1 ─ v2 ─────── v5
                 └ fork at 2
child (2)           v3 ── v4        line ((2, newest), (1, 2))
"""

import pytest

from rote.contract.operations import DELETE
from rote.engines.rows import MAIN, FactRow, Line
from rote.testing.engine_suite.ground import NEWEST, ON_MAIN, EngineGround, fact, places

CHILD: Line = ((2, NEWEST), (1, 2))
GRANDCHILD: Line = ((3, NEWEST), (2, 3), (1, 2))


class LineTests(EngineGround):
    @pytest.fixture
    def branched(self) -> None:
        """Write urn:a on both branches, urn:old on main below the fork, urn:late on main above it."""
        self.write(fact("urn:a", 1), fact("urn:old", 1, index=1))
        self.write(fact("urn:a", 2))
        self.write(fact("urn:a", 3, branch=2))
        self.write(fact("urn:a", 4, branch=2))
        self.write(fact("urn:a", 5), fact("urn:late", 5, index=1))

    def newest_on(self, ids: list[str], line: Line) -> dict[str, tuple[int, int, int]]:
        reads = self.engine.reader()
        rows = reads.newest(self.space, ids, line)
        found = dict(zip([row.id for row in rows], places(rows), strict=True))
        assert len(found) == len(rows)
        return found

    def history_on(
        self,
        line: Line,
        *,
        before: tuple[int, int] | None = None,
        after: int = 0,
        limit: int = 99,
    ) -> list[tuple[int, int, int]]:
        reads = self.engine.reader()
        rows = reads.history(self.space, "urn:a", line, before=before, after=after, limit=limit)
        return places(rows)

    # -- newest ------------------------------------------------------------------------------------

    @pytest.mark.usefixtures("branched")
    def test_newest_on_main_ignores_other_branches(self) -> None:
        assert self.newest_on(["urn:a"], ON_MAIN) == {"urn:a": (1, 5, 0)}

    @pytest.mark.usefixtures("branched")
    def test_newest_on_a_child_is_its_own_before_the_inherited(self) -> None:
        assert self.newest_on(["urn:a"], CHILD) == {"urn:a": (2, 4, 0)}

    @pytest.mark.usefixtures("branched")
    def test_newest_on_a_child_is_inherited_where_it_wrote_nothing(self) -> None:
        assert self.newest_on(["urn:old"], CHILD) == {"urn:old": (1, 1, 1)}

    @pytest.mark.usefixtures("branched")
    def test_what_the_parent_wrote_after_the_fork_is_not_on_the_line(self) -> None:
        assert self.newest_on(["urn:late"], CHILD) == {}

    @pytest.mark.usefixtures("branched")
    def test_newest_of_many_ids_follows_the_same_rules(self) -> None:
        ids = ["urn:late", "urn:never", "urn:old", "urn:a"]
        assert self.newest_on(ids, CHILD) == {"urn:a": (2, 4, 0), "urn:old": (1, 1, 1)}
        assert self.newest_on(ids, ON_MAIN) == {
            "urn:a": (1, 5, 0),
            "urn:old": (1, 1, 1),
            "urn:late": (1, 5, 1),
        }

    @pytest.mark.parametrize(
        ("version", "expected"),
        [(0, None), (1, (1, 1, 0)), (2, (1, 2, 0)), (3, (2, 3, 0)), (4, (2, 4, 0)), (5, (2, 4, 0))],
    )
    @pytest.mark.usefixtures("branched")
    def test_newest_at_a_version_is_capped_on_every_hop(
        self, version: int, expected: tuple[int, int, int] | None
    ) -> None:
        line = tuple((branch, min(cap, version)) for branch, cap in CHILD)
        assert self.newest_on(["urn:a"], line).get("urn:a") == expected
        assert self.newest_on(["urn:a", "urn:never"], line).get("urn:a") == expected

    @pytest.mark.usefixtures("branched")
    def test_a_grandchild_inherits_through_both_forks(self) -> None:
        assert self.newest_on(["urn:a", "urn:old", "urn:late"], GRANDCHILD) == {
            "urn:a": (2, 3, 0),
            "urn:old": (1, 1, 1),
        }

    def test_the_last_of_several_facts_in_one_commit_is_the_newest(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:a", 1, index=1), fact("urn:a", 1, index=2))
        assert self.newest_on(["urn:a"], ON_MAIN) == {"urn:a": (1, 1, 2)}
        assert self.newest_on(["urn:a", "urn:b"], ON_MAIN) == {"urn:a": (1, 1, 2)}

    def test_a_delete_is_a_newest_fact_like_any_other(self) -> None:
        self.write(fact("urn:a", 1))
        self.write(fact("urn:a", 2, op=DELETE))
        assert self.newest_on(["urn:a"], ON_MAIN) == {"urn:a": (1, 2, 0)}

    def test_newest_of_no_ids_is_nothing(self) -> None:
        self.write(fact("urn:a", 1))
        assert self.newest_on([], ON_MAIN) == {}

    def test_newest_takes_a_thousand_ids_at_once(self) -> None:
        ids = [f"urn:{number:04d}" for number in range(1_000)]
        self.write(*(fact(id, 1, index=index) for index, id in enumerate(ids)))
        assert self.newest_on(ids, ON_MAIN) == {id: (1, 1, index) for index, id in enumerate(ids)}

    # -- history -----------------------------------------------------------------------------------

    @pytest.mark.usefixtures("branched")
    def test_history_of_a_line_is_newest_first(self) -> None:
        assert self.history_on(ON_MAIN) == [(1, 5, 0), (1, 2, 0), (1, 1, 0)]
        assert self.history_on(CHILD) == [(2, 4, 0), (2, 3, 0), (1, 2, 0), (1, 1, 0)]

    @pytest.mark.usefixtures("branched")
    def test_history_bounds_leave_out_the_facts_they_name(self) -> None:
        assert self.history_on(CHILD, before=(4, 0), after=1) == [(2, 3, 0), (1, 2, 0)]

    @pytest.mark.usefixtures("branched")
    def test_history_gives_the_newest_of_what_is_more_than_its_limit(self) -> None:
        assert self.history_on(CHILD, limit=2) == [(2, 4, 0), (2, 3, 0)]

    def test_history_pages_may_end_inside_a_commit(self) -> None:
        self.write(*(fact("urn:a", 1, index=index) for index in range(4)), fact("urn:a", 2))
        assert self.history_on(ON_MAIN, limit=3) == [(1, 2, 0), (1, 1, 3), (1, 1, 2)]
        assert self.history_on(ON_MAIN, before=(1, 2), limit=3) == [(1, 1, 1), (1, 1, 0)]

    @pytest.mark.usefixtures("branched")
    def test_history_holds_only_the_entity_that_was_asked_for(self) -> None:
        reads = self.engine.reader()
        rows = reads.history(self.space, "urn:old", CHILD, before=None, after=0, limit=9)
        none = reads.history(self.space, "urn:never", CHILD, before=None, after=0, limit=9)
        assert [row.id for row in rows] == ["urn:old"]
        assert none == []

    @pytest.mark.usefixtures("branched")
    def test_history_ends_with_the_first_fact_that_is_last(self) -> None:
        asked: list[tuple[int, int, int]] = []

        def is_last(row: FactRow) -> bool:
            asked.extend(places([row]))
            return row.version == 3

        reads = self.engine.reader()
        rows = reads.history(
            self.space, "urn:a", CHILD, before=None, after=0, limit=9, is_last=is_last
        )
        assert places(rows) == [(2, 4, 0), (2, 3, 0)] == asked
        self.write(fact("urn:a", 6, branch=2))
        assert self.newest_on(["urn:a"], CHILD) == {"urn:a": (2, 6, 0)}

    # -- salts -------------------------------------------------------------------------------------

    def test_the_salt_of_an_entity_is_found_whatever_the_branch(self) -> None:
        self.write(fact("urn:a", 1, salt=b"a" * 16), fact("urn:b", 2, branch=7, salt=b"b" * 16))
        reads = self.engine.reader()
        assert reads.salts(self.space, ["urn:b", "urn:a", "urn:never"]) == {
            "urn:a": b"a" * 16,
            "urn:b": b"b" * 16,
        }

    def test_an_entity_without_a_salt_is_left_out_of_the_salts(self) -> None:
        self.write(fact("urn:a", 1, branch=MAIN, salt=None))
        reads = self.engine.reader()
        assert reads.salts(self.space, ["urn:a"]) == {}
        assert reads.salts(self.space, []) == {}
