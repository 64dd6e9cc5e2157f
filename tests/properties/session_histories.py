"""Histories of several writers, and an oracle that judges them by the log.

Writers write, on main and on a branch, whole entities and parts, and rely on what they have seen and on
own commits that are not decided; how their commits come to the desk is a subclass's. What is overlapped
is decided by session_oracle.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any

from msgspec.structs import replace

from rote.contract import Port, PortLayer
from rote.contract.commands import MakeCommit, PutSide
from rote.contract.sync import Transact
from rote.contract.verdicts import Verdict
from rote.errors import Unavailable
from rote.opening import open as open_store
from rote.space import Space, Store
from rote.testing.clocks import FixedClock, SteppingClock
from rote.testing.sources import SeededIds
from tests.properties.session_oracle import SIDE, Logged, reads

IDS = ("urn:a:1", "urn:a:2", "urn:b:1", "urn:b:2")
PATHS = ("/list/1", "/list/2", "/list/2", "/n/x")
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
        # Commits of others: the id that one has erased, and how to make it again.
        self.foreign: dict[int, str | None] = {}
        self.acts: dict[int, Callable[[Space], object]] = {}
        self.fork = 0
        self._prepare()

    def _open(self) -> tuple[Store, Space]:
        clock, ids = SteppingClock(), SeededIds(self.seed)
        store = open_store(":memory:", clock=clock, ids=ids, durability="os")
        return store, store.space("s")

    def _prepare(self) -> None:
        """Write something, and make the branch."""
        for id in IDS[:2]:
            self._write_one({"op": "set", "id": id, "value": self._document("first")}, "main")
        self.fork = self.space.version
        self.space.create_branch(SIDE)
        self._note(self.space.version, lambda space: space.create_branch(SIDE))

    def _note(
        self, version: int, act: Callable[[Space], object], *, erased: str | None = None
    ) -> None:
        self.foreign[version], self.acts[version] = erased, act

    def _write_one(self, operation: dict[str, Any], branch: str) -> None:
        def write(space: Space) -> Any:
            return space.on(branch).transact([operation])

        self._note(write(self.space).version, write)

    @property
    def writers(self) -> Sequence[Writer]:
        raise NotImplementedError

    # -- acts --------------------------------------------------------------------------------------

    def _write(self, client: Writer, newest: int) -> None:
        """Queue a commit that has seen a version, and own commits that are not decided."""
        local = len(client.sent) + 1
        is_stale = self.random.random() < 0.3
        version = self.random.randint(client.basis, newest) if is_stale else newest
        if self._write_again(client, local, version):
            return
        branch = SIDE if self.random.random() < 0.2 else "main"
        seen = [self._read(client, version, branch) for _ in range(self.random.randint(0, 2))]
        by = f"{client.name}:{local}"
        operations = [self._operation(by) for _ in range(self.random.randint(1, 2))]
        key = by if self.random.random() < 0.2 else None
        client.sent.append(Transact(local, version, operations, branch, seen, key, by))

    def _write_again(self, client: Writer, local: int, version: int) -> bool:
        """Queue a commit with the key and the operations of an earlier one; return whether one was."""
        keyed = [sent for sent in client.sent if sent.key is not None]
        if not keyed or self.random.random() > 0.1:
            return False
        earlier = self.random.choice(keyed)
        sent = replace(earlier, local=local, basis=version, reads=[], meta=f"{client.name}:{local}")
        client.sent.append(sent)
        return True

    def _operation(self, by: str) -> dict[str, Any]:
        """Return a write of a whole entity, or one that changes a part of it and applies to any."""
        id, document = self.random.choice(IDS), self._document(by)
        if self.random.random() < 0.35:
            return {"op": "set", "id": id, "value": document}
        patch = self.random.choice(
            [
                {"op": "add", "path": "/list/0", "value": by},
                {"op": "add", "path": "/list/1", "value": by},
                {"op": "splice", "path": "/list", "index": 0, "remove": 2, "add": [by]},
                {"op": "replace", "path": "/n/x", "value": by},
                {"op": "replace", "path": "/by", "value": by},
            ]
        )
        return {"op": "patch", "id": id, "ops": [patch], "else": document}

    def _document(self, by: str) -> dict[str, Any]:
        return {"by": by, "list": [by, self.random.randint(0, 2), 7], "n": {"x": by, "y": 1}}

    def _read(self, client: Writer, version: int, branch: str) -> dict[str, Any]:
        id = self.random.choice(IDS)
        read: dict[str, Any] = self.random.choice(
            [{"id": id}, {"prefix": "urn:a:"}, {"from": IDS[1], "to": IDS[3]}]
            + [{"id": id, "path": self.random.choice(PATHS)}] * 2
        )
        line = branch
        if self.random.random() < 0.2:
            line = self.random.choice(["main", SIDE])
            read["branch"] = line
        layers = [
            sent.local
            for sent in client.sent
            if sent.branch == line
            and any(reads(read, operation["id"]) for operation in sent.operations)
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
        self._write_one(self._operation("foreign"), SIDE if self.random.random() < 0.2 else "main")

    def _erase_one(self) -> None:
        id = self.random.choice(IDS)
        if self.space.read(id).exists and self.random.random() < 0.3:

            def erase(space: Space) -> Any:
                return space.erase(id, reason="asked to")

            self._note(erase(self.space).commit.version, erase, erased=id)

    # -- judging -----------------------------------------------------------------------------------

    def _judge(self) -> None:
        log = {commit.version: commit for commit in self.space.log()}
        own = {commit.meta: commit.version for commit in log.values() if commit.meta is not None}
        known = {sent.meta for client in self.writers for sent in client.sent}
        assert own.keys() <= known, "a commit is in the log that no session has made"
        assert len(own) + len(self.foreign) == len(log), (
            "a commit is in the log twice, or is nobody's"
        )
        erased = {version: id for version, id in self.foreign.items() if id is not None}
        logged = Logged(log, erased=erased, fork=self.fork)
        for client in self.writers:
            assert list(client.verdicts) == list(range(1, len(client.sent) + 1)), "a gap"
            made = [
                (sent, verdict)
                for sent, verdict in zip(client.sent, client.verdicts.values(), strict=True)
                if not self._is_again(client, sent, verdict)
            ]
            versions = [verdict.version for _, verdict in made if verdict.accepted]
            assert versions == sorted(set(versions)), "versions do not rise"
            for sent, verdict in made:
                assert own.get(sent.meta) == (verdict.version if verdict.accepted else None)
                self._judge_one(client, sent, verdict, logged)

    def _is_again(self, client: Writer, sent: Transact, verdict: Verdict) -> bool:
        """Return whether a verdict is that of an earlier commit with the same key."""
        if sent.key is None or not verdict.accepted:
            return False
        versions = [
            client.verdicts[each.local].version
            for each in client.sent[: sent.local - 1]
            if each.key == sent.key and client.verdicts[each.local].accepted
        ]
        assert all(version == verdict.version for version in versions), "a key has made two commits"
        self.counts["keys again"] += bool(versions)
        return bool(versions)

    def _judge_one(self, client: Writer, sent: Transact, verdict: Verdict, logged: Logged) -> None:
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
            assert verdict.error is not None, "it has seen what was rejected"
            # What is acknowledged may be let go; whoever names it still is rejected.
            kept = {layer for layer in dead if layer > client.acknowledged}
            if code != "invalid_input" or kept:
                assert code == "dependency_rejected", "it has seen what was rejected"
                local = verdict.error["details"]["local"]
                assert local in dead
                assert local <= min(kept, default=local)
            self.counts["cascades"] += 1
            return
        must, may = self._missed(client, sent, until, logged)
        assert not must or code == "conflict", f"a write at {must[0]} was missed"
        if code is None:
            commit = logged.log[verdict.version]
            written = [each["id"] for each in sent.operations]
            assert [fact.id for fact in commit.facts] == written, "it is there by half"
            assert commit.branch == sent.branch
            self.counts["parts"] += any("path" in read for read in sent.reads)
        else:
            assert may, f"nothing speaks against it, and it was rejected: {verdict.error}"
            self.counts["rejections"] += 1
            self.counts["rejected forks"] += sent.branch == SIDE

    def _missed(
        self, client: Writer, sent: Transact, until: int, logged: Logged
    ) -> tuple[list[int], list[int]]:
        """Return versions that speak against a commit, and those that may: of a part that was read the
        store may know no better."""
        must, may = [], []
        for read in sent.reads:
            line = read.get("branch", sent.branch)
            named = {client.verdicts[layer].version for layer in read["layers"]}
            for version in range(read["version"] + 1, until + 1):
                if version not in named:
                    must += [version] * logged.must_change(read, line, version)
                    may += [version] * logged.may_change(read, line, version)
        written = {operation["id"] for operation in sent.operations}
        for version in range(sent.basis + 1, until + 1):
            is_certain, is_possible = logged.was_erased(written, sent.branch, version)
            must += [version] * is_certain
            may += [version] * is_possible
        return must, may

    def _judge_hashes(self) -> None:
        """Judge that a store that has never heard of sessions has the same hashes, when it gets the same
        times, ids and commits."""
        clock = FixedClock()
        sent = {each.meta: each for client in self.writers for each in client.sent}
        with open_store(
            ":memory:", clock=clock, ids=SeededIds(self.seed), durability="os"
        ) as store:
            space = store.space("s")
            for commit in self.space.log():
                clock.set(datetime.fromisoformat(commit.at))
                if commit.version in self.acts:
                    self.acts[commit.version](space)
                else:
                    made = sent[commit.meta]
                    space.on(made.branch).transact(made.operations, key=made.key, meta=made.meta)
            assert space.head == self.space.head, "something of sessions is in a hash"
        self.counts["hashes"] += 1
