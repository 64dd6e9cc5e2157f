"""Copies: a space in another store, commit for commit, and the refusals on the way."""

from typing import Any

import pytest
from msgspec.structs import replace

from rote.contract import CopyPage, Guard, Head, Port, SidePage, SideRow, View
from rote.contract.commands import (
    AdoptSpace,
    CopyIn,
    CopyOut,
    DropSide,
    Find,
    FindSpace,
    GetHead,
    GetLog,
    GetSide,
    ListSides,
    MakeCommit,
    PutSide,
    SidesIn,
    SidesOut,
)
from rote.errors import Corrupt, Denied, InvalidInput, RoteError, Unavailable, VersionNotFound
from rote.space import Space, Store
from rote.testing.space_suite.ground import (
    A,
    B,
    C,
    SpaceGround,
    add,
    change,
    logged,
    port_of,
    put,
    remove,
)
from rote.testing.space_suite.indexes import WORDS
from rote.values.limits import PAGE_BYTES_MAX


class CopyTests(SpaceGround):
    def _write_history(self) -> None:
        """Write every operation, a document large enough to be replayed, keys, meta, side rows."""
        space, port, did = self.space, self.port, self.did
        space.transact([put(A, {"items": [1]}), put(B, 1.5)], key="first", meta={"m": 1})
        space.set(C, {"text": "x" * 3_000})
        for number in range(5):
            space.patch(C, [add(f"/{number}", number)])
        self.clock.move(seconds=2)
        space.transact([remove(B), change(A, add("/items/-", 2)), put(B, "\0é\U0001f600")])
        space.transact([put("urn:stamped", {}, stamp=["/at"])], key="second")
        port.answer(did, PutSide("note", "r", {"state": "running"}, fence=0))
        port.answer(did, PutSide("ticket", "q", [1], fence=0))
        space.checkpoint()
        space.delete(B, key="third")

    def _copied(self, target: Store, **options: Any) -> Space:
        report = self.store.copy("notes", target, **options)
        assert report.ok, report
        assert (report.did, report.version, report.head) == (
            self.did, self.space.version, self.space.head,
        )  # fmt: skip
        return target.space("notes")

    # -- what arrives ------------------------------------------------------------------------------

    def test_a_copy_has_the_same_hashes_versions_and_states(self) -> None:
        self._write_history()
        copy = self._copied(self.open_fresh("target"))
        assert (copy.did, copy.name) == (self.did, "notes")
        assert (copy.version, copy.head) == (self.space.version, self.space.head)
        assert logged(copy) == logged(self.space)
        for version in range(self.space.version + 1):
            assert list(copy.at(version).scan()) == list(self.space.at(version).scan())
        assert [fact.hash for fact in copy.history(A)] == [
            fact.hash for fact in self.space.history(A)
        ]

    def test_a_copy_draws_no_randomness(self) -> None:
        self._write_history()
        draws = len(self.ids.draws)
        self._copied(self.open_fresh("target"))
        assert len(self.ids.draws) == draws

    def test_an_empty_space_can_be_copied_and_continued(self) -> None:
        target = self.open_fresh("target")
        assert self._copied(target).version == 0
        self._write_history()
        assert self._copied(target).head == self.space.head

    def test_a_key_stands_for_the_same_commit_in_the_copy(self) -> None:
        self._write_history()
        copy = self._copied(self.open_fresh("target"))
        before = copy.version
        first = copy.transact([put(A, {"items": [1]}), put(B, 1.5)], key="first")
        stamped = copy.transact([put("urn:stamped", {}, stamp=["/at"])], key="second")
        assert (first, stamped) == (logged(self.space)[0], logged(self.space)[8])
        assert copy.version == before

    def test_side_rows_and_checkpoints_arrive(self) -> None:
        self._write_history()
        port = port_of(self.open_fresh("target"))
        self._copied(self._opened[-1])
        assert port.answer(self.did, GetSide("note", "r")) == SideRow(
            "note", "r", 1, {"state": "running"}
        )
        assert port.answer(self.did, GetSide("ticket", "q")) == SideRow("ticket", "q", 1, [1])
        checkpoints = [
            side.answer(self.did, ListSides("checkpoint", after="", limit=9)).rows
            for side in (self.port, port)
        ]
        assert checkpoints[0] == checkpoints[1]
        assert len(checkpoints[1]) == 1

    def test_a_copy_can_be_written_to_and_goes_its_own_way(self) -> None:
        self._write_history()
        copy = self._copied(self.open_fresh("target"))
        copy.patch(C, [add("/more", 1)])
        copy.set(B, "back")
        assert copy.verify().ok
        assert self.space.get(B) is None

    def test_indexes_of_the_target_find_what_was_copied(self) -> None:
        self.space.set(A, {"text": "one two"})
        target = self.open_fresh("target", indexes=(WORDS,))
        self._copied(target)
        self.space.set(A, {"text": "two three"})
        copy = self._copied(target)
        hits = port_of(target).answer(
            self.did, Find(WORDS.name, start="", end=None, after=None, limit=9, view=View())
        )
        assert [hit.term for hit in hits] == ["three", "two"]
        assert copy.verify().ok

    def test_progress_tells_of_copying_and_of_verifying(self) -> None:
        self._write_history()
        told: list[tuple[str, int, int]] = []
        self._copied(
            self.open_fresh("target"),
            progress=lambda phase, done, total: told.append((phase, done, total)),
        )
        version = self.space.version
        assert told == sorted(told)
        assert {("copying", version, version), ("verifying", version, version)} <= set(told)

    # -- the key -----------------------------------------------------------------------------------

    def test_the_private_key_is_copied_only_on_demand(self) -> None:
        self.space.set(A, 1)
        target = self.open_fresh("target")
        copy = self._copied(target)
        with pytest.raises(Denied):
            copy.checkpoint()
        with pytest.raises(Denied):
            target._local.seed(self.did)
        self._copied(target, with_key=True)
        assert self.space.verify(against=copy.checkpoint()).ok
        assert target._local.seed(self.did) == self.store._local.seed(self.did)

    def test_a_missing_key_stops_the_copy_before_it_begins(self) -> None:
        self.space.set(A, 1)
        middle = self.open_fresh("middle")
        self._copied(middle)
        target = self.open_fresh("target")
        with pytest.raises(Denied):
            middle.copy("notes", target, with_key=True)
        assert target.spaces() == []

    def test_the_key_of_another_space_is_refused(self) -> None:
        target = self.open_fresh("target")
        with pytest.raises(InvalidInput):
            target._local.adopt(self.did, "notes", bytes(32))
        assert target.spaces() == []

    # -- again and again ---------------------------------------------------------------------------

    def test_a_copy_is_continued_when_the_source_has_grown(self) -> None:
        target = self.open_fresh("target")
        self._write_history()
        self._copied(target)
        self._write_more()
        report = self.store.copy(self.did, target)
        assert (report.ok, report.commits) == (True, 2)
        assert logged(target.space("notes")) == logged(self.space)
        again = self.store.copy(self.did, target)
        assert (again.ok, again.commits) == (True, 0)

    def _write_more(self) -> None:
        self.space.patch(C, [add("/later", 1)])
        self.space.set(A, "later", key="fourth")

    def test_side_rows_follow_the_source(self) -> None:
        target = self.open_fresh("target")
        self._write_history()
        self._copied(target)
        self.port.answer(self.did, PutSide("note", "r", {"state": "done"}, fence=1))
        self.port.answer(self.did, PutSide("ticket", "p", 2, fence=0))
        self._copied(target)
        port = port_of(target)
        assert port.answer(self.did, GetSide("note", "r")) == SideRow(
            "note", "r", 2, {"state": "done"}
        )
        assert port.answer(self.did, ListSides("ticket", after="", limit=9)).rows == (
            SideRow("ticket", "p", 1, 2),
            SideRow("ticket", "q", 1, [1]),
        )

    def test_side_rows_that_only_the_target_has_stay(self) -> None:
        """The target keeps its own rows and those that the source dropped: nothing tells them apart."""
        target = self.open_fresh("target")
        self._write_history()
        self._copied(target)
        port = port_of(target)
        port.answer(self.did, PutSide("ticket", "own", "x", fence=0))
        self.port.answer(self.did, DropSide("ticket", "q", fence=1))
        self._copied(target)
        assert port.answer(self.did, ListSides("ticket", after="", limit=9)).rows == (
            SideRow("ticket", "own", 1, "x"),
            SideRow("ticket", "q", 1, [1]),
        )

    def test_a_checkpoint_that_only_the_target_made_stays(self) -> None:
        self.space.set(A, 1)
        target = self.open_fresh("target")
        copy = self._copied(target, with_key=True)
        copy.checkpoint()
        self._copied(target)
        assert (
            len(port_of(target).answer(self.did, ListSides("checkpoint", after="", limit=9)).rows)
            == 1
        )

    def test_checkpoints_that_both_made_of_a_version_do_not_stop_a_copy(self) -> None:
        self.space.set(A, 1)
        target = self.open_fresh("target")
        copy = self._copied(target, with_key=True)
        own = copy.checkpoint()
        self.clock.move(seconds=1)
        self.space.checkpoint()
        self._copied(target)
        kept = port_of(target).answer(self.did, ListSides("checkpoint", after="", limit=9)).rows
        assert [row.body for row in kept] == [own]
        newest = self.space.checkpoint()
        self._copied(target)
        kept = port_of(target).answer(self.did, ListSides("checkpoint", after="", limit=9)).rows
        assert [(row.fence, row.body) for row in kept] == [(2, newest)]

    def test_a_page_may_be_sent_again_or_overlap_and_is_taken_once(self) -> None:
        self._write_history()
        page = page_of(self.space)
        port = adopting(self)
        taken = port.answer(self.did, CopyIn(replace(page, commits=page.commits[:4])))
        assert taken == self.port.answer(self.did, GetHead(version=4))
        head = port.answer(self.did, CopyIn(page))
        assert head == self.port.answer(self.did, GetHead()) == port.answer(self.did, CopyIn(page))
        assert head == port.answer(self.did, CopyIn(CopyPage((), ())))
        assert port.answer(self.did, GetLog(since=0, limit=99)) == page.commits

    def test_many_side_rows_and_keys_arrive_in_several_pages(self) -> None:
        for number in range(150):
            self.space.set(A, number, key=f"key {number}")
            self.port.answer(
                self.did, PutSide(f"kind {number % 3}", f"{number:03}", number, fence=0)
            )
            self.port.answer(self.did, PutSide("keys", f"{number:03}", "x" * 50_000, fence=0))
        pages = [self.port.answer(self.did, SidesOut(after=("", "")))]
        while (until := pages[-1].until) is not None:
            pages.append(self.port.answer(self.did, SidesOut(after=until)))
        assert len(pages) > 1
        assert sum(len(page.rows) for page in pages) == 300
        target = self.open_fresh("target")
        self._copied(target)
        kinds = ("keys", "kind 0", "kind 1", "kind 2", "key")
        for kind in kinds:
            theirs = port_of(target).answer(self.did, ListSides(kind, after="", limit=999)).rows
            assert theirs == self.port.answer(self.did, ListSides(kind, after="", limit=999)).rows

    # -- pages -------------------------------------------------------------------------------------

    def test_a_page_is_bounded_in_bytes(self) -> None:
        for number in range(12):
            self.space.set(A, "x" * 1_000_000 + str(number))
        page = self.port.answer(self.did, CopyOut(since=0, until=12))
        size = sum(len(fact.data or b"") for commit in page.commits for fact in commit.facts)
        assert PAGE_BYTES_MAX <= size < PAGE_BYTES_MAX + 1_100_000
        assert self._copied(self.open_fresh("target")).get(A) == "x" * 1_000_000 + "11"

    def test_a_page_begins_after_since_and_ends_at_until(self) -> None:
        self._write_history()
        page = self.port.answer(self.did, CopyOut(since=3, until=5))
        assert [commit.version for commit in page.commits] == [4, 5]
        assert page.commits == self.port.answer(self.did, GetLog(since=3, limit=2))
        assert self.port.answer(self.did, CopyOut(since=5, until=5)) == CopyPage((), ())
        with pytest.raises(VersionNotFound):
            self.port.answer(self.did, CopyOut(since=0, until=99))

    # -- what is refused ---------------------------------------------------------------------------

    def test_a_target_with_another_history_is_refused_and_untouched(self) -> None:
        """Both have the same key and the same beginning, then two different commits."""
        seed = b"\x07" * 32
        ours = self.open_fresh("ours", seed=seed, ids=type(self.ids)(3))
        theirs = self.open_fresh("theirs", seed=seed, ids=type(self.ids)(3))
        for store in (ours, theirs):
            store.space("x").set(A, 1)
        ours.space("x").set(A, 2)
        theirs.space("x").set(A, 3)
        ours.space("x").set(A, 4)
        before = logged(theirs.space("x"))
        with pytest.raises(InvalidInput, match="another history"):
            ours.copy("x", theirs)
        page = port_of(ours).answer(ours.space("x").did, CopyOut(since=1, until=3))
        with pytest.raises(InvalidInput, match="another history"):
            port_of(theirs).answer(ours.space("x").did, CopyIn(page))
        assert logged(theirs.space("x")) == before

    def test_a_target_that_is_ahead_is_refused_and_untouched(self) -> None:
        self.space.set(A, 1)
        target = self.open_fresh("target")
        copy = self._copied(target)
        copy.set(A, "own")
        port_of(target).answer(self.did, PutSide("note", "own", 1, fence=0))
        with pytest.raises(InvalidInput, match="ahead"):
            self.store.copy("notes", target)
        self.space.set(A, "other")
        with pytest.raises(InvalidInput, match="another history"):
            self.store.copy("notes", target)
        assert (copy.version, copy.get(A)) == (2, "own")
        assert port_of(target).answer(self.did, GetSide("note", "own")) is not None

    @pytest.mark.parametrize("source_moves", [False, True])
    def test_a_side_row_that_went_its_own_way_is_refused_and_the_target_untouched(
        self, source_moves: bool
    ) -> None:
        """A copy once put fence 5 back to 1, and an owner from long ago committed again."""
        self.space.set(A, 1)
        self.port.answer(self.did, PutSide("note", "r", {"owner": "old"}, fence=0))
        target = self.open_fresh("target")
        copy, port = self._copied(target), port_of(target)
        port.answer(self.did, PutSide("note", "r", {"owner": "new"}, fence=1))
        self.space.set(A, 2)
        self.port.answer(self.did, PutSide("ticket", "q", 1, fence=0))
        if source_moves:
            self.port.answer(self.did, PutSide("note", "r", {"owner": "another"}, fence=1))
        with pytest.raises(InvalidInput, match="note 'r'"):
            self.store.copy("notes", target)
        assert copy.version == 1
        with pytest.raises(InvalidInput, match="note 'r'"):
            port.answer(self.did, SidesIn(self.port.answer(self.did, SidesOut(after=("", "")))))
        assert port.answer(self.did, SidesOut(after=("", ""))).rows == (
            SideRow("note", "r", 2, {"owner": "new"}),
        )
        stale = MakeCommit([put(A, 3)], guards=[Guard("note", "r", 1, {"owner": "old"})])
        with pytest.raises(Denied):
            port.answer(self.did, stale)

    def test_a_target_that_uses_the_name_for_another_space_is_refused(self) -> None:
        self.space.set(A, 1)
        target = self.open_fresh("target")
        target.space("notes").set(A, "own")
        with pytest.raises(InvalidInput, match="another space"):
            self.store.copy("notes", target, with_key=True)
        assert [space.get(A) for space in target.spaces()] == ["own"]
        port_of(target).answer("", AdoptSpace(self.did, "another-name"))
        with pytest.raises(Denied):
            target._local.seed(self.did)

    def test_a_space_that_is_not_there_and_a_target_that_is_none_are_refused(self) -> None:
        with pytest.raises(RoteError):
            self.store.copy("nothing", self.open_fresh("target"))
        nothing: Any = "memory.db"
        with pytest.raises(InvalidInput):
            self.store.copy("notes", nothing)

    def test_a_page_with_a_gap_before_it_is_refused(self) -> None:
        self._write_history()
        port = adopting(self)
        with pytest.raises(InvalidInput):
            port.answer(self.did, CopyIn(self.port.answer(self.did, CopyOut(since=2, until=4))))
        assert port.answer(self.did, GetHead()) == Head(0, None, None)

    @pytest.mark.parametrize(
        "row",
        [
            None,
            SideRow("key", "k", 1, {"payload": "0" * 64, "version": 2}),
            SideRow("key", "k", 1, {"payload": "0", "version": 1}),
            SideRow("key", "k", 1, {"payload": "z" * 64, "version": 1}),
            SideRow("key", "k", 1, {"payload": "0" * 64, "version": True}),
            SideRow("key", "k", True, {"payload": "0" * 64, "version": 1}),
            SideRow("key", "k", 1, {"payload": ["0"], "version": [1]}),
            SideRow("key", "k", 1, {"payload": "0" * 64, "version": 1, "more": 1}),
            SideRow("key", "k", 2, {"payload": "0" * 64, "version": 1}),
            SideRow("note", "k", 1, {"payload": "0" * 64, "version": 1}),
            SideRow("key", "k", 1, "text"),
        ],
        ids=repr,
    )
    def test_a_key_row_that_does_not_lead_to_its_commit_is_refused(
        self, row: SideRow | None
    ) -> None:
        self.space.set(A, 1, key="k")
        page, port = page_of(self.space), adopting(self)
        with pytest.raises(Corrupt):
            port.answer(self.did, CopyIn(replace(page, keys=() if row is None else (row,))))
        assert port.answer(self.did, GetHead()).version == 0

    def test_a_commit_with_an_event_that_is_not_known_is_refused(self) -> None:
        self.space.set(A, 1)
        page, port = page_of(self.space), adopting(self)
        commit = replace(page.commits[0], event={"type": "tomorrow"})
        with pytest.raises(Unavailable, match="upgrade"):
            port.answer(self.did, CopyIn(replace(page, commits=(commit,))))
        assert port.answer(self.did, GetHead()).version == 0

    @pytest.mark.parametrize(
        "rows",
        [
            [SideRow("key", "k", 1, {})],
            [SideRow("note", "r", 0, {})],
            [SideRow("note", "r", True, {})],
            [SideRow("note", "r", 2**63, {})],
            [SideRow("note", "", 1, {})],
            [SideRow("note", "s", 1, {}), SideRow("note", "r", 1, {})],
            [SideRow("zebra", "z", 1, {})],
            [SideRow("checkpoint", "1", 1, {})],
        ],
        ids=repr,
    )
    def test_side_rows_that_cannot_be_are_refused(self, rows: list[SideRow]) -> None:
        port = adopting(self)
        with pytest.raises(RoteError):
            port.answer(self.did, SidesIn(SidePage(("", ""), ("note", "z"), tuple(rows))))
        assert port.answer(self.did, SidesOut(after=("", ""))).rows == ()

    def test_a_checkpoint_of_another_log_is_refused(self) -> None:
        self._write_history()
        port = adopting(self)
        with pytest.raises(Corrupt):
            port.answer(self.did, SidesIn(self.port.answer(self.did, SidesOut(after=("", "")))))
        assert port.answer(self.did, ListSides("note", after="", limit=9)).rows == ()


def page_of(space: Space) -> CopyPage:
    """Return everything in one page."""
    page = space._port.answer(space.did, CopyOut(since=0, until=space.version))
    assert len(page.commits) == space.version
    return page


def adopting(ground: SpaceGround, name: str = "adopting") -> Port:
    """Return the port of another store that has the space, empty."""
    port = port_of(ground.open_fresh(name))
    info = port.answer("", AdoptSpace(ground.did, "notes"))
    assert info == ground.port.answer("", FindSpace("notes", False))
    return port
