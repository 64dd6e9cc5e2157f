"""Copies of erased entities: only the remains travel, and a copy deletes content that it still has."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from rote.contract import CopyPage, Head, Port, Remains, SideRow
from rote.contract.commands import CopyIn, CopyOut, GetHead, ListSides, SidesIn, SidesOut, Verify
from rote.errors import Corrupt
from rote.space import Space, Store
from rote.testing.space_suite.copies import adopting, page_of
from rote.testing.space_suite.forgeries import NO_TYPE_FITS, rehashed
from rote.testing.space_suite.ground import A, B, SpaceGround, add, logged, port_of, put

MARK = "the one and only " * 64


def _first_remains(**changes: Any) -> Callable[[CopyPage], CopyPage]:
    """Return a forgery that changes the remains of the first erased fact of a page."""

    def forge(page: CopyPage) -> CopyPage:
        first, *rest = page.remains
        return replace(page, remains=(replace(first, **changes), *rest))

    return forge


def _first_fact(**changes: Any) -> Callable[[CopyPage], CopyPage]:
    def forge(page: CopyPage) -> CopyPage:
        commit, *rest = page.commits
        fact, *others = commit.facts
        forged = replace(commit, facts=(replace(fact, **changes), *others))
        return replace(page, commits=(forged, *rest))

    return forge


FORGERIES: dict[str, Callable[[CopyPage], CopyPage]] = {
    "another digest": _first_remains(body="0" * 64),
    "no digest": _first_remains(body=None),
    "a digest that is none": _first_remains(body="x" * 64),
    "a digest of a snapshot of a set": _first_remains(value="0" * 64),
    "erased before it was": _first_remains(version=0),
    "erased by itself": _first_remains(version=1),
    "one too few": lambda page: replace(page, remains=page.remains[1:]),
    "one too many": lambda page: replace(page, remains=(*page.remains, page.remains[0])),
    "in another order": lambda page: replace(page, remains=page.remains[::-1]),
    "content beside it": _first_fact(data=b"1"),
    "a salt beside it": _first_fact(salt="00" * 16),
    "not erased": _first_fact(erased=False),
}

EVENTS: dict[str, dict[str, Any]] = {
    "no reason": {"type": "erase", "id": A},
    "an empty reason": {"type": "erase", "id": A, "reason": ""},
    "a long reason": {"type": "erase", "id": A, "reason": "x" * 1_025},
    "an id that is none": {"type": "erase", "id": "none", "reason": "r"},
    "one member more": {"type": "erase", "id": A, "reason": "r", "more": 1},
    "no entity": {"type": "erase", "reason": "r"},
    "an entity twice": {"type": "erase", "ids": [A, A], "reason": "r"},
    "a list of one": {"type": "erase", "ids": [A], "reason": "r"},
    "an empty list": {"type": "erase", "ids": [], "reason": "r"},
    "not in order": {"type": "erase", "ids": [B, A], "reason": "r"},
    "both names": {"type": "erase", "id": A, "ids": [A, B], "reason": "r"},
    "several, and one is none": {"type": "erase", "ids": ["none", A], "reason": "r"},
    "a text for a list": {"type": "erase", "ids": A, "reason": "r"},
}


class ErasureCopyTests(SpaceGround):
    def _write(self) -> None:
        self.space.transact([put(A, {"text": MARK}), put(B, 1)], key="both")
        self.space.patch(A, [add("/more", MARK)])
        other = self.space.create_branch("other")
        other.patch(A, [add("/small", 1)])
        self.space.delete(A)

    def _brought(self, target: Store) -> Space:
        report = self.store.copy("notes", target)
        assert report.ok, report
        return target.space("notes")

    def _check_equal(self, copy: Space) -> None:
        assert logged(copy) == logged(self.space)
        for branch in ("main", "other"):
            for version in range(self.space.version + 1):
                here, there = (space.at(version).on(branch) for space in (self.space, copy))
                assert list(here.scan()) == list(there.scan())
                assert here.read(A) == there.read(A)
        assert copy.verify().erased == self.space.verify().erased

    def test_what_was_erased_arrives_erased(self) -> None:
        self._write()
        self.space.erase(A, reason="asked to")
        self.space.set(A, "new")
        self.space.on("other").set(A, "also new")
        copy = self._brought(self.open_fresh("target"))
        self._check_equal(copy)
        # The copy takes new commits, with the present salt of the entity.
        assert copy.patch(A, []).facts[0].salt == self.space.history(A)[0].salt
        assert copy.erase(A, reason="again").facts == 3
        assert copy.verify().ok

    def test_a_copy_from_before_keeps_it_until_it_is_continued(self) -> None:
        self._write()
        target = self.open_fresh("target")
        copy = self._brought(target)
        self.space.erase(A, reason="asked to")
        self.space.set(A, "new")
        assert copy.at(1).get(A) == {"text": MARK}
        self._brought(target)
        self._check_equal(copy)
        assert copy.at(1).get(A) is None
        # The entity's key tells nothing any more in the copy either.
        keys = port_of(target).answer(self.did, CopyOut(since=0, until=copy.version)).keys
        assert [row.body for row in keys] == [{"payload": None, "version": 1}]
        assert port_of(target).answer(self.did, ListSides("scrub", after="", limit=9)).rows == ()
        backup = self.place / "target.db"
        target.backup(backup)
        assert MARK[:40].encode() not in backup.read_bytes()

    def test_what_is_erased_while_it_is_copied_arrives_erased(self) -> None:
        """The pages before the erasure hold the content, those after it the remains. The copy
        continues up to the commit that explains them."""
        self._write()
        newest = self.space.version
        for moment in range(newest + 1):
            source = self.open_fresh(f"source {moment}")
            self._brought(source)
            target = self.open_fresh(f"target {moment}")
            port: Any = _Meddling(port_of(source), source.space("notes"), moment)
            report = Store(port, url="meddling", local=source._local).copy("notes", target)
            assert report.ok, report
            copy = target.space("notes")
            assert copy.read(A).erased
            assert copy.verify().erased == 4 + (moment == newest)

    def test_a_page_of_an_erased_history_may_end_anywhere(self) -> None:
        self._write()
        self.space.erase(A, reason="asked to")
        self.space.set(A, 1)
        self.space.erase(A, reason="asked again")
        self.space.set(A, 2)
        last = self.space.version
        for size in range(1, last + 1):
            port = adopting(self, f"pages-{size}")
            reached = 0
            while reached < last:
                until = min(reached + size, last)
                page = self.port.answer(self.did, CopyOut(since=reached, until=until))
                reached = port.answer(self.did, CopyIn(page)).version
            report = port.begin(self.did, Verify(against=None)).result()
            assert (report.ok, report.erased) == (True, 5), report.faults

    def test_notes_about_the_files_of_a_store_are_its_own(self) -> None:
        self.space.set(A, 1)
        page = self.port.answer(self.did, SidesOut(after=("", "")))
        note = SideRow("scrub", A, 1, {"version": 1})
        forged = replace(page, rows=(*page.rows, note))
        with pytest.raises(Corrupt):
            self.port.answer(self.did, SidesIn(forged))

    # -- forgeries ---------------------------------------------------------------------------------

    def _erased_page(self) -> tuple[CopyPage, Port]:
        self.space.set(A, 1, key="k")
        self.space.set(A, 2)
        self.space.delete(A)
        self.space.erase(A, reason="asked to")
        return page_of(self.space), adopting(self)

    @pytest.mark.parametrize("forgery", FORGERIES)
    def test_forged_remains_are_refused_and_nothing_of_their_page_is_written(
        self, forgery: str
    ) -> None:
        page, port = self._erased_page()
        with pytest.raises(Corrupt):
            port.answer(self.did, CopyIn(FORGERIES[forgery](page)))
        assert port.answer(self.did, GetHead()) == Head(0, None, None)
        port.answer(self.did, CopyIn(page))
        assert port.answer(self.did, CopyIn(page)) == self.port.answer(self.did, GetHead())

    @pytest.mark.parametrize("type_name", NO_TYPE_FITS)
    def test_remains_of_another_type_are_refused(self, type_name: str) -> None:
        page, port = self._erased_page()
        other = NO_TYPE_FITS[type_name]
        forged = [replace(page, remains=(other, *page.remains[1:]))]
        if other is not None:
            names = [name for name in Remains.__struct_fields__ if name != "version"]
            forged += [_first_remains(**{name: other})(page) for name in names]
        if type(other) is not int:
            forged.append(_first_remains(version=other)(page))
        for sent in forged:
            with pytest.raises(Corrupt):
                port.answer(self.did, CopyIn(sent))
        assert port.answer(self.did, GetHead()) == Head(0, None, None)

    @pytest.mark.parametrize("event", EVENTS)
    def test_a_forged_erasure_whose_hashes_fit_is_refused(self, event: str) -> None:
        page, port = self._erased_page()
        *honest, last = page.commits
        forged = rehashed(self.did, replace(last, event=EVENTS[event]))
        port.answer(self.did, CopyIn(replace(page, commits=tuple(honest))))
        with pytest.raises(Corrupt):
            port.answer(self.did, CopyIn(replace(page, commits=(*honest, forged))))
        assert port.answer(self.did, GetHead()).version == 3

    def test_an_erasure_with_facts_or_on_another_branch_is_refused(self) -> None:
        self.space.create_branch("other")
        self.space.set(A, 1)
        self.space.erase(A, reason="asked to")
        written = self.space.set(B, 1)
        page, port = page_of(self.space), adopting(self)
        *honest, erased, _ = page.commits
        beside = replace(written, version=3, previous=erased.previous, event=erased.event)
        port.answer(self.did, CopyIn(replace(page, commits=tuple(honest))))
        for forged in (beside, replace(erased, branch="other")):
            commits = (*honest, rehashed(self.did, forged))
            with pytest.raises(Corrupt):
                port.answer(self.did, CopyIn(replace(page, commits=commits)))
        assert port.answer(self.did, GetHead()).version == 2

    def test_a_key_without_a_payload_is_refused_unless_something_was_erased(self) -> None:
        self.space.set(A, 1, key="k")
        page, port = page_of(self.space), adopting(self)
        row = replace(page.keys[0], body={"payload": None, "version": 1})
        with pytest.raises(Corrupt):
            port.answer(self.did, CopyIn(replace(page, keys=(row,))))
        assert port.answer(self.did, GetHead()).version == 0

    def test_what_came_erased_without_its_erasure_is_a_fault(self) -> None:
        page, port = self._erased_page()
        port.answer(self.did, CopyIn(replace(page, commits=page.commits[:3])))
        report = port.begin(self.did, Verify(against=None)).result()
        assert {fault.kind for fault in report.faults} == {"fact"}
        assert len(report.faults) == 3


class _Meddling:
    """A port that erases A before one of the pages, and sets it when only side rows are left to read."""

    def __init__(self, port: Port, space: Space, page: int) -> None:
        self._port = port
        self._space = space
        self._pages = page

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def answer(self, space: str, command: Any, /) -> Any:
        if isinstance(command, CopyOut):
            if self._pages == 0:
                self._space.erase(A, reason="meanwhile")
            self._pages -= 1
            # One commit for each page, so that there are several pages.
            command = CopyOut(command.since, min(command.since + 1, command.until))
        answer = self._port.answer(space, command)
        if isinstance(command, SidesOut) and self._pages == 0:
            self._space.set(A, "late")
        return answer
