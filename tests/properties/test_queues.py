"""A queue that remembers where to begin gives what one gives that looks through everything."""

from random import Random
from typing import Any

import pytest

import rote
from rote.contract.commands import ListSides
from rote.errors import RoteError
from rote.space.sources import port_of, shared_now
from rote.testing.clocks import FixedClock
from rote.tiers.messages import KIND, tries_in
from tests.lanes import examples

Q = "q"
SEEDS = examples(15, 2_000)
STEPS = 40


class Played:
    """Hosts that go on for long, on two branches, and what they have taken."""

    def __init__(self, store: rote.Store, clock: FixedClock, random: Random) -> None:
        self.clock, self.random, self.taken = clock, random, 0
        self.space = store.space("default")
        self.spaces = [self.space]
        self.hosts = [self.host(self.space), self.host(self.space)]
        self.leases: list[tuple[rote.Host, str, str]] = []

    def host(self, space: rote.Space) -> rote.Host:
        options = {"lease_seconds": 5, "max_tries": self.random.choice([1, 2, 5])}
        return rote.Host("network-restricted", space=space, queue=options)

    def step(self) -> None:
        steps = [
            self.put, self.put, self.put, self.put_many, self.take, self.take, self.take,
            self.finish, self.finish, self.finish, self.wait, self.revive, self.erase, self.branch,
            self.merge,
        ]  # fmt: skip
        self.random.choice(steps)()
        if self.random.random() < 0.2:
            self.compare()

    def compare(self) -> None:
        for host in self.hosts:
            fresh = self.host(_space_of(host))
            for verb, args in (("depth", [Q]), ("peek", [Q, 100]), ("peek", [Q, 100, True])):
                assert host.call("queue", verb, args) == fresh.call("queue", verb, args)

    def put(self) -> None:
        self.random.choice(self.hosts).queue.put(Q, self.random.random())

    def put_many(self) -> None:
        value = {"payload": 1, "max_tries": 2, "put_at": ""}
        ids = [f"queue:{Q}/{self.random.randbytes(16).hex()}" for _ in range(3)]
        self.random.choice(self.spaces).transact(
            [{"op": "set", "id": id, "value": value, "stamp": ["/put_at"]} for id in ids]
        )

    def take(self) -> None:
        host = self.random.choice(self.hosts)
        wanted = self.first_ready(_space_of(host))
        message = host.queue.take(Q)["message"]
        assert (None if message is None else message["id"]) == wanted
        if message is not None:
            self.taken += 1
            self.leases.append((host, message["id"], message["lease"]))

    def first_ready(self, space: rote.Space) -> str | None:
        """Return the id of the oldest ready message, found without any memory."""
        port = port_of(space)
        rows = {row.key: row for row in port.answer(space.did, ListSides(KIND, "", 1_000)).rows}
        for item in self.host(space).queue.peek(Q, 1_000)["items"]:
            row = rows.get(f"{Q}/{item['id']}@{space.branch}")
            if row is None or tries_in(row).is_ready(shared_now(port)):
                return str(item["id"])
        return None

    def finish(self) -> None:
        if self.leases:
            host, id, lease = self.leases.pop(self.random.randrange(len(self.leases)))
            verb = self.random.choice(["ack", "ack", "nack", "extend"])
            try:
                host.call("queue", verb, [Q, id, lease])
            except RoteError as error:
                assert error.code == "lease_lost"

    def wait(self) -> None:
        self.clock.move(seconds=self.random.choice([0.5, 3, 10]))

    def revive(self) -> None:
        host = self.random.choice(self.hosts)
        for item in host.queue.peek(Q, 100, True)["items"][:2]:
            host.call("queue", self.random.choice(["revive", "revive", "drop"]), [Q, item["id"]])

    def erase(self) -> None:
        host = self.random.choice(self.hosts)
        for item in host.queue.peek(Q)["items"]:
            if self.random.random() < 0.3:
                self.space.erase(f"queue:{Q}/{item['id']}", reason="a test")

    def branch(self) -> None:
        if len(self.spaces) < 2 and self.space.version:
            self.spaces.append(self.space.create_branch("try"))
            self.hosts.append(self.host(self.spaces[-1]))

    def merge(self) -> None:
        if len(self.spaces) == 2:
            self.space.merge("try", on_conflict="theirs")


def _space_of(host: rote.Host) -> rote.Space:
    tier: Any = host._adapters["queue"]
    space: rote.Space = tier._space
    return space


def test_what_is_remembered_of_a_queue_changes_nothing() -> None:
    taken = branched = 0
    for seed in range(SEEDS):
        clock = FixedClock()
        with rote.open(":memory:", clock=clock) as store:
            played = Played(store, clock, Random(seed))
            for _ in range(STEPS):
                played.step()
            taken += played.taken
            branched += len(played.spaces) == 2
    assert taken > SEEDS
    assert branched > SEEDS / 4


@pytest.mark.slow
def test_a_memory_that_forgets_merges_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rote.Space, "branches", lambda _: [None])
    with pytest.raises(AssertionError):
        for seed in range(1_000):
            clock = FixedClock()
            with rote.open(":memory:", clock=clock) as store:
                played = Played(store, clock, Random(seed))
                for _ in range(STEPS):
                    played.step()
