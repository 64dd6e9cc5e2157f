"""Merges: the right base after any history, conflicts as data, and nothing half done."""

from typing import Any

import pytest

from rote.contract import DELETE, MergeResult, State
from rote.contract.commands import Merge
from rote.errors import InvalidInput, NotFound, PayloadMismatch
from rote.kernel.log.commit_graph import CommitGraph
from rote.kernel.log.commit_graph import Merge as MergeNode
from rote.space import Space
from rote.testing.space_suite.formulas import commit_hash
from rote.testing.space_suite.ground import A, B, C, SpaceGround, Unchanged, logged, put, remove
from rote.values.limits import OPERATIONS_MAX

MANY = 1_500  # more than a page


def values(space: Space) -> dict[str, Any]:
    return {state.id: state.value for state in space.scan()}


def sides(result: MergeResult) -> list[tuple[str, Any, Any, Any]]:
    """Return (id, base, ours, theirs) of each conflict."""
    return [
        (found.id, found.base.value, found.ours.value, found.theirs.value)
        for found in result.conflicts
    ]


class MergeTests(SpaceGround):
    @pytest.fixture
    def topic(self) -> Space:
        """Return a branch of main, which holds A, B and C."""
        self.space.transact([put(A, "a"), put(B, "b"), put(C, "c")])
        return self.space.create_branch("topic")

    # -- one base ----------------------------------------------------------------------------------

    def test_a_merge_is_one_commit_that_names_its_source_and_bases(self, topic: Space) -> None:
        topic.transact([put(A, "new"), remove(B), put("urn:d", 1)])
        self.space.set(C, "main")
        result = self.space.merge("topic")
        assert (result.status, result.merged, result.conflicts) == ("merged", (A, B, "urn:d"), ())
        assert result.commit == logged(self.space)[-1]
        assert result.commit.event == {
            "type": "merge",
            "source": "topic",
            "source_version": 3,
            "bases": [{"branch": "main", "version": 1}],
        }
        assert [(fact.op, fact.id) for fact in result.commit.facts] == [
            ("set", A), ("delete", B), ("set", "urn:d"),
        ]  # fmt: skip
        assert result.commit.hash == commit_hash(self.did, result.commit)
        assert values(self.space) == {A: "new", C: "main", "urn:d": 1}
        assert values(topic) == {A: "new", C: "c", "urn:d": 1}
        assert self.space.verify().ok

    def test_a_merge_into_an_untouched_target_gives_the_sources_state(self, topic: Space) -> None:
        topic.transact([put(A, 1), remove(C), put("urn:d", {"x": []})])
        topic.patch("urn:d", [{"op": "add", "path": "/x/-", "value": 1}])
        assert self.space.merge("topic").status == "merged"
        assert values(self.space) == values(topic)

    def test_merging_twice_is_nothing(self, topic: Space) -> None:
        topic.set(A, 1)
        assert self.space.merge("topic").status == "merged"
        version = self.space.version
        assert self.space.merge("topic") == MergeResult("nothing", None, (), ())
        assert self.space.version == version

    def test_a_merge_without_anything_on_the_source_is_nothing(self, topic: Space) -> None:
        self.space.set(A, 1)
        assert self.space.merge("topic").status == "nothing"
        assert self.space.merge("main").status == "nothing"

    def test_a_merge_of_empty_branches_is_nothing(self) -> None:
        self.space.create_branch("topic")
        assert self.space.merge("topic").status == "nothing"

    def test_a_merge_with_nothing_to_apply_is_recorded(self, topic: Space) -> None:
        """Both sides made the same change. Once that is recorded, a later change of one side is no
        conflict with the old base."""
        topic.set(A, "same")
        self.space.set(A, "same")
        result = self.space.merge("topic")
        assert (result.status, result.merged) == ("merged", ())
        assert result.commit is not None
        assert result.commit.facts == ()
        topic.set(A, "later")
        assert self.space.merge("topic").merged == (A,)
        assert self.space.verify().ok

    def test_a_value_changed_and_changed_back_is_unchanged(self, topic: Space) -> None:
        topic.set(A, "other")
        topic.set(A, "a")
        topic.delete(B)
        topic.set(B, "b")
        self.space.transact([put(A, "main"), put(B, "main")])
        result = self.space.merge("topic")
        assert (result.status, result.merged) == ("merged", ())
        assert values(self.space) == {A: "main", B: "main", C: "c"}

    def test_a_branch_that_shares_nothing_can_be_merged(self) -> None:
        other = self.space.create_branch("other")
        self.space.transact([put(A, 1), put(B, 2)])
        other.transact([put(B, 2), put(C, 3)])
        result = self.space.merge("other")
        assert result.merged == (C,)
        assert result.commit is not None
        assert result.commit.event is not None
        assert result.commit.event["bases"] == []
        assert values(self.space) == {A: 1, B: 2, C: 3}

    def test_an_empty_target_gets_the_sources_state(self) -> None:
        empty = self.space.create_branch("empty")
        self.space.transact([put(A, 1), put(B, 2)])
        assert empty.merge("main").merged == (A, B)
        assert values(empty) == values(self.space)
        assert self.space.merge("empty").status == "merged"

    def test_a_deleted_branch_is_a_source_like_any_other(self, topic: Space) -> None:
        topic.set(A, 1)
        self.space.delete_branch("topic")
        assert self.space.merge("topic").merged == (A,)
        assert self.space.merge("topic").status == "nothing"

    def test_a_merge_is_not_bound_by_the_number_of_operations_or_a_page(self, topic: Space) -> None:
        assert MANY < OPERATIONS_MAX
        topic.transact([put(f"urn:{number:05d}", number) for number in range(MANY)])
        result = self.space.merge("topic")
        assert len(result.merged) == MANY
        assert self.space.get("urn:01499") == 1499

    # -- where the base is -------------------------------------------------------------------------

    def test_two_merges_in_a_row_start_where_the_first_ended(self, topic: Space) -> None:
        """With the fork as the base of both, the second would bring A back."""
        topic.set(A, "topic")
        self.space.merge("topic")
        self.space.set(A, "main")
        topic.set(B, "topic")
        assert self.space.merge("topic").merged == (B,)
        assert values(self.space) == {A: "main", B: "topic", C: "c"}

    def test_merging_main_into_the_branch_and_back_leaves_both_equal(self, topic: Space) -> None:
        self.space.set(A, "main")
        topic.set(B, "topic")
        assert topic.merge("main").merged == (A,)
        assert self.space.merge("topic").merged == (B,)
        assert values(self.space) == values(topic) == {A: "main", B: "topic", C: "c"}
        assert topic.merge("main").status == "merged"
        assert self.space.merge("topic").status == "merged"

    def test_siblings_have_the_point_where_they_parted(self, topic: Space) -> None:
        other = self.space.create_branch("other")
        self.space.set(C, "later")
        topic.set(A, "topic")
        other.set(B, "other")
        assert topic.merge("other").merged == (B,)
        assert values(topic) == {A: "topic", B: "other", C: "c"}

    def test_siblings_that_met_on_main_have_main_for_a_base(self, topic: Space) -> None:
        other = self.space.create_branch("other")
        topic.set(A, "topic")
        self.space.merge("topic")
        other.merge("main")
        topic.set(A, "again")
        other.set(B, "other")
        assert topic.merge("other").merged == (B,)
        assert values(topic) == {A: "again", B: "other", C: "c"}

    def test_criss_cross_has_two_bases(self, topic: Space) -> None:
        """Two features go into two branches, then one branch into the other:

            topic  ──1──── merge other ──
                      ╲  ╱
                      ╱  ╲
            other  ──2──── merge topic ──

        With only one of the bases, changes that came through the other look like changes of one
        side.
        """
        other = self.space.create_branch("other")
        topic.set(A, "topic")
        other.set(B, "other")
        before = topic.create_branch("before-merge")
        assert topic.merge("other").merged == (B,)
        assert other.merge("before-merge").merged == (A,)
        assert values(topic) == values(other)
        # Each branch builds on the result of the other.
        topic.set(A, "topic 2")
        other.set(B, "other 2")
        result = topic.merge("other")
        assert (result.status, result.merged) == ("merged", (B,))
        assert result.commit is not None
        assert result.commit.event is not None
        assert [base["branch"] for base in result.commit.event["bases"]] == ["topic", "other"]
        assert values(topic) == {A: "topic 2", B: "other 2", C: "c"}
        assert before.get(A) == "topic"

    def test_bases_that_conflict_are_no_base(self, topic: Space) -> None:
        """Each side settled the same conflict in its own way; then the two meet."""
        other = self.space.create_branch("other")
        topic.set(A, "topic")
        other.set(A, "other")
        topic.create_branch("topic-1")
        other.create_branch("other-1")
        topic.merge("other-1", resolutions={A: "one"})
        other.merge("topic-1", resolutions={A: "two"})
        result = topic.merge("other")
        assert sides(result) == [(A, None, "one", "two")]
        assert result.conflicts[0].base == State(A, None, False, 0, None)
        other.delete(A)
        assert sides(topic.merge("other")) == [(A, None, "one", None)]
        other.set(A, "one")
        assert topic.merge("other").merged == ()

    def test_criss_cross_upon_criss_cross_goes_down_to_the_last_agreement(
        self, topic: Space
    ) -> None:
        other = self.space.create_branch("other")
        topic.set(A, 0)
        other.set(B, 0)
        for number in range(1, 6):
            mark_topic = topic.create_branch(f"topic-{number}")
            mark_other = other.create_branch(f"other-{number}")
            assert topic.merge(mark_other.branch).status == "merged"
            assert other.merge(mark_topic.branch).status == "merged"
            topic.set(A, number)
            other.set(B, number)
        assert topic.merge("other").merged == (B,)
        assert values(topic) == {A: 5, B: 5, C: "c"}
        assert self.space.verify().ok

    def test_what_was_merged_long_ago_costs_nothing(
        self, topic: Space, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Every merge into a branch of main once went down to the fork of that branch, and passed
        all merges on the way."""
        passed: list[int] = []
        merge_at = CommitGraph.merge_at

        def counting(graph: CommitGraph, branch: int, place: int) -> MergeNode:
            passed.append(place)
            return merge_at(graph, branch, place)

        monkeypatch.setattr(CommitGraph, "merge_at", counting)
        counts = []
        for number in range(30):
            topic.create_branch(f"part-{number}").set(A, number)
            passed.clear()
            assert topic.merge(f"part-{number}").merged == (A,)
            counts.append(len(passed))
        assert counts[1:] == [counts[1]] * 29

    # -- conflicts ---------------------------------------------------------------------------------

    def test_conflicts_are_returned_whole_and_nothing_is_written(self, topic: Space) -> None:
        topic.transact([put(A, "topic"), remove(B), put("urn:d", 1), put("urn:ok", 1)])
        self.space.transact([put(A, "main"), put(B, "main"), put("urn:d", 2)])
        before = logged(self.space)
        result = self.space.merge("topic")
        assert (result.status, result.commit, result.merged) == ("conflict", None, ())
        assert sides(result) == [
            (A, "a", "main", "topic"), (B, "b", "main", None), ("urn:d", None, 2, 1),
        ]  # fmt: skip
        conflict = result.conflicts[1]
        assert conflict.base == self.space.at(1).read(B)
        assert (conflict.ours, conflict.theirs) == (self.space.read(B), topic.read(B))
        assert logged(self.space) == before

    def test_conflict_sets_are_symmetric(self, topic: Space) -> None:
        topic.transact([put(A, "topic"), remove(B), put("urn:d", 1)])
        self.space.transact([put(A, "main"), put(B, "main"), put(C, "main")])
        here, there = self.space.merge("topic"), topic.merge("main")
        assert [(found.id, found.base, found.ours, found.theirs) for found in here.conflicts] == [
            (found.id, found.base, found.theirs, found.ours) for found in there.conflicts
        ]

    @pytest.mark.parametrize(
        ("strategy", "expected"),
        [
            ("ours", {A: "main", B: "main", C: "topic"}),
            ("theirs", {A: "topic", C: "topic"}),
            ("latest", {A: "topic", B: "main", C: "topic"}),
        ],
    )
    def test_a_strategy_settles_all_conflicts(
        self, topic: Space, strategy: str, expected: dict[str, Any]
    ) -> None:
        self.space.set(A, "main")
        topic.transact([put(A, "topic"), remove(B), put(C, "topic")])
        self.space.set(B, "main")
        result = self.space.merge("topic", on_conflict=strategy)
        assert (result.status, values(self.space)) == ("merged", expected)
        # A settled conflict does not come back until the source changes the entity again.
        assert self.space.merge("topic").status == "nothing"
        topic.set(C, "again")
        assert self.space.merge("topic").merged == (C,)

    def test_paths_merges_objects_member_by_member(self, topic: Space) -> None:
        self.space.transact([put(A, {"x": 1, "y": {"p": 1, "q": 1}, "z": [1]}), put(B, 1)])
        topic.merge("main")
        topic.set(A, {"x": 2, "y": {"p": 1, "q": 2}, "z": [1]})
        self.space.set(A, {"x": 1, "y": {"p": 2, "q": 1}, "n": 0})
        topic.set("urn:new", {"l": 1, "same": 0})
        self.space.set("urn:new", {"r": 1, "same": 0})
        result = self.space.merge("topic", on_conflict="paths")
        assert result.status == "merged"
        assert self.space.get(A) == {"x": 2, "y": {"p": 2, "q": 2}, "n": 0}
        assert self.space.get("urn:new") == {"l": 1, "r": 1, "same": 0}

    def test_paths_leaves_what_it_cannot_merge(self, topic: Space) -> None:
        self.space.transact([put(A, {"x": [1]}), put(B, {"x": 1}), put(C, {"x": 1})])
        topic.merge("main")
        topic.transact([put(A, {"x": [1, 2]}), put(B, {}), remove(C)])
        self.space.transact([put(A, {"x": [0, 1]}), put(B, {"x": 2}), put(C, {"x": 2})])
        result = self.space.merge("topic", on_conflict="paths")
        assert [conflict.id for conflict in result.conflicts] == [A, B, C]

    def test_resolutions_settle_single_conflicts(self, topic: Space) -> None:
        topic.transact([put(A, "topic"), put(B, "topic"), put(C, "topic")])
        self.space.transact([put(A, "main"), put(B, "main"), put(C, "main")])
        result = self.space.merge("topic", resolutions={A: "both", B: DELETE})
        assert [conflict.id for conflict in result.conflicts] == [C]
        result = self.space.merge("topic", resolutions={A: "both", B: DELETE}, on_conflict="ours")
        assert result.merged == (A, B)
        assert values(self.space) == {A: "both", C: "main"}
        assert self.space.verify().ok

    def test_resolutions_for_anything_else_are_refused(self, topic: Space) -> None:
        topic.transact([put(A, "topic"), put(B, "topic")])
        self.space.set(A, "main")
        for resolutions in (
            {B: 1},
            {A: 1, C: 1},
            {"urn:none": DELETE},
            {"no id": 1},
            {A: {1}},
            [A],
        ):
            with Unchanged(self, InvalidInput):
                self.space.merge("topic", resolutions=resolutions)  # type: ignore[arg-type]

    def test_bad_requests_are_refused(self, topic: Space) -> None:
        with Unchanged(self, InvalidInput):
            self.space.merge("topic", on_conflict="mine")
        with Unchanged(self, NotFound):
            self.space.merge("nowhere")
        with Unchanged(self, NotFound):
            self.port.answer(self.did, Merge("main", "nowhere"))

    # -- trying and repeating ----------------------------------------------------------------------

    def test_a_dry_run_says_what_the_merge_does_and_writes_nothing(self, topic: Space) -> None:
        topic.transact([put(A, "topic"), remove(B)])
        before = logged(self.space)
        tried = self.space.merge("topic", dry_run=True)
        assert logged(self.space) == before
        done = self.space.merge("topic")
        assert tried.commit is None
        assert done.commit is not None
        assert (tried.status, tried.merged, tried.conflicts) == (
            done.status, done.merged, done.conflicts,
        )  # fmt: skip

    def test_a_source_that_moved_since_the_dry_run_is_merged_as_it_is_now(
        self, topic: Space
    ) -> None:
        topic.set(A, "topic")
        assert self.space.merge("topic", dry_run=True).merged == (A,)
        topic.set(B, "topic")
        result = self.space.merge("topic")
        assert result.merged == (A, B)
        assert result.commit is not None
        assert result.commit.event is not None
        assert result.commit.event["source_version"] == topic.version - 1

    def test_a_key_merges_once(self, topic: Space) -> None:
        topic.set(A, "topic")
        done = self.space.merge("topic", key="k")
        topic.set(B, "topic")
        assert self.space.merge("topic", key="k") == done
        assert self.space.get(B) == "b"
        with Unchanged(self, PayloadMismatch):
            self.space.merge("topic", key="k", on_conflict="ours")
        with Unchanged(self, PayloadMismatch):
            self.space.set(A, 1, key="k")

    def test_past_reads_are_the_same_before_and_after_a_merge(self, topic: Space) -> None:
        topic.transact([put(A, "topic"), remove(B)])
        self.space.set(C, "main")
        versions = range(self.space.version + 1)
        before = [
            values(space.at(version)) for space in (self.space, topic) for version in versions
        ]
        self.space.merge("topic")
        self.space.delete_branch("topic")
        assert before == [
            values(space.at(version)) for space in (self.space, topic) for version in versions
        ]
