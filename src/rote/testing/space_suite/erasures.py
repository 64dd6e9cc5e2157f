"""Erasing: the content of an entity is gone everywhere, and everything else stays as it was."""

from hashlib import sha256
from typing import Any

import pytest

from rote.contract import Commit
from rote.contract.commands import CopyOut
from rote.contract.operations import parse_operations, payload_digest
from rote.engines.sqlite import SqliteEngine
from rote.errors import Conflict, InvalidInput, NotFound, PayloadMismatch
from rote.kernel.committing.committer import Committer
from rote.kernel.committing.jobs import Job
from rote.kernel.state.space_reader import SpaceReader
from rote.opening.keys import MemoryKeys
from rote.space import Space
from rote.testing.space_suite.ground import (
    A,
    B,
    C,
    Unchanged,
    add,
    kernel_of,
    logged,
    put,
    remove,
)
from rote.testing.space_suite.indexes import WORDS, IndexGround
from rote.testing.stores import StoreSettings, open_on
from rote.values import canonical
from rote.values.blobs import meta_id

MARK = "the one and only " * 64


class ErasureTests(IndexGround):
    def write_everywhere(self) -> Space:
        """Write an entity with all kinds of facts on two branches, and others; return the second branch."""
        self.space.transact([put(A, {"text": MARK}), put(B, 1)], key="both")
        self.space.patch(A, [add("/more", MARK)])
        other = self.space.create_branch("other")
        other.patch(A, [add("/small", 1)])
        other.set(C, "there")
        self.space.delete(A)
        self.space.set(A, [MARK])
        return other

    # -- what is gone ------------------------------------------------------------------------------

    def test_an_erased_entity_is_absent_at_every_version_and_on_every_branch(self) -> None:
        other = self.write_everywhere()
        for view in (self.space, other):
            view.read(A)
            for version in range(self.space.version + 1):
                view.at(version).read(A)  # fills the cache
        self.space.erase(A, reason="asked to")
        for view in (self.space, other):
            for version in range(self.space.version + 1):
                state = view.at(version).read(A)
                assert (state.value, state.exists) == (None, False)
                assert state.erased == (state.version > 0)
                assert A not in [found.id for found in view.at(version).scan()]
            assert view.read(A).erased
            assert A not in [found.id for found in view.scan()]

    def test_everything_else_stays_as_it_was(self) -> None:
        other = self.write_everywhere()
        newest = self.space.version

        def shown() -> list[Any]:
            views = [view.at(v) for view in (self.space, other) for v in range(newest + 1)]
            return [
                [state for state in (view.read(B), view.read(C), *view.scan()) if state.id != A]
                for view in views
            ]

        before = shown()
        self.space.erase(A, reason="asked to")
        assert shown() == before
        assert [fact.erased for fact in self.space.history(B)] == [False]

    def test_the_commit_is_on_main_and_has_an_event_and_no_facts(self) -> None:
        other = self.write_everywhere()
        newest, draws = self.space.version, len(self.ids.draws)
        erasure = other.erase(A, reason="asked to")
        commit = erasure.commit
        assert (commit.version, commit.branch, commit.facts) == (newest + 1, "main", ())
        assert commit.event == {"type": "erase", "id": A, "reason": "asked to"}
        assert logged(self.space)[-1] == commit
        assert erasure.facts == 5
        assert all(type(place) is str for place in erasure.remaining)
        assert erasure.to_dict()["commit"] == commit.to_dict()
        assert len(self.ids.draws) == draws
        assert self.space.branches()[0].head_version == commit.version

    def test_the_state_has_the_version_of_the_erasure_and_the_hash_of_the_last_fact(self) -> None:
        other = self.write_everywhere()
        last, elsewhere = self.space.read(A), other.read(A)
        erased = self.space.erase(A, reason="asked to").commit.version
        assert (self.space.read(A).version, self.space.read(A).hash) == (erased, last.hash)
        assert (other.read(A).version, other.read(A).hash) == (erased, elsewhere.hash)
        # Before it, the version is that of the fact: a view does not know what came later.
        assert self.space.at(1).read(A).version == 1

    def test_history_and_log_show_what_happened_without_content(self) -> None:
        self.write_everywhere()
        before, commits = self.space.history(A), logged(self.space)
        self.space.erase(A, reason="asked to")
        after = self.space.history(A)
        assert [(fact.hash, fact.parent, fact.op) for fact in after] == [
            (fact.hash, fact.parent, fact.op) for fact in before
        ]
        assert all(fact.erased and fact.body is None and fact.salt is None for fact in after)
        for old, new in zip(commits, logged(self.space), strict=False):
            assert (old.hash, old.version, old.meta) == (new.hash, new.version, new.meta)
            assert [fact.erased for fact in new.facts] == [fact.id == A for fact in new.facts]

    def test_a_deleted_entity_and_one_of_another_branch_can_be_erased(self) -> None:
        other = self.space.create_branch("other")
        self.space.set(A, MARK)
        self.space.delete(A)
        other.set(B, MARK)
        assert self.space.erase(A, reason="r").facts == 2
        assert self.space.erase(B, reason="r").facts == 1
        assert not self.space.read(B).erased  # it was never here
        assert other.read(B).erased
        assert self.space.verify().ok

    def test_a_long_history_goes_whole(self) -> None:
        self.space.set(A, {"text": MARK * 4})
        for number in range(40):
            self.space.patch(A, [add(f"/{number}", MARK)])
        assert self.space.erase(A, reason="r").facts == 41
        assert all(fact.erased for fact in self.space.history(A))
        assert [self.space.at(v).get(A) for v in range(43)] == [None] * 43
        report = self.space.verify()
        assert (report.ok, report.erased, report.facts) == (True, 41, 41)

    # -- what is left ------------------------------------------------------------------------------

    def test_verify_counts_what_was_erased_and_a_checkpoint_still_holds(self) -> None:
        self.write_everywhere()
        checkpoint = self.space.checkpoint()
        erasure = self.space.erase(A, reason="asked to")
        report = self.space.verify(against=checkpoint)
        assert (report.ok, report.faults, report.erased) == (True, (), erasure.facts)

    def test_no_digest_is_left_that_the_value_can_be_guessed_from(self) -> None:
        """The value is a number of four digits, tried against everything that the store still returns."""
        self.space.transact([put(A, 4711), put(B, 1)], key="k")
        self.space.create_branch("other").set(A, 4711, key="l")
        assert self._guesses()
        self.space.erase(A, reason="asked to")
        assert self._guesses() == []

    def _guesses(self) -> list[int]:
        """Return the values of A, out of 1,000, that fit something in the store."""
        page = self.port.answer(self.did, CopyOut(since=0, until=self.space.version))
        told: list[Any] = [commit.to_dict() for commit in page.commits]
        told += [row.body for row in page.keys]
        told += [[remains.body, remains.value] for remains in page.remains]
        text = canonical(told).decode()
        salts = {fact.salt for commit in page.commits for fact in commit.facts if fact.salt}
        found = []
        for number in range(4_500, 5_500):
            data = canonical(number)
            tries = [sha256(bytes.fromhex(salt) + data).hexdigest() for salt in ("", *salts)]
            for branch, sent in (
                ("main", [put(A, number), put(B, 1)]),
                ("other", [put(A, number)]),
            ):
                tries.append(payload_digest(branch, parse_operations(sent)))
            if any(digest in text for digest in tries) or f":{number}" in text:
                found.append(number)
        return found

    def test_a_backup_made_afterwards_holds_nothing_of_it(self) -> None:
        self.write_everywhere()
        self.space.erase(A, reason="asked to")
        path = self.place / "backup.db"
        self.store.backup(path)
        assert MARK[:40].encode() not in path.read_bytes()
        store = open_on(SqliteEngine(path), StoreSettings(), keys=MemoryKeys())
        self._opened.append(store)
        copy = store.space("notes")
        assert copy.read(A).erased
        assert copy.verify().erased == 5

    def test_a_garbage_collection_takes_nothing_of_what_verify_needs(self) -> None:
        self.space.set(A, {"n": 0})
        for number in range(50):
            self.space.patch(A, [add("/n", number)])
        self.space.erase(A, reason="asked to")
        self.space.set(A, {"n": 0})
        for number in range(50):
            self.space.patch(A, [add("/n", number)])
        assert self.space.gc().snapshots > 0
        assert self.space.verify().ok
        assert self.space.get(A) == {"n": 49}

    # -- afterwards --------------------------------------------------------------------------------

    def test_a_set_makes_it_live_again_with_a_new_salt_that_all_branches_share(self) -> None:
        other = self.write_everywhere()
        last, old = self.space.history(A)[0], self.space.history(A)[0].salt
        self.space.erase(A, reason="asked to")
        for view in (self.space, other):
            for operation in (remove(A), {"op": "patch", "id": A, "ops": []}):
                with pytest.raises(NotFound):
                    view.transact([operation])
        draws = len(self.ids.draws)
        fact = self.space.set(A, "new").facts[0]
        assert len(self.ids.draws) == draws + 1
        assert (fact.parent, fact.salt == old) == (last.hash, False)
        assert other.read(A).erased
        assert other.set(A, "also").facts[0].salt == fact.salt
        assert len(self.ids.draws) == draws + 1
        assert (self.space.get(A), other.get(A)) == ("new", "also")
        assert [state.id for state in other.scan()] == [A, B, C]
        assert self.space.at(1).get(A) is None
        assert self.space.verify().ok

    def test_what_was_set_again_can_be_erased_again(self) -> None:
        self.space.set(A, 1)
        first = self.space.erase(A, reason="once").commit
        self.space.set(A, 2)
        second = self.space.erase(A, reason="twice")
        assert (second.facts, second.commit.version) == (1, 4)
        assert self.space.read(A).version == 4
        assert self.space.at(first.version).read(A).version == first.version
        assert self.space.erase(A, reason="thrice").commit == second.commit
        report = self.space.verify()
        assert (report.ok, report.erased) == (True, 2)

    def test_to_erase_again_makes_no_commit_and_gives_the_first_one_back(self) -> None:
        self.write_everywhere()
        first = self.space.erase(A, reason="asked to")
        again = self.space.erase(A, reason="asked once more", key="other")
        assert (again.commit, again.facts) == (first.commit, 0)
        assert self.space.version == first.commit.version

    def test_a_key_gives_the_erasure_back_also_when_the_entity_lives_again(self) -> None:
        self.space.set(A, 1)
        first = self.space.erase(A, reason="asked to", key="e")
        self.space.set(A, 2)
        assert self.space.erase(A, reason="asked to", key="e").commit == first.commit
        assert self.space.get(A) == 2
        with pytest.raises(PayloadMismatch):
            self.space.erase(A, reason="something else", key="e")

    @pytest.mark.parametrize("reason", ["", None, 7, "x" * 1_025, "\ud800", "a\0b"], ids=ascii)
    def test_a_reason_is_a_text_of_some_length(self, reason: Any) -> None:
        self.space.set(A, 1)
        with Unchanged(self, InvalidInput):
            self.space.erase(A, reason=reason)

    def test_what_was_never_written_is_not_found(self) -> None:
        self.space.set(A, 1)
        with Unchanged(self, NotFound):
            self.space.erase(B, reason="r")
        with Unchanged(self, InvalidInput):
            self.space.erase("no uri", reason="r")
        with Unchanged(self, InvalidInput):
            self.space.at(1).erase(A, reason="r")

    # -- beside others -----------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "read",
        [
            {"id": A},
            {"id": A, "path": "/untouched"},
            {"prefix": "urn:"},
            {"prefix": ""},
            {"from": A, "to": B},
            {"from": A, "to": None},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("branch", ["main", "other"])
    def test_a_read_from_before_conflicts_on_every_branch(
        self, read: dict[str, Any], branch: str
    ) -> None:
        self.write_everywhere()
        seen = self.space.version
        erased = self.space.erase(A, reason="asked to").commit.version
        self.space.set("urn:z", 1)
        reads = [{"version": seen, "branch": branch, **read}]
        with pytest.raises(Conflict) as caught:
            self.space.transact([put("urn:y", 1)], reads=reads)
        newer = self.space.version if read.get("prefix") == "" and branch == "main" else erased
        if branch == "main" and read in ({"prefix": "urn:"}, {"from": A, "to": None}):
            newer = self.space.version
        assert caught.value.conflicts[0].actual_version == newer
        now = self.space.version
        self.space.transact([put("urn:y", 1)], reads=[{**reads[0], "version": now}])

    @pytest.mark.parametrize(
        "read", [{"id": B}, {"prefix": "urn:b"}, {"from": B, "to": None}], ids=str
    )
    def test_a_read_of_something_else_does_not_conflict(self, read: dict[str, Any]) -> None:
        self.write_everywhere()
        seen = self.space.version
        self.space.erase(A, reason="asked to")
        self.space.transact([put(C, 1)], reads=[{"version": seen, **read}])

    def test_a_transaction_that_saw_it_conflicts(self) -> None:
        self.space.set(A, 1)
        with pytest.raises(Conflict), self.space.transaction() as tx:
            assert tx.get(A) == 1
            self.space.erase(A, reason="asked to")
            tx.set(B, "derived from it")
        assert self.space.get(B) is None

    def test_a_merge_does_not_bring_it_back(self) -> None:
        other = self.space.create_branch("other")
        other.transact([put(A, MARK), put(B, 1)])
        self.space.erase(A, reason="asked to")
        result = self.space.merge("other")
        assert (result.status, result.merged) == ("merged", (B,))
        assert self.space.get(A) is None
        assert self.space.verify().ok

    def test_a_merge_that_was_planned_before_is_planned_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The erasure is recorded on a branch that is neither side of the merge."""
        one, other = self.space.create_branch("one"), self.space.create_branch("other")
        other.transact([put(A, MARK), put(B, 1)])
        commit = Committer.run

        def erase_first(committer: Committer, job: Job) -> Commit | None:
            monkeypatch.undo()
            self.space.erase(A, reason="meanwhile")
            return commit(committer, job)

        monkeypatch.setattr(Committer, "run", erase_first)
        result = one.merge("other")
        assert (result.status, result.merged) == ("merged", (B,))
        assert one.get(A) is None
        assert MARK not in str(logged(self.space)[-1].to_dict())

    def test_what_was_set_after_it_merges_like_anything_new(self) -> None:
        other = self.write_everywhere()
        self.space.erase(A, reason="asked to")
        other.set(A, "new")
        assert A in self.space.merge("other").merged
        assert self.space.get(A) == "new"
        assert self.space.verify().ok

    def test_a_diff_shows_nothing_of_it(self) -> None:
        self.write_everywhere()
        self.space.erase(A, reason="asked to")
        changes = self.space.at(0).diff(self.space)
        assert [change.id for change in changes] == [B]

    # -- what hangs on it --------------------------------------------------------------------------

    @pytest.mark.usefixtures("pending_max")
    def test_its_terms_are_gone_at_every_version(self) -> None:
        space = self.open_fresh("indexed", indexes=(WORDS,)).space("x")
        space.set(A, {"text": "secret words"})
        space.set(B, {"text": "other words"})
        space.set(A, {"text": "more"})
        assert len(self.hits(space)) == 3
        space.erase(A, reason="asked to")
        expected = [("other", B), ("words", B)]
        assert self.hits(space) == self.hits(space, version=3) == expected
        assert self.hits(space, version=1) == []
        assert space.verify().ok
        space.set(A, {"text": "again"})
        assert self.hits(space) == [("again", A), *expected]
        assert space.verify().ok

    @pytest.mark.usefixtures("pending_max")
    def test_an_index_that_is_behind_catches_up_without_it(self) -> None:
        self.space.set(A, {"text": "secret"})
        self.space.set(B, {"text": "other"})
        self.space.erase(A, reason="asked to")
        indexed = self._indexed()
        assert self.hits(indexed) == [("other", B)]
        assert indexed.verify().ok

    def _indexed(self) -> Space:
        """Return a copy of the space with an index of words; a store in memory cannot be opened again."""
        target = self.open_fresh("indexed", indexes=(WORDS,))
        self.store.copy("notes", target)
        return target.space("notes")

    def test_a_blob_whose_description_was_erased_goes_after_the_grace_period(self) -> None:
        hash = self.space.put_blob(b"payload")
        self.clock.move(seconds=10)
        self.space.erase(meta_id(hash), reason="asked to")
        assert self.space.gc(grace_seconds=5).kept == 1
        self.clock.move(seconds=5)
        assert self.space.gc(grace_seconds=5).blobs == 1
        assert self.space.verify().ok

    def test_a_reference_that_was_erased_keeps_no_blob(self) -> None:
        hash = self.space.put_blob(b"payload")
        self.space.set(A, {"text": "x" * 2_000})
        self.space.patch(A, [add("/file", {"$blob": hash})])
        self.space.delete(meta_id(hash))
        assert self.space.gc(grace_seconds=0).kept == 1
        self.space.erase(A, reason="asked to")
        assert self.space.gc(grace_seconds=0).blobs == 1

    # -- at the same time --------------------------------------------------------------------------

    @pytest.mark.usefixtures("pending_max")
    def test_verify_beside_an_erasure_finds_no_fault(self) -> None:
        """The verify may have read anything before the erasure and anything after it."""
        newest = self._write_patches()
        for page in range(newest):
            target = self.open_fresh(f"at {page}", indexes=(WORDS,))
            assert self.store.copy("notes", target).ok
            space = target.space("notes")
            self.hits(space)
            pages = self._verified_with_erasure(space, page)
            if page > pages:
                return
        raise AssertionError("there was no page without one")

    def _verified_with_erasure(self, space: Space, at_page: int) -> int:
        """Erase after a page of the log, unless there are fewer; return the number of pages."""
        pages = 0

        def erase(done: int, total: int) -> None:
            nonlocal pages
            pages += 1
            if pages == at_page:
                space.erase(A, reason="meanwhile")

        report = space.verify(progress=erase)
        assert report.ok, report.faults
        assert space.read(A).erased == (1 <= at_page <= pages)
        return pages

    def _write_patches(self) -> int:
        self.space.set(A, {"text": "x" * 2_000})
        for number in range(6):
            self.space.patch(A, [add(f"/{number}", number)])
            self.space.patch(A, [add("/text", f"word{number} " * (1 + 300 * (number % 2)))])
        return self.space.version

    def test_a_reader_that_meets_it_between_two_looks_sees_it_erased(self) -> None:
        self.space.set(A, {"text": "x" * 2_000})
        self.space.patch(A, [add("/small", 1)])
        opened = kernel_of(self.port).spaces.open(self.did)
        reads: Any = _Meddled(opened.engine.reader(), lambda: self.space.erase(A, reason="now"))
        entry = SpaceReader(opened, reads).entries_at("main", [A], 2)[A]
        assert (entry.exists, entry.erased) == (False, True)
        assert self.space.at(2).get(A) is None

    def test_what_was_read_before_it_is_not_remembered_after_it(self) -> None:
        self.space.set(A, MARK)
        self.space.set(A, 2)
        opened = kernel_of(self.port).spaces.open(self.did)
        reads: Any = _Meddled(
            opened.engine.reader(),
            lambda: self.space.erase(A, reason="now"),
            on="newest",
        )
        SpaceReader(opened, reads).entries_at("main", [A], 1)
        assert self.space.at(1).get(A) is None


class _Meddled:
    """A reader that lets something happen once during one of its calls: before `history`, after others."""

    def __init__(self, reads: Any, meddle: Any, *, on: str = "history") -> None:
        self._reads = reads
        self._meddle = meddle
        self._on = on

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._reads, name)
        if name != self._on:
            return method

        def meddled(*arguments: Any, **named: Any) -> Any:
            meddle, self._meddle = self._meddle, lambda: None
            if name == "history":
                meddle()
                return method(*arguments, **named)
            found = method(*arguments, **named)
            meddle()
            return found

        return meddled
