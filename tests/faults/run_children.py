"""The processes of the tests of runs: `python -m tests.faults.run_children serve`, or
`… work <url> <worker>`.

Every write of a run goes through the port of its store. Each write is a point before and after
which a process can be stopped. Points are named after what is written:

    lease      the lease of an owner of runs            open       the run in the ledger
    pending    its operations in the ledger             apply      its commit
    abort      that it was aborted                      discard    that it was discarded
    end        that it had nothing to write             claim      a lease that has run out
    take       a pending run of another owner           drop       a lease that nobody needs

A run that leaves files can also be stopped at any line of the code that writes them (`LinePoint`).
"""

import gc
import itertools
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Self

import rote
from rote.contract import Port
from rote.contract.commands import Command, DropSide, GetSide, MakeCommit, PutSide
from rote.errors import RunAborted
from rote.runs.run_rows import LEASE, RUN
from tests.faults.children import LEFT, NAME, RIGHT, say

OTHER = "urn:entity:other"
IN, OUT = "in", "out"  # queues
MODES = ("read_only", "buffered_write")
# Short, so that no test waits for it; a store that is slower only finds its lease lost.
LEASE_SECONDS = 0.15

AT_WORK = ("lease", "open", "pending", "apply", "abort", "discard", "end")
RECOVERING = ("claim", "take", "apply", "drop")
POINTS_AT_WORK = tuple(f"{what}:{when}" for what in AT_WORK for when in ("before", "after"))
POINTS_RECOVERING = tuple(f"{what}:{when}" for what in RECOVERING for when in ("before", "after"))


class Points:
    """Wraps the writes of a port, and acts at one point, once."""

    def __init__(self, port: Any, point: str, action: Callable[[], None]) -> None:
        self._what, _, self._when = point.partition(":")
        self._action: Callable[[], None] | None = action
        self._port = port
        self._answer = port.answer
        port.answer = self.answer

    def answer(self, space: str, command: Command[Any], /) -> Any:
        what = self._named(space, command)
        self._pass(what, "before")
        answer = self._answer(space, command)
        self._pass(what, "after")
        return answer

    def _named(self, space: str, command: Command[Any]) -> str:
        if isinstance(command, DropSide):
            return "drop"
        if isinstance(command, MakeCommit):
            return "apply" if command.guards else ""
        if isinstance(command, PutSide):
            return self._named_row(space, command)
        return ""

    def _named_row(self, space: str, command: PutSide) -> str:
        kind, key, body, fence = command.kind, command.key, command.body, command.fence
        if kind == LEASE:
            return "claim" if body["claimed"] else "lease" if fence == 0 else "renewal"
        if kind != RUN:
            return ""
        if fence == 0:
            return "open"
        if body["discarded"]:
            return "discard"
        before = self._answer(space, GetSide(kind, key)).body
        is_taken = before["owner"] != body["owner"]
        pending = "take" if is_taken else "pending"
        names = {"commit_aborted": "abort", "commit_applied": "end", "commit_pending": pending}
        return names.get(body["state"], "")

    def _pass(self, what: str, when: str) -> None:
        if (what, when) == (self._what, self._when) and self._action is not None:
            action, self._action = self._action, None
            action()


def open_with(url: str, point: str = "", action: Callable[[], None] = lambda: None) -> rote.Store:
    """Return a store with short leases in which runs may write; it has recovered nothing yet."""
    store = rote.open(url, modes=MODES, lease_seconds=LEASE_SECONDS, durability="os", recover=False)
    Points(port_of(store), point, action)
    return store


def port_of(store: rote.Store) -> Port:
    return store._port


def kill_myself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stop_myself() -> None:
    say("stopped", os.getpid())
    os.kill(os.getpid(), signal.SIGSTOP)


def begin(space: rote.Space, run_id: str) -> rote.Run:
    return space.run(
        workflow_id="w", model=None, policy_set_id="p", mode="buffered_write", run_id=run_id
    )


def write_pair(run: rote.Run, value: Any) -> None:
    """Write two entities that must agree."""
    run.set(LEFT, value)
    run.set(RIGHT, value)


def host_on(store: rote.Store) -> rote.Host:
    return rote.Host("network-restricted", store=store, space=NAME)


def hand_on(host: rote.Host, run: rote.Run, queue: str = IN) -> None:
    """Take a message and acknowledge it, and put another one, all of it by the commit of a run."""
    with host.scope(run=run) as flow:
        message = flow.queue.take(queue)["message"]
        flow.queue.put(OUT, run.run_id)
        flow.queue.ack(queue, message["id"], message["lease"])


