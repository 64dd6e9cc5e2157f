"""An oracle for sessions: what a log shows, and what in it overlaps what was read.

It shares no code with sessions, nor with what the store judges by: it folds the log, and compares values.
"""

from collections.abc import Mapping
from typing import Any

from rote.contract import Commit
from rote.testing.naive_patch import apply_naively, tokens_of
from rote.values import canonical

SIDE = "side"  # the branch besides main
UNKNOWN = object()  # a value that was erased later
_MISSING = object()


class Logged:
    """The log of a space with one more branch, and the states that it leads to."""

    def __init__(self, log: Mapping[int, Commit], *, erased: Mapping[int, str], fork: int) -> None:
        """erased  ids by the version of their erasure
        fork       the version from which the branch goes its own way
        """
        self.log = log
        self._erased = erased
        self._fork = fork
        self._states: dict[str, list[dict[str, Any]]] = {"main": [{}], SIDE: [{}]}
        for version in range(1, len(log) + 1):
            for line, states in self._states.items():
                states.append(self._after(states[-1], line, log[version]))

    def may_change(self, read: Mapping[str, Any], line: str, version: int) -> bool:
        """Whether a commit wrote what was read, or an entity of which a part was read."""
        return any(reads(read, id) for id in self.written(line, version))

    def must_change(self, read: Mapping[str, Any], line: str, version: int) -> bool:
        """Whether a commit wrote an entity that was read, or changed the part that was read."""
        if not self.may_change(read, line, version):
            return False
        if version in self._erased:
            return line == "main"  # the branch may never have had it
        if "path" not in read:
            return True
        before, after = (
            _part(self._states[line][each].get(read["id"], _MISSING), read["path"])
            for each in (version - 1, version)
        )
        if before is UNKNOWN or after is UNKNOWN:
            return False
        if before is _MISSING or after is _MISSING:
            return before is not after
        return bytes(canonical(before)) != bytes(canonical(after))

    def was_erased(self, ids: set[str], line: str, version: int) -> tuple[bool, bool]:
        """Return whether one of some ids was erased on a line: for certain, and perhaps."""
        is_so = self._erased.get(version) in ids
        return is_so and line == "main", is_so

    def state(self, line: str, version: int) -> dict[str, Any]:
        """Return the values by id at a version; UNKNOWN for those that were erased later."""
        return self._states[line][version]

    def versions_of(self, ids: tuple[str, ...]) -> list[int]:
        """Return the versions of the commits that wrote any of some ids; they must have written all."""
        found = []
        for version, commit in self.log.items():
            wrote = {fact.id for fact in commit.facts}
            if wrote & set(ids):
                assert wrote >= set(ids), "a commit is there by half"
                found.append(version)
        return found

    def written(self, line: str, version: int) -> set[str]:
        """Return the ids that a commit wrote on a line."""
        if version in self._erased:
            return {self._erased[version]}
        commit = self.log[version]
        return {fact.id for fact in commit.facts} if self._is_on(line, commit) else set()

    def _is_on(self, line: str, commit: Commit) -> bool:
        is_before = commit.branch == "main" and commit.version <= self._fork
        return commit.branch == line or (line == SIDE and is_before)

    def _after(self, state: dict[str, Any], line: str, commit: Commit) -> dict[str, Any]:
        after = dict(state)
        if commit.version in self._erased:
            after.pop(self._erased[commit.version], None)
        elif self._is_on(line, commit):
            for fact in commit.facts:
                if fact.op == "delete":
                    after.pop(fact.id, None)
                elif fact.data is None:
                    after[fact.id] = UNKNOWN
                elif fact.op == "set":
                    after[fact.id] = fact.body
                elif after[fact.id] is not UNKNOWN:
                    operations: Any = fact.body
                    after[fact.id] = apply_naively(after[fact.id], operations)
        return after


def reads(read: Mapping[str, Any], id: str) -> bool:
    """Whether a read is of an entity."""
    if "id" in read:
        return bool(id == read["id"])
    if "prefix" in read:
        return id.startswith(read["prefix"])
    return bool(read["from"] <= id < read["to"])


def _part(value: Any, pointer: str) -> Any:
    for token in tokens_of(pointer):
        if isinstance(value, dict):
            value = value.get(token, _MISSING)
        elif isinstance(value, list):
            value = value[int(token)] if int(token) < len(value) else _MISSING
        else:
            break
    return value
