"""Watches: the folded frames equal the result of the query, whatever happens in between."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rote.contract import View
from rote.contract.commands import Watch
from rote.kernel.watching.watches import Watcher
from rote.opening import open as open_store
from rote.space import Space
from rote.testing.frames import Folded
from rote.testing.query_graphs import Graphs
from tests.lanes import examples

SEEDS = st.integers(0, 2**48)


class Held:
    """A watcher of a random query on a random branch, which may stop for a while."""

    def __init__(self, space: Space, graphs: Graphs) -> None:
        self.query = graphs.query()
        branch = graphs.random.choice(space.branches()).name
        self.space = space.on(branch)
        since = graphs.random.choice([None, *range(space.version + 1)])
        facts = {} if since is None else self.space.at(since).query(self.query)["facts"]
        kernel: Any = space._port
        self.watcher = Watcher(kernel.spaces.open(space.did), Watch(self.query, View(branch)))
        self.folded = Folded(since, facts)
        frame = self.watcher.start(since)
        assert frame["from"] == since, "it starts over only after erasures"
        self.folded.take(frame)
        self.check()

    def go_on(self) -> None:
        before = self.folded.truncated
        frame = self.watcher.advance(self.watcher.look())
        if frame is not None:
            assert frame["upserts"] or frame["removes"] or frame.get("truncated") != before
            self.folded.take(frame)
        self.check()

    def check(self) -> None:
        """Compare with the query, also when no frame came: then nothing has changed."""
        expected = self.space.at(self.watcher.version).query(self.query)
        assert self.folded.facts == expected["facts"]
        assert self.folded.truncated == expected["truncated"]


@given(SEEDS)
@settings(max_examples=examples(40, 400))
def test_the_frames_of_a_watch_fold_to_the_result_of_its_query(seed: int) -> None:
    graphs = Graphs(seed)
    with open_store(":memory:", durability="os") as store:
        space = store.space("graph")
        graphs.write(space, 3)
        held: list[Held] = []
        for _ in range(12):
            if len(held) < 4:
                held.append(Held(space, graphs))
            graphs.write(space, graphs.random.randint(1, 2))
            for one in held:
                if graphs.chance(0.6):
                    one.go_on()
        for one in held:
            one.go_on()
