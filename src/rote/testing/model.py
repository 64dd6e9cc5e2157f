"""A space in plain Python: a list of commits, from which every answer is computed anew.

Deliberately naive. It has no caches, no snapshots, no indexes and no hashes, so it has none of
their bugs. Its answers are those of the contract.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rote.errors import (
    Compacted,
    Conflict,
    InvalidInput,
    NotFound,
    PatchFailed,
    PayloadMismatch,
    RoteError,
    VersionNotFound,
)
from rote.testing.naive_patch import DoesNotApply, apply_naively, tokens_of
from rote.values import Json, canonical, decode_canonical


class Refused(Exception):
    """The model refuses a commit: the error, and for a conflict each read that failed."""

    def __init__(self, kind: type[RoteError], conflicts: Sequence["ModelConflict"] = ()) -> None:
        super().__init__(kind.__name__)
        self.kind = kind
        self.conflicts = list(conflicts)


@dataclass(frozen=True, slots=True)
class ModelConflict:
    """A read that no longer holds."""

    read: Mapping[str, Any]
    version: int  # of the newest overlapping write
    fact: tuple[int, int] | None  # version and index of the fact whose hash is reported, if one is


@dataclass(frozen=True, slots=True)
class ModelFact:
    id: str
    op: str
    body: Json


@dataclass(frozen=True, slots=True)
class ModelCommit:
    version: int
    branch: str
    facts: tuple[ModelFact, ...]
    at: str
    key: str | None
    sent: bytes  # the call as it was sent
    event: dict[str, Any] | None = None

    @property
    def is_node(self) -> bool:
        """Whether it is part of the graph: it has facts, or is a merge."""
        return bool(self.facts) or (self.event is not None and self.event["type"] == "merge")


@dataclass(frozen=True, slots=True)
class ModelBranch:
    parent: str | None
    fork_version: int
    created_version: int
    deleted_version: int | None = None


@dataclass(frozen=True, slots=True)
class ModelState:
    value: Json
    exists: bool
    version: int
    erased: bool = False
    written: int = 0  # the version of the newest fact, where it is another one


class SpaceModel:
    """One space with its branches. See also merge_model.py."""

    def __init__(self) -> None:
        self.commits: list[ModelCommit] = []
        self.branches = {"main": ModelBranch(None, 0, 0)}
        self._blurred: set[int] = set()  # commits whose key is no longer compared by values
        self.oldest = 0  # the horizon: nothing below it can be read

    @property
    def version(self) -> int:
        return len(self.commits)

    # -- reading -----------------------------------------------------------------------------------

    def line(self, branch: str, version: int | None = None) -> list[ModelCommit]:
        """Return the commits that count on a branch, up to a version: its own, below them its parent's."""
        row = self.branches[branch]
        bound = self.version if version is None else version
        below = [] if row.parent is None else self.line(row.parent, min(bound, row.fork_version))
        return below + [commit for commit in self.commits[:bound] if commit.branch == branch]

    def read(self, id: str, version: int | None = None, branch: str = "main") -> ModelState:
        """Return the state of an entity, folded from its first fact on; erased facts leave nothing."""
        bound = self.version if version is None else version
        state = ModelState(None, False, 0)
        for commit in self.line(branch, version):
            for fact in commit.facts:
                if fact.id == id:
                    erased = self.erased_at(id, commit.version)
                    if erased is None:
                        state = _after(state, fact, commit.version)
                    else:
                        shown = erased if erased <= bound else commit.version
                        state = ModelState(None, False, shown, True, commit.version)
        return state

    def erased_at(self, id: str, version: int) -> int | None:
        """Return the first erasure of an entity above a version."""
        return next((at for at, erased in self.erasures() if erased == id and at > version), None)

    def erasures(self) -> list[tuple[int, str]]:
        """Return (version, id) of each erasure, oldest first."""
        return [
            (commit.version, id)
            for commit in self.commits
            if commit.event is not None and commit.event["type"] == "erase"
            for id in commit.event.get("ids") or [commit.event["id"]]
        ]

    def ids(self) -> list[str]:
        return sorted({fact.id for commit in self.commits for fact in commit.facts})

    def scan(
        self,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int | None = None,
        version: int | None = None,
        branch: str = "main",
    ) -> list[str]:
        """Return the ids of existing entities, in code point order."""
        found = [
            id
            for id in self.ids()
            if id.startswith(prefix)
            and (after is None or id > after)
            and self.read(id, version, branch).exists
        ]
        return found if limit is None else found[:limit]

    def history(
        self, id: str, version: int | None = None, branch: str = "main"
    ) -> list[tuple[int, int, ModelFact]]:
        """Return (version, index, fact), newest first."""
        found = [
            (commit.version, index, fact)
            for commit in self.line(branch, version)
            for index, fact in enumerate(commit.facts)
            if fact.id == id
        ]
        return found[::-1]

    def version_at(self, at: str) -> int:
        """Return the newest version whose time is not after `at`; times of one form compare as text."""
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
        branch: str = "main",
    ) -> ModelCommit:
        """Return the commit that these operations make, or the one that their key made; raise
        Refused and change nothing otherwise."""
        sent = canonical([branch, *(_plain(operation) for operation in operations)])
        made = self.made_by(key, sent, wrote=operations)
        if made is not None:
            return made
        self.check_writable(branch)
        self._check_reads(reads, branch)
        facts = self._facts(operations, self.at(now), branch)
        return self.append(branch, facts, now=now, key=key, sent=sent)

    def made_by(
        self, key: str | None, sent: bytes, *, wrote: Sequence[Mapping[str, Any]] | None = None
    ) -> ModelCommit | None:
        """Return the commit of a key; raise Refused when the key was used for another call.

        `wrote` are the operations that were sent, None for other calls.
        """
        made = None if key is None else self.commit_of_key(key)
        if made is None or made.sent == sent:
            return made
        if made.version not in self._blurred or not self._could_have_made(made, sent, wrote):
            raise Refused(PayloadMismatch)
        return made

    def _could_have_made(
        self, made: ModelCommit, sent: bytes, wrote: Sequence[Mapping[str, Any]] | None
    ) -> bool:
        """Whether the call could have made the commit, by ids, kinds and events: values are forgotten."""
        call: Any = decode_canonical(sent)
        if made.event is not None or wrote is None:
            return wrote is None and call in _possible_calls(made, call)
        if call[0] != made.branch or made.version < self.oldest:
            return bool(call[0] == made.branch)
        return [fact.id for fact in made.facts] == [each["id"] for each in wrote] and all(
            fact.op == each["op"] or (fact.op == "set" and "else" in each)
            for fact, each in zip(made.facts, wrote, strict=True)
        )

    def check_writable(self, branch: str) -> None:
        if branch not in self.branches:
            raise Refused(NotFound)
        if self.branches[branch].deleted_version is not None:
            raise Refused(InvalidInput)

    def at(self, now: str) -> str:
        """Return the time of a commit that is made now."""
        return max([now, *(commit.at for commit in self.commits[-1:])])

    def append(
        self,
        branch: str,
        facts: Sequence[ModelFact],
        *,
        now: str,
        key: str | None,
        sent: bytes,
        event: dict[str, Any] | None = None,
    ) -> ModelCommit:
        at = self.at(now)
        commit = ModelCommit(self.version + 1, branch, tuple(facts), at, key, sent, event)
        self.commits.append(commit)
        return commit

    def create_branch(
        self, name: str, *, parent: str, at: int | None, key: str | None = None, now: str
    ) -> ModelCommit:
        sent = canonical(["create", name, parent, at])
        made = self.made_by(key, sent)
        if made is not None:
            return made
        if name in self.branches:
            raise Refused(InvalidInput)
        if parent not in self.branches:
            raise Refused(NotFound)
        fork_version = self.version if at is None else at
        if fork_version > self.version:
            raise Refused(VersionNotFound)
        if 0 < fork_version < self.oldest:
            raise Refused(Compacted)
        self.branches[name] = ModelBranch(parent, fork_version, self.version + 1)
        event = {
            "type": "branch.create", "name": name, "parent": parent, "fork_version": fork_version,
        }  # fmt: skip
        return self.append(name, (), now=now, key=key, sent=sent, event=event)

    def delete_branch(self, name: str, *, key: str | None = None, now: str) -> ModelCommit:
        sent = canonical(["delete", name])
        made = self.made_by(key, sent)
        if made is not None:
            return made
        self.check_writable(name)
        if name == "main":
            raise Refused(InvalidInput)
        self.branches[name] = replace(self.branches[name], deleted_version=self.version + 1)
        event = {"type": "branch.delete", "name": name}
        return self.append(name, (), now=now, key=key, sent=sent, event=event)

    def erase(
        self, ids: Sequence[str], *, reason: str, key: str | None = None, now: str
    ) -> ModelCommit:
        sent = canonical(["erase", sorted(set(ids)), reason])
        made = self.made_by(key, sent)
        if made is not None:
            return made
        if not set(ids).issubset(self.ids()):
            raise Refused(NotFound)
        full, left = [], []
        for commit in self.commits:
            for fact in commit.facts:
                if fact.id in ids and self.erased_at(fact.id, commit.version) is None:
                    full.append(commit)
                    left.append(fact.id)
        if not full:
            last = max(at for at, erased in self.erasures() if erased in ids)
            return self.commits[last - 1]
        merges = [
            commit
            for commit in self.commits[full[0].version :]
            if commit.event is not None and commit.event["type"] == "merge"
        ]
        # Nobody knows any more what the compacted commits wrote.
        compacted = self.commits[: max(self.oldest - 1, 0)]
        self._blurred |= {commit.version for commit in (*full, *merges, *compacted)}
        named = sorted(set(left))
        event: dict[str, Any] = {"type": "erase", "reason": reason}
        event |= {"id": named[0]} if len(named) == 1 else {"ids": named}
        return self.append("main", (), now=now, key=key, sent=sent, event=event)

    def compact(self, before: int, *, checkpoint: dict[str, Any], now: str) -> ModelCommit | None:
        """Move the horizon. The model forgets nothing, so later answers come from the whole history."""
        if before > self.version:
            raise Refused(VersionNotFound)
        if before <= max(self.oldest, 1):
            if before < self.oldest:
                raise Refused(InvalidInput)
            return None
        self.oldest = before
        event = {"type": "compact", "before": before, "checkpoint": checkpoint}
        return self.append("main", (), now=now, key=None, sent=b"", event=event)

    def _facts(
        self, operations: Sequence[Mapping[str, Any]], at: str, branch: str
    ) -> tuple[ModelFact, ...]:
        facts = []
        current: dict[str, ModelState] = {}
        for sent in operations:
            operation = _plain(sent)
            id = operation["id"]
            state = current.get(id) or self.read(id, branch=branch)
            fact = _fact(operation, state, at)
            current[id] = _after(state, fact, self.version + 1)
            facts.append(fact)
        return tuple(facts)

    def _check_reads(self, reads: Sequence[Mapping[str, Any]], branch: str) -> None:
        if any(read["version"] > self.version for read in reads):
            raise Refused(InvalidInput)
        if any(read.get("branch", branch) not in self.branches for read in reads):
            raise Refused(InvalidInput)
        conflicts = [found for read in reads if (found := self._conflict(read, branch)) is not None]
        if conflicts:
            raise Refused(Conflict, conflicts)

    def _conflict(self, read: Mapping[str, Any], branch: str) -> ModelConflict | None:
        if "path" in read and read["version"] + 1 < self.oldest:
            read = {**read, "path": None}  # the paths that were written are no longer known
        branch = read.get("branch", branch)
        erased = self._erased_since(read, branch)
        for commit in reversed(self.line(branch)):
            if commit.version <= read["version"]:
                break
            for index, fact in reversed(list(enumerate(commit.facts))):
                if overlaps(read, fact) and (erased is None or erased.version < commit.version):
                    return ModelConflict(read, commit.version, (commit.version, index))
        return erased

    def _erased_since(self, read: Mapping[str, Any], branch: str) -> ModelConflict | None:
        """Return the conflict of a read with a later erasure.

        For a prefix or a range an erasure counts on every branch, for an entity only on a line that
        had written it.
        """
        if "id" in read:
            state = self.read(read["id"], branch=branch)
            if not state.erased or state.version <= read["version"]:
                return None
            facts = self.commits[state.written - 1].facts
            index = max(at for at, fact in enumerate(facts) if fact.id == read["id"])
            return ModelConflict(read, state.version, (state.written, index))
        for version, id in reversed(self.erasures()):
            if version > read["version"] and overlaps(read, ModelFact(id, "delete", None)):
                return ModelConflict(read, version, None)
        return None


