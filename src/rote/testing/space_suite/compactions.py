"""Compacting: from the horizon on nothing changes, below it nothing can be read, and all of it is proven."""

from collections.abc import Callable
from typing import Any

import pytest

from rote.contract import Compaction, View
from rote.contract.commands import (
    CopyOut,
    Find,
    GetHead,
    GetHistory,
    ListBranches,
    MakeCommit,
    PutSide,
    Read,
    Scan,
)
from rote.errors import (
    Compacted,
    Conflict,
    Denied,
    InvalidInput,
    NotFound,
    PayloadMismatch,
    VersionNotFound,
)
from rote.space import Space
from rote.testing.space_suite.blobs import meta
from rote.testing.space_suite.ground import A, B, C, add, change, port_of, put, remove
from rote.testing.space_suite.indexes import WORDS, IndexGround
from rote.values import digest, parse_time

LARGE = {"text": "x" * 3_000}


def answers(space: Space, since: int, until: int, ids: tuple[str, ...] = (A, B, C)) -> list[Any]:
    """Return every answer about the versions in [since, until], on all branches."""
    found: list[Any] = []
    for version in range(since, until + 1):
        view = space.at(version)
        found.append((view.version, view.head, view.branches()))
        for branch in view.branches():
            on = view.on(branch.name)
            found.append((list(on.scan()), [on.read(id) for id in ids]))
    return found


class CompactionGround(IndexGround):
    """A space with commits of every kind."""

    def write_much(self) -> Space:
        """Write sets, patches of large and small documents, deletions, keys, branches and merges.

        These are 24 commits. Return the space on the branch.
        """
        space = self.space
        space.transact([put(A, LARGE), put(B, {"n": 0}), put(C, 0)], key="first")
        for number in range(1, 7):
            space.patch(A, [add(f"/m{number}", number)])
            space.patch(B, [add("/n", number)])
        space.delete(C)
        topic = space.create_branch("topic", at=9)
        topic.patch(A, [add("/topic", True)])
        topic.set(C, "on topic", key="on topic")
        space.merge("topic", on_conflict="theirs")
        space.transact([change(A, add("/a", 1)), change(A, add("/b", 2)), put(B, {"n": "line"})])
        for number in range(5):
            self.clock.move(seconds=60)
            space.patch(A, [add("/later", number)])
        topic.set(C, "still on topic")
        assert space.version == 25
        return topic


