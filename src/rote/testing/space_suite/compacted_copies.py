"""Copies and backups of a compacted space: the same space, proven in the same way."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

import rote.kernel.log.page_sizes
from rote.contract import FoundationPage, Head, Port
from rote.contract.commands import AdoptSpace, FoundationIn, FoundationOut, GetHead, Verify
from rote.contract.wire import encode_page
from rote.engines.sqlite import SqliteEngine
from rote.errors import Compacted, Corrupt, InvalidInput
from rote.opening.keys import MemoryKeys
from rote.space import Space, Store
from rote.space.blobs import Joined, drop_upload, send
from rote.testing.space_suite.compactions import CompactionGround, answers
from rote.testing.space_suite.ground import A, B, C, add, port_of
from rote.testing.stores import StoreSettings, open_on


def whole(space: Space, since: int) -> Any:
    return answers(space, since, space.version), list(space.log(since=since - 1))


class CompactedCopyTests(CompactionGround):
    def copied(self, target: Store) -> Space:
        report = self.store.copy("notes", target)
        assert report.ok, report.verified.faults
        return target.space("notes")

    @pytest.mark.parametrize("before", (1, 2, 9, 16, 17, 19, 20, 25))
    def test_a_copy_begins_with_what_was_left(self, before: int) -> None:
        self.write_much()
        self.space.compact(before=before)
        self.space.set(B, "later")
        target = self.open_fresh("target")
        copy = self.copied(target)
        assert whole(copy, before) == whole(self.space, before)
        if before > 2:
            with pytest.raises(Compacted):
                list(copy.log(since=0))
        assert copy.verify().facts == self.space.verify().facts

    def test_a_copy_can_be_continued(self) -> None:
        topic = self.write_much()
        self.space.compact(before=20)
        target = self.open_fresh("target")
        self.copied(target)
        topic.patch(A, [add("/more", 1)])
        self.space.merge("topic", on_conflict="theirs")
        copy = self.copied(target)
        assert whole(copy, 20) == whole(self.space, 20)

    def test_a_copy_that_is_continued_is_compacted_like_its_source(self) -> None:
        topic = self.write_much()
        target = self.open_fresh("target")
        self.copied(target)
        self.space.set(A, {"n": 1})
        self.space.compact(before=18)
        topic.set(C, "again")
        self.space.compact(before=25)
        self.space.set(A, {"n": 2})
        copy = self.copied(target)
        assert whole(copy, 25) == whole(self.space, 25)
        assert copy.verify().facts == self.space.verify().facts
        with pytest.raises(Compacted):
            copy.at(24)

    def test_a_target_that_ends_below_the_line_is_refused(self) -> None:
        self.write_much()
        target = self.open_fresh("target")
        self.copied(target)
        self.space.set(A, {"n": 1})
        self.space.compact(before=26)
        with pytest.raises(InvalidInput, match="copy to a new store"):
            self.store.copy("notes", target)
        assert target.space("notes").version == 25

    def test_large_foundations_come_in_several_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.write_much()
        for number in range(30):
            self.space.set(f"urn:entity:{number}", {"n": number}, key=f"key {number}")
        self.space.delete("urn:entity:3")
        self.space.compact(before=self.space.version)
        monkeypatch.setattr(rote.kernel.log.page_sizes, "PAGE_MAX", 3)
        assert len(self.pages()) > 10
        copy = self.copied(self.open_fresh("target"))
        assert whole(copy, 56) == whole(self.space, 56)
        assert copy.set("urn:entity:5", {"n": 5}, key="key 5").version == 31

    def pages(self) -> list[FoundationPage]:
        page = self.port.answer(self.did, FoundationOut(after=None))
        assert page is not None
        found = [page]
        while page.next is not None:
            page = self.port.answer(self.did, FoundationOut(after=page.next))
            assert page is not None
            found.append(page)
        return found

    def test_nothing_that_was_changed_on_its_way_is_taken(self) -> None:
        self.write_much()
        self.space.compact(before=20)
        (page,) = self.pages()
        target = port_of(self.open_fresh("target"))
        target.answer("", AdoptSpace(self.did, "notes"))
        for changed in _forgeries(page):
            assert changed != page
            with pytest.raises(Corrupt):
                found(target, self.did, [changed])
            assert target.answer(self.did, GetHead()).version == 0
        assert found(target, self.did, [page]).version == 20
        with pytest.raises(InvalidInput, match="not empty"):
            found(target, self.did, [page])

    def test_half_a_foundation_is_nothing(self) -> None:
        self.write_much()
        self.space.compact(before=20)
        (page,) = self.pages()
        target = port_of(self.open_fresh("target"))
        target.answer("", AdoptSpace(self.did, "notes"))

        def broken() -> Any:
            yield replace(page, facts=page.facts[:2])
            raise ConnectionError

        with pytest.raises(ConnectionError):
            found(target, self.did, broken())
        assert target.answer(self.did, GetHead()).version == 0
        assert target.begin(self.did, Verify(against=None)).result().ok
        other = replace(page, facts=(), checkpoint={**page.checkpoint, "at": "x"})
        with pytest.raises(InvalidInput, match="run the copy again"):
            found(target, self.did, [page, other])

    def test_a_copy_that_stopped_behind_its_foundation_is_whole(self) -> None:
        self.write_much()
        self.space.compact(before=20)
        store = self.open_fresh("target")
        target = port_of(store)
        target.answer("", AdoptSpace(self.did, "notes"))
        found(target, self.did, self.pages())
        copy = store.space("notes")
        assert copy.version == 20
        assert list(copy.scan()) == list(self.space.at(20).scan())
        assert copy.verify().ok
        assert whole(self.copied(store), 20) == whole(self.space, 20)

    def test_a_space_that_was_never_compacted_has_no_foundation(self) -> None:
        self.space.set(A, 1)
        assert self.port.answer(self.did, FoundationOut(after=None)) is None

    def test_a_backup_has_the_same_line(self) -> None:
        self.write_much()
        self.space.compact(before=20)
        path = self.place / "backup.db"
        self.store.backup(path)
        with open_on(SqliteEngine(path), StoreSettings(), keys=MemoryKeys()) as store:
            backup = store.space("notes")
            assert whole(backup, 20) == whole(self.space, 20)
            assert backup.verify().ok
            with pytest.raises(Compacted):
                backup.at(19)


def _forgeries(page: FoundationPage) -> list[FoundationPage]:
    """Return pages in which each member of everything is changed once."""
    made = []

    def change(name: str, place: int, **fields: Any) -> None:
        items = list(getattr(page, name))
        items[place] = replace(items[place], **fields)
        made.append(replace(page, **{name: tuple(items)}))

    for place, fact in enumerate(page.facts):
        change("facts", place, hash="0" * 64)
        change("facts", place, parent="0" * 64)
        change("facts", place, version=fact.version - 1)
        change("facts", place, index=fact.index + 1)
        change("facts", place, salt="0" * 32)
        change("facts", place, salt=None)
        change("facts", place, op={"set": "patch", "patch": "set", "delete": "set"}[fact.op])
        change("facts", place, data=b"7")
        change("facts", place, data=b"not json")
        change("facts", place, id=fact.id + "x")
        change("facts", place, branch="topic" if fact.branch == "main" else "main")
        made.append(replace(page, facts=page.facts[:place] + page.facts[place + 1 :]))
    for place, commit in enumerate(page.commits):
        change("commits", place, hash="0" * 64)
        change("commits", place, author="someone")
        change("commits", place, key="another")
        change("commits", place, meta_data=b"7")
        change("commits", place, at="2026-01-01T11:00:00.000000Z")
        if commit.event is not None:
            change("commits", place, event=None)
        made.append(replace(page, commits=page.commits[:place] + page.commits[place + 1 :]))
    for checkpoint in ({"state": None}, {"version": 19}, {"signature": "00"}, {"prior": "0" * 64}):
        made.append(replace(page, checkpoint={**page.checkpoint, **checkpoint}))
    made.append(replace(page, before=19))
    return made


def found(target: Port, did: str, pages: Iterable[FoundationPage]) -> Head:
    """Send the pages of a foundation as an upload, and take it over."""
    upload = send(target, did, Joined(map(encode_page, pages)))
    try:
        return target.answer(did, FoundationIn(upload))
    finally:
        drop_upload(target, did, upload)