def overlaps(read: Mapping[str, Any], fact: ModelFact) -> bool:
    """Whether a fact writes something that was read."""
    if "prefix" in read:
        return fact.id.startswith(read["prefix"])
    if "from" in read:
        return fact.id >= read["from"] and (read["to"] is None or fact.id < read["to"])
    if fact.id != read["id"]:
        return False
    # The pointer to the whole document reads the entity, like no pointer at all.
    if not read.get("path") or fact.op != "patch":
        return True
    path = tokens_of(read["path"])
    return any(
        written[: len(path)] == path[: len(written)]
        for operation in fact.body
        for written in _written(operation)
    )


def _possible_calls(made: ModelCommit, call: list[Any]) -> list[list[Any]]:
    """Return the calls that may have made an event; for a merge, with any settlement of its conflicts."""
    event = made.event or {"type": None}
    if event["type"] == "branch.create":
        at = event["fork_version"]
        versions = [at, None] if at == made.version - 1 else [at]
        return [["create", event["name"], event["parent"], version] for version in versions]
    if event["type"] == "branch.delete":
        return [["delete", event["name"]]]
    if event["type"] == "merge":
        return [["merge", event["source"], made.branch, *call[3:]]]
    if event["type"] == "erase" and call[0] == "erase":
        # A call may also have named what was erased before.
        is_covered = set(event.get("ids") or [event["id"]]).issubset(call[1])
        return [["erase", call[1], event["reason"]]] if is_covered else []
    return []


def _written(operation: Mapping[str, Any]) -> list[list[str]]:
    """Return the paths that one operation of a patch writes."""
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
        member = "else_stamp" if "else_stamp" in operation else "stamp"
        return ModelFact(id, "set", _stamped(operation["else"], _stamps(operation, at, member)))
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


def _stamps(operation: Mapping[str, Any], at: str, member: str = "stamp") -> list[dict[str, Any]]:
    return [{"op": "add", "path": path, "value": at} for path in operation.get(member, [])]


def _stamped(value: Json, stamps: list[dict[str, Any]]) -> Json:
    try:
        return apply_naively(value, stamps)
    except DoesNotApply:
        raise Refused(InvalidInput) from None


def _plain(operation: Mapping[str, Any]) -> dict[str, Any]:
    """Return an operation with its values as a store returns them; an empty stamp is left out."""
    plain: dict[str, Any] = decode_canonical(canonical(dict(operation)))
    if not plain.get("stamp"):
        plain.pop("stamp", None)
    return plain
