"""The cost of a run, against the same retrieval and the same writes without one."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import rote
from bench.harness import Benchmark, Effort, Measure, Result, compare_times, timed
from rote import Memory, Space, Store, ToolProfile

WRITES, EVENTS, CALLS = 20, 10, 5
RECORDS = 200
QUESTION = {"query": "deploy keys of the vault", "budget": {"max_excerpt_tokens": 400}}
TOOLS = (ToolProfile("search", "1"),)

Work = Callable[[Store, Space, int], None]


def search(query: str) -> dict[str, Any]:
    return {"hits": [query]}


def in_a_run(store: Store, space: Space, number: int) -> None:
    """Do a retrieval, ten events with five calls and twenty writes, all in one run."""
    with space.run(
        workflow_id="bench", model=None, policy_set_id="p", mode="buffered_write", tools=TOOLS
    ) as run:
        run.retrieve(QUESTION)
        for index in range(EVENTS):
            names = {"role": "planner", "interceptor": "tool", "decision_type": "call"}
            with run.event(**names) as event:
                if index < CALLS:
                    event.call("search", search, query=f"{number}/{index}")
        for index in range(WRITES):
            run.set(f"urn:result:{number}:{index}", {"n": index, "text": "what was found"})


def one_by_one(store: Store, space: Space, number: int) -> None:
    """Do the same retrieval, calls and writes, each by itself."""
    _ask(store)
    for index in range(CALLS):
        search(query=f"{number}/{index}")
    for index in range(WRITES):
        space.set(f"urn:result:{number}:{index}", {"n": index, "text": "what was found"})


def at_once(store: Store, space: Space, number: int) -> None:
    """Do the same with all writes in one transaction."""
    _ask(store)
    for index in range(CALLS):
        search(query=f"{number}/{index}")
    with space.transaction() as transaction:
        for index in range(WRITES):
            value = {"n": index, "text": "what was found"}
            transaction.set(f"urn:result:{number}:{index}", value)


def _ask(store: Store) -> None:
    rote.retrieve({**QUESTION, "store_paths": ["rote:bench"]}, store=store)


def overhead(effort: Effort, *, durability: str, direct: Work) -> Result:
    count = effort.count(40, 2)
    return compare_times(
        effort,
        partial(_turn, effort.folder / "direct.db", durability, direct, count),
        partial(_turn, effort.folder / "run.db", durability, in_a_run, count),
    )


def _turn(path: Path, durability: str, work: Work, count: int) -> Measure:
    with rote.open(path, durability=durability, modes=("buffered_write",)) as store:
        space = store.space("bench")
        if space.version == 0:
            memory = Memory(space)
            for number in range(RECORDS):
                memory.put("ops", "fact", f"{number}", {"text": f"the vault has key {number}"})
        work(store, space, space.version)
        start = space.version

        def repeat() -> None:
            for number in range(count):
                work(store, space, start + number)

        return timed(count, repeat)


BENCHMARKS = [
    Benchmark(
        "run/overhead",
        "a run with 20 writes, 10 events, 5 calls and a retrieval against the same without one, fsync",
        floor=2,
        aim=1,
        run=partial(overhead, durability="fsync", direct=one_by_one),
        direction="at most",
    ),
    Benchmark(
        "run/transaction",
        "the same run against one transaction with the same 20 writes, fsync",
        floor=4,
        aim=2,
        run=partial(overhead, durability="fsync", direct=at_once),
        direction="at most",
    ),
]
