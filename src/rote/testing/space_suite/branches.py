"""Branches: a name, a parent and a fork version; isolated in both directions, at every depth."""

import pytest

from rote.contract import Branch, Hit, View
from rote.contract.commands import CreateBranch, DeleteBranch, Find, ListBranches, Merge
from rote.errors import Conflict, InvalidInput, NotFound, PayloadMismatch, VersionNotFound
from rote.space import Space
from rote.testing.space_suite.formulas import commit_hash
from rote.testing.space_suite.ground import (
    A,
    B,
    C,
    Unchanged,
    add,
    logged,
    put,
    remove,
)
from rote.testing.space_suite.indexes import WORDS, IndexGround

DEPTH = 1_200  # more than one condition of SQLite can hold


def ids_of(space: Space) -> list[str]:
    return [state.id for state in space.scan()]


class BranchTests(IndexGround):
    # -- making ------------------------------------------------------------------------------------

    def test_a_branch_is_a_commit_with_an_event(self) -> None:
        self.space.set(A, 1)
        topic = self.space.create_branch("topic")
        commit = logged(self.space)[-1]
        assert (topic.branch, topic.version, commit.branch) == ("topic", 2, "topic")
        assert commit.facts == ()
        assert commit.event == {
            "type": "branch.create", "name": "topic", "parent": "main", "fork_version": 1,
        }  # fmt: skip
        assert commit.hash == commit_hash(self.did, commit)
        gone = self.space.delete_branch("topic")
        assert (gone.branch, gone.event) == (
            "topic", {"type": "branch.delete", "name": "topic"},
        )  # fmt: skip
        assert gone.hash == commit_hash(self.did, gone)
        assert self.space.verify().ok

    def test_branches_are_listed_in_the_order_of_their_making(self) -> None:
        assert self.space.branches() == [Branch("main", None, 0, 0, 0, False)]
        self.space.set(A, 1)
        topic = self.space.create_branch("topic")
        topic.set(A, 2)
        topic.create_branch("a/deeper", at=2)
        self.space.delete_branch("topic")
        expected = [
            Branch("main", None, 0, 0, 1, False),
            Branch("topic", "main", 1, 2, 5, True),
            Branch("a/deeper", "topic", 2, 4, 4, False),
        ]
        assert self.space.branches() == expected
        assert self.port.answer(self.did, ListBranches(version=None)) == tuple(expected)
        assert self.space.at(3).branches() == [
            Branch("main", None, 0, 0, 1, False),
            Branch("topic", "main", 1, 2, 3, False),
        ]

    def test_a_branch_of_an_empty_space_is_empty(self) -> None:
        topic = self.space.create_branch("topic")
        assert ids_of(topic) == []
        self.space.set(A, 1)
        assert topic.get(A) is None
        topic.set(A, 2)
        assert (self.space.get(A), topic.get(A)) == (1, 2)

    def test_a_branch_may_start_at_any_version_of_its_parent(self) -> None:
        for number in range(4):
            self.space.set(A, number)
        values = [self.space.create_branch(f"at-{at}", at=at).get(A) for at in range(5)]
        assert values == [None, 0, 1, 2, 3]
        with Unchanged(self, VersionNotFound):
            self.space.create_branch("later", at=99)
        with Unchanged(self, InvalidInput):
            self.port.answer(self.did, CreateBranch("x", "main", -1))

    def test_a_branch_may_start_at_a_time(self) -> None:
        self.space.set(A, 1)
        then = self.clock.now()
        self.clock.move(seconds=5)
        self.space.set(A, 2)
        assert self.space.create_branch("topic", at=then).get(A) == 1

    @pytest.mark.parametrize("name", ["", "/", "a b", "x" * 201, "../x", 5, None, ["x"]])
    def test_a_bad_name_of_a_branch_is_refused(self, name: str) -> None:
        for write in (
            lambda: self.space.create_branch(name),
            lambda: self.space.delete_branch(name),
            lambda: self.space.merge(name),
            lambda: self.port.answer(self.did, CreateBranch("x", name)),
            lambda: self.port.answer(self.did, Merge("main", name)),
        ):
            with Unchanged(self, InvalidInput):
                write()
        with pytest.raises(InvalidInput):
            self.space.on(name)

    def test_a_name_is_never_used_again(self) -> None:
        self.space.create_branch("topic")
        with Unchanged(self, InvalidInput):
            self.space.create_branch("topic")
        self.space.delete_branch("topic")
        with Unchanged(self, InvalidInput):
            self.space.create_branch("topic")
        with Unchanged(self, InvalidInput):
            self.space.create_branch("main")

    def test_a_branch_that_is_not_there_is_not_found(self) -> None:
        with Unchanged(self, NotFound):
            self.space.on("nowhere")
        with Unchanged(self, NotFound):
            self.space.delete_branch("nowhere")
        with Unchanged(self, NotFound):
            self.port.answer(self.did, CreateBranch("x", "nowhere"))

    # -- deleting ----------------------------------------------------------------------------------

    def test_main_cannot_be_deleted(self) -> None:
        with Unchanged(self, InvalidInput):
            self.space.delete_branch("main")

    def test_a_deleted_branch_is_readable_and_not_writable(self) -> None:
        topic = self.space.create_branch("topic")
        made = topic.set(A, 1)
        self.port.answer(self.did, DeleteBranch("topic", key=None))
        assert topic.get(A) == 1
        assert ids_of(self.space.on("topic")) == [A]
        assert self.space.at(made.version).on("topic").get(A) == 1
        for write in (
            lambda: topic.set(A, 2),
            lambda: self.space.delete_branch("topic"),
            lambda: topic.merge("main"),
        ):
            with Unchanged(self, InvalidInput):
                write()

    def test_deleting_a_branch_disturbs_neither_its_children_nor_past_reads(self) -> None:
        self.space.set(A, 1)
        parent = self.space.create_branch("parent")
        parent.set(B, 2)
        child = parent.create_branch("child")
        before = list(child.scan())
        self.space.delete_branch("parent")
        assert list(child.scan()) == before
        child.set(C, 3)
        assert ids_of(child) == [A, B, C]
        assert ids_of(parent) == [A, B]
        # Also a way back: a new branch may start where the deleted one ended.
        assert ids_of(parent.create_branch("again")) == [A, B]

    # -- isolation ---------------------------------------------------------------------------------

    def test_a_first_patch_on_a_child_starts_from_the_inherited_value(self) -> None:
        """A first patch once started from nothing, because the child had no row of the entity."""
        self.space.set(A, {"n": 1})
        topic = self.space.create_branch("topic")
        fact = topic.patch(A, [add("/m", 2)]).facts[0]
        assert topic.get(A) == {"n": 1, "m": 2}
        assert self.space.get(A) == {"n": 1}
        inherited = self.space.history(A)[0]
        assert (fact.parent, fact.salt) == (inherited.hash, inherited.salt)
        assert [fact.version for fact in topic.history(A)] == [3, 1]

    def test_a_patch_of_a_large_inherited_document_replays_through_the_fork(self) -> None:
        self.space.set(A, {"pad": "x" * 5_000})
        self.space.patch(A, [add("/n", 1)])
        topic = self.space.create_branch("topic")
        self.space.patch(A, [add("/n", 9)])
        topic.patch(A, [add("/m", 2)])
        fresh = self.store.space(self.did).on("topic")
        assert fresh.get(A) == {"pad": "x" * 5_000, "n": 1, "m": 2}
        assert self.space.verify().ok

    def test_isolation_is_absolute_in_both_directions_and_at_every_depth(self) -> None:
        """A child of a child once saw later writes of the grandparent: only the nearest fork was a cap."""
        self.space.set(A, "old")
        child = self.space.create_branch("child")
        grandchild = child.create_branch("grandchild")
        self.space.transact([put(A, "new"), put(B, "late")])
        youngest = grandchild.create_branch("youngest")
        for branch in (child, grandchild, youngest):
            assert (branch.get(A), branch.get(B), ids_of(branch)) == ("old", None, [A])
        child.set(C, 1)
        grandchild.delete(A)
        assert (ids_of(youngest), ids_of(grandchild), ids_of(child)) == ([A], [], [A, C])
        assert ids_of(self.space) == [A, B]

    def test_reading_main_at_a_version_ignores_a_child(self) -> None:
        self.space.set(A, 1)
        topic = self.space.create_branch("topic")
        for number in range(3):
            topic.set(A, f"topic {number}")
        for version in range(1, 6):
            assert self.space.at(version).get(A) == 1
            assert [state.value for state in self.space.at(version).scan()] == [1]

    def test_a_branch_below_its_making_is_the_state_at_its_fork(self) -> None:
        for number in range(1, 6):
            self.space.set(A, number)
        topic = self.space.create_branch("topic", at=3)
        topic.set(A, "own")
        values = [topic.at(version).get(A) for version in range(8)]
        assert values == [None, 1, 2, 3, 3, 3, 3, "own"]
        assert self.space.at(2).on("topic").get(A) == 2

    def test_the_same_set_works_on_two_branches(self) -> None:
        topic = self.space.create_branch("topic")
        one, other = self.space.set(A, 1).facts[0], topic.set(A, 1).facts[0]
        assert (one.salt, one.hash) == (other.salt, other.hash)
        assert one.version != other.version
        assert self.space.verify().ok

    def test_an_entity_has_one_salt_on_all_branches(self) -> None:
        topic = self.space.create_branch("topic")
        other = self.space.create_branch("other")
        drawn = len(self.ids.draws)
        commits = [topic.set(A, 1), other.transact([put(A, 2), put(B, 1)]), self.space.set(A, 3)]
        assert len({commit.facts[0].salt for commit in commits}) == 1
        assert len(self.ids.draws) == drawn + 2

    def test_a_branch_draws_no_randomness(self) -> None:
        self.space.set(A, 1)
        drawn = len(self.ids.draws)
        self.space.create_branch("topic").merge("main")
        self.space.delete_branch("topic")
        assert len(self.ids.draws) == drawn

    # -- reads of commits --------------------------------------------------------------------------

    def test_a_childs_read_from_before_a_parents_write_below_the_fork_conflicts(self) -> None:
        """The write is on the child's line, though the child has no row of it."""
        self.space.set(A, 1)
        self.space.set(A, 2)
        topic = self.space.create_branch("topic")
        self.space.set(A, 3)
        with Unchanged(self, Conflict) as failed:
            topic.transact([put(B, 1)], reads=[{"id": A, "version": 1}])
        assert isinstance(failed.value, Conflict)
        [conflict] = failed.value.conflicts
        assert (conflict.branch, conflict.actual_version) == ("topic", 2)
        with Unchanged(self, Conflict):
            topic.transact([put(B, 1)], reads=[{"prefix": "urn:", "version": 1}])
        topic.transact(
            [put(B, 1)], reads=[{"id": A, "version": 2}, {"prefix": "urn:", "version": 2}]
        )

    def test_a_read_may_name_another_branch(self) -> None:
        topic = self.space.create_branch("topic")
        self.space.set(A, 1)
        read = {"id": A, "version": 1, "branch": "main"}
        with Unchanged(self, Conflict):
            topic.transact([put(B, 1)], reads=[read])
        topic.transact([put(B, 1)], reads=[{**read, "version": 2}, {"id": A, "version": 0}])

    def test_a_transaction_on_a_branch_sees_its_line(self) -> None:
        self.space.transact([put(A, 1), put(B, 2)])
        topic = self.space.create_branch("topic")
        with topic.transaction() as tx:
            assert [state.id for state in tx.scan()] == [A, B]
            self.space.set(A, 9)
            tx.set(C, tx.get(A))
        assert (topic.get(C), self.space.get(C)) == (1, None)

    # -- keys --------------------------------------------------------------------------------------

    def test_a_key_makes_one_branch(self) -> None:
        first = self.space.create_branch("topic", key="k")
        self.space.set(A, 1)
        again = self.space.create_branch("topic", key="k")
        assert (first.branch, again.branch, self.space.version) == ("topic", "topic", 2)
        with Unchanged(self, PayloadMismatch):
            self.space.create_branch("other", key="k")
        with Unchanged(self, PayloadMismatch):
            self.space.set(A, 1, key="k")
        gone = self.space.delete_branch("topic", key="d")
        assert self.space.delete_branch("topic", key="d") == gone

    @pytest.mark.parametrize("key", ["", "k" * 201, "rote:k", "k\0", 5])
    def test_a_bad_key_of_a_branch_call_is_refused(self, key: str) -> None:
        self.space.create_branch("topic").set(A, 1)
        for write in (
            lambda: self.space.create_branch("new", key=key),
            lambda: self.space.delete_branch("topic", key=key),
            lambda: self.space.merge("topic", key=key),
        ):
            with Unchanged(self, InvalidInput):
                write()

    def test_a_pinned_view_makes_no_branches(self) -> None:
        self.space.set(A, 1)
        pinned = self.space.at(1)
        for write in (
            lambda: pinned.create_branch("topic"),
            lambda: pinned.delete_branch("topic"),
            lambda: pinned.merge("main"),
        ):
            with Unchanged(self, InvalidInput):
                write()

    # -- scans and indexes -------------------------------------------------------------------------

    def test_scans_of_a_branch_are_paged_in_order_with_what_is_inherited(self) -> None:
        ids = [f"urn:{number:03d}" for number in range(60)]
        self.space.transact([put(id, "main") for id in ids[::2]])
        topic = self.space.create_branch("topic")
        self.space.transact([put(id, "late") for id in ids])
        topic.transact([put(id, "topic") for id in ids[::3]])
        topic.transact([remove(id) for id in ids[::5] if topic.read(id).exists])
        expected = [
            (id, "topic" if place % 3 == 0 else "main")
            for place, id in enumerate(ids)
            if (place % 2 == 0 or place % 3 == 0) and place % 5
        ]
        assert [(state.id, state.value) for state in topic.scan()] == expected
        paged = [
            state.id
            for place in range(0, 60, 7)
            for state in topic.scan(after=None if place == 0 else ids[place - 1])
            if state.id <= ids[min(place + 6, 59)]
        ]
        assert paged == [id for id, _ in expected]
        assert [state.id for state in topic.scan(limit=4)] == [id for id, _ in expected[:4]]

    @pytest.mark.usefixtures("pending_max")
    def test_an_index_is_right_on_every_branch(self) -> None:
        main = self.open_fresh("indexed", indexes=(WORDS,)).space("x")
        main.transact([put(A, {"text": "red"}), put(B, {"text": "red"}), put(C, {"text": "red"})])
        topic = main.create_branch("topic")
        topic.set(A, {"text": "blue"})
        topic.delete(B)
        main.set(C, {"text": "green"})
        found = {
            branch: [
                (hit.term, hit.id)
                for hit in main._port.answer(main.did, Find("words/1", view=View(branch)))
            ]
            for branch in ("main", "topic")
        }  # fmt: skip
        assert found == {
            "main": [("green", C), ("red", A), ("red", B)],
            "topic": [("blue", A), ("red", C)],
        }
        find = Find("words/1", after=Hit("blue", A), limit=1, view=View("topic"))
        first = main._port.answer(main.did, find)
        assert [(hit.term, hit.id) for hit in first] == [("red", C)]
        assert main.verify().ok

    # -- depth -------------------------------------------------------------------------------------

    def test_a_thousand_ancestors_are_one_look_up(self) -> None:
        """A condition with one part for each ancestor was too long for SQLite."""
        self.space.set(A, {"n": 0})
        branch = self.space
        for number in range(DEPTH):
            branch = branch.create_branch(f"b{number}")
        assert branch.get(A) == {"n": 0}
        branch.patch(A, [add("/m", 1)])
        assert branch.get(A) == {"n": 0, "m": 1}
        assert [fact.version for fact in branch.history(A)] == [DEPTH + 2, 1]
        assert ids_of(branch) == [A]
        assert self.space.diff(branch)[0].after == {"n": 0, "m": 1}
        assert self.space.merge(branch.branch).merged == (A,)
