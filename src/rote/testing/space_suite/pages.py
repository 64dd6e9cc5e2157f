"""Pages: each ends with the value that passes 4 MiB, and together they lose nothing."""

from typing import Any

import pytest

from rote.contract import ReadState, StatePage, View
from rote.contract.commands import (
    GetHistory,
    GetLog,
    ListChanges,
    ListSides,
    PutSide,
    ReadPage,
    Scan,
)
from rote.errors import InvalidInput, LimitExceeded, NotFound, VersionNotFound
from rote.kernel.state.space_reader import SpaceReader
from rote.testing.space_suite.ground import A, B, C, SpaceGround, answered, kernel_of, port_of, put
from rote.values.limits import MIB, PAGE_MAX

LARGE = "x" * (MIB * 3 // 2)  # three of them pass a page
IDS = [f"urn:large:{number}" for number in range(7)]


class PageTests(SpaceGround):
    def fill(self) -> None:
        for number, id in enumerate(IDS):
            self.space.set(id, [number, LARGE])

    # -- bytes -------------------------------------------------------------------------------------

    def test_pages_of_scans_end_with_the_value_that_passes_their_bytes(self) -> None:
        self.fill()
        for descending, order in ((False, IDS), (True, IDS[::-1])):
            found, sizes, after = list[str](), [], None
            while True:
                page = answered(self, Scan("urn:", after=after, descending=descending))
                found += [state.id for state in page.states]
                sizes.append(len(page.states))
                if page.next is None:
                    break
                after = page.next
            assert (found, sizes) == (order, [3, 3, 1])

    def test_pages_of_the_log_end_with_the_commit_that_passes_their_bytes(self) -> None:
        self.fill()
        for newest, versions in ((False, [1, 2, 3]), (True, [7, 6, 5])):
            page = answered(self, GetLog(newest=newest))
            assert [commit.version for commit in page] == versions
        assert [commit.version for commit in answered(self, GetLog(3, before=7))] == [4, 5, 6]
        assert len(list(self.space.log())) == len(list(self.space.log(newest=True))) == 7

    def test_pages_of_a_history_end_with_the_fact_that_passes_their_bytes(self) -> None:
        self.space.transact([put(A, [number, LARGE]) for number in range(7)])
        page = answered(self, GetHistory(A))
        assert ([fact.index for fact in page.facts], page.next) == ([6, 5, 4], (1, 4))
        page = answered(self, GetHistory(A, before=(1, 1)))
        assert ([fact.index for fact in page.facts], page.next) == ([0], None)
        assert [fact.index for fact in self.space.history(A)] == list(range(7))[::-1]

    def test_pages_of_side_rows_end_with_the_row_that_passes_their_bytes(self) -> None:
        for number in range(4):
            answered(self, PutSide("note", f"n{number}", [number, LARGE], fence=0))
        page = answered(self, ListSides("note"))
        assert ([row.key for row in page.rows], page.next) == (["n0", "n1", "n2"], "n2")
        page = answered(self, ListSides("note", page.next))
        assert ([row.key for row in page.rows], page.next) == (["n3"], None)
        page = answered(self, ListSides("note", limit=2))
        assert ([row.key for row in page.rows], page.next) == (["n0", "n1"], "n1")

    def test_pages_of_changes_end_with_the_value_that_passes_their_bytes(self) -> None:
        self.fill()
        self.space.delete(IDS[0])
        for limit, sizes in ((1_000, [3, 3]), (2, [2, 2, 2])):
            found, met, beyond, after = list[Any](), [], None, View()
            while True:
                command = ListChanges(View(version=0), after, beyond, limit)
                page = answered(self, command)
                found += page.changes
                met.append(len(page.changes))
                if page.next is None:
                    break
                assert (page.before, page.after) == (0, 8)
                beyond, after = page.next, View(version=page.after)
            assert met == sizes
            assert found == self.space.at(0).diff(8)

    def test_pages_of_changes_pass_over_what_is_equal(self) -> None:
        ids = [f"urn:n:{number:03d}" for number in range(300)]
        self.space.transact([put(id, 1) for id in ids])
        self.space.transact([put(id, 1 if id != ids[250] else 2) for id in ids])
        page = answered(self, ListChanges(View(version=1), View(), limit=1))
        assert [change.id for change in page.changes] == [ids[250]]
        page = answered(self, ListChanges(View(version=1), View(), ids[250]))
        assert (page.changes, page.next) == ((), None)
        for refused in (7, b"urn:"):
            with pytest.raises(InvalidInput):
                answered(self, ListChanges(View(), View(), refused))  # type: ignore[arg-type]

    # -- reading by id -----------------------------------------------------------------------------

    def test_a_page_of_states_says_how_many_ids_it_has_answered(self) -> None:
        self.fill()
        ids, found, sizes, view = [*IDS, "urn:absent"], list[ReadState](), [], View()
        while True:
            page = answered(self, ReadPage(ids[len(found) :], view))
            found += page.states
            sizes.append(page.next)
            if page.next is None:
                break
            view = View(version=page.version)
            self.space.set(IDS[-1], "later")  # it is not seen: the rest is of the same state
        assert sizes == [3, 3, None]
        assert [state.id for state in found] == ids
        assert [state.exists for state in found] == [True] * 7 + [False]
        assert found[-2].value == [6, LARGE]

    def test_a_page_shows_the_states_that_a_read_shows(self) -> None:
        self.space.transact([put(A, {"n": 1}), put(B, None), put(C, 3)])
        self.space.delete(C)
        self.space.set(A, 2)
        other = self.space.create_branch("other")
        other.set(B, 4)
        self.space.erase(C, reason="asked to")
        ids = [A, B, C, A, "urn:never"]
        for view in (View(), View("other"), View("main", 1), View("main", 0)):
            page = answered(self, ReadPage(ids, view))
            space = self.space.on(view.branch)
            space = space if view.version is None else space.at(view.version)
            assert page == StatePage(
                self.space.version if view.version is None else view.version,
                tuple(
                    ReadState(
                        id, state.version, state.hash, state.value, state.exists, state.erased
                    )
                    for id, state in zip(ids, space.read_many(ids), strict=True)
                ),
                None,
            )

    def test_a_state_that_is_known_comes_without_its_value(self) -> None:
        self.fill()
        self.space.delete(IDS[1])
        states = self.space.read_many([*IDS, A])
        known = [state.hash for state in states]
        self.space.set(IDS[2], "new")
        page = answered(self, ReadPage([*IDS, A], known=known))
        assert page.next is None
        for state, before in zip(page.states, states, strict=True):
            if state.id == IDS[2]:
                assert (state.value, state.unchanged) != (before.value, True)
            elif state.id == A:
                assert (state.exists, state.hash) == (False, None)
            else:
                assert state == ReadState(before.id, before.version, before.hash, unchanged=True)
        page = answered(self, ReadPage([A, IDS[0]], known=["0" * 64, None]))
        assert [state.exists for state in page.states] == [False, True]

    def test_an_erased_state_is_told_though_its_hash_is_known(self) -> None:
        """An erased fact keeps its hash; its reader would keep the value."""
        commit = self.space.set(A, 1)
        known = [commit.facts[0].hash]
        self.space.erase(A, reason="asked to")
        (state,) = answered(self, ReadPage([A], known=known)).states
        assert (state.hash, state.erased, state.exists, state.value) == (*known, True, False, None)

    def test_a_page_is_of_its_version_though_another_thread_commits_meanwhile(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.space.transact([put(A, 1), put(B, 1)])
        newest, written = SpaceReader.newest, list[int]()

        def late(reads: SpaceReader, *arguments: Any) -> Any:
            if not written:
                written.append(1)
                self.space.set(A, 2)
            return newest(reads, *arguments)

        monkeypatch.setattr(SpaceReader, "newest", late)
        page = answered(self, ReadPage([A, B]))
        assert (page.version, [state.value for state in page.states]) == (1, [1, 1])
        assert (written, self.space.get(A)) == ([1], 2)

    def test_a_page_of_no_ids_tells_the_version_and_an_unknown_branch(self) -> None:
        self.space.set(A, 1)
        assert answered(self, ReadPage([])) == StatePage(1, (), None)
        with pytest.raises(NotFound):
            answered(self, ReadPage([], View("nowhere")))
        with pytest.raises(VersionNotFound):
            answered(self, ReadPage([], View(version=2)))

    def test_a_page_takes_a_thousand_ids(self) -> None:
        ids = [f"urn:n:{number}" for number in range(PAGE_MAX)]
        self.space.transact([put(id, number) for number, id in enumerate(ids)])
        page = answered(self, ReadPage(ids))
        assert [state.value for state in page.states] == list(range(PAGE_MAX))
        with pytest.raises(LimitExceeded):
            answered(self, ReadPage([*ids, A]))

    @pytest.mark.parametrize(
        ("ids", "known"),
        [
            ("urn:a", None),
            (["no uri"], None),
            ([7], None),
            ([A], []),
            ([A], [None, None]),
            ([A], [7]),
            ([A], "x"),
            ([A], {A: None}),
        ],
    )
    def test_malformed_ids_and_hashes_are_refused(self, ids: Any, known: Any) -> None:
        with pytest.raises(InvalidInput):
            answered(self, ReadPage(ids, known=known))


class SharedPageTests(SpaceGround):
    def test_a_page_of_the_past_shows_no_value_that_another_process_has_erased(self) -> None:
        """A process learns of it with its next read of the present, where a look is a round trip."""
        self.space.set(A, 1)
        other = self.open()
        for _ in range(2):
            page = port_of(other).answer(self.did, ReadPage([A], View(version=1)))
            assert page.states[0].value == 1
        self.space.erase(A, reason="asked to")
        if kernel_of(port_of(other)).spaces.wiring.engine.is_remote:
            port_of(other).answer(self.did, ReadPage([B]))
        page = port_of(other).answer(self.did, ReadPage([A], View(version=1)))
        assert (page.states[0].value, page.states[0].erased) == (None, True)
