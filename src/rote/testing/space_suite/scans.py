"""Scans: existing entities in code point order, all from one state."""

from typing import Any

import pytest

from rote.contract import View
from rote.contract.commands import Scan
from rote.errors import InvalidInput
from rote.testing.engine_suite.ground import ORDERED_IDS
from rote.testing.space_suite.ground import A, B, C, SpaceGround, put, remove
from rote.values.limits import PAGE_MAX


class ScanTests(SpaceGround):
    @pytest.fixture
    def filled(self) -> None:
        self.space.transact([put(id, index) for index, id in enumerate(reversed(ORDERED_IDS))])

    def ids_of(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> list[str]:
        return [state.id for state in self.space.scan(prefix, after=after, limit=limit)]

    @pytest.mark.usefixtures("filled")
    def test_a_scan_is_in_code_point_order(self) -> None:
        assert self.ids_of() == ORDERED_IDS

    @pytest.mark.usefixtures("filled")
    def test_a_scan_gives_whole_states(self) -> None:
        for state in self.space.scan():
            assert state == self.space.read(state.id)

    @pytest.mark.parametrize(
        ("prefix", "expected"),
        [
            ("urn:a", ["urn:a", "urn:a:1", "urn:a:10", "urn:a:2", "urn:aa"]),
            ("urn:a:", ["urn:a:1", "urn:a:10", "urn:a:2"]),
            ("urn:a:1", ["urn:a:1", "urn:a:10"]),
            ("urn:\ud7ff", ["urn:\ud7ff"]),
            ("urn:\uffff", ["urn:\uffff"]),
            ("urn:\U0010ffff", ["urn:\U0010ffff"]),
            ("urn:never", []),
            ("v", []),
            ("\U0010ffff", []),
        ],
    )
    @pytest.mark.usefixtures("filled")
    def test_a_prefix_selects_what_starts_with_it(self, prefix: str, expected: list[str]) -> None:
        assert self.ids_of(prefix) == expected

    def test_a_prefix_that_ends_in_the_last_character_has_no_end_of_its_own(self) -> None:
        ids = ["a:\U0010ffff", "a:\U0010ffff\U0010ffffx", "a:\U0010ffffb", "b:x"]
        self.space.transact([put(id, 1) for id in ids])
        assert self.ids_of("a:\U0010ffff") == sorted(ids[:3])
        assert self.ids_of("a:\U0010ffff\U0010ffff") == [ids[1]]

    @pytest.mark.usefixtures("filled")
    def test_after_leaves_out_the_id_it_names_and_all_before(self) -> None:
        for position, id in enumerate(ORDERED_IDS):
            assert self.ids_of(after=id) == ORDERED_IDS[position + 1 :]
        assert self.ids_of(after="urn:a:1\0") == self.ids_of(after="urn:a:1")
        assert self.ids_of("urn:a:", after="urn:A") == ["urn:a:1", "urn:a:10", "urn:a:2"]
        assert self.ids_of("urn:a:", after="urn:z") == []

    @pytest.mark.usefixtures("filled")
    def test_limit_gives_the_first_ones(self) -> None:
        for limit in range(len(ORDERED_IDS) + 2):
            assert self.ids_of(limit=limit) == ORDERED_IDS[:limit]
        assert self.ids_of("urn:a", after="urn:a", limit=2) == ["urn:a:1", "urn:a:10"]

    def test_deleted_entities_are_not_scanned_and_revived_ones_are(self) -> None:
        self.space.transact([put(A, 1), put(B, 1), put(C, 1)])
        self.space.transact([remove(A), remove(B)])
        assert self.ids_of() == [C]
        self.space.set(A, 2)
        assert [(state.id, state.value) for state in self.space.scan()] == [(A, 2), (C, 1)]

    def test_scans_of_the_past_see_what_was_deleted_and_not_what_came(self) -> None:
        self.space.transact([put(A, 1), put(B, 1)])
        self.space.delete(A)
        self.space.set(C, 1)
        self.space.set(A, 2)
        self.space.transact([remove(A), remove(B), remove(C)])
        found = [[state.id for state in self.space.at(version).scan()] for version in range(6)]
        assert found == [[], [A, B], [B], [B, C], [A, B, C], []]
        assert [state.value for state in self.space.at(1).scan(limit=1)] == [1]

    def test_a_long_row_of_tombstones_hides_nothing_behind_it(self) -> None:
        ids = [f"urn:{number:05d}" for number in range(PAGE_MAX + 200)]
        self.space.transact([put(id, 1) for id in ids])
        self.space.transact([remove(id) for id in ids[:-3]])
        assert self.ids_of() == ids[-3:]
        assert self.ids_of(limit=2) == ids[-3:-1]
        assert len(list(self.space.at(1).scan())) == len(ids)

    def test_a_scan_of_many_pages_is_from_one_state(self) -> None:
        ids = [f"urn:{number:05d}" for number in range(2 * PAGE_MAX + 10)]
        self.space.transact([put(id, 0) for id in ids])
        scan = self.space.scan()
        first = next(scan)
        self.space.transact([remove(ids[-1]), put(ids[-2], 1), put("urn:99999", 1)])
        rest = list(scan)
        assert [state.id for state in [first, *rest]] == ids
        assert {state.value for state in rest} == {0}

    def test_pages_of_the_port_carry_their_version_and_lose_nothing(self) -> None:
        self.space.transact([put(id, 1) for id in ORDERED_IDS])
        for limit in (1, 2, 5, len(ORDERED_IDS), 99):
            found: list[str] = []
            view, after = View(), None
            while True:
                page = self.port.answer(
                    self.did, Scan(start="urn:", end=None, after=after, limit=limit, view=view)
                )
                found += [state.id for state in page.states]
                assert page.version == 1
                if page.next is None:
                    break
                view, after = View("main", page.version), page.next
            assert found == ORDERED_IDS

    def test_the_bounds_of_a_page_are_half_open(self) -> None:
        self.space.transact([put(A, 1), put(B, 1), put(C, 1)])
        page = self.port.answer(self.did, Scan(start=A, end=C, after=None, limit=9, view=View()))
        assert [state.id for state in page.states] == [A, B]

    @pytest.mark.usefixtures("filled")
    def test_skipping_leads_where_a_scan_leads(self) -> None:
        for prefix in ("", "urn:a", "urn:a:", "urn:never"):
            ids = self.ids_of(prefix)
            for count in range(1, len(ids) + 3):
                expected = ids[count - 1] if count <= len(ids) else None
                assert self.space.skip(prefix, count) == expected

    @pytest.mark.usefixtures("filled")
    def test_only_a_scan_tells_of_the_past_and_of_what_is_inherited(self) -> None:
        past = self.space.at(1)
        assert past.skip("urn:a:", 2) == "urn:a:10"
        draft = self.space.create_branch("draft")
        assert past.skip("urn:a:", 2) == "urn:a:10"
        self.space.delete("urn:a:1")
        assert past.skip("urn:a:", 2) is None
        assert self.space.skip("urn:a:", 2) == "urn:a:2"
        assert draft.skip("urn:a:", 2) is None
        assert self.space.at(0).skip("", 1) is None

    @pytest.mark.parametrize("count", [0, -1, True, 1.0, "1", 2**63])
    def test_a_count_to_skip_is_checked(self, count: Any) -> None:
        with pytest.raises(InvalidInput):
            self.space.skip("", count)
