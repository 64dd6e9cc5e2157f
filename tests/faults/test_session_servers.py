"""Servers that are killed under whole sessions: lines are mended, and each commit is made once."""

import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random

import rote
from rote.sessions.session import Session
from tests.faults.journal_children import COUNTER, NAME, WATCH
from tests.lanes import examples
from tests.server_processes import ServerProcess

KILLS = examples(2, 60)
CLIENTS = 3
BETWEEN = 40  # commits of each client between two kills
SECONDS = 60
PENDING_MAX = 200


def write(session: Session, client: int, first: int, failures: list[BaseException]) -> None:
    try:
        for number in range(first, first + BETWEEN):
            if len(session.pending) > PENDING_MAX:
                session.flush(SECONDS)
            if number % 3:
                session.set(f"urn:m:{client}.{number}", number)
            else:
                session.update(COUNTER, lambda value: (value or 0) + 1, attempts=1_000)
    except BaseException as failure:
        failures.append(failure)


def test_sessions_outlive_the_servers_that_are_killed_under_them(tmp_path: Path) -> None:
    random = Random(1)
    token_file = tmp_path / "token"
    options = ("--token-file", str(token_file), "--durability", "os")
    failures: list[BaseException] = []
    rejected: list[str] = []
    with ExitStack() as ending:
        server = ending.enter_context(ServerProcess(tmp_path / "m.db", *options))
        port = int(server.url.rpartition(":")[2])
        url, token = server.url, token_file.read_text().strip()
        stores = [ending.enter_context(rote.open(url, token=token)) for _ in range(CLIENTS)]
        sessions = [store.space(NAME).session(watch=WATCH, timeout=SECONDS) for store in stores]
        for kill in range(KILLS):
            writers = [
                threading.Thread(target=write, args=[session, client, kill * BETWEEN, failures])
                for client, session in enumerate(sessions)
            ]
            for writer in writers:
                writer.start()
            wait_for(sessions[0], random.randint(1, BETWEEN // 2))
            server.kill()
            server = ending.enter_context(ServerProcess(tmp_path / "m.db", *options, port=port))
            for writer in writers:
                writer.join()
        for session in sessions:
            rejected += [pending.branch for pending in session.flush(SECONDS)]
        assert not failures
        assert not rejected
        judge(sessions, stores[0].space(NAME))
        for session in sessions:
            session.close()


def wait_for(session: Session, commits: int) -> None:
    """Wait until so many more commits were told."""
    for event in session.events(SECONDS):
        commits -= event["type"] == "committed"
        if commits == 0:
            return
    raise AssertionError("nothing is committed any more")


def judge(sessions: list[Session], space: rote.Space) -> None:
    log = list(space.log())
    made = Counter(fact.id for commit in log for fact in commit.facts if fact.id != COUNTER)
    wanted = {
        f"urn:m:{client}.{number}"
        for client in range(CLIENTS)
        for number in range(KILLS * BETWEEN)
        if number % 3
    }
    assert made == dict.fromkeys(wanted, 1)
    assert space.get(COUNTER) == CLIENTS * sum(number % 3 == 0 for number in range(KILLS * BETWEEN))
    for session in sessions:
        for _ in session.watch(WATCH, timeout=SECONDS):
            if session.version == space.version:
                break
        assert session.query(WATCH)["facts"] == space.query(WATCH)["facts"]
