"""Histories of several writers, and an oracle that judges them by the log.

Writers write, and rely on what they have seen and on own commits that are not decided; how their commits
come to the desk is a subclass's. Nothing here shares code with sessions: what is overlapped is decided by
going through the log.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from rote.contract import Port, PortLayer
from rote.contract.commands import MakeCommit, PutSide
from rote.contract.sync import Transact
from rote.contract.verdicts import Verdict
from rote.errors import Unavailable
from rote.opening import open as open_store
from rote.space import Space, Store
from rote.testing.clocks import SteppingClock
from rote.testing.sources import SeededIds

IDS = ("urn:a:1", "urn:a:2", "urn:b:1", "urn:b:2")
CLIENTS = 3


@dataclass
class Crash:
    """The next death of a process: at a row of some kind, or at a commit (None)."""

    when: str | None = None  # before or after it; None: never
    kind: str | None = None


class CrashingPort(PortLayer):
    """A port to a process that is killed before or after it has written a row."""

    def __init__(self, port: Port) -> None:
        super().__init__(port)
        self.crash = Crash()  # of all callers

    def answer(self, space: str, command: Any, /) -> Any:
        crash = self.crash
        if type(command) is PutSide:
            hit = command.kind == crash.kind
        else:
            hit = type(command) is MakeCommit and crash.kind is None
        if not hit or crash.when is None:
            return super().answer(space, command)
        before, crash.when = crash.when == "before", None
        if not before:
            super().answer(space, command)
        raise Unavailable("killed")


@dataclass
class Writer:
    """A writer that keeps what it was told, and says truly what it relies on."""

    name: int
    sent: list[Transact] = field(default_factory=list)  # by local - 1
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    acknowledged: int = 0
    basis: int = 0  # none of its later commits has a lower one

    def note(self, verdict: Verdict) -> None:
        """Keep a verdict; one that was told before is the same."""
        known = self.verdicts.get(verdict.local)
        if known is None:
            self.verdicts[verdict.local] = verdict
            return
        before, now = (
            (known.version, known.hash, known.error),
            (
                verdict.version,
                verdict.hash,
                verdict.error,
            ),
        )
        assert before == now, f"the verdict on {verdict.local} has changed"


class History:
    """One random history of several writers on a space."""

    def __init__(self, seed: int, counts: Counter[str]) -> None:
        self.random = Random(seed)
        self.counts = counts
        self.seed = seed
        self.store, self.space = self._open()
        self.port = CrashingPort(self.space._port)
        self.foreign: dict[int, Any] = {}  # commits of others, with the id where one has erased

    def _open(self) -> tuple[Store, Space]:
        clock, ids = SteppingClock(), SeededIds(self.seed)
        store = open_store(":memory:", clock=clock, ids=ids, durability="os")
        return store, store.space("s")

    @property
    def writers(self) -> Sequence[Writer]:
        raise NotImplementedError

    # -- acts --------------------------------------------------------------------------------------

    def _write(self, client: Writer, newest: int) -> None:
        """Queue a commit that has seen a version, and own commits that are not decided."""
        local = len(client.sent) + 1
        is_stale = self.random.random() < 0.3
        version = self.random.randint(client.basis, newest) if is_stale else newest
        reads = [self._read(client, version) for _ in range(self.random.randint(0, 2))]
        operations = [
            {"op": "set", "id": self.random.choice(IDS), "value": [client.name, local]}
            for _ in range(self.random.randint(1, 2))
        ]
        meta = f"{client.name}:{local}"
        client.sent.append(Transact(local, version, operations, reads=reads, meta=meta))

    def _read(self, client: Writer, version: int) -> dict[str, Any]:
        read: dict[str, Any] = self.random.choice(
            [{"id": self.random.choice(IDS)}, {"prefix": "urn:a:"}, {"from": IDS[1], "to": IDS[3]}]
        )
        layers = [
            sent.local
            for sent in client.sent
            if any(_reads(read, operation["id"]) for operation in sent.operations)
            and self._is_pending(client, sent.local, version)
        ]
        if layers and self.random.random() < 0.2:
            layers.pop(self.random.randrange(len(layers)))  # it has not seen that one
        return {**read, "version": version, "layers": layers}

    def _is_pending(self, client: Writer, local: int, version: int) -> bool:
        verdict = client.verdicts.get(local)
        return verdict is None or (verdict.accepted and verdict.version > version)

    def _rise_basis(self, client: Writer, newest: int) -> None:
        """Let the basis be the lowest version that a commit without a verdict has seen."""
        waiting = client.sent[len(client.verdicts) :]
        bases = [sent.basis for sent in waiting]
        seen = [read["version"] for sent in waiting for read in sent.reads]
        client.basis = max(client.basis, min([newest, *bases, *seen]))

    def _write_foreign(self) -> None:
        commit = self.space.set(self.random.choice(IDS), "foreign")
        self.foreign[commit.version] = None

    def _erase_one(self) -> None:
        id = self.random.choice(IDS)
        if self.space.read(id).exists and self.random.random() < 0.3:
            self.foreign[self.space.erase(id, reason="asked to").commit.version] = id

    # -- judging -----------------------------------------------------------------------------------

    def _judge(self) -> None:
        log = {commit.version: commit for commit in self.space.log()}
        own = {commit.meta: commit.version for commit in log.values() if commit.meta is not None}
        known = {sent.meta for client in self.writers for sent in client.sent}
        assert own.keys() <= known, "a commit is in the log that no session has made"
        assert len(own) + len(self.foreign) == len(log), (
            "a commit is in the log twice, or is nobody's"
        )
        for client in self.writers:
            assert list(client.verdicts) == list(range(1, len(client.sent) + 1)), "a gap"
            accepted = [each for each in client.verdicts.values() if each.accepted]
            versions = [each.version for each in accepted]
            assert versions == sorted(set(versions)), "versions do not rise"
            for sent, verdict in zip(client.sent, client.verdicts.values(), strict=True):
                assert own.get(sent.meta) == (verdict.version if verdict.accepted else None)
                self._judge_one(client, sent, verdict, log)

    def _judge_one(self, client: Writer, sent: Transact, verdict: Verdict, log: Any) -> None:
        until = verdict.version - 1 if verdict.accepted else verdict.version
        code = None if verdict.error is None else verdict.error["code"]
        if code == "withdrawn":
            self.counts["withdrawn"] += 1
            return
        dead = {
            layer
            for read in sent.reads
            for layer in read["layers"]
            if not client.verdicts[layer].accepted
        }
        if dead:
            assert code == "dependency_rejected", "it has seen what was rejected"
            assert verdict.error is not None
            assert verdict.error["details"]["local"] == min(dead)
            self.counts["cascades"] += 1
            return
        missed = [
            version
            for read in sent.reads
            for version in range(read["version"] + 1, until + 1)
            if version not in {client.verdicts[layer].version for layer in read["layers"]}
            and any(_reads(read, id) for id in self._written(version, log))
        ]
        written = {operation["id"] for operation in sent.operations}
        missed += [
            version
            for version, id in self.foreign.items()
            if id in written and sent.basis < version <= until
        ]
        if missed:
            assert code == "conflict", f"a write at {missed[0]} was missed"
            self.counts["rejections"] += 1
        else:
            assert code is None, f"nothing speaks against it, and it was rejected: {verdict.error}"
            facts = log[verdict.version].facts
            assert [fact.id for fact in facts] == [each["id"] for each in sent.operations]

    def _written(self, version: int, log: Any) -> set[str]:
        erased = self.foreign.get(version)
        return {erased} if erased else {fact.id for fact in log[version].facts}


def _reads(read: Mapping[str, Any], id: str) -> bool:
    if "id" in read:
        return bool(id == read["id"])
    if "prefix" in read:
        return id.startswith(read["prefix"])
    return bool(read["from"] <= id < read["to"])