class CompactionTests(CompactionGround):
    # -- what stays --------------------------------------------------------------------------------

    @pytest.mark.parametrize("before", (1, 2, 9, 14, 15, 16, 18, 19, 20, 25))
    def test_nothing_that_can_be_asked_from_the_line_on_changes(self, before: int) -> None:
        self.write_much()
        expected, whole = answers(self.space, before, 25), self.space.verify()
        log = list(self.space.log(since=before - 1))
        compaction = self.space.compact(before=before)
        assert answers(self.space, before, 25) == expected
        # Below the first version there is nothing to drop.
        made = [] if before == 1 else [compaction.commit]
        assert list(self.space.log(since=before - 1)) == [*log, *made]
        fresh = self.store.space("notes")
        assert answers(fresh, before, 25) == expected
        report = self.space.verify()
        assert report.ok, report.faults
        assert report.facts + compaction.facts == whole.facts
        assert report.commits + compaction.commits == whole.commits + len(made)

    @pytest.mark.parametrize("first", (3, 14, 17, 19))
    def test_a_space_can_be_compacted_again_and_again(self, first: int) -> None:
        self.write_much()
        expected = answers(self.space, 20, 25)
        one = self.space.compact(before=first)
        other = self.space.compact(before=20)
        assert other.checkpoint is not None
        assert other.checkpoint["prior"] == digest(one.checkpoint)
        assert answers(self.space, 20, 25) == expected
        assert self.space.verify().ok

    def test_what_is_written_afterwards_follows_what_was_there(self) -> None:
        topic = self.write_much()
        newest = {id: self.space.read(id) for id in (A, B, C)}
        self.space.compact(before=20)
        commit = self.space.transact([change(A, add("/x", 1)), put(B, 2), put(C, 3)])
        assert [fact.parent for fact in commit.facts] == [newest[id].hash for id in (A, B, C)]
        topic.patch(A, [add("/x", 1)])
        assert self.space.get(A)["x"] == 1
        assert topic.get(A)["topic"] and topic.get(A)["x"] == 1
        assert self.space.verify().ok

    def test_a_deleted_entity_has_the_version_and_hash_of_its_deletion(self) -> None:
        self.space.set(A, 1)
        self.space.delete(A)
        self.space.set(B, 1)
        self.space.set(B, 2)
        before = self.space.read(A)
        self.space.compact(before=4)
        assert self.space.at(4).read(A) == before
        assert self.space.set(A, 2).facts[0].parent == before.hash
        assert self.space.verify().ok

    def test_a_branch_keeps_what_it_inherits_from_below_the_line(self) -> None:
        for number in range(6):
            self.space.set(A, number)
        topic = self.space.create_branch("topic", at=2)
        nested = topic.create_branch("nested", at=1)
        self.space.delete_branch("topic")
        self.space.compact(before=6)
        assert (self.space.get(A), topic.get(A), nested.get(A)) == (5, 1, 0)
        nested.set(B, 1)
        assert [change.before for change in nested.diff("topic")] == [0, 1]
        assert self.space.verify().ok

    def test_a_fork_above_the_line_still_finds_the_base_below_it(self) -> None:
        """The present heads have merged since, so only the heads at the horizon tell which base the
        fork will need."""
        self.space.set(A, "base")
        one = self.space.create_branch("one")
        other = self.space.create_branch("other")
        one.set(A, "one")
        other.set(A, "other")
        self.space.set(A, "main")
        line = self.space.set(B, 0).version
        self.space.merge("one", on_conflict="theirs")
        other.merge("one", on_conflict="theirs")
        self.space.compact(before=line)
        fork = other.create_branch("fork", at=line)
        (conflict,) = fork.merge("one").conflicts
        assert (conflict.base.value, conflict.ours.value, conflict.theirs.value) == (
            "base", "other", "one",
        )  # fmt: skip

    def test_keys_still_stand_for_their_commits(self) -> None:
        self.write_much()
        made = next(iter(self.space.log()))
        self.space.compact(before=20)
        again = self.space.transact([put(A, LARGE), put(B, {"n": 0}), put(C, 0)], key="first")
        assert (again.version, again.hash, again.facts) == (1, made.hash, ())
        with pytest.raises(PayloadMismatch):
            self.space.set(A, 1, key="first")
        assert self.space.version == 26

    def test_an_entity_has_the_history_that_is_left(self) -> None:
        for number in range(5):
            self.space.patch(A, [add("/n", number)]) if number else self.space.set(A, {})
        facts = self.space.history(A)
        self.space.compact(before=4)
        assert self.space.history(A) == facts[:2]
        self.space.set(B, 1)
        self.space.compact(before=7)
        (left,) = self.space.history(A)
        assert (left.hash, left.parent, left.version) == (
            facts[0].hash, facts[0].parent, facts[0].version,
        )  # fmt: skip
        assert (left.op, left.body, left.commit) == ("patch", None, None)
        assert (left.at, left.author, left.meta) == (None, None, None)

    # -- what goes ---------------------------------------------------------------------------------

    def test_below_the_line_everything_is_compacted(self) -> None:
        topic = self.write_much()
        times = [commit.at for commit in self.space.log()]
        self.space.compact(before=20)
        port, did = self.port, self.did
        view = View("main", 19)
        asked: list[Callable[[], Any]] = [
            lambda: self.space.at(19),
            lambda: self.space.at(1),
            lambda: self.space.at(times[5]),
            lambda: list(self.space.log(since=0)),
            lambda: list(self.space.log(since=18)),
            lambda: list(self.space.log(since=18, newest=True)),
            lambda: self.space.commit(19),
            lambda: self.space.diff(19),
            lambda: self.space.create_branch("late", at=19),
            lambda: topic.create_branch("late", at=1),
            lambda: port.answer(did, Read([A], view)),
            lambda: port.answer(did, Read([A, B], view)),
            lambda: port.answer(did, Scan(start="", end=None, after=None, limit=9, view=view)),
            lambda: port.answer(did, GetHistory(A, before=None, limit=9, view=view)),
            lambda: port.answer(did, ListBranches(version=19)),
            lambda: port.answer(did, GetHead(version=19)),
            lambda: port.answer(did, GetHead(at=parse_time(times[5]))),
            lambda: port.answer(did, CopyOut(since=0, until=26)),
        ]
        for ask in asked:
            with pytest.raises(Compacted, match="begins with version 20") as caught:
                ask()
            assert caught.value.details["oldest"] == 20
        assert "late" not in {branch.name for branch in self.space.branches()}

    def test_what_was_read_before_is_not_answered_from_memory(self) -> None:
        self.write_much()
        view = self.space.at(5)
        assert view.get(A) is not None
        self.space.compact(before=20)
        with pytest.raises(Compacted):
            view.get(A)

    def test_version_zero_is_still_empty_and_can_be_forked(self) -> None:
        self.write_much()
        self.space.compact(before=20)
        assert list(self.space.at(0).scan()) == []
        assert list(self.space.create_branch("empty", at=0).scan()) == []

    def test_the_log_begins_with_the_line(self) -> None:
        self.write_much()
        (before,) = self.space.log(since=18, limit=1)
        self.space.compact(before=20)
        first = next(iter(self.space.log(since=19)))
        assert (first.version, first.previous) == (20, before.hash)
        assert next(iter(self.space.log())) == self.space.commit(20) == first
        assert list(self.space.log(newest=True)) == list(self.space.log())[::-1]
        assert self.space.oldest == 20

    def test_a_time_before_all_commits_is_compacted_unless_nothing_is(self) -> None:
        self.space.set(A, 1)
        early = "2020-01-01T00:00:00Z"
        assert self.space.at(early).version == 0
        self.space.set(A, 2)
        self.space.compact(before=2)
        with pytest.raises(Compacted, match=f"the state of {early[:-1]}"):
            self.space.at(early)
        assert self.space.at(self.clock.now()).version == 3

    def test_where_nothing_is_below_the_line_there_is_no_commit(self) -> None:
        assert self.space.compact(keep=3) == Compaction(None, None, 0, 0, 1)
        self.space.set(A, 1)
        self.space.set(A, 2)
        assert self.space.oldest == 1
        for nothing in (self.space.compact(before=1), self.space.compact(keep=2)):
            assert nothing == Compaction(None, None, 0, 0, 1)
        assert self.space.version == 2

    def test_to_keep_some_commits_again_and_again_takes_nothing_more(self) -> None:
        """A nightly compaction runs whether anything was written or not."""
        for number in range(10):
            self.space.set(A, number)
        kept = [commit.hash for commit in list(self.space.log())[-3:]]
        assert self.space.compact(keep=3).oldest == 8
        for _ in range(3):
            assert self.space.compact(keep=3).commit is None
        assert self.space.compact(keep=2).oldest == 9
        assert self.space.compact(keep=2).commit is None
        assert self.space.compact(keep=99).commit is None
        assert [commit.hash for commit in self.space.log()][:2] == kept[1:]
        self.space.set(A, "new")
        assert self.space.compact(keep=2).oldest == 10
        assert self.space.at(10).get(A) == 9
        assert [commit.version for commit in self.space.log() if commit.facts] == [10, 13]
        assert self.space.compact(keep=1).oldest == 13
        assert self.space.verify().ok

    @pytest.mark.parametrize("before", (1, 2, 9, 16, 20, 25))
    def test_a_dry_run_says_what_would_go_and_changes_nothing(self, before: int) -> None:
        self.write_much()
        self.space.set(A, "keyed", key="k")
        log = list(self.space.log())
        for line in (before, before + 1):
            foreseen = self.space.compact(before=line, dry_run=True)
            assert foreseen.commit is None
            if line == before:
                assert (list(self.space.log()), self.space.oldest) == (log, 1)
            made = self.space.compact(before=line)
            assert (foreseen.facts, foreseen.commits, foreseen.oldest) == (
                made.facts, made.commits, made.oldest,
            )  # fmt: skip

    # -- what is asked -----------------------------------------------------------------------------

    @pytest.mark.parametrize("before", (0, -1, True, "3", 2.0, None), ids=repr)
    def test_what_is_no_version_is_refused(self, before: Any) -> None:
        self.space.set(A, 1)
        with pytest.raises(InvalidInput):
            self.space.compact(before=before)
        assert self.space.version == 1

    def test_a_line_above_the_log_is_not_found(self) -> None:
        self.space.set(A, 1)
        with pytest.raises(VersionNotFound):
            self.space.compact(before=2)
        assert self.space.version == 1

    def test_the_same_line_again_is_nothing_and_a_lower_one_is_refused(self) -> None:
        self.write_much()
        compaction = self.space.compact(before=20)
        again = self.space.compact(before=20)
        assert again.to_dict() == {
            "commit": None, "checkpoint": compaction.checkpoint, "facts": 0, "commits": 0,
            "oldest": 20, "is_shrunk": True,
        }  # fmt: skip
        with pytest.raises(InvalidInput, match="from 20 to 26"):
            self.space.compact(before=19)
        assert self.space.version == 26

    def test_a_key_stands_for_the_compaction(self) -> None:
        self.write_much()
        compaction = self.space.compact(before=20, key="k")
        self.space.compact(before=22)
        again = self.space.compact(before=20, key="k")
        assert again.commit == compaction.commit
        assert (again.checkpoint, again.facts) == (compaction.checkpoint, 0)
        with pytest.raises(PayloadMismatch):
            self.space.compact(before=23, key="k")

    def test_a_pinned_view_compacts_nothing(self) -> None:
        self.write_much()
        with pytest.raises(InvalidInput):
            self.space.at(20).compact(before=3)

    def test_its_commit_says_what_it_did(self) -> None:
        self.write_much()
        (line,) = self.space.log(since=19, limit=1)
        told: list[tuple[str, int, int]] = []
        compaction = self.space.compact(before=20, progress=lambda *step: told.append(step))
        commit, checkpoint = compaction.commit, compaction.checkpoint
        assert commit is not None and checkpoint is not None
        assert (commit.version, commit.branch, commit.facts) == (26, "main", ())
        assert commit.event == {"type": "compact", "before": 20, "checkpoint": checkpoint}
        assert (checkpoint["version"], checkpoint["head"]) == (20, line.hash)
        assert checkpoint["prior"] is None
        assert {phase for phase, _, _ in told} == {"keeping", "dropping"}

    def test_its_side_row_is_the_kernels_own(self) -> None:
        with pytest.raises(InvalidInput):
            self.port.answer(self.did, PutSide("compaction", "line", {}, fence=0))

    # -- reads of a commit -------------------------------------------------------------------------

    def test_a_read_of_a_path_that_can_no_longer_be_decided_conflicts(self) -> None:
        self.space.set(A, {"x": 1, "y": 1})
        for number in range(4):
            self.space.patch(A, [add("/y", number)])
        read = {"id": A, "path": "/x"}
        self.space.compact(before=4)
        for version, is_decided in ((1, False), (2, False), (3, True), (5, True)):
            request = MakeCommit([put(B, version)], reads=[{**read, "version": version}])
            if is_decided:
                self.port.answer(self.did, request)
                continue
            with pytest.raises(Conflict) as caught:
                self.port.answer(self.did, request)
            (conflict,) = caught.value.conflicts
            assert (conflict.expected_version, conflict.actual_version) == (version, 5)

    def test_other_reads_are_decided_as_before(self) -> None:
        for number in range(4):
            self.space.set(A, number)
        self.space.set(B, 1)
        self.space.compact(before=5)
        for version, ids in ((4, [A]), (0, [C])):
            self.space.transact(
                [put("urn:z", 1)], reads=[{"id": id, "version": version} for id in ids]
            )
        for read in ({"id": A, "version": 3}, {"prefix": "urn:a", "version": 2}):
            with pytest.raises(Conflict) as caught:
                self.space.transact([put(B, 2)], reads=[read])
            assert caught.value.conflicts[0].actual_version == 4
        self.space.transact([put(B, 2)], reads=[{"prefix": "urn:a", "version": 4}])

    # -- trust -------------------------------------------------------------------------------------

    def test_a_checkpoint_from_below_the_line_proves_nothing_any_more(self) -> None:
        self.space.set(A, 0)
        old = self.space.checkpoint()
        for number in range(1, 4):
            self.space.set(A, number)
        last, kept = self.space.checkpoint(), self.space.verify()
        self.space.set(A, 5)
        self.space.compact(before=5)
        report = self.space.verify(against=old)
        assert not report.ok
        (fault,) = report.faults
        assert (fault.kind, fault.version) == ("compacted", 1)
        assert "cannot say" in fault.message
        assert kept.ok
        # The first commit that is left holds the hash of this one.
        assert self.space.verify(against=last).ok
        assert not self.space.verify(against={**last, "head": "0" * 64}).ok

    def test_what_is_left_of_another_branch_is_not_what_the_line_follows(self) -> None:
        """The patch at the horizon changes a set that is gone. The fact that the branch had
        inherited, and that was erased, is still there."""
        self.space.set(A, 1)
        self.space.erase(A, reason="asked to")
        topic = self.space.create_branch("topic")
        topic.set(A, {})
        line = topic.patch(A, [add("/n", 1)]).version
        self.space.compact(before=line)
        report = self.space.verify()
        assert report.ok, report.faults
        assert topic.get(A) == {"n": 1}

    def test_a_checkpoint_of_the_line_and_above_it_holds(self) -> None:
        self.write_much()
        newest = self.space.checkpoint()
        compaction = self.space.compact(before=20)
        assert self.space.verify(against=newest).ok
        assert self.space.verify(against=compaction.checkpoint).ok

    def test_progress_of_verify_ends_at_the_total(self) -> None:
        self.write_much()
        self.space.compact(before=20)
        told: list[tuple[int, int]] = []
        self.space.verify(progress=lambda done, total: told.append((done, total)))
        assert told[-1] == (26, 26)
        assert told == sorted(told)

    # -- what stands beside ------------------------------------------------------------------------

    def test_garbage_is_still_told_from_what_is_referred_to(self) -> None:
        kept, gone, described = (self.space.put_blob(data) for data in (b"kept", b"gone", b"is"))
        for hash in (kept, gone):
            self.space.delete(meta(hash))
        self.space.set(A, {"file": {"$blob": gone}})
        self.space.set(A, {"file": {}})
        self.space.patch(A, [add("/file/$blob", kept)])
        self.space.set(B, 1)
        line = self.space.set(B, 2).version
        self.clock.move(seconds=1e6)
        assert self.space.gc().blobs == 0
        self.space.compact(before=line)
        assert self.space.gc().blobs == 1
        assert self.space.blob(kept) == b"kept"
        assert self.space.blob(described) == b"is"
        with pytest.raises(NotFound):
            self.space.blob(gone)
        assert self.space.verify().ok

    def test_a_reference_that_the_commit_of_the_line_has_left_as_it_was_counts(self) -> None:
        """The commit that made the reference is gone, and the operations at the horizon do not mention it."""
        hash = self.space.put_blob(b"kept")
        self.space.delete(meta(hash))
        self.space.set(A, {"file": {"$blob": hash}})
        line = self.space.patch(A, [add("/n", 1)]).version
        self.space.compact(before=line)
        self.clock.move(seconds=1e6)
        assert self.space.gc().blobs == 0
        assert self.space.blob(hash) == b"kept"
        self.space.set(A, 1)
        self.space.compact(before=self.space.version)
        assert self.space.gc().blobs == 1

    def test_collecting_takes_no_snapshot_that_nothing_can_replace(self) -> None:
        self.space.set(A, {})
        for number in range(80):
            self.space.patch(A, [add("/n", number)])
        self.space.compact(before=40)
        expected = [self.space.at(version).get(A) for version in range(40, 83)]
        assert self.space.gc().snapshots > 30
        fresh = self.store.space("notes")
        assert [fresh.at(version).get(A) for version in range(40, 83)] == expected
        assert self.space.verify().ok

    @pytest.mark.usefixtures("pending_max")
    @pytest.mark.parametrize("asked_before", (True, False), ids=("known", "not known yet"))
    def test_an_index_lists_what_nothing_has_written_since_the_line(
        self, asked_before: bool
    ) -> None:
        """Every entity that it lists comes from commits that are gone."""
        space = self.open_fresh("indexed", indexes=(WORDS,)).space("x")
        space.set(A, {"text": "all"})
        space.set(B, 1)
        if asked_before:
            assert self.hits(space) == [("all", A)]
        for name in ("one", "two"):
            space.create_branch(name)
        space.compact(before=space.version)
        assert self.hits(space) == [("all", A)]
        space.create_branch("three")
        space.compact(before=space.version)
        space.set(B, {"text": "more"})
        assert self.hits(space) == [("all", A), ("more", B)]
        assert space.verify().ok

    @pytest.mark.usefixtures("pending_max")
    def test_an_index_is_right_from_the_line_on(self) -> None:
        store = self.open_fresh("indexed", indexes=(WORDS,))
        space = store.space("x")
        for number in range(6):
            space.set(A, {"text": f"all {number}"})
            space.set(B, {"text": f"all even {number}" if number % 2 else "odd"})
        space.create_branch("topic", at=5).set(C, {"text": "topic"})
        versions = range(9, 15)
        expected = [self.hits(space, version=version) for version in versions]
        space.compact(before=9)
        assert space.verify().ok
        assert [self.hits(space, version=version) for version in versions] == expected
        assert space.verify().ok
        space.set(A, {"text": "new"})
        assert ("new", A) in self.hits(space)
        with pytest.raises(Compacted):
            self.hits(space, version=8)
        found = port_of(store).answer(
            space.did,
            Find("words/1", start="", end=None, after=None, limit=99, view=View("topic", 14)),
        )
        assert ("topic", C) in {(hit.term, hit.id) for hit in found}
        assert ("2", A) in {(hit.term, hit.id) for hit in found}

    def test_without_the_key_nothing_is_compacted(self) -> None:
        self.write_much()
        target = self.open_fresh("target")
        assert self.store.copy("notes", target).ok
        with pytest.raises(Denied):
            target.space("notes").compact(before=20)
        assert target.space("notes").version == 25

    def test_a_transaction_that_began_below_the_line_is_told(self) -> None:
        self.write_much()
        with pytest.raises(Compacted), self.space.transaction() as tx:
            self.space.set(B, "later")
            self.space.compact(before=self.space.version)
            tx.get(A)

    def test_deletions_and_removals_in_the_commit_of_the_line_are_kept_whole(self) -> None:
        self.space.set(A, {"n": 1})
        self.space.set(B, LARGE)
        line = self.space.transact(
            [change(A, add("/m", 2)), remove(A), put(A, {}), change(A, add("/k", 3)),
             change(B, add("/m", 1)), change(B, add("/k", 2))]
        )  # fmt: skip
        self.space.compact(before=3)
        assert next(iter(self.space.log(since=2))) == line
        assert self.space.at(3).get(A) == {"k": 3}
        assert self.space.get(B) == {**LARGE, "m": 1, "k": 2}
        assert self.space.verify().ok

    @pytest.mark.parametrize("id", (A, B, C))
    @pytest.mark.parametrize("first", (True, False), ids=("erased first", "compacted first"))
    def test_what_is_left_can_be_erased_and_is_still_proven(self, id: str, first: bool) -> None:
        """The checkpoint is signed and does not change, so the remains of an erasure must fit its digest."""
        topic = self.write_much()
        space = self.space
        if first:
            space.erase(id, reason="asked for")
        space.compact(before=20)
        if not first:
            space.erase(id, reason="asked for")
        assert not space.read(id).exists and not topic.read(id).exists
        report = space.verify()
        assert report.ok, report.faults
        space.compact(before=space.version)
        assert space.verify().ok
