"""The laws of merging find bugs: with one planted in branches or merges, a history shows it.

`test_merges.py` is the control: the same histories, no plant, no failure.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from rote.contract import commands
from rote.engines.rows import BranchRow, Line
from rote.errors import RoteError
from rote.kernel.branching import merge_bases as bases
from rote.kernel.branching import merges
from rote.kernel.log import branches, commit_graph
from rote.kernel.log.branches import NEWEST, Branches
from rote.kernel.log.commit_graph import CommitGraph, Merge, Point, last_node, merge_bases
from rote.kernel.log.entries import ABSENT, Entry
from rote.patch import threeway
from tests.properties.test_merges import STEPS, Step, in_memory

# No shrinking: it is enough that the bug is found.
SEARCH = settings(
    max_examples=1_000,
    phases=[Phase.generate],
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

Plant = Callable[[pytest.MonkeyPatch], None]


def ignore_the_cap_of_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    def uncapped(self: Branches, row: BranchRow) -> Line:
        parts = [(row.branch, NEWEST)]
        while row.parent is not None:
            row = self.row(row.parent)
            parts.append((row.branch, NEWEST))
        return tuple(parts)

    monkeypatch.setattr(Branches, "_trace", uncapped)


def cap_only_at_the_nearest_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    def capped_once(self: Branches, row: BranchRow) -> Line:
        parts, cap = [(row.branch, NEWEST)], row.fork_version
        while row.parent is not None:
            row = self.row(row.parent)
            parts.append((row.branch, cap))
        return tuple(parts)

    monkeypatch.setattr(Branches, "_trace", capped_once)


def forget_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget merges, so that the base is always the fork of the branches."""
    monkeypatch.setattr(CommitGraph, "add", lambda self, branch, merge: None)


def follow_only_the_last_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    add = CommitGraph.add

    def replacing(self: CommitGraph, branch: int, merge: Merge) -> None:
        self._merges[branch], self._versions[branch] = [], []
        add(self, branch, merge)

    monkeypatch.setattr(CommitGraph, "add", replacing)


def take_one_base_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    find = merge_bases

    def newest(*arguments: Any, **points: Any) -> list[Point]:
        return find(*arguments, **points)[-1:]

    monkeypatch.setattr(merges, "merge_bases", newest)


def take_every_common_ancestor_for_a_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        commit_graph,
        "_maximal",
        lambda graph, branches, nodes: sorted(nodes, key=lambda node: node[1]),
    )


def take_the_lowest_base_where_they_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    def unfolded(frame: Any, below: Any) -> None:
        frame.place = len(frame.bases)

    monkeypatch.setattr(bases, "_fold", unfolded)


def call_no_base_an_absent_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merges, "NO_BASE", object())


def call_written_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def same_fact(one: Entry, other: Entry) -> bool:
        return (one.version, one.hash) == (other.version, other.hash)

    monkeypatch.setattr(merges, "same", same_fact)


def look_at_the_source_only_above_its_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    def own(one: Line, other: Line) -> list[Any]:
        return [span for span in branches.spans(one, other) if span[0] == one[0][0]]

    monkeypatch.setattr(merges, "spans", own)


def prefer_ours_to_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = merges._settle

    def ours_first(request: commands.Merge, rules: Any, id: str, sides: Any) -> Entry | None:
        return sides[1] if request.on_conflict == "latest" else settle(request, rules, id, sides)

    monkeypatch.setattr(merges, "_settle", ours_first)


def drop_deletes_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = merges._candidates

    def living(*arguments: Any) -> Any:
        return (found for found in candidates(*arguments) if found[3].exists)

    monkeypatch.setattr(merges, "_candidates", living)


def merge_paths_with_ours_on_top(monkeypatch: pytest.MonkeyPatch) -> None:
    def union(base: Any, ours: Any, theirs: Any) -> threeway.Merged | None:
        if type(ours) is dict and type(theirs) is dict:
            return threeway.Merged({**theirs, **ours})
        return None

    monkeypatch.setattr(threeway, "merge", union)


def name_a_version_that_is_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    find = last_node

    def head(*arguments: Any) -> Point | None:
        found = find(*arguments)
        return None if found is None else arguments[-1]

    monkeypatch.setattr(merges, "last_node", head)


def forget_the_base_of_what_the_target_has_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def now(ground: Any, points: Any, ours: Any, one: dict[str, Entry], ids: Sequence[str]) -> Any:
        return {id: one.get(id, ABSENT) for id in ids}

    monkeypatch.setattr(merges, "_base_entries", now)


PLANTS: list[Plant] = [
    ignore_the_cap_of_a_fork,
    cap_only_at_the_nearest_fork,
    forget_merges,
    follow_only_the_last_merge,
    take_one_base_of_several,
    take_every_common_ancestor_for_a_base,
    take_the_lowest_base_where_they_differ,
    call_no_base_an_absent_one,
    call_written_changed,
    look_at_the_source_only_above_its_fork,
    prefer_ours_to_the_latest,
    drop_deletes_of_the_source,
    merge_paths_with_ours_on_top,
    name_a_version_that_is_no_node,
    forget_the_base_of_what_the_target_has_written,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_history_shows_a_planted_bug(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    @SEARCH
    @given(STEPS)
    def holds(steps: list[Step]) -> None:
        with in_memory() as history:
            history.run(steps).check()

    with pytest.raises((AssertionError, RoteError)):
        holds()
