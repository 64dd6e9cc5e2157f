"""Two agents edit one plan live, and one of them goes offline in between.

Run it: python examples/shared_plan.py [URL], of a server with ROTE_TOKEN in the environment; without one
the plan lies in memory.
"""

import os
import sys
from typing import Any

import rote

PLAN: Any = {"select": {"urn:plan:*": {}}}
HALL, MUSIC, CAKE = "urn:plan:hall", "urn:plan:music", "urn:plan:cake"
SECONDS = 30


class Agent:
    """One agent, and its session."""

    def __init__(self, name: str, space: rote.Space) -> None:
        self.name = name
        self.session = space.session(watch=PLAN, timeout=SECONDS)

    def add(self, id: str, task: str) -> rote.Pending:
        print(f"{self.name} adds: {task}")
        return self.session.set(id, {"task": task, "done": False})

    def finish(self, id: str) -> rote.Pending | None:
        """Tick off a task, if it is still what this agent has read."""
        with self.session.transaction() as tx:
            task: Any = tx.get(id)
            tx.set(id, {**task, "done": True})
        print(f"{self.name} has done: {task['task']}")
        return tx.pending

    def see(self, id: str, task: str) -> None:
        """Wait until a task is shown so."""
        for _ in self.session.watch(PLAN, timeout=SECONDS):
            shown: Any = self.session.get(id)
            if shown is not None and shown["task"] == task:
                print(f"{self.name} sees: {task}")
                return
        raise SystemExit(f"{self.name} has not seen {task!r}")

    def plan(self) -> list[str]:
        states: list[Any] = [state.value for state in self.session.scan("urn:plan:")]
        return [f"[{'x' if task['done'] else ' '}] {task['task']}" for task in states]


def main(url: str = ":memory:") -> None:
    with rote.open(url, token=os.environ.get("ROTE_TOKEN")) as store:
        ada, bob = Agent("Ada", store.space("party")), Agent("Bob", store.space("party"))

        ada.add(HALL, "book the hall")
        bob.see(HALL, "book the hall")  # at once: both are online

        bob.session.pause()
        print("Bob is in a tunnel")
        bob.add(MUSIC, "find a band")
        rests_on_old = bob.finish(HALL)
        assert rests_on_old is not None
        ada.session.set(HALL, {"task": "book the garden", "done": False}).wait(SECONDS)
        print("Ada changes: book the garden")
        ada.add(CAKE, "order a cake").wait(SECONDS)
        print("Bob's plan: ", bob.plan())  # his own, without a network

        bob.session.resume()
        rejected = bob.session.flush(SECONDS)
        print("Bob is back; rejected:", [pending.operations[0]["id"] for pending in rejected])
        bob.see(HALL, "book the garden")  # what he had done is not what is planned now
        ada.see(MUSIC, "find a band")
        for agent in (ada, bob):
            agent.session.flush(SECONDS)
            agent.see(CAKE, "order a cake")
        print("Ada's plan: ", ada.plan())
        print("Bob's plan: ", bob.plan())
        for agent in (ada, bob):
            agent.session.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
