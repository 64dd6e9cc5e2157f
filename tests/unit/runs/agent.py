"""An agent in a process of its own: `python -m tests.unit.runs.agent record|replay URL RECORDING DAYS`.

The answers of its model and its tools depend on everything that differs between two processes. Its
output at the end, except for the witness, is the same for a run and all its replays.
"""

import locale
import os
import sys
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import rote
from rote import ModelConfig, Run, ToolProfile
from rote.testing.clocks import START, FixedClock
from rote.values import canonical

NAME = "agent"
QUESTION = {"query": "vault keys", "budget": {"max_excerpt_tokens": 60, "max_items": 2}}
WORDS = {"Öl", "İstanbul", "ſtraße", "vault", "keys"}


class World:
    """The model and the tools, with a count of their calls."""

    def __init__(self) -> None:
        self.calls = 0

    def witness(self) -> list[str]:
        """Return values that identify this process."""
        zone = time.strftime("%z", time.localtime(START.timestamp()))
        return [str(hash("rote")), zone, str(os.getpid()), locale.setlocale(locale.LC_ALL)]

    def think(self, **seen: Any) -> dict[str, Any]:
        self.calls += 1
        return {"thought": self.witness(), "words": list(WORDS), "took": time.perf_counter()}

    def probe(self, words: list[str]) -> rote.Effects:
        self.calls += 1
        return rote.Effects({"of": [*words, *self.witness()]}, {"file": str(time.time_ns())})

    def fail(self) -> None:
        self.calls += 1
        raise ValueError(f"not today: {self.witness()}")


def work(run: Run, world: World) -> list[str]:
    """Do the work of the agent; return the hashes of what it retrieved."""
    package = run.retrieve(QUESTION)
    package_hashes = [package["package_hash"]]
    listed = run.memory.list("ops", include=["payload"])["items"]
    seen = {
        "excerpts": [item["excerpt"] for item in package["selection"]["selected"]],
        "listed": [item["record_id"] for item in listed],
        "ids": [state.id for state in run.scan()],
        "snapshot": run.memory_snapshot_id,
    }
    with run.event(role="planner", interceptor="before_tool", decision_type="think") as event:
        thought: Any = event.model(world.think, **seen)
        event.guardrail("budget")
    with run.event(role="planner", interceptor="before_tool", decision_type="tool_call") as event:
        probed: Any = event.call("probe", world.probe, words=thought["words"])
        try:
            event.call("fail", world.fail)
        except ValueError as error:
            failure = str(error)
        package_hashes.append(run.retrieve({**QUESTION, "query": probed["of"][0]})["package_hash"])
    for number, word in enumerate(probed["of"]):
        run.memory.append("ops", "log", "words", {"word": word, "number": number})
    run.set("urn:thought:ü", {"took": thought["took"], "failure": failure, **seen})
    run.memory.put("ops", "fact", "last", {"text": " ".join(probed["of"])})
    run.output({"type": "plan", "steps": [{"id": 1, "action": word} for word in thought["words"]]})
    return package_hashes


def main(verb: str, url: str, recording: str, days: str) -> None:
    with suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "")
    world, clock = World(), FixedClock(START + timedelta(days=int(days)))
    how: Any = {verb: recording}
    with rote.open(url, clock=clock, modes=["buffered_write"], create=False) as store:
        run = store.space(NAME).run(
            workflow_id="probing", model=ModelConfig("example", "clock", seed=1), policy_set_id="p",
            mode="buffered_write", **how, tools=[
                ToolProfile("probe", "1", side_effect_fingerprint_fields=["/file"]),
                ToolProfile("fail", "1"),
            ],
        )  # fmt: skip
        with run:
            package_hashes = work(run, world)
    told = {
        "trace": run.trace,
        "retrieval": run.retrieval_trace,
        "package_hashes": package_hashes,
        "payload_fingerprint": run.payload_fingerprint,
        "state": run.state,
        "calls": world.calls,
        "witness": world.witness(),
    }
    sys.stdout.buffer.write(canonical(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
