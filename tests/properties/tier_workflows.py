"""Random workflows over the tiers of a host, told by a seed; and the process that replays them.

`python -m tests.properties.tier_workflows <folder> <first> <last> [<first> <last> <store>]` replays the
recordings in a folder, in the working folder, with a host that has nothing configured, and writes the
outcomes to `<folder>/replayed.json`. The second range is of workflows in runs: those need the space that they
began in, which is open for reading alone.
"""

import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path
from random import Random
from typing import Any

import orjson

import rote
from rote.errors import RoteError

PROFILE = "operator-controlled"
REDACTED = ("password", "token")
MODES = ("off", "read_only", "buffered_write")


def secret_of(seed: int) -> str:
    return f"s3cret-{seed:08x}"


def has_tables(seed: int) -> bool:
    """Return whether a workflow uses tables: a process is started for those."""
    return seed % 20 == 0


def mode_of(seed: int) -> str:
    """Return the mode of a workflow that is a run."""
    return {0: "off", 1: "read_only"}.get(seed % 8, "buffered_write")


def terms_of(seed: int) -> dict[str, Any]:
    """Return the terms of a run, with profiles of some adapters."""
    names = ["search", "cache.get", "queue.put", "memory.put", "fs.read", "frame.get", "store.get"]
    tools = [rote.ToolProfile(name, "1") for name in names[: 1 + seed % len(names)]]
    return {
        "workflow_id": "w", "model": None, "policy_set_id": "p", "mode": mode_of(seed), "tools": tools,
    }  # fmt: skip


