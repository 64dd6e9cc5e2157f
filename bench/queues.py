"""Queues against raw transactions, and at two depths."""

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import orjson

import rote
from bench.documents import Documents
from bench.harness import Benchmark, Effort, Measure, Result, compare_rates, compare_times, timed

QUEUE = "alerts"


def cycle(effort: Effort) -> Result:
    """Measure put, take and ack of a message against three raw transactions of the same rows."""
    messages = effort.count(400, 10)
    payloads = [Documents().note() for _ in range(messages)]

    def raw() -> Measure:
        with Raw(effort.folder / "raw.db") as queue:
            return timed(messages, lambda: _each(queue.cycle, payloads))

    def turn() -> Measure:
        with rote.open(effort.folder / "rote.db", durability="os") as store:
            queue = rote.Host("network-restricted", store=store, space="bench").queue
            return timed(messages, lambda: _each(partial(_cycle, queue), payloads))

    return compare_rates(effort, raw, turn)


def _each(work: Callable[[Any], None], payloads: list[Any]) -> None:
    for payload in payloads:
        work(payload)


def _cycle(queue: Any, payload: Any) -> None:
    queue.put(QUEUE, payload)
    message = queue.take(QUEUE)["message"]
    queue.ack(QUEUE, message["id"], message["lease"])


class Raw:
    """A queue as one would write it by hand: a table of messages, with a log of what happened."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._numbers = count()
        for statement in (
            "pragma journal_mode = wal",
            "pragma synchronous = normal",
            "create table if not exists messages (id integer primary key, body blob, until int)",
            "create table if not exists log (version integer primary key, body blob)",
        ):
            self._connection.execute(statement)

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def cycle(self, payload: Any) -> None:
        run = self._connection.execute
        body = orjson.dumps(payload)
        run("begin immediate")
        run("insert into messages (body) values (?)", (body,))
        run("insert into log (body) values (?)", (body,))
        run("commit")
        run("begin immediate")
        id, _ = run("select id, body from messages where until is null order by id limit 1").get
        run("update messages set until = 1 where id = ?", (id,))
        run("commit")
        run("begin immediate")
        run("delete from messages where id = ?", (id,))
        run("insert into log (body) values (?)", (b"",))
        run("commit")


def at_depth(effort: Effort) -> Result:
    """Measure take and ack in a queue of 100,000 messages against one of 100."""
    times = effort.count(50, 3)
    small, large = effort.count(100, 10), effort.count(100_000, 40)

    def fill(name: str, depth: int) -> Path:
        path = effort.folder / f"{name}.db"
        with rote.open(path, durability="os") as store:
            queue = rote.Host("network-restricted", store=store, space="bench").queue
            for number in range(depth):
                queue.put(QUEUE, {"n": number})
        return path

    def turn(path: Path) -> Measure:
        with rote.open(path, durability="os") as store:
            queue = rote.Host("network-restricted", store=store, space="bench").queue
            _take_and_ack(queue, 1)  # what is read once is read
            return timed(times, lambda: _take_and_ack(queue, times))

    paths = fill("small", small + (effort.rounds + 1) * (times + 1)), fill("large", large)
    return compare_times(effort, partial(turn, paths[0]), partial(turn, paths[1]))


def _take_and_ack(queue: Any, times: int) -> None:
    for _ in range(times):
        message = queue.take(QUEUE)["message"]
        queue.ack(QUEUE, message["id"], message["lease"])


BENCHMARKS = [
    Benchmark("queue/cycle", "put, take, ack vs three raw transactions", 0.08, 0.15, cycle),
    Benchmark("queue/depth", "take, ack at 100,000 vs 100", 1.5, 1.1, at_depth, "at most"),
]
