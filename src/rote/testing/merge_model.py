"""Merges of the model, written from the contract with sets of ancestors and recursion.

Nothing here is shared with the kernel, which walks the graph in another way and never builds a set
of ancestors.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rote.contract import DELETE
from rote.errors import InvalidInput, NotFound
from rote.testing.model import ModelCommit, ModelFact, ModelState, Refused, SpaceModel
from rote.values import Json, canonical

ABSENT = ModelState(None, False, 0)


@dataclass(frozen=True, slots=True)
class ModelMergeConflict:
    id: str
    base: ModelState
    ours: ModelState
    theirs: ModelState


@dataclass(frozen=True, slots=True)
class ModelMerge:
    """The outcome of a merge."""

    status: str
    commit: ModelCommit | None
    merged: list[str]
    conflicts: list[ModelMergeConflict]


def same(one: ModelState, other: ModelState) -> bool:
    return one.exists == other.exists and canonical(one.value) == canonical(other.value)


class Merging:
    """The graph of a model at this moment."""

    def __init__(self, model: SpaceModel) -> None:
        self.model = model
        self._ancestors: dict[int, set[int]] = {}  # of nodes, which never change

    def head(self, branch: str, version: int | None = None) -> int:
        """Return the version of the last node on a branch's line, or 0."""
        nodes = [commit.version for commit in self.model.line(branch, version) if commit.is_node]
        return nodes[-1] if nodes else 0

    def ancestors(self, node: int) -> set[int]:
        """Return a node and all its ancestors."""
        if node in self._ancestors:
            return self._ancestors[node]
        found: set[int] = set()
        waiting = [node]
        while waiting:
            version = waiting.pop()
            if version == 0 or version in found:
                continue
            found.add(version)
            commit = self.model.commits[version - 1]
            waiting.append(self.head(commit.branch, version - 1))
            if commit.event is not None:
                waiting.append(self.head(commit.event["source"], commit.event["source_version"]))
        self._ancestors[node] = found
        return found

    def bases(self, left: Sequence[int], right: int) -> list[int]:
        """Return the maximal common ancestors, lowest version first."""
        of_left = set().union(*(self.ancestors(node) for node in left))
        common = of_left & self.ancestors(right)
        return sorted(
            node
            for node in common
            if not any(node in self.ancestors(other) for other in common if other != node)
        )

    def state(self, node: int, id: str) -> ModelState:
        if node == 0:
            return ABSENT
        return self.model.read(id, node, self.model.commits[node - 1].branch)

    def base(self, bases: Sequence[int], id: str) -> ModelState | None:
        """Return the merged state of the bases; None when they conflict."""
        states = [self.state(node, id) for node in bases]
        if not states:
            return ABSENT
        merged: ModelState | None = states[0]
        if all(same(states[0], state) for state in states):
            return merged
        for place in range(1, len(bases)):
            if merged is None:
                return None
            below = self.base(self.bases(bases[:place], bases[place]), id)
            merged = _threeway(below, merged, states[place])
        return merged

    # -- the merge ---------------------------------------------------------------------------------

    def plan(
        self, source: str, target: str, on_conflict: str, resolutions: Mapping[str, Any]
    ) -> tuple[ModelMerge, list[ModelFact], dict[str, Any]]:
        ours, theirs = self.head(target), self.head(source)
        if theirs == 0 or theirs in self.ancestors(ours):
            return ModelMerge("nothing", None, [], []), [], {}
        bases = self.bases([ours], theirs)
        facts: list[ModelFact] = []
        conflicts: list[ModelMergeConflict] = []
        seen = set()
        for id in self.model.ids():
            base, one, other = self.base(bases, id), self.state(ours, id), self.state(theirs, id)
            if base is not None and same(other, base):
                continue
            settled = _threeway(base, one, other)
            if settled is None:
                seen.add(id)
                if id in resolutions:
                    value = resolutions[id]
                    settled = ABSENT if value is DELETE else ModelState(value, True, 0)
                else:
                    settled = _settled(on_conflict, base or ABSENT, one, other)
            if settled is None:
                conflicts.append(ModelMergeConflict(id, base or ABSENT, one, other))
            elif not same(settled, one):
                op = "set" if settled.exists else "delete"
                facts.append(ModelFact(id, op, copy.deepcopy(settled.value)))
        if not resolutions.keys() <= seen:
            raise Refused(InvalidInput)
        event = {
            "type": "merge",
            "source": source,
            "source_version": theirs,
            "bases": [
                {"branch": self.model.commits[node - 1].branch, "version": node} for node in bases
            ],
        }
        if conflicts:
            return ModelMerge("conflict", None, [], conflicts), [], event
        return ModelMerge("merged", None, [fact.id for fact in facts], []), facts, event

    def merge(
        self,
        source: str,
        target: str,
        *,
        on_conflict: str = "fail",
        resolutions: Mapping[str, Any],
        key: str | None = None,
        now: str,
    ) -> ModelMerge:
        """Merge in the model; a conflict changes nothing."""
        told = [
            [id, "delete" if value is DELETE else [value]]
            for id, value in sorted(resolutions.items())
        ]
        sent = canonical(["merge", source, target, on_conflict, told])
        made = self.model.made_by(key, sent)
        if made is not None:
            return ModelMerge("merged", made, [fact.id for fact in made.facts], [])
        self.model.check_writable(target)
        if source not in self.model.branches:
            raise Refused(NotFound)
        outcome, facts, event = self.plan(source, target, on_conflict, resolutions)
        if outcome.status != "merged":
            return outcome
        commit = self.model.append(target, facts, now=now, key=key, sent=sent, event=event)
        return ModelMerge("merged", commit, outcome.merged, [])


def _threeway(base: ModelState | None, one: ModelState, other: ModelState) -> ModelState | None:
    """Return one of the two states, or None for a conflict."""
    if same(one, other) or (base is not None and same(other, base)):
        return one
    if base is not None and same(one, base):
        return other
    return None


def _settled(
    on_conflict: str, base: ModelState, ours: ModelState, theirs: ModelState
) -> ModelState | None:
    if on_conflict == "ours":
        return ours
    if on_conflict == "theirs":
        return theirs
    if on_conflict == "latest":
        return max(ours, theirs, key=lambda state: state.version)
    if on_conflict == "paths" and ours.exists and theirs.exists:
        merged = merge_paths([base.value] if base.exists else [], [ours.value], [theirs.value])
        return None if merged is None else ModelState(merged[0], True, 0)
    return None


def merge_paths(base: list[Json], one: list[Json], other: list[Json]) -> list[Json] | None:
    """Merge values, each given as a list of one, or as an empty list where there is none.

    Return None for a conflict.
    """
    if canonical(one) == canonical(other) or canonical(other) == canonical(base):
        return one
    if canonical(one) == canonical(base):
        return other
    if not (one and other and isinstance(one[0], dict) and isinstance(other[0], dict)):
        return None
    old = base[0] if base and isinstance(base[0], dict) else {}
    merged = {}
    for name in {*old, *one[0], *other[0]}:
        member = merge_paths(
            *([side[name]] if name in side else [] for side in (old, one[0], other[0]))
        )
        if member is None:
            return None
        if member:
            merged[name] = member[0]
    return [merged]
