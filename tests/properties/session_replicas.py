"""Random schedules of one session's client, judged by a plain fold of all its layers.

    acts          writes, transactions that stay open, writes of others, verdicts and steps that come in
                  pieces, lines that are cut
    after each    the view is the confirmed state with every layer applied, or left out whole; an own
                  write that has gone does not come back; an open transaction reads what it began with
    at the end    the log says what each accepted commit may have seen

The client is driven by hand, without its threads; its desk is that of a store in this process.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from rote.contract import Head
from rote.contract.commands import GetHead
from rote.contract.links import Decided, Link
from rote.contract.sync import Abandon, Ack, Mark, OpenSession, Sync, Transact
from rote.errors import Conflict, NotFound, PatchFailed
from rote.opening import open as open_store
from rote.opening.sources import SystemIds
from rote.sessions.layers import Layer
from rote.sessions.links import LocalLinker
from rote.sessions.making import Making
from rote.sessions.pending import Pending
from rote.sessions.replica import Replica
from rote.sessions.transactions import SessionTransaction
from rote.space import Space
from rote.space.sources import space_on
from rote.testing.clocks import SteppingClock
from rote.testing.naive_patch import DoesNotApply, apply_naively
from rote.testing.sources import SeededIds

IDS = ("urn:a:1", "urn:a:2", "urn:b:1", "urn:b:2")
ACTS = 60
ROUNDS_MAX = 1_000
State = dict[str, Any]


@dataclass
class Begun:
    """A transaction that is open, and what it must see."""

    tx: SessionTransaction
    shown: State
    read: set[str] = field(default_factory=set)


class ReplicaSchedule:
    """One random history of a session and of others who write."""

    def __init__(self, seed: int, counts: Counter[str]) -> None:
        self.random = Random(seed)
        self.counts = counts
        self.store = open_store(
            ":memory:", clock=SteppingClock(), ids=SeededIds(seed), durability="os"
        )
        self.space: Space = self.store.space("s")
        self.linker = LocalLinker(self.space._port, randomness=SystemIds())
        self.replica = Replica(self.space._port, self.space.did)
        self.making = Making(self.replica)
        self.link: Link | None = None
        self.opening = OpenSession(self.space.did)
        self.next = 1
        self.begun: list[Begun] = []
        self.made: dict[int, Pending] = {}
        self.sent: dict[int, tuple[Layer, dict[int, int | None]]] = {}
        self.markers: dict[int, str] = {}  # what is seen of each commit: new, shown, gone

    def run(self) -> None:
        acts: list[Callable[[], None]] = (
            [self._write] * 5 + [self._foreign] * 3 + [self._send] * 6 + [self._take] * 6
            + [self._begin] * 2 + [self._use] * 4 + [self._end] * 2 + [self._cut, self._cancel]
        )  # fmt: skip
        try:
            self._connect()
            for _ in range(ACTS):
                self.random.choice(acts)()
                self._check()
            self.begun.clear()
            for _ in range(ROUNDS_MAX):
                if self._is_at_rest():
                    break
                self._send()
                self._take()
                self._check()
            assert self._is_at_rest(), "it does not come to rest"
            self._judge()
        finally:
            if self.link is not None:
                self.link.close()
            self.store.close()

    def _is_at_rest(self) -> bool:
        stack = self.replica.stack
        return not stack.pending() and stack.decided == stack.made

    # -- acts --------------------------------------------------------------------------------------

    def _operations(self, count: int) -> list[dict[str, Any]]:
        return [self._operation() for _ in range(self.random.randint(1, count))]

    def _operation(self) -> dict[str, Any]:
        id, kind = self.random.choice(IDS), self.random.random()
        if kind < 0.4:
            return {"op": "set", "id": id, "value": {"n": self.random.randint(0, 9), "l": []}}
        if kind < 0.5:
            return {"op": "delete", "id": id}
        ops: list[dict[str, Any]] = [
            {"op": "add", "path": "/l/-", "value": self.random.randint(0, 99)}
        ]
        if self.random.random() < 0.3:
            shown = self._view().get(id)
            value = shown.get("n") if type(shown) is dict else 0
            ops.insert(0, {"op": "test", "path": "/n", "value": value})
        patch: dict[str, Any] = {"op": "patch", "id": id, "ops": ops}
        return {**patch, "else": {"n": 0, "l": []}} if self.random.random() < 0.3 else patch

    def _write(self) -> None:
        marker = {"op": "set", "id": f"urn:m:{self.replica.stack.made + 1}", "value": 1}
        reads = []
        if self.random.random() < 0.5:
            state = self._view().read(self.random.choice(IDS))
            reads.append({"id": state.id, "version": state.version})
        try:
            made = self.making.transact(
                "main", [*self._operations(2), marker], reads=reads, key=None, meta=None
            )
        except (NotFound, PatchFailed):
            self.counts["refused"] += 1
        else:
            self._note(made, made.local - 1)

    def _note(self, made: Pending, until: int) -> None:
        """Note a commit that has seen own ones up to a local."""
        layer = made._fate.layer
        above: dict[int, int | None] = {}
        for local, other in self.made.items():
            version = other._fate.version
            if (
                local <= until
                and other.status != "rejected"
                and (version is None or version > layer.sent.basis)
            ):
                above[local] = version
        self.sent[made.local] = layer, above
        self.made[made.local] = made
        self.markers[made.local] = "new"
        self.counts["writes"] += 1

    def _foreign(self) -> None:
        try:
            self.space.transact(self._operations(2))
        except (NotFound, PatchFailed):
            return

    def _begin(self) -> None:
        if len(self.begun) < 3:
            port, view = self.replica.begin("main")
            space = space_on(self.space, port, branch="main")
            tx = SessionTransaction(self.making, port, view, space, key=None, meta=None)
            tx.__enter__()
            self.begun.append(Begun(tx, self._folded()))

    def _use(self) -> None:
        if not self.begun:
            return
        begun, id = self.random.choice(self.begun), self.random.choice(IDS)
        if self.random.random() < 0.3:
            shown = {state.id: state.value for state in begun.tx.scan("urn:b")}
            assert shown == {
                id: value for id, value in begun.shown.items() if id.startswith("urn:b")
            }, "a transaction has seen two states"
            begun.read |= {"urn:b:1", "urn:b:2"}
            return
        assert begun.tx.get(id) == begun.shown.get(id), "a transaction has seen two states"
        begun.read.add(id)

    def _end(self) -> None:
        if not self.begun:
            return
        begun = self.begun.pop(self.random.randrange(len(self.begun)))
        begun.tx.set(f"urn:m:{self.replica.stack.made + 1}", 1)
        begun.tx.set("urn:c", self.random.random())
        try:
            begun.tx.__exit__(None, None, None)
        except Conflict as error:
            self.counts[f"at once {error.code}"] += 1
        else:
            assert begun.tx.pending is not None
            self._note(begun.tx.pending, begun.tx._seen.until)
            self.counts["transactions"] += 1

    def _cancel(self) -> None:
        made = self.random.choice([*self.made.values(), None])
        if made is not None and made.status == "pending" and not made._fate.layer.was_sent:
            assert made.cancel()
            self.counts["cancels"] += 1

    # -- the line ----------------------------------------------------------------------------------

    def _connect(self) -> None:
        self.link = self.linker.connect(self.opening)
        opened = self.link.opened
        head = self.replica.stack.head
        self.opening = OpenSession(
            self.space.did, session=opened.session, token=opened.token,
            seen=Mark(head.version, head.hash),
        )  # fmt: skip
        for verdict in opened.verdicts:
            self.replica.decide(verdict)
        self.replica.step(self.space._port.answer(self.space.did, GetHead(opened.version)))
        self.next = self.replica.stack.decided + 1

    def _send(self) -> None:
        if self.link is None:
            self._connect()
        assert self.link is not None
        for _ in range(self.random.randint(1, 3)):
            laid = self.replica.stack.waiting(self.next)
            if laid is None:
                return
            laid.layer.was_sent = not laid.layer.is_dead
            self.link.send(Abandon(self.next) if laid.layer.is_dead else laid.layer.sent)
            self.next += 1

    def _take(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            message = None if self.link is None else self.link.receive(0)
            if isinstance(message, Decided):
                self.replica.decide(message.verdict)
                self.counts["accepted" if message.verdict.accepted else "rejected"] += 1
            elif isinstance(message, Sync):
                assert self.link is not None
                self.replica.step(Head(message.to, message.hash, message.at))
                self.link.send(Ack(to=message.to))
                self.counts["steps"] += 1

    def _cut(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link = None

    # -- judging -----------------------------------------------------------------------------------

    def _view(self) -> Space:
        return space_on(self.space, self.replica.view("main"), branch="main")

    def _folded(self) -> State:
        """Return the confirmed state with each layer applied, or left out whole."""
        head = self.replica.stack.head
        state = {each.id: each.value for each in self.space.at(head.version).scan()}
        self.left_out: set[int] = set()
        for pending in self.replica.stack.pending():
            after = dict(state)
            try:
                for operation in pending.operations:
                    _apply(after, operation)
            except (LookupError, DoesNotApply):
                self.counts["left out"] += 1
                self.left_out.add(pending.local)
                continue
            state = after
        return state

    def _check(self) -> None:
        view, folded = self._view(), self._folded()
        assert {state.id: state.value for state in view.scan()} == folded, "a scan differs"
        for id in (*IDS, "urn:c"):
            assert view.get(id) == folded.get(id), "a read differs"
        for pending in self.replica.stack.pending():
            fates = [self.made[local].status for local in pending.depends]
            assert "rejected" not in fates, "it stays, and has seen what was rejected"
        for local, seen in self.markers.items():
            is_shown = f"urn:m:{local}" in folded
            assert not (is_shown and seen == "gone"), "an own write has come back"
            if is_shown:
                self.markers[local] = "shown"
            elif self.made[local].status == "rejected":
                self.markers[local] = "gone"
            else:
                assert local in self.left_out, "an own write has vanished"

    def _judge(self) -> None:
        log = {commit.version: commit for commit in self.space.log()}
        own = {made._fate.version: local for local, made in self.made.items()}
        for local, (layer, above) in self.sent.items():
            for read in layer.sent.reads:
                named = set(read.get("layers", ()))
                missing = {
                    other for other in above
                    if _overlaps(read, self.sent[other][0].sent) and other not in named
                    and (above[other] is None or above[other] > read["version"])
                }  # fmt: skip
                assert not missing, "a layer that was seen is not named"
                self.counts["named"] += len(named)
                version = self.made[local]._fate.version
                if version is not None:
                    for between in range(read["version"] + 1, version):
                        is_overlapping = any(_reads(read, fact.id) for fact in log[between].facts)
                        assert not is_overlapping or own.get(between) in named, "a write was missed"


def _apply(state: State, operation: dict[str, Any]) -> None:
    id = operation["id"]
    if operation["op"] == "set":
        state[id] = operation["value"]
    elif operation["op"] == "delete":
        del state[id]
    elif id in state:
        state[id] = apply_naively(state[id], operation["ops"])
    else:
        state[id] = operation["else"]


def _overlaps(read: dict[str, Any], sent: Transact) -> bool:
    return any(_reads(read, operation["id"]) for operation in sent.operations)


def _reads(read: dict[str, Any], id: str) -> bool:
    if "id" in read:
        return bool(id == read["id"])
    return bool(read["from"] <= id and (read["to"] is None or id < read["to"]))
