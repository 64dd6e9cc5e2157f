"""The workers of the queue tests: `python -m tests.faults.queue_children <place> <seed> <hours>`.

A worker takes messages until none is left. Most it acknowledges; some it gives back, some it forgets, so
that their leases run out, and those that are poison it always gives back. It prints a line for each
acknowledgement that was answered. Its own clock goes wrong by some hours.
"""

import sys
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import rote
from tests.faults.children import say

NAME, QUEUE = "agent", "work"
MAX_TRIES = 8
LEASE_SECONDS = 0.4


class WrongClock:
    """The system's clock, and some hours."""

    def __init__(self, hours: int) -> None:
        self._hours = timedelta(hours=hours)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._hours


def open_place(place: str, hours: int = 0) -> rote.Store:
    clock = WrongClock(hours)
    if not place.startswith("postgresql://"):
        return rote.open(place, durability="os", clock=clock)
    url, schema, keys, _ = place.split(" ")
    return rote.open(url, schema=schema, keys=keys, durability="os", clock=clock)


def host_on(store: rote.Store) -> rote.Host:
    options = {"max_tries": MAX_TRIES, "lease_seconds": LEASE_SECONDS}
    return rote.Host("network-restricted", store=store, space=NAME, queue=options)


def is_poison(payload: Any) -> bool:
    return bool(payload["number"] % 50 == 49)


def main(place: str, seed: str, hours: str) -> None:
    random = Random(seed)
    with open_place(place, int(hours)) as store:
        queue = host_on(store).queue
        say("ready")
        while True:
            message = queue.take(QUEUE, None, 0.5)["message"]
            if message is None:
                depth = queue.depth(QUEUE)
                if depth["ready"] == depth["leased"] == 0:
                    break
                continue
            work(queue, message, random)
    say("done")


def work(queue: Any, message: Any, random: Random) -> None:
    chosen = random.random()
    name = (QUEUE, message["id"], message["lease"])
    try:
        if is_poison(message["payload"]) or chosen < 0.03:
            queue.nack(*name, random.choice([0, 0.01]))
        elif chosen < 0.05:
            say("forgot", message["id"])
        else:
            if chosen < 0.10:
                queue.extend(*name, 1)
            queue.ack(*name)
            say("acked", message["id"], message["payload"]["number"])
    except rote.errors.Denied as error:
        if error.code != "lease_lost":
            raise


if __name__ == "__main__":
    main(*sys.argv[1:])
