"""The cost of recording a run, and of making calls side by side inside one."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import orjson

import rote
from bench.documents import Documents
from bench.harness import Benchmark, Effort, Measure, Result, compare_times, timed
from rote import ModelConfig, Space, ToolProfile

EVENTS, WRITES, CALLS = 10, 20, 4
PAGE_BYTES = 4_096  # of a tool's result; a page of hits, or of a document
MODEL = ModelConfig("bench", "none", deterministic_provider=True)
TOOLS = (ToolProfile("fetch", "1"),)
NAMES = {"role": "planner", "interceptor": "before_tool", "decision_type": "tool_call"}


class Web:
    """Pages as the tools of a user return them: some KB of text, and no two alike."""

    def __init__(self, pages: int) -> None:
        documents = Documents()
        self._texts = [orjson.dumps(documents.profile(PAGE_BYTES)) for _ in range(pages)]
        self._said = [documents.profile(PAGE_BYTES // 4) for _ in range(pages)]

    def fetch(self, page: int) -> Any:
        return orjson.loads(self._texts[page % len(self._texts)])

    def say(self, messages: list[Any]) -> Any:
        return self._said[len(messages) % len(self._said)]


def recorded(effort: Effort) -> Result:
    """Measure a run that is recorded against the same run without its recording."""
    runs = effort.count(30, 2)
    web = Web(EVENTS * CALLS)

    def turn(name: str, recordings: Path | None) -> Measure:
        with rote.open(effort.folder / f"{name}.db", modes=("buffered_write",)) as store:
            space = store.space("bench")
            start = space.version
            return timed(runs, lambda: _runs(space, web, range(start, start + runs), recordings))

    return compare_times(effort, partial(turn, "plain", None), partial(turn, "kept", effort.folder))


def _runs(space: Space, web: Web, numbers: range, recordings: Path | None) -> None:
    for number in numbers:
        record = None if recordings is None else recordings / f"{number}.jsonl"
        with space.run(
            workflow_id="bench", model=MODEL, policy_set_id="p", mode="buffered_write",
            tools=TOOLS, record=record,
        ) as run:  # fmt: skip
            for index in range(EVENTS):
                with run.event(**NAMES) as event:
                    said = event.model(web.say, messages=[{"role": "user", "text": "x"}] * index)
                    event.call("fetch", web.fetch, page=index)
                    event.call("fetch", web.fetch, page=index + EVENTS)
                for place in range(WRITES // EVENTS):
                    run.set(f"urn:said:{number}:{index}:{place}", said)


def side_by_side(effort: Effort) -> Result:
    """Measure events with four calls at once against plain threads that make the same calls."""
    events = effort.count(200, 4)
    web, numbers = Web(events * CALLS), count()

    def threads() -> None:
        for first in range(0, events * CALLS, CALLS):
            with ThreadPoolExecutor(CALLS) as pool:
                made = [pool.submit(web.fetch, page) for page in range(first, first + CALLS)]
                assert len([one.result() for one in made]) == CALLS

    def turn() -> Measure:
        with rote.open(effort.folder / "calls.db") as store:
            run = store.space("bench").run(
                workflow_id="bench", model=None, policy_set_id="p", tools=TOOLS,
                record=effort.folder / f"calls-{next(numbers)}.jsonl",
            )  # fmt: skip
            with run:
                return timed(events, lambda: _events(run, web, events))

    return compare_times(effort, partial(timed, events, threads), turn)


def _events(run: rote.Run, web: Web, events: int) -> None:
    for first in range(0, events * CALLS, CALLS):
        with run.event(**NAMES) as event:
            pages = range(first, first + CALLS)
            made = event.calls([("fetch", web.fetch, {"page": page}) for page in pages])
            assert len(made) == CALLS


BENCHMARKS = [
    Benchmark(
        "run/recorded",
        "a run of 10 events, 20 calls of 4 KB, 10 replies and 20 writes: recorded against not, fsync",
        floor=2,
        aim=1.1,
        run=recorded,
        direction="at most",
    ),
    Benchmark(
        "run/calls",
        "a recorded event of 4 calls side by side, of 4 KB each, against a pool of 4 plain threads",
        floor=4,
        aim=1.5,
        run=side_by_side,
        direction="at most",
    ),
]
