"""Watches beside everything that can happen to a space: merges, erasures, compactions, ends of
branches. The folded frames equal the result of the query."""

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rote.contract import View
from rote.contract.commands import Watch
from rote.errors import NotFound
from rote.kernel.watching.watches import Watcher
from rote.opening import open as open_store
from rote.space import Space
from rote.testing.frames import Folded
from rote.testing.query_graphs import Graphs
from tests.lanes import examples

SEEDS = st.integers(0, 2**48)
STEPS = 14


class History:
    """A space with random changes, drawn from one seed."""

    def __init__(self, space: Space, graphs: Graphs) -> None:
        self.space = space
        self.graphs = graphs
        self.oldest = 0  # the version of the last compaction
        self.alive = ["main"]

    def happen(self) -> None:
        random = self.graphs.random
        space = self.space.on(random.choice(self.alive))
        what = random.choice(
            ["commit", "commit", "commit", "branch", "merge", "end", "erase", "compact"]
        )
        if what == "branch" and len(self.alive) < 4:
            name = f"b{self.space.version}"
            space.create_branch(name, at=random.randint(self.oldest, self.space.version))
            self.alive.append(name)
        elif what == "merge" and len(self.alive) > 1:
            source = random.choice([name for name in self.alive if name != space.branch])
            space.merge(source, on_conflict=random.choice(["theirs", "ours", "latest"]))
        elif what == "end" and len(self.alive) > 2:
            self.space.delete_branch(self.alive.pop())
        elif what == "erase":
            with suppress(NotFound):  # never written
                self.space.erase(random.choice(self.graphs.ids), reason="asked for")
        elif what == "compact" and self.space.version > self.oldest + 3:
            self.oldest = random.randint(self.oldest + 1, self.space.version)
            self.space.compact(before=self.oldest)
        else:
            self.graphs.commit(space)


class Held:
    """A watcher of a random query on a random branch, which may stop for a while."""

    def __init__(self, history: History) -> None:
        random, space = history.graphs.random, history.space
        self.query = history.graphs.query()
        branch = random.choice(history.alive)
        self.space = space.on(branch)
        since = random.choice([None, *range(history.oldest, space.version + 1)])
        self.history, self.view = history, View(branch)
        facts = {} if since is None else self.space.at(since).query(self.query)["facts"]
        self.folded = Folded(since, facts)
        self.begin(since)

    def begin(self, since: int | None) -> None:
        space = self.history.space
        kernel: Any = space._port
        self.watcher = Watcher(kernel.spaces.open(space.did), Watch(self.query, self.view))
        self.take(self.watcher.start(since), is_first=True)
        self.check()

    def begin_again(self) -> None:
        """Begin again from what was folded so far, unless that is too long ago."""
        version = self.folded.version
        if version is not None and version >= self.history.oldest:
            self.begin(version)

    def go_on(self) -> None:
        target = self.watcher.look()
        while self.watcher.version < target:
            frame = self.watcher.advance(target)
            if frame is not None:
                self.take(frame, is_first=False)
        self.check()

    def take(self, frame: dict[str, Any], *, is_first: bool) -> None:
        assert is_first or frame["from"] is not None, "only who comes back starts over"
        self.folded.take(frame)

    def check(self) -> None:
        expected = self.space.at(self.watcher.version).query(self.query)["facts"]
        assert self.folded.facts == expected


@given(SEEDS)
@settings(max_examples=examples(25, 400))
def test_frames_fold_to_the_result_whatever_happens_to_the_space(seed: int) -> None:
    graphs = Graphs(seed)
    with open_store(":memory:", durability="os") as store:
        history = History(store.space("graph"), graphs)
        held: list[Held] = []
        for _ in range(STEPS):
            if len(held) < 4 and graphs.chance(0.5):
                held.append(Held(history))
            history.happen()
            for one in held:
                if graphs.chance(0.5):
                    one.go_on()
                elif graphs.chance(0.3):
                    one.begin_again()
        for one in held:
            one.go_on()
