"""Sessions: how soon their writes return, and how they do beside a thousand others, a hundred stalled.

The server is one process, the other sessions another one (bench.session_children); beside these the
session that writes is here, on a raw socket.
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from subprocess import Popen
from time import perf_counter, sleep

import rote
from bench.documents import Documents
from bench.harness import (
    Benchmark,
    Effort,
    Measure,
    Result,
    compare_times,
    compared,
    timed,
)
from bench.server import Child, running, served, slowest
from bench.wires import RawClient, RawLine, request
from rote.values.limits import WATCH_LOOK_SECONDS

READ, STALLED = 899, 100
AGAIN_SECONDS = 0.01  # until what was refused is sent again
APART_SECONDS = 0.06  # a step within the rest after the one before would measure the rest
LIMITS = tuple(
    part
    for name in ("principal_rate=1000000", "watches=2000", "connections=2000")
    for part in ("--limit", name)
)


class Writer:
    """A session that writes, on a server of its own."""

    def __init__(self, server: Child) -> None:
        self.server = server
        RawClient(server.port).ask(request("PUT", "/v1/spaces/notes", token=server.token))
        self._line = RawLine(server.port)
        self._line.open("notes", server.token, {})
        self._local = 0
        self.write()

    def write(self, ids: int = 1) -> float:
        """Make a commit that says when it was made; return the microseconds to its verdict."""
        self._local += 1
        begun = perf_counter()
        operations = [
            {"op": "set", "id": f"urn:watched:{number}", "value": begun} for number in range(ids)
        ]
        while not self._is_accepted(operations):
            sleep(AGAIN_SECONDS)
        micros = (perf_counter() - begun) * 1_000_000
        if self._local % 64 == 0:
            self._line.tell(type="ack", verdicts=self._local, basis=self._local)
        return micros

    def _is_accepted(self, operations: list[dict[str, object]]) -> bool:
        """Send the commit, and wait for its verdict; False when the server has too much to do."""
        self._line.tell(type="transact", local=self._local, basis=0, operations=operations)
        while b'"accepted":true' not in (message := self._line.next()):
            if b'"error":{' in message:
                return False
        return True


class Others:
    """The other sessions of a writer."""

    def __init__(self, process: "Popen[str]") -> None:
        assert process.stdin is not None and process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        assert self._out.readline() == "ready\n"

    def steps(self, count: int) -> list[float]:
        """Wait until each reader has so many steps more; return the microseconds that each took."""
        self._in.write(f"{count}\n")
        self._in.flush()
        return [float(each) for each in self._out.readline().split()]


@contextmanager
def _writer(effort: Effort, name: str) -> Iterator[Writer]:
    with served(effort.folder / f"{name}.db", "--durability", "os", *LIMITS) as server:
        yield Writer(server)


@contextmanager
def _others(writer: Writer, read: int, stalled: int) -> Iterator[Others]:
    server = writer.server
    counts = map(str, (server.port, server.token, "notes", read, stalled))
    with running("bench.session_children", *counts) as process:
        yield Others(process)


# -- rows ------------------------------------------------------------------------------------------


def write(effort: Effort) -> Result:
    """Compare the time until a set of a session returns with that of a set of the space, on one server."""
    count = effort.count(200, 10)
    documents = Documents()
    with (
        served(effort.folder / "store.db", "--durability", "os", *LIMITS) as server,
        rote.open(f"http://127.0.0.1:{server.port}", token=server.token) as store,
    ):
        space = store.space("notes")
        with space.session() as session:

            def turn(place: rote.Space | rote.Session) -> Measure:
                made = documents.notes(count)
                measure = timed(count, lambda: [place.set(id, value) for id, value in made])
                session.flush()
                return measure

            return compare_times(effort, partial(turn, space), partial(turn, session))


def commit(effort: Effort) -> Result:
    """Compare the slowest hundredth of commits beside all others with those beside none."""
    count = effort.count(100, 10)
    quiets: list[float] = []
    busies: list[float] = []
    with ExitStack() as ending:
        quiet, busy = (ending.enter_context(_writer(effort, name)) for name in ("quiet", "busy"))
        ending.enter_context(_others(busy, effort.count(READ, 9), effort.count(STALLED, 1)))
        for done in range(effort.rounds + 1):
            effort.report("measuring", effort.rounds - done)
            found = [[writer.write() for _ in range(count)] for writer in (quiet, busy)]
            if done:
                quiets += found[0]
                busies += found[1]
    slow, slower = slowest(quiets), slowest(busies)
    return Result(slow, slower, "us", slower / slow, slower / slow, slower / slow)


def frame(effort: Effort) -> Result:
    """Compare the time until another session has a commit with the pause between two looks for one."""
    count = effort.count(10, 2)
    with _writer(effort, "one") as writer, _others(writer, 1, 0) as others:
        frames: list[float] = []
        for done in range(effort.rounds + 1):
            effort.report("measuring", effort.rounds - done)
            micros = []
            for _ in range(count):
                sleep(APART_SECONDS)
                writer.write()
                micros += others.steps(1)
            frames.append(median(micros))
    return compared([WATCH_LOOK_SECONDS * 1_000_000] * effort.rounds, frames[1:], "us")


def stalled(effort: Effort) -> Result:
    """Compare the time until the others have a commit when a hundred more stall with that without."""
    read, slow = effort.count(READ, 9), effort.count(STALLED, 1)
    with ExitStack() as ending:
        writers = [ending.enter_context(_writer(effort, name)) for name in ("all", "some")]
        others = [
            ending.enter_context(_others(writer, read, count))
            for writer, count in zip(writers, (0, slow), strict=True)
        ]
        sides: list[list[float]] = [[], []]
        for done in range(effort.rounds + 1):
            effort.report("measuring", effort.rounds - done)
            for side, writer, each in zip(sides, writers, others, strict=True):
                sleep(APART_SECONDS)
                writer.write()
                side.append(median(each.steps(1)))
    return compared(sides[0][1:], sides[1][1:], "us")


def memory(effort: Effort) -> Result:
    """Say how much more memory a server has, after many commits, for a hundred sessions that took none
    of them: less what a server without them has more."""
    count, ids = effort.count(1_000, 10), effort.count(100, 5)
    grown = []
    for name, slow in (("free", 0), ("held", effort.count(STALLED, 1))):
        with _writer(effort, name) as writer, _others(writer, 1, slow) as others:
            before = writer.server.memory
            for done in range(count):
                effort.report(name, count - done)
                writer.write(ids)
            others.steps(1)
            grown.append(writer.server.memory - before)
    more = max(grown[1] - grown[0], 0.1)
    return Result(1, more, "MiB", more, more, more, decimals=1)


BENCHMARKS = [
    Benchmark("sessions/write", "a session's set over HTTP until it returns, against the space's (no floor)",
              math.inf, 0.05, write, direction="at most"),
    Benchmark("sessions/commit", "p99 of a commit beside 999 sessions, 100 stalled, against none", 2,
              1.1, commit, direction="at most"),
    Benchmark("sessions/frame", "from a commit to another session's frame, against a look for one", 2,
              0.5, frame, direction="at most"),
    Benchmark("sessions/stalled", "until 899 sessions have a commit, 100 more stalled, against none",
              1.5, 1.1, stalled, direction="at most"),
    Benchmark("sessions/memory", "MiB that 100 stalled sessions hold after 1,000 commits", 32, 8, memory,
              direction="at most"),
]  # fmt: skip
