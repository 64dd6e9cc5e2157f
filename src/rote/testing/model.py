"""A space in plain Python: a list of commits, and everything else worked out from it each time.

Deliberately naive. It has no caches, no snapshots, no indexes and no hashes, so it has none of the
bugs that those can have; what it says is what the contract says.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rote.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    PatchFailed,
    PayloadMismatch,
    RoteError,
)
from rote.testing.naive_patch import DoesNotApply, apply_naively, tokens_of
from rote.values import Json, canonical, decode_canonical


class Refused(Exception):
    """The model would not commit: which error, and for a conflict each read that failed."""

    def __init__(self, kind: type[RoteError], conflicts: Sequence["ModelConflict"] = ()) -> None:
        super().__init__(kind.__name__)
        self.kind = kind
        self.conflicts = list(conflicts)


@dataclass(frozen=True, slots=True)
class ModelConflict:
    """A read that no longer holds."""

    read: Mapping[str, Any]
    version: int  # of the newest overlapping write
    index: int  # its place in that commit


@dataclass(frozen=True, slots=True)
class ModelFact:
    id: str
    op: str
    body: Json


@dataclass(frozen=True, slots=True)
class ModelCommit:
    version: int
    facts: tuple[ModelFact, ...]
    at: str
    key: str | None
    sent: bytes  # the operations as they were sent


@dataclass(frozen=True, slots=True)
class ModelState:
    value: Json
    exists: bool
    version: int


class SpaceModel:
    """One space on one branch."""

    def __init__(self) -> None:
        self.commits: list[ModelCommit] = []

    @property
    def version(self) -> int:
        return len(self.commits)

    # -- reading -----------------------------------------------------------------------------------

    def read(self, id: str, version: int | None = None) -> ModelState:
        """The facts of an entity, folded from the first."""
        state = ModelState(None, False, 0)
        for commit in self.commits[: self.version if version is None else version]:
            for fact in commit.facts:
                if fact.id == id:
                    state = _after(state, fact, commit.version)
        return state

    def ids(self) -> list[str]:
        return sorted({fact.id for commit in self.commits for fact in commit.facts})

    def scan(
        self,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int | None = None,
        version: int | None = None,
    ) -> list[str]:
        """Ids of existing entities, in code point order."""
        found = [
            id
            for id in self.ids()
            if id.startswith(prefix)
            and (after is None or id > after)
            and self.read(id, version).exists
        ]
        return found if limit is None else found[:limit]

    def history(self, id: str, version: int | None = None) -> list[tuple[int, int, ModelFact]]:
        """(version, index, fact), newest first."""
        found = [
            (commit.version, index, fact)
            for commit in self.commits[: self.version if version is None else version]
            for index, fact in enumerate(commit.facts)
            if fact.id == id
        ]
        return found[::-1]

    def version_at(self, at: str) -> int:
        """The newest version whose time is not after `at`; times of one form compare as text."""
        return max((commit.version for commit in self.commits if commit.at <= at), default=0)

    def commit_of_key(self, key: str) -> ModelCommit | None:
        return next((commit for commit in self.commits if commit.key == key), None)

    # -- writing -----------------------------------------------------------------------------------

    def transact(
        self,
        operations: Sequence[Mapping[str, Any]],
        *,
        reads: Sequence[Mapping[str, Any]] = (),
        key: str | None = None,
        now: str,
    ) -> ModelCommit:
        """The commit these make, or the one their key made; Refused and unchanged otherwise."""
        sent = canonical([_plain(operation) for operation in operations])
        made = None if key is None else self.commit_of_key(key)
        if made is not None:
            if made.sent != sent:
                raise Refused(PayloadMismatch)
            return made
        self._check_reads(reads)
        at = max([now, *(commit.at for commit in self.commits[-1:])])
        commit = ModelCommit(self.version + 1, self._facts(operations, at), at, key, sent)
        self.commits.append(commit)
        return commit

    def _facts(self, operations: Sequence[Mapping[str, Any]], at: str) -> tuple[ModelFact, ...]:
        facts = []
        current: dict[str, ModelState] = {}
        for sent in operations:
            operation = _plain(sent)
            id = operation["id"]
            state = current.get(id) or self.read(id)
            fact = _fact(operation, state, at)
            current[id] = _after(state, fact, self.version + 1)
            facts.append(fact)
        return tuple(facts)

    def _check_reads(self, reads: Sequence[Mapping[str, Any]]) -> None:
        if any(read["version"] > self.version for read in reads):
            raise Refused(InvalidInput)
        conflicts = [found for read in reads if (found := self._conflict(read)) is not None]
        if conflicts:
            raise Refused(Conflict, conflicts)

    def _conflict(self, read: Mapping[str, Any]) -> ModelConflict | None:
        for commit in reversed(self.commits[read["version"] :]):
            for index, fact in reversed(list(enumerate(commit.facts))):
                if overlaps(read, fact):
                    return ModelConflict(read, commit.version, index)
        return None


def overlaps(read: Mapping[str, Any], fact: ModelFact) -> bool:
    """Whether a fact writes something that was read."""
    if "prefix" in read:
        return fact.id.startswith(read["prefix"])
    if "from" in read:
        return fact.id >= read["from"] and (read["to"] is None or fact.id < read["to"])
    if fact.id != read["id"]:
        return False
    # The pointer of the whole document reads the entity, like no pointer at all.
    if not read.get("path") or fact.op != "patch":
        return True
    path = tokens_of(read["path"])
    return any(
        written[: len(path)] == path[: len(written)]
        for operation in fact.body
        for written in _written(operation)
    )


def _written(operation: Mapping[str, Any]) -> list[list[str]]:
    """The paths that one operation of a patch writes."""
    name, path = operation["op"], tokens_of(operation["path"])
    if name == "test":
        return []
    if name in ("replace", "splice"):
        return [path]
    ends = [path]
    if name == "move":
        ends.append(tokens_of(operation["from"]))
    return [end[:-1] if end and (end[-1] == "-" or end[-1].isdecimal()) else end for end in ends]


def _fact(operation: Mapping[str, Any], state: ModelState, at: str) -> ModelFact:
    id, stamps = operation["id"], _stamps(operation, at)
    if operation["op"] == "set":
        return ModelFact(id, "set", _stamped(operation["value"], stamps))
    if not state.exists:
        if "else" not in operation:
            raise Refused(NotFound)
        return ModelFact(id, "set", _stamped(operation["else"], stamps))
    if operation["op"] == "delete":
        return ModelFact(id, "delete", None)
    try:
        changed = apply_naively(state.value, operation["ops"])
    except DoesNotApply:
        raise Refused(PatchFailed) from None
    _stamped(changed, stamps)
    return ModelFact(id, "patch", [*operation["ops"], *stamps])


def _after(state: ModelState, fact: ModelFact, version: int) -> ModelState:
    if fact.op == "set":
        return ModelState(copy.deepcopy(fact.body), True, version)
    if fact.op == "delete":
        return ModelState(None, False, version)
    return ModelState(apply_naively(state.value, fact.body), True, version)


def _stamps(operation: Mapping[str, Any], at: str) -> list[dict[str, Any]]:
    return [{"op": "add", "path": path, "value": at} for path in operation.get("stamp", [])]


def _stamped(value: Json, stamps: list[dict[str, Any]]) -> Json:
    try:
        return apply_naively(value, stamps)
    except DoesNotApply:
        raise Refused(InvalidInput) from None


def _plain(operation: Mapping[str, Any]) -> dict[str, Any]:
    """An operation with its values as a store gives them back; an empty stamp is none."""
    plain: dict[str, Any] = decode_canonical(canonical(dict(operation)))
    if not plain.get("stamp"):
        plain.pop("stamp", None)
    return plain
