"""An agent that is recorded in one process and replayed in others:
`python -m tests.faults.replay_children <record|replay> <store> <recording> <seconds later>`.

It prints what must be the same everywhere, as canonical JSON. What it goes through comes out of sets, so
that an order that is nobody's would show.
"""

import sys
from datetime import timedelta
from typing import Any

import rote
from rote.opening.sources import SystemClock
from tests.faults.children import NAME

MODEL = rote.ModelConfig("acme", "large-1", temperature=0, seed=7)
TOOLS = [
    rote.ToolProfile("search", "1"),
    rote.ToolProfile("mail", "2", side_effect_fingerprint_fields=("/to",)),
]
QUESTION = {"query": "vault keys", "budget": {"max_excerpt_tokens": 60, "max_items": 3}}


class LaterClock(SystemClock):
    def __init__(self, seconds: float) -> None:
        self._later = timedelta(seconds=seconds)

    def now(self) -> Any:
        return super().now() + self._later


def agent(run: rote.Run) -> list[str]:
    """Retrieves, asks its model and its tools, and writes what they say."""
    packages = [run.retrieve(QUESTION)["package_hash"]]
    with run.event(role="planner", interceptor="model", decision_type="plan") as event:
        plan: Any = event.model(
            lambda prompt: {"look for": sorted({"keys", prompt})}, prompt="vault"
        )
    for word in plan["look for"]:
        with run.event(role="worker", interceptor="tool", decision_type="tool_call") as event:
            hits = event.call("search", lambda query: {"hits": [query, id(object())]}, query=word)
            event.call("mail", lambda to: rote.Effects({"sent": True}, {"to": to}), to=word)
            packages.append(run.retrieve(QUESTION)["package_hash"])
        run.memory.put("ops", "note", word, {"text": word, "hits": hits["hits"]})
    run.set("urn:listed", [item["record_id"] for item in run.memory.list("ops")["items"]])
    run.output(
        {"type": "plan", "steps": [{"id": word, "action": "mail"} for word in plan["look for"]]}
    )
    return packages


def main(what: str, store: str, recording: str, seconds: str) -> None:
    clock = LaterClock(float(seconds))
    with rote.open(store, modes=("buffered_write",), clock=clock) as opened:
        space = opened.space(NAME)
        asked: dict[str, Any] = {what: recording}
        with space.run(
            workflow_id="w",
            model=MODEL,
            policy_set_id="p",
            mode="buffered_write",
            tools=TOOLS,
            **asked,
        ) as run:
            packages = agent(run)
        told = {
            "packages": packages,
            "payload_fingerprint": run.payload_fingerprint,
            "trace": run.trace,
            "retrieval_trace": run.retrieval_trace,
        }
        sys.stdout.buffer.write(rote.canonical(told, depth_max=128))


if __name__ == "__main__":
    main(*sys.argv[1:])