def run_once(url: str, run_id: str, point: str, action: Callable[[], None] = kill_myself) -> None:
    """Run once, in the way that leads to the point."""
    what = point.partition(":")[0]
    with open_with(url, point, action) as store:
        space, host = store.space(NAME), host_on(store)
        host.queue.put(IN, run_id)
        try:
            with begin(space, run_id) as run:
                run.get(OTHER)
                if what != "end":
                    write_pair(run, run_id)
                    hand_on(host, run)
                if what == "abort":
                    space.set(OTHER, run_id)
                if what == "discard":
                    raise ZeroDivisionError
        except (RunAborted, ZeroDivisionError) as error:
            say("ended", type(error).__name__)
        else:
            say("ended", run.state, 0 if run.commit is None else run.commit.version)


class LinePoint:
    """Acts at the nth line of runs and traces that is executed while it is in use."""

    def __init__(self, number: int, action: Callable[[], None]) -> None:
        self.count = 0
        self._number = number
        self._action = action
        self._places = tuple(str(Path(rote.__file__).parent / name) for name in ("runs", "traces"))

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._step if frame.f_code.co_filename.startswith(self._places) else None

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count == self._number:
                self._action()
        return self._step


TOLD: dict[str, Any] = {
    "workflow_id": "told",
    "model": rote.ModelConfig("acme", "large-1"),
    "policy_set_id": "p",
    "mode": "buffered_write",
    "tools": [rote.ToolProfile("search", "1")],
    "record": True,
}
EVENT = {"role": "r", "interceptor": "i", "decision_type": "d"}
QUESTION = {"query": "vault keys", "budget": {"max_excerpt_tokens": 100}}


def tell(space: rote.Space, run_id: str) -> None:
    """Do everything that leaves a mark in a trace or a recording; a run whose id says so raises."""
    with space.run(**TOLD, run_id=run_id) as run:
        for number in range(3):
            run.retrieve(QUESTION)
            with run.event(**EVENT) as event:
                event.model(lambda prompt: prompt * 2, prompt="keys")
                event.call("search", lambda query: [query], query=number)
                event.guardrail("pii")
                run.retrieve(QUESTION)
        write_pair(run, "told")
        run.output({"type": "text", "sections": ["a"]})
        if run_id.startswith("raises"):
            raise ZeroDivisionError


def run_told(url: str, run_id: str, number: str, action: Callable[[], None] = kill_myself) -> int:
    """Tell a run, and act at a line; return how many lines there were."""
    with (
        open_with(url) as store,
        LinePoint(int(number), action) as lines,
        suppress(ZeroDivisionError),
    ):
        tell(store.space(NAME), run_id)
    return lines.count


def recover(url: str, point: str, action: Callable[[], None] = kill_myself) -> None:
    """Recover until the point has come, and then whatever was begun to its end."""
    is_past: list[bool] = []

    def act() -> None:
        is_past.append(True)
        action()

    with open_with(url, point, act) as store:
        while not is_past:
            ended = store.recover()
        say("ended", *(f"{record.state} {record.version}" for record in ended))


def serve_forks() -> None:
    """Fork a process for each line `<how> <what> <url> <run id> <point>` of the input.

    For one that is to be killed, print its exit code. One that is to be stopped prints its own
    words.
    """
    for name in rote.__all__:
        getattr(rote, name)
    import_module("rote.engines.postgres")
    gc.freeze()  # a collection in a child would copy every page that it looks at
    for line in sys.stdin:
        how, what, url, run_id, point = line.split()
        child = os.fork()
        if child == 0:
            action = kill_myself if how == "kill" else stop_myself
            if what == "run":
                run_once(url, run_id, point, action)
            elif what == "told":
                run_told(url, run_id, point, action)
            else:
                recover(url, point, action)
            sys.stdout.flush()
            os._exit(0)
        if how == "kill":
            say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def work(url: str, worker: str) -> None:
    """Run for ever; some runs retrieve, some conflict, some are given up."""
    with rote.open(url, modes=MODES, lease_seconds=LEASE_SECONDS) as store:
        space, host = store.space(NAME), host_on(store)
        queue = (
            f"{IN}-{worker}"  # of its own: what others put may not be in the snapshot of its run
        )
        for number in itertools.count(1):
            run_id = f"{worker}.{number}"
            say("begin", run_id)
            host.queue.put(queue, run_id)
            try:
                with begin(space, run_id) as run:
                    if number % 3 == 0:
                        run.get(LEFT)
                    write_pair(run, run_id)
                    hand_on(host, run, queue)
                    run.memory.append("ops", "log", worker, {"number": number})
                    if number % 5 == 0:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                say("discarded", run_id)
            except RunAborted as error:
                say("aborted", run_id, error.reason_code)
            else:
                assert run.commit is not None
                say("applied", run_id, run.commit.version)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve_forks()
    else:
        work(*sys.argv[2:])
