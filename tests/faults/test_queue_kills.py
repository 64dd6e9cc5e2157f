"""Workers on one queue, some of them killed: every message is acknowledged once, none is lost."""

import contextlib
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from rote.testing.faults import ChildProcess
from rote.testing.postgres import schema_of, server_url
from tests.faults.persistence import place_of
from tests.faults.queue_children import MAX_TRIES, NAME, QUEUE, host_on, is_poison, open_place
from tests.lanes import examples

ROOT = Path(__file__).parents[2]
WORKERS = examples(4, 8)
MESSAGES = examples(300, 20_000)
KILLS = examples(3, 200)
TIMEOUT_SECONDS = examples(120, 3_600)


class Crowd:
    """The workers; one that was killed is replaced."""

    def __init__(self, place: str, children: contextlib.ExitStack) -> None:
        self._place = place
        self._children = children
        self._started = self.kills = 0
        self.acked: list[str] = []  # what dead workers have said
        self.workers = [self._start() for _ in range(WORKERS)]

    def _start(self) -> ChildProcess:
        self._started += 1
        # Two groups whose clocks are an hour apart, where the database's time counts.
        hours = self._started % 2 if self._place.startswith("postgresql") else 0
        argv = [sys.executable, "-m", "tests.faults.queue_children", self._place]
        argv += [str(self._started), str(hours)]
        child = ChildProcess(argv, cwd=ROOT, timeout_seconds=TIMEOUT_SECONDS)
        return self._children.enter_context(child)

    def kill(self, random: Random) -> None:
        place = random.randrange(WORKERS)
        worker = self.workers[place]
        try:
            worker.read_until(2)
            worker.read_for(random.random() * 0.05)
            lines = worker.kill()
        except AssertionError:
            if "done" not in worker.acknowledged:
                raise
            return  # nothing was left to do
        self.kills += 1
        self._note(lines)
        self.workers[place] = self._start()

    def finish(self) -> list[str]:
        """Return the ids that the workers say they have acknowledged."""
        for worker in self.workers:
            while "done" not in worker.acknowledged:
                worker.read_until(len(worker.acknowledged) + 1)
            self._note(worker.acknowledged)
        return self.acked

    def _note(self, lines: "list[str] | tuple[str, ...]") -> None:
        self.acked += [line.split()[1] for line in lines if line.startswith("acked")]


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_every_message_is_acknowledged_once_whoever_is_killed(tmp_path: Path, engine: str) -> None:
    place = str(tmp_path / "memory.db")
    if engine == "postgres":
        place = place_of(server_url(), tmp_path, schema=schema_of(tmp_path))
    with open_place(place) as store:
        queue = host_on(store).queue
        ids = {queue.put(QUEUE, {"number": number}): number for number in range(MESSAGES)}
    with contextlib.ExitStack() as children:
        crowd = Crowd(place, children)
        for kill in range(KILLS):
            crowd.kill(Random(kill))
        acked = crowd.finish()
        assert crowd.kills
    poison = {id for id, number in ids.items() if is_poison({"number": number})}
    with open_place(place) as store:
        space, queue = store.space(NAME), host_on(store).queue
        dead = {item["id"] for item in queue.peek(QUEUE, 1_000, dead=True)["items"]}
        assert dead == poison
        assert queue.depth(QUEUE) == {"ready": 0, "leased": 0, "dead": len(poison)}
        deletes = Counter(
            fact.id.rpartition("/")[2]
            for commit in space.log()
            for fact in commit.facts
            if fact.op == "delete"
        )
        assert deletes == dict.fromkeys(ids.keys() - poison, 1)
        # No ack was answered twice, and each that was answered has happened.
        assert max(Counter(acked).values()) == 1
        assert set(acked) <= deletes.keys()
        rows = [item["tries"] for item in queue.peek(QUEUE, 1_000, dead=True)["items"]]
        assert rows == [MAX_TRIES] * len(poison)
        assert space.verify().ok
