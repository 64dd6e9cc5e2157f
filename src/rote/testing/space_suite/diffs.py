"""Diffs: the changes between two states, of branches, versions and views."""

import pytest

from rote.contract import Change, View
from rote.contract.commands import Diff
from rote.errors import InvalidInput, NotFound, VersionNotFound
from rote.patch import apply
from rote.testing.space_suite.ground import A, B, C, SpaceGround, add, put, remove


class DiffTests(SpaceGround):
    def test_a_diff_says_what_was_added_removed_and_changed(self) -> None:
        self.space.transact([put(A, {"n": 1, "m": 1}), put(B, "b")])
        self.space.patch(A, [add("/n", 2)])
        self.space.transact([remove(B), put(C, None)])
        expected = [
            Change(A, "changed", {"n": 1, "m": 1}, {"n": 2, "m": 1},
                   [{"op": "replace", "path": "/n", "value": 2}]),
            Change(B, "removed", "b", None, None),
            Change(C, "added", None, None, None),
        ]  # fmt: skip
        assert self.space.at(1).diff(3) == expected
        assert self.space.at(1).diff(self.space) == expected
        assert self.port.answer(self.did, Diff(View("main", 1), View())) == tuple(expected)

    def test_a_diff_goes_both_ways(self) -> None:
        self.space.set(A, {"n": 1})
        topic = self.space.create_branch("topic")
        topic.transact([put(A, {"n": 2}), put(B, 1)])
        self.space.set(C, 1)
        there, back = self.space.diff("topic"), topic.diff("main")
        assert [(change.id, change.kind) for change in there] == [
            (A, "changed"), (B, "added"), (C, "removed"),
        ]  # fmt: skip
        assert [(change.id, change.before, change.after) for change in there] == [
            (change.id, change.after, change.before) for change in back
        ]
        for change in (there[0], back[0]):
            assert change.patch is not None
            assert apply(change.before, change.patch) == change.after

    def test_equal_states_have_no_diff(self) -> None:
        self.space.set(A, 1)
        topic = self.space.create_branch("topic")
        assert self.space.diff("topic") == self.space.diff("main") == self.space.diff(1) == []
        topic.set(A, 2)
        topic.set(A, 1)
        self.space.set(B, 1)
        self.space.delete(B)
        assert self.space.diff("topic") == []

    def test_views_of_branches_at_versions_can_be_compared(self) -> None:
        self.space.set(A, 1)
        topic = self.space.create_branch("topic")
        topic.set(A, 2)
        deeper = topic.create_branch("deeper", at=2)
        self.space.set(A, 3)
        assert [change.after for change in deeper.diff("topic")] == [2]
        assert [change.after for change in topic.at(2).diff(self.space)] == [3]
        assert [change.after for change in topic.diff(0)] == [None]
        # A pinned view compares with other branches as they were at its version.
        assert topic.at(2).diff("main") == []
        assert topic.at(3).diff("main")[0].after == 1

    def test_a_diff_that_makes_no_sense_is_refused(self) -> None:
        self.space.set(A, 1)
        other = self.store.space("other")
        for bad in (other, None, 1.5, True, -1):
            with pytest.raises(InvalidInput):
                self.space.diff(bad)  # type: ignore[arg-type]
        with pytest.raises(NotFound):
            self.space.diff("nowhere")
        with pytest.raises(VersionNotFound):
            self.space.diff(9)

    def test_views_of_two_stores_are_not_compared(self) -> None:
        """The other view was read from this store, so a copy that had gone on looked the same."""
        self.space.set(A, 1)
        target = self.open_fresh("target")
        assert self.store.copy("notes", target).ok
        copied = target.space("notes")
        copied.set(A, 2)
        for view in (copied, copied.at(1)):
            with pytest.raises(InvalidInput, match="one store"):
                self.space.diff(view)

    def test_what_a_diff_gives_is_the_callers_own(self) -> None:
        self.space.set(A, {"l": [1]})
        self.space.set(A, {"l": [1], "m": {"x": 1}})
        first = self.space.at(1).diff(2)
        assert first[0].patch is not None
        first[0].after["m"]["x"] = first[0].before["l"] = 9
        assert first[0].patch[0]["value"] == {"x": 1}
        first[0].patch[0]["value"]["x"] = 9
        assert self.space.at(1).diff(2)[0].after == {"l": [1], "m": {"x": 1}}
        assert self.space.get(A) == {"l": [1], "m": {"x": 1}}
