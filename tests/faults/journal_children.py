"""The client of the kill tests of journals: `python -m tests.faults.journal_children <url> <token> <journal>
<seed>`.

It writes by a session, goes offline and comes back, until it is killed. A line `kept <name>` says that a
commit's call has returned, `told <name> <version>` that its commit was told.
"""

import sys
from random import Random
from typing import Any

import rote
from rote.sessions.session import Session
from tests.faults.children import say

NAME = "s"
COUNTER = "urn:counter"
PENDING_MAX = 300
WATCH: Any = {"select": {"urn:*": {}}}


def open_place(url: str, token: str) -> rote.Store:
    return rote.open(url, token=token) if token else rote.open(url)


def main(url: str, token: str, journal: str, seed: str) -> None:
    random = Random(seed)
    with open_place(url, token) as store:
        session = store.space(NAME).session(watch=WATCH, journal=journal, timeout=30)
        for number in range(1_000_000):
            while len(session.pending) > PENDING_MAX:
                session.resume()
                session.flush(60)
            write(session, f"{seed}.{number}", random)
            act = random.random()
            if act < 0.1:
                session.pause()
            elif act < 0.3:
                session.resume()
            elif act < 0.4 and session.state == "online":
                tell(session)


def write(session: Session, name: str, random: Random) -> None:
    mark = {"op": "set", "id": f"urn:m:{name}", "value": name}
    if random.random() < 0.7:
        session.transact([mark], meta=name)
    else:
        with session.transaction(meta=f"count {name}") as tx:
            tx.set(COUNTER, (tx.get(COUNTER) or 0) + 1)
            tx.set(f"urn:m:{name}", name)
    say(f"kept {name}")


def tell(session: Session) -> None:
    pending = session.set("urn:told", 1)
    commit = pending.wait(60)
    say(f"told {commit.version} {commit.hash}")


if __name__ == "__main__":
    main(*sys.argv[1:])
