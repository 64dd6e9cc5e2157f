"""Random schedules of sessions at a desk, and an oracle that judges them by the log.

Each schedule has several clients that write, rely on own commits that are not decided, lose questions and
answers, send twice, come back elsewhere and take each other over. Nothing here shares code with sessions:
what is overlapped is decided by going through the log.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from rote.contract import Port, PortLayer
from rote.contract.commands import MakeCommit, PutSide
from rote.contract.sync import Mark, Transact
from rote.contract.verdicts import Verdict
from rote.errors import Busy, InvalidInput, PayloadMismatch, SessionRevoked, Unavailable
from rote.opening import open as open_store
from rote.sessions.desk import Desk
from rote.sessions.sittings import Sitting
from rote.space import Space
from rote.testing.clocks import SteppingClock
from rote.testing.sources import SeededIds

IDS = ("urn:a:1", "urn:a:2", "urn:b:1", "urn:b:2")
CLIENTS = 3
STEPS = 60
BACKUPS = 4  # tokens and sittings from before that a schedule may come back with


class CrashingPort(PortLayer):
    """A port to a process that is killed before or after it has written a row."""

    def __init__(self, port: Port) -> None:
        super().__init__(port)
        self.crashes: str | None = None
        self.kind: str | None = None

    def answer(self, space: str, command: Any, /) -> Any:
        if type(command) is PutSide:
            hit = command.kind == self.kind
        else:
            hit = type(command) is MakeCommit and self.kind is None
        if not hit or self.crashes is None:
            return super().answer(space, command)
        before, self.crashes = self.crashes == "before", None
        if not before:
            super().answer(space, command)
        raise Unavailable("killed")


@dataclass
class Client:
    """A client that keeps what it was told, and says truly what it relies on."""

    name: int
    sitting: Sitting
    session: str
    tokens: list[str]
    sent: list[Transact] = field(default_factory=list)  # by local - 1
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    former: list[Sitting] = field(default_factory=list)
    flying: dict[int, int] = field(default_factory=dict)  # the head before it was first sent
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


class Schedule:
    """One random history of several sessions."""

    def __init__(self, seed: int, counts: Counter[str]) -> None:
        self.random = Random(seed)
        self.counts = counts
        self.seed = seed
        self.store = open_store(
            ":memory:", clock=SteppingClock(), ids=SeededIds(seed), durability="os"
        )
        self.space: Space = self.store.space("s")
        self.port = CrashingPort(self.space._port)
        self.foreign: dict[int, Any] = {}
        self.clients = [self._begin(name) for name in range(CLIENTS)]

    def _desk(self) -> Desk:
        return Desk(self.port, self.space.did, randomness=SeededIds(self.random.getrandbits(60)))

    def _begin(self, name: int) -> Client:
        sitting = self._desk().open()
        return Client(name, sitting, sitting.session, [sitting.token])

    def run(self) -> None:
        with self.store:
            for _ in range(STEPS):
                client = self.random.choice(self.clients)
                act = self.random.choice(
                    [self._write] * 5 + [self._send] * 8 + [self._foreign, self._acknowledge]
                    + [self._come_back] * 2 + [self._former, self._abandon, self._erase]
                )  # fmt: skip
                act(client)
            for client in self.clients:
                self._settle(client)
            self._judge()

    # -- acts --------------------------------------------------------------------------------------

    def _write(self, client: Client) -> None:
        """Queue a commit that has seen the head, and own commits that are not decided."""
        local = len(client.sent) + 1
        version = self.space.version
        stale = self.random.random() < 0.3
        # A step to a version comes after the verdicts up to it, so an unknown one is above.
        known = [head for local, head in client.flying.items() if local not in client.verdicts]
        version = min([version, *known])
        version = self.random.randint(client.basis, version) if stale else version
        reads = [self._read(client, version) for _ in range(self.random.randint(0, 2))]
        operations = [
            {"op": "set", "id": self.random.choice(IDS), "value": [client.name, local]}
            for _ in range(self.random.randint(1, 2))
        ]
        meta = f"{client.name}:{local}"
        client.sent.append(Transact(local, version, operations, reads=reads, meta=meta))

    def _read(self, client: Client, version: int) -> dict[str, Any]:
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

    def _is_pending(self, client: Client, local: int, version: int) -> bool:
        verdict = client.verdicts.get(local)
        return verdict is None or (verdict.accepted and verdict.version > version)

    def _send(self, client: Client) -> None:
        local = len(client.verdicts) + 1
        if self.random.random() < 0.15 and local > client.acknowledged + 1:
            local = self.random.randint(client.acknowledged + 1, local - 1)
            self.counts["replays"] += 1
        if local > len(client.sent):
            return
        how = self.random.random()
        if how < 0.1:
            return  # the question is lost
        if how < 0.2:
            self.port.crashes = self.random.choice(["before", "after"])
            self.port.kind = self.random.choice([None, "session", "verdict"])
        sent = client.sent[local - 1]
        client.flying.setdefault(local, self.space.version)
        try:
            verdict = client.sitting.transact(sent)
        except (SessionRevoked, Unavailable):
            self._come_back(client)
            return
        finally:
            self.port.crashes = None
        if how < 0.3:
            self.counts["lost answers"] += 1
            return  # the answer is lost
        client.note(verdict)

    def _abandon(self, client: Client) -> None:
        local = len(client.verdicts) + 1
        if local == len(client.sent) and self.random.random() < 0.5:
            # The commit may have been decided already, and its answer lost: then it stays.
            try:
                client.note(client.sitting.abandon(local))
            except SessionRevoked:
                self._come_back(client)

    def _acknowledge(self, client: Client) -> None:
        told = len(client.verdicts)
        known = [head for local, head in client.flying.items() if local not in client.verdicts]
        newest = min([self.space.version, *known])
        basis = min((sent.basis for sent in client.sent[told:]), default=newest)
        lowest = min(
            (read["version"] for sent in client.sent[told:] for read in sent.reads or ()),
            default=basis,
        )
        client.basis = max(client.basis, min(basis, lowest))
        try:
            client.sitting.acknowledge(verdicts=told, basis=client.basis)
        except SessionRevoked:
            self._come_back(client)
            return
        client.acknowledged = max(client.acknowledged, told)

    def _come_back(self, client: Client) -> None:
        """Open again, perhaps elsewhere; the answer may be lost, and then the old token is used again."""
        self.counts["resumes"] += 1
        head = Mark(self.space.version, self.space.head)
        while True:
            client.former = [*client.former, client.sitting][-BACKUPS:]
            sitting = self._desk().open(session=client.session, token=client.tokens[-1], seen=head)
            if self.random.random() < 0.7:
                break
            client.former.append(sitting)
        client.sitting = sitting
        client.tokens = [*client.tokens, sitting.token][-BACKUPS:]
        for verdict in sitting.verdicts():
            client.note(verdict)
        assert sitting.decided == len(client.verdicts), "a verdict is missing"
        sitting.confirm()

    def _former(self, client: Client) -> None:
        """Let a holder before, and a token from before, try: neither gets anything."""
        version, decided = self.space.version, client.sitting.decided
        for sitting in client.former:
            self.counts["takeovers"] += 1
            try:
                sitting.transact(Transact(decided + 1, 0, [{"op": "delete", "id": IDS[0]}]))
            except (SessionRevoked, InvalidInput, Busy, PayloadMismatch):
                pass
        for token in client.tokens[:-1]:
            try:
                self._desk().open(session=client.session, token=token)
            except SessionRevoked:
                continue
            raise AssertionError("a stale token has opened the session")
        assert self.space.version == version, "a holder before has written"

    def _foreign(self, _: Client) -> None:
        commit = self.space.set(self.random.choice(IDS), "foreign")
        self.foreign[commit.version] = None

    def _erase(self, _: Client) -> None:
        id = self.random.choice(IDS)
        if self.space.read(id).exists and self.random.random() < 0.3:
            self.foreign[self.space.erase(id, reason="asked to").commit.version] = id

    def _settle(self, client: Client) -> None:
        self._come_back(client)
        while len(client.verdicts) < len(client.sent):
            sent = client.sent[len(client.verdicts)]
            client.note(client.sitting.transact(sent))

    # -- judging -----------------------------------------------------------------------------------

    def _judge(self) -> None:
        log = {commit.version: commit for commit in self.space.log()}
        own = {commit.meta: commit.version for commit in log.values() if commit.meta is not None}
        assert len(own) + len(self.foreign) == len(log), (
            "a commit is in the log twice, or is nobody's"
        )
        for client in self.clients:
            assert list(client.verdicts) == list(range(1, len(client.sent) + 1)), "a gap"
            accepted = [each for each in client.verdicts.values() if each.accepted]
            versions = [each.version for each in accepted]
            assert versions == sorted(set(versions)), "versions do not rise"
            for sent, verdict in zip(client.sent, client.verdicts.values(), strict=True):
                assert own.get(sent.meta) == (verdict.version if verdict.accepted else None)
                self._judge_one(client, sent, verdict, log)

    def _judge_one(self, client: Client, sent: Transact, verdict: Verdict, log: Any) -> None:
        until = verdict.version - 1 if verdict.accepted else verdict.version
        code = None if verdict.error is None else verdict.error["code"]
        if code == "withdrawn":
            self.counts["withdrawn"] += 1
            return
        dead = {
            layer
            for read in sent.reads or ()
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
            for read in sent.reads or ()
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
