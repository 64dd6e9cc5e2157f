"""Random schedules of sessions at a desk: no line, only questions and answers that get lost.

Each schedule has several clients that lose questions and answers, send twice, come back elsewhere and take
each other over, and processes that are killed.
"""

from collections import Counter
from dataclasses import dataclass, field

from rote.contract.sync import Mark, Transact
from rote.errors import Busy, InvalidInput, PayloadMismatch, SessionRevoked, Unavailable
from rote.sessions.desk import Desk
from rote.sessions.sittings import Sitting
from rote.testing.sources import SeededIds
from tests.properties.session_histories import CLIENTS, IDS, History, Writer

STEPS = 60
BACKUPS = 4  # tokens and sittings from before that a schedule may come back with


@dataclass
class Client(Writer):
    """A client that asks the desk itself."""

    former: list[Sitting] = field(default_factory=list)
    flying: dict[int, int] = field(default_factory=dict)  # the head before it was first sent
    tokens: list[str] = field(default_factory=list)

    def sits(self, sitting: Sitting) -> "Client":
        self.sitting = sitting
        self.tokens = [*self.tokens, sitting.token][-BACKUPS:]
        return self


class Schedule(History):
    """One random history of several sessions."""

    def __init__(self, seed: int, counts: Counter[str]) -> None:
        super().__init__(seed, counts)
        self.clients = [Client(name).sits(self._desk().open()) for name in range(CLIENTS)]

    @property
    def writers(self) -> list[Client]:
        return self.clients

    def _desk(self) -> Desk:
        return Desk(self.port, self.space.did, randomness=SeededIds(self.random.getrandbits(60)))

    def run(self) -> None:
        with self.store:
            for _ in range(STEPS):
                client = self.random.choice(self.clients)
                act = self.random.choice(
                    [self._queue] * 5 + [self._send] * 8 + [self._foreign, self._acknowledge]
                    + [self._come_back] * 2 + [self._former, self._abandon, self._erase]
                )  # fmt: skip
                act(client)
            for client in self.clients:
                self._settle(client)
            self._judge()
            if self.seed % 10 == 0:
                self._judge_hashes()

    # -- acts --------------------------------------------------------------------------------------

    def _queue(self, client: Client) -> None:
        self._write(client, self._newest(client))

    def _newest(self, client: Client) -> int:
        """Return the newest version that a client may have seen: a step to one comes after the verdicts
        up to it, so an unknown verdict is above."""
        known = [head for local, head in client.flying.items() if local not in client.verdicts]
        return min([self.space.version, *known])

    def _foreign(self, _: Client) -> None:
        self._write_foreign()

    def _erase(self, _: Client) -> None:
        self._erase_one()

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
            self.port.crash.when = self.random.choice(["before", "after"])
            self.port.crash.kind = self.random.choice([None, "session", "verdict"])
        sent = client.sent[local - 1]
        client.flying.setdefault(local, self.space.version)
        try:
            verdict = client.sitting.transact(sent)
        except (SessionRevoked, Unavailable):
            self._come_back(client)
            return
        finally:
            self.port.crash.when = None
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
        self._rise_basis(client, self._newest(client))
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
            sitting = self._desk().open(
                session=client.sitting.session, token=client.tokens[-1], seen=head
            )
            if self.random.random() < 0.7:
                break
            client.former.append(sitting)
        client.sits(sitting)
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
                self._desk().open(session=client.sitting.session, token=token)
            except SessionRevoked:
                continue
            raise AssertionError("a stale token has opened the session")
        assert self.space.version == version, "a holder before has written"

    def _settle(self, client: Client) -> None:
        self._come_back(client)
        while len(client.verdicts) < len(client.sent):
            sent = client.sent[len(client.verdicts)]
            client.note(client.sitting.transact(sent))
