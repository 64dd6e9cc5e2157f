"""Random workflows over the tiers of a host, told by a seed; and the process that replays them.

`python -m tests.properties.tier_workflows <folder> <first> <last>` replays the recordings in a folder, in the
working folder, with a host that has nothing configured, and writes the outcomes to `<folder>/replayed.json`.
"""

import sys
from pathlib import Path
from random import Random
from typing import Any

import orjson

import rote
from rote.errors import RoteError

PROFILE = "operator-controlled"
REDACTED = ("password", "token")


def secret_of(seed: int) -> str:
    return f"s3cret-{seed:08x}"


def has_tables(seed: int) -> bool:
    """Return whether a workflow uses tables: a process is started for those."""
    return seed % 20 == 0


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

    def run(self, host: rote.Host) -> list[Any]:
        """Return the outcome of each call."""
        outcomes = []
        with host.scope(frame={"start": 1}, grant=self._grant) as flow:
            for _ in range(self._random.randint(3, 25)):
                call = self._call()
                try:
                    result = flow.call(*call)
                    if call[:2] == ("queue", "take") and result["message"] is not None:
                        self._taken = [result["message"]["id"], result["message"]["lease"]]
                    # What is redacted is passed on under its name alone.
                    self._results.append(None if call[:2] == ("frame", "get") else result)
                    outcomes.append({"result": result})
                except RoteError as error:
                    outcomes.append(
                        {"error": [type(error).__name__, error.code, str(error), error.details]}
                    )
        return outcomes

    def _call(self) -> tuple[str, str, Any]:
        pick = self._random.choice
        id, path = (
            pick(["urn:a:1", "urn:a:2", "record:x", "bad id"]),
            pick(["a.txt", "f/b.txt", "../c", "f"]),
        )
        step, key = pick(["start", "a", "a.b", "a.0", "token", "", "x..y"]), pick(["k", "l", ""])
        namespace = pick(["ops", "session", "workflow"])
        timed = {
            "namespace": "n",
            "key": key,
            "value": self._value(),
            "ttl_seconds": pick([None, 5]),
        }
        calls: list[tuple[str, str, Any]] = [
            ("frame", "set", [step, self._value()]),
            ("frame", "get", [step, self._value()]),
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


def main(folder: str, first: str, last: str) -> None:
    told = {}
    for seed in range(int(first), int(last)):
        host = rote.Host(PROFILE, redact=REDACTED)
        with host.replay(Path(folder) / f"{seed}.jsonl"):
            told[str(seed)] = Workflow(seed).run(host)
    (Path(folder) / "replayed.json").write_bytes(orjson.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
