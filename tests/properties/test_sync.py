"""Sessions over random histories: the orders of the protocol, its flow, and frames over a breaking line.

A raw client keeps the rules 1, 4 and 5 of docs/formats/sync.md in view; a remote watch is compared with
the embedded one.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rote
from rote.contract import View
from rote.contract.commands import Watch
from rote.errors import NotFound, Unavailable
from rote.opening import open as open_store
from rote.space import Space, Store
from rote.testing.frames import Folded
from rote.testing.query_graphs import Graphs
from rote.testing.serving import serving
from tests.breaking import BreakingLine
from tests.lanes import examples
from tests.syncs import SyncLine

SEEDS = st.integers(0, 2**48)
STEPS = 14
STEPS_OF_A_SEED = 25


class Ground:
    """A served store, and the same store as it is seen over a line that breaks."""

    def __init__(self, store: Store, server: Any, line: BreakingLine, remote: Store) -> None:
        self.store = store
        self.server = server
        self.line = line
        self.remote = remote
        self._count = 0

    def spaces(self) -> tuple[Space, Space]:
        self._count += 1
        name = f"s{self._count}"
        return self.store.space(name), self.remote.space(name)


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with (
        open_store(":memory:", durability="os") as store,
        serving(store, allow_hosts=("127.0.0.1",)) as server,
        BreakingLine(server.url) as line,
        rote.open(line.url, token=server.token) as remote,
    ):
        yield Ground(store, server, line, remote)


class History:
    """A space with random changes."""

    def __init__(self, space: Space, graphs: Graphs) -> None:
        self.space = space
        self.graphs = graphs
        self.branches = ["main"]

    def happen(self) -> None:
        random, space = self.graphs.random, self.space
        what = random.choice(["commit", "commit", "commit", "branch", "erase", "compact"])
        if what == "branch" and len(self.branches) < 3:
            name = f"b{space.version}"
            space.create_branch(name)
            self.branches.append(name)
        elif what == "erase":
            try:
                space.erase(random.choice(self.graphs.ids), reason="asked for")
            except NotFound:
                pass  # never written
        elif what == "compact" and space.version > 3:
            space.compact(before=space.version - 1)
        else:
            self.graphs.commit(space.on(random.choice(self.branches)))


@given(SEEDS)
@settings(max_examples=examples(8, 300))
def test_frames_of_a_remote_watch_are_those_of_the_embedded_one(ground: Ground, seed: int) -> None:
    graphs = Graphs(seed)
    space, remote = ground.spaces()
    history = History(space, graphs)
    pairs: list[tuple[Any, Any]] = []
    for _ in range(STEPS):
        if len(pairs) < 4 and graphs.chance(0.4):
            watch = Watch(graphs.query(), View(graphs.random.choice(history.branches)))
            pairs.append(
                (space._port.watch(space.did, watch), remote._port.watch(remote.did, watch))
            )
        history.happen()
        for embedded, over_line in pairs:
            if graphs.chance(0.5):
                assert over_line.next(0) == embedded.next(0)
    for embedded, over_line in pairs:
        assert over_line.next(0) == embedded.next(0)
        over_line.close()


@given(SEEDS)
@settings(max_examples=examples(5, 200))
def test_frames_over_a_line_that_delays_cuts_and_comes_back_fold_to_the_query(
    ground: Ground, seed: int
) -> None:
    graphs = Graphs(seed)
    space, remote = ground.spaces()
    history = History(space, graphs)
    held: list[tuple[Any, Any, Folded]] = []
    for _ in range(STEPS):
        if len(held) < 3 and graphs.chance(0.4):
            query = graphs.query()
            watching = remote._port.watch(remote.did, Watch(query))
            held.append((query, watching, Folded()))
        history.happen()
        draw = graphs.random.random()
        if draw < 0.15:
            ground.line.cut()
        elif draw < 0.25:
            ground.line.hold()
            history.happen()
            ground.line.let_go()
        for _, watching, folded in held:
            if graphs.chance(0.3):
                take(watching, folded)
    for query, watching, folded in held:
        take(watching, folded)
        assert folded.facts == space.query(query)["facts"]
        assert watching.next(0) is None
        watching.close()


def take(watching: Any, folded: Folded) -> None:
    """Take the frame that is there, if there is one; the line may have to be mended first."""
    while True:
        try:
            frame = watching.next(0)
        except Unavailable:
            continue  # it is down
        if frame is not None:
            folded.take(frame)
        return


class RawClient:
    """A client that adds, removes and acknowledges as it likes, and checks all orders."""

    def __init__(self, line: SyncLine, space: Space, random: Random) -> None:
        self.line = line
        self.space = space
        self.random = random
        self.queries: dict[str, Any] = {}
        self.folded: dict[str, Folded] = {}
        self.answered: set[str] = set()
        self.unacked: list[int] = []
        self.acknowledged = -1
        self.to = 0
        self.parts: list[Any] = []

    def ask(self, type: str, **members: Any) -> Any:
        """Ask, and check that nothing of new watches came before the answer."""
        answer = self.line.ask(type, **members)
        while self.line.kept:
            self.take(self.line.push())
        return answer

    def take(self, part: Any) -> None:
        assert part["type"] == "sync"
        assert part["to"] >= self.to, "rule 4: it never falls"
        self.to = part["to"]
        assert part["watches"].keys() <= self.answered, "rule 1"
        for name, told in part["watches"].items():
            upserts = []
            for place in told["upserts"]:
                state = dict(part["states"][place])
                del state["branch"]
                upserts.append(state)
            frame = {"from": told["from"], "to": part["to"], "upserts": upserts,
                     "removes": told["removes"]}  # fmt: skip
            if "truncated" in told:
                frame["truncated"] = told["truncated"]
            self.follow(name, frame)
        assert not part["more"], "so few states are one part"
        self.unacked.append(part["to"])
        # An acknowledgement on its way is of a step to the same version, too.
        window = [to for to in self.unacked if to > self.acknowledged]
        assert len(window) <= 2, "the window"

    def follow(self, name: str, frame: Any) -> None:
        """Take a frame: it begins at the last step of the watch or, an empty one between, at none."""
        folded = self.folded[name]
        assert frame["from"] in (None, folded.version), "rule 4: from"
        folded.take(frame)

    def step(self, graphs: Graphs) -> None:
        what = self.random.choice(["add", "remove", "ack", "ack", "look", "look"])
        if what == "add" and len(self.queries) < 4:
            name = f"w{len(self.folded)}"
            self.queries[name], self.folded[name] = graphs.query(), Folded()
            self.line.tell("ack")
            answer = self.line.tell("watch.add", watches={name: self.queries[name]})
            assert "ok" in self.line.answer(answer)
            while self.line.kept:
                self.take(self.line.push())
            self.answered.add(name)
        elif what == "remove" and self.queries:
            name = self.random.choice(sorted(self.queries))
            del self.queries[name]
            self.ask("watch.remove", names=[name])
            self.answered.discard(name)
        elif what == "ack" and self.unacked:
            to = self.random.choice(self.unacked)
            self.acknowledged = max(self.acknowledged, to)
            self.unacked = [each for each in self.unacked if each > to]
            self.ask("ack", to=to)
        else:
            self.ask("watch.add", watches={})

    def come_to_rest(self) -> None:
        """Acknowledge everything until nothing comes, then compare."""
        while True:
            if self.unacked:
                to, self.unacked = self.unacked[-1], []
                self.line.ask("ack", to=to)
            reached = self.ask("watch.add", watches={})["version"]
            if not self.unacked and reached == self.space.version:
                break
        for name, query in self.queries.items():
            assert self.folded[name].facts == self.space.query(query)["facts"]


@given(SEEDS)
@settings(max_examples=examples(15, 300))
def test_orders_and_flow_hold_whatever_a_client_does(ground: Ground, seed: int) -> None:
    graphs = Graphs(seed)
    space, _ = ground.spaces()
    history = History(space, graphs)
    with SyncLine(ground.server.url) as line:
        line.open(space.name, ground.server.token)
        client = RawClient(line, space, graphs.random)
        for _ in range(STEPS_OF_A_SEED):
            history.happen()
            client.step(graphs)
        client.come_to_rest()
        ground.store.erase_space(space.name, reason="test", confirm=space.name)
        while (push := line.push())["type"] == "sync":
            pass
        assert push["type"] == "revoked"
        assert line.closed() == 4403
        assert not line.kept, "rule 5: nothing comes after it"
