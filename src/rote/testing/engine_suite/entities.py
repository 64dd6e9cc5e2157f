"""Entities: thin pointers to newest facts, by which scans find what may exist."""

from rote.contract.operations import DELETE
from rote.engines.rows import MAIN, EntityRow
from rote.testing.engine_suite.ground import ORDERED_IDS, EngineGround, fact


class EntityTests(EngineGround):
    def candidates(
        self,
        start: str = "",
        end: str | None = None,
        *,
        branch: int = MAIN,
        version: int = 2**62,
        limit: int = 99,
        descending: bool = False,
    ) -> list[str]:
        reads = self.engine.reader()
        return reads.entities(
            self.space, ((branch, version),), start=start, end=end, limit=limit,
            descending=descending,
        )  # fmt: skip

    def test_candidates_come_in_code_point_order(self) -> None:
        shuffled = ORDERED_IDS[::2] + ORDERED_IDS[1::2]
        self.write(*(fact(id, 1, index=index) for index, id in enumerate(shuffled)))
        assert self.candidates() == ORDERED_IDS

    def test_candidates_are_within_a_half_open_range(self) -> None:
        self.write(*(fact(id, 1, index=index) for index, id in enumerate(ORDERED_IDS)))
        assert self.candidates("urn:a:", "urn:a;") == ["urn:a:1", "urn:a:10", "urn:a:2"]
        assert self.candidates("urn:a", "urn:a\0") == ["urn:a"]
        assert self.candidates("urn:a:1\0", "urn:aa") == ["urn:a:10", "urn:a:2"]
        assert self.candidates("urn:\U00010000") == ["urn:\U00010000", "urn:\U0010ffff"]

    def test_the_first_candidates_are_given_when_there_are_more_than_the_limit(self) -> None:
        self.write(*(fact(id, 1, index=index) for index, id in enumerate(ORDERED_IDS)))
        assert self.candidates(limit=3) == ORDERED_IDS[:3]

    def test_the_last_candidates_are_given_in_the_reverse_order(self) -> None:
        self.write(*(fact(id, 1, index=index) for index, id in enumerate(ORDERED_IDS)))
        assert self.candidates(descending=True) == ORDERED_IDS[::-1]
        assert self.candidates(limit=3, descending=True) == ORDERED_IDS[:-4:-1]
        assert self.candidates("urn:a:", "urn:a:2", descending=True) == ["urn:a:10", "urn:a:1"]
        self.write(*(fact(id, 2, op=DELETE, index=n) for n, id in enumerate(ORDERED_IDS[::2])))
        assert self.candidates(version=1, limit=5, descending=True) == ORDERED_IDS[:-6:-1]
        assert self.candidates(descending=True) == ORDERED_IDS[1::2][::-1]

    def test_a_deleted_entity_is_no_candidate_from_its_delete_on(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:b", 1, index=1))
        self.write(fact("urn:a", 2, op=DELETE))
        assert self.candidates() == ["urn:b"]
        assert self.candidates(version=2) == ["urn:b"]

    def test_a_deleted_entity_is_a_candidate_below_its_delete(self) -> None:
        self.write(fact("urn:b", 1), fact("urn:a", 1, index=1))
        self.write(fact("urn:b", 2, op=DELETE))
        assert self.candidates(version=1) == ["urn:a", "urn:b"]

    def test_live_and_dead_candidates_share_the_limit_in_order(self) -> None:
        self.write(*(fact(f"urn:{index}", 1, index=index) for index in range(6)))
        self.write(*(fact(f"urn:{index}", 2, op=DELETE, index=index) for index in (0, 2, 4)))
        assert self.candidates(version=1, limit=4) == ["urn:0", "urn:1", "urn:2", "urn:3"]

    def test_a_revived_entity_is_one_candidate_at_every_version(self) -> None:
        self.write(fact("urn:a", 1))
        self.write(fact("urn:a", 2, op=DELETE))
        self.write(fact("urn:a", 3))
        assert self.candidates() == ["urn:a"]
        assert self.candidates(version=1) == ["urn:a"]

    def test_an_entity_deleted_and_revived_in_one_batch_is_one_candidate(self) -> None:
        self.write(fact("urn:a", 1))
        self.write(fact("urn:a", 2, op=DELETE), fact("urn:a", 3))
        assert self.candidates(version=1) == ["urn:a"]
        assert self.pointer_rows() == [EntityRow(MAIN, "urn:a", 3, 0, True)]

    def test_candidates_are_of_one_branch(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:b", 2, branch=2))
        assert self.candidates() == ["urn:a"]
        assert self.candidates(branch=2) == ["urn:b"]

    # -- the rows themselves -----------------------------------------------------------------------

    def pointer_rows(
        self, after: tuple[int, str] | None = None, limit: int = 99
    ) -> list[EntityRow]:
        reads = self.engine.reader()
        return reads.entity_rows(self.space, after=after, limit=limit)

    def test_there_is_one_pointer_for_each_entity_of_a_branch_at_its_newest_fact(self) -> None:
        self.write(fact("urn:b", 1), fact("urn:a", 1, index=1))
        self.write(fact("urn:b", 2, op=DELETE), fact("urn:a", 3, branch=2))
        self.write(fact("urn:a", 4), fact("urn:a", 4, index=1))
        assert self.pointer_rows() == [
            EntityRow(MAIN, "urn:a", 4, 1, True),
            EntityRow(MAIN, "urn:b", 2, 0, False),
            EntityRow(2, "urn:a", 3, 0, True),
        ]

    def test_pointers_are_paged_by_branch_and_id_without_loss(self) -> None:
        self.write(*(fact(id, 1, index=index) for index, id in enumerate(ORDERED_IDS)))
        dead = ORDERED_IDS[::3]
        self.write(*(fact(id, 2, op=DELETE, index=index) for index, id in enumerate(dead)))
        self.write(fact("urn:A", 3, branch=2))
        paged: list[EntityRow] = []
        after: tuple[int, str] | None = None
        while page := self.pointer_rows(after, limit=4):
            assert len(page) <= 4
            paged += page
            after = (page[-1].branch, page[-1].id)
        assert [(row.branch, row.id) for row in paged] == [
            *((MAIN, id) for id in ORDERED_IDS),
            (2, "urn:A"),
        ]
        assert [row.id for row in paged if not row.live] == dead

    def test_pointers_of_named_ids_are_of_that_branch_dead_ones_included(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:b", 1, index=1), fact("urn:c", 1, index=2))
        self.write(fact("urn:b", 2, op=DELETE))
        self.write(fact("urn:a", 3, branch=2))
        reads = self.engine.reader()
        found = reads.pointers(self.space, MAIN, ["urn:b", "urn:a", "urn:never"])
        none = reads.pointers(self.space, MAIN, [])
        assert sorted(found, key=lambda row: row.id) == [
            EntityRow(MAIN, "urn:a", 1, 0, True),
            EntityRow(MAIN, "urn:b", 2, 0, False),
        ]
        assert none == []

    def test_the_entity_at_a_place_is_the_candidate_there(self) -> None:
        self.write(*(fact(id, 1, index=index) for index, id in enumerate(ORDERED_IDS)))
        self.write(fact("urn:a", 2, op=DELETE))

        def at(place: int, start: str = "", end: str | None = None, after: int = 2) -> str | None:
            return self.engine.reader().entity_at(
                self.space, MAIN, start=start, end=end, place=place, unless_after=after
            )

        for start, end in (("", None), ("urn:a:", "urn:a;"), ("urn:a:1\0", None)):
            ids = self.candidates(start, end)
            assert [at(place, start, end) for place in range(len(ids) + 1)] == [*ids, None]
        assert at(0, after=1) is None
        assert at(0, after=3) == at(0)
