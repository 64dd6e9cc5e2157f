"""Copies of branches and merges: everything arrives, wherever a page ends; forged events are refused."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from rote.contract import Commit, Head
from rote.contract.commands import CopyIn, GetHead, Verify
from rote.errors import Corrupt
from rote.testing.space_suite.copies import adopting, page_of
from rote.testing.space_suite.forgeries import rehashed
from rote.testing.space_suite.ground import A, B, C, SpaceGround, add, logged, put, remove

EVENTS: dict[str, Callable[[Commit], dict[str, Any]]] = {
    "a branch that was there": lambda commit: {
        "type": "branch.create", "name": "main", "parent": "main", "fork_version": 1,
    },
    "a parent that is not there": lambda commit: {
        "type": "branch.create", "name": "new", "parent": "nowhere", "fork_version": 1,
    },
    "a fork above the log": lambda commit: {
        "type": "branch.create", "name": "new", "parent": "main", "fork_version": commit.version,
    },
    "a fork below 0": lambda commit: {
        "type": "branch.create", "name": "new", "parent": "main", "fork_version": -1,
    },
    "a fork that is no version": lambda commit: {
        "type": "branch.create", "name": "new", "parent": "main", "fork_version": True,
    },
    "one member more": lambda commit: {
        "type": "branch.create", "name": "new", "parent": "main", "fork_version": 1, "more": 1,
    },
    "one member less": lambda commit: {"type": "branch.create", "name": "new", "parent": "main"},
    "main deleted": lambda commit: {"type": "branch.delete", "name": "main"},
    "nothing deleted": lambda commit: {"type": "branch.delete", "name": "nowhere"},
    "deleted twice": lambda commit: {"type": "branch.delete", "name": "topic"},
    "a merge of nowhere": lambda commit: {
        "type": "merge", "source": "nowhere", "source_version": 1, "bases": [],
    },
    "a merge of another version": lambda commit: {
        "type": "merge", "source": "other", "source_version": 2,
        "bases": [{"branch": "main", "version": 1}],
    },
    "a merge with another base": lambda commit: {
        "type": "merge", "source": "other", "source_version": 6,
        "bases": [{"branch": "main", "version": 0}],
    },
    "a merge with no base": lambda commit: {
        "type": "merge", "source": "other", "source_version": 6, "bases": [],
    },
}  # fmt: skip


class BranchCopyTests(SpaceGround):
    def _write_branches(self) -> None:
        """Write forks below, at and above the end of a page, merges both ways, and a deleted branch."""
        space = self.space
        space.transact([put(A, {"n": 0, "pad": "x" * 2_000}), put(B, 1)], key="first")
        space.patch(A, [add("/n", 1)])
        topic = space.create_branch("topic", at=1, key="branch")
        space.patch(A, [add("/n", 2)])
        topic.patch(A, [add("/m", 1)])
        topic.transact([remove(B), put(C, {"n": 1})])
        deeper = topic.create_branch("topic/deeper")
        deeper.patch(A, [add("/m", 2)])
        deeper.patch(C, [add("/m", 2)])
        old = topic.create_branch("old", at=5)
        old.set(B, 7)
        space.merge("topic", on_conflict="paths", key="merge")
        topic.merge("main")
        deeper.merge("topic", on_conflict="latest")
        space.merge("topic/deeper", on_conflict="theirs")
        space.delete_branch("topic")
        space.merge("topic")
        self.store.space(self.did).on("old").set(C, 9)

    def test_a_copy_has_the_same_branches_hashes_and_states(self) -> None:
        self._write_branches()
        target = self.open_fresh("target")
        assert self.store.copy("notes", target).ok
        copy = target.space("notes")
        assert logged(copy) == logged(self.space)
        assert copy.branches() == self.space.branches()
        for branch in self.space.branches():
            for version in range(self.space.version + 1):
                here, there = (space.at(version).on(branch.name) for space in (self.space, copy))
                assert list(here.scan()) == list(there.scan())
        # The copy takes new commits of its own.
        assert copy.on("old").create_branch("new").get(C) == 9
        assert copy.merge("old", on_conflict="ours").status == "merged"
        assert copy.verify().ok

    def test_a_page_may_end_anywhere(self) -> None:
        self._write_branches()
        page, last = page_of(self.space), self.space.version
        keys = {row.key: row for row in page.keys}
        for size in range(1, last + 1):
            port = adopting(self, f"pages-{size}")
            reached = 0
            while reached < last:
                commits = page.commits[reached : reached + size]
                rows = tuple(keys[commit.key] for commit in commits if commit.key is not None)
                reached = port.answer(
                    self.did, CopyIn(replace(page, commits=commits, keys=rows))
                ).version
            assert port.answer(self.did, GetHead()) == self.port.answer(self.did, GetHead())
            assert port.begin(self.did, Verify(against=None)).result().ok

    @pytest.mark.parametrize("forgery", EVENTS)
    def test_a_forged_event_whose_hashes_fit_is_refused(self, forgery: str) -> None:
        self.space.set(A, 1)
        other = self.space.create_branch("other")
        self.space.create_branch("topic")
        self.space.delete_branch("topic")
        self.space.set(B, 1)
        other.set(A, 2)
        self.space.create_branch("new")
        page, port = page_of(self.space), adopting(self)
        *honest, last = page.commits
        event = EVENTS[forgery](last)
        branch = event.get("name", "main")
        forged = rehashed(self.did, replace(last, event=event, branch=branch))
        head = port.answer(self.did, CopyIn(replace(page, commits=tuple(honest))))
        with pytest.raises(Corrupt):
            port.answer(self.did, CopyIn(replace(page, commits=(*honest, forged))))
        assert port.answer(self.did, GetHead()) == head
        assert port.answer(self.did, CopyIn(page)) == self.port.answer(self.did, GetHead())

    def test_a_write_to_a_deleted_branch_is_refused(self) -> None:
        topic = self.space.create_branch("topic")
        written = topic.set(A, 1)
        self.space.delete_branch("topic")
        page, port = page_of(self.space), adopting(self)
        honest = page.commits
        late = replace(written, version=4, previous=honest[-1].hash)
        late = rehashed(self.did, replace(late, facts=()))
        with pytest.raises(Corrupt):
            port.answer(self.did, CopyIn(replace(page, commits=(*honest, late))))
        assert port.answer(self.did, GetHead()).version <= 3

    def test_another_salt_than_the_one_on_another_branch_is_refused(self) -> None:
        topic = self.space.create_branch("topic")
        self.space.set(A, 1)
        written = topic.set(A, 2)
        page, port = page_of(self.space), adopting(self)
        forged = rehashed(
            self.did, replace(written, facts=(replace(written.facts[0], salt="00" * 16),))
        )
        with pytest.raises(Corrupt):
            port.answer(self.did, CopyIn(replace(page, commits=(*page.commits[:-1], forged))))
        assert port.answer(self.did, GetHead()) == Head(0, None, None)