class Workflow:
    """Calls drawn one after the other, some of them from earlier results."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._grant = {
            "memory": {"namespaces": ["ops", "session"]},
            "fs": {"allow_delete": seed % 2 == 0},
        }
        self._secret = secret_of(seed)
        self._has_tables = has_tables(seed)
        self._taken = ["none", "none"]  # the message that was taken last, and its lease
        self._results: list[Any] = []

    def run(self, host: rote.Host, run: rote.Run | None = None) -> list[Any]:
        """Return the outcome of each call."""
        with host.scope(run=run, frame={"start": 1}, grant=self._grant) as flow:
            return [self._made(flow, run) for _ in range(self._random.randint(3, 25))]

    def _made(self, flow: rote.Host, run: rote.Run | None) -> dict[str, Any]:
        call = self._call(is_in_run=run is not None)
        is_in_event = self._random.random() < 0.3
        with self._event(run) if run is not None and is_in_event else nullcontext():
            try:
                result = flow.call(*call)
            except RoteError as error:
                return {"error": [type(error).__name__, error.code, str(error), error.details]}
        if call[:2] == ("queue", "take") and result["message"] is not None:
            self._taken = [result["message"]["id"], result["message"]["lease"]]
        # What is redacted is passed on under its name alone.
        self._results.append(None if call[:2] == ("frame", "get") else result)
        return {"result": result}

    def _event(self, run: rote.Run) -> Any:
        """Return an event that has called a tool."""
        event = run.event(role="r", interceptor="i", decision_type="d")
        with ExitStack() as stack:
            stack.enter_context(event)
            number = self._random.randint(0, 9)
            found = event.call("search", lambda **asked: asked, n=number, password=self._secret)
            self._results.append(found)
            return stack.pop_all()

    def _call(self, *, is_in_run: bool) -> tuple[str, str, Any]:
        pick = self._random.choice
        id, path = (
            pick(["urn:a:1", "urn:a:2", "record:x", "bad id"]),
            pick(["a.txt", "f/b.txt", "../c", "f"]),
        )
        step, key = pick(["start", "a", "a.b", "a.0", "token", "", "x..y"]), pick(["k", "l", ""])
        namespace = pick(["ops", "session", "workflow"])
        # What is redacted is passed on by itself, not inside of what is redacted again. And in a run the
        # frame is filled again by a replay, and has another size with other values.
        framed = self._object() if is_in_run or step == "token" else self._value()
        timed = {
            "namespace": "n",
            "key": key,
            "value": self._value(),
            "ttl_seconds": pick([None, 5]),
        }
        calls: list[tuple[str, str, Any]] = [
            ("frame", "set", [step, framed]),
            ("frame", "get", [step, framed]),
            ("frame", "delete", [step]),
            ("cache", "set", timed),
            ("cache", "get", ["n", key]),
            ("cache", "delete", ["n", key]),
            ("memory", "put", [namespace, "k", key, self._object()]),
            ("memory", "get", [namespace, "k", key]),
            ("memory", "append", [namespace, "log", "i", self._object()]),
            ("memory", "list", {"namespace": namespace, "include": ["payload"]}),
            ("memory", "update", {"namespace": namespace, "kind": "k", "id": "k", "payload": self._object()}),
            ("memory", "stats", []),
            ("store", "set", [id, self._value()]),
            ("store", "patch", [id, [{"op": "add", "path": "/password", "value": self._secret}]]),
            ("store", "get", [id, self._value()]),
            ("store", "read", [id]),
            ("store", "scan", [pick(["", "urn:"]), None, pick([1, 5, 0])]),
            ("store", "delete", [id]),
            ("fs", "write", [path, pick(["text", "тест"])]),
            ("fs", "append", [path, "more"]),
            ("fs", "read", [path, pick(["utf-8", "base64"])]),
            ("fs", "list", [pick(["", "f", "none"])]),
            ("fs", "exists", [path]),
            ("fs", "delete", [path]),
            ("queue", "put", ["q", self._object(), pick([None, None, "key"])]),
            ("queue", "take", ["q"]),
            ("queue", "ack", ["q", *self._taken]),
            ("queue", "nack", ["q", *self._taken]),
            ("queue", "peek", ["q", 3]),
            ("queue", "depth", ["q"]),
            ("agent", "send_task", [{
                "schema_version": "1.0", "task_id": pick(["t1", "t2"]), "requester_id": "a",
                "target_agent": "b", "task_type": "c", "input": {"payload": self._object()},
            }]),
            ("agent", "post_result", [{
                "schema_version": pick(["1.0", "2.0"]), "task_id": "t1", "agent_id": "b", "status": "done",
                "output": {"summary": "d", "token": self._secret},
            }]),
            ("agent", "read_result", ["t1"]),
            ("agent", "tasks", [None, pick(["open", "all"])]),
            ("cache", "never", []),
        ]  # fmt: skip
        if self._has_tables:
            calls += [
                ("sqlite", "query", ["SELECT * FROM users"]),
                ("sqlite", "query", ["SELECT password, password FROM users"]),
                ("sqlite", "query", ["SELECT * FROM hidden"]),
                ("sqlite", "execute", ["INSERT INTO users VALUES (:n, :password)",
                                       {"n": 1, "password": self._secret}]),
                ("sqlite", "execute", ["nonsense", {"password": self._secret}]),
            ]  # fmt: skip
        return pick(calls)

    def _value(self) -> Any:
        kinds = [1, 2.5, None, "text", [1, {"b": 2}], self._object(), self._object()]
        if self._results:
            kinds.append(self._random.choice(self._results))
        return self._random.choice(kinds)

    def _object(self) -> dict[str, Any]:
        secret = self._random.choice([self._secret, {"deep": [self._secret]}, None])
        return {"n": self._random.randint(0, 3), "password": secret, "inner": {"token": secret}}


def main(folder: str, first: str, last: str, *runs: str) -> None:
    told: dict[str, Any] = {}
    for seed in range(int(first), int(last)):
        host = rote.Host(PROFILE, redact=REDACTED)
        with host.replay(Path(folder) / f"{seed}.jsonl"):
            told[str(seed)] = Workflow(seed).run(host)
    if runs:
        told |= replay_runs(Path(folder), range(int(runs[0]), int(runs[1])), runs[2])
    (Path(folder) / "replayed.json").write_bytes(orjson.dumps(told))


def replay_runs(folder: Path, seeds: range, place: str) -> dict[str, Any]:
    told: dict[str, Any] = {}
    with rote.open(place, read_only=True, modes=MODES) as store:
        for seed in seeds:
            name = f"run-{seed}"
            space = store.space(name)
            host = rote.Host(PROFILE, store=store, space=name, redact=REDACTED)
            with host, space.run(**terms_of(seed), replay=folder / f"{name}.jsonl") as run:
                told[name] = Workflow(seed).run(host, run)
            told[f"{name} trace"] = run.trace
    return told


if __name__ == "__main__":
    main(*sys.argv[1:])
