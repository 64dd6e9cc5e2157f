"""Journals: a session goes on after its client has crashed, and offline."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest

import rote
from rote.access.tokens import TokenRight
from rote.errors import (
    Busy,
    Conflict,
    Corrupt,
    DependencyRejected,
    InvalidInput,
    NotFound,
    SessionExpired,
    SessionRevoked,
    Unavailable,
)
from rote.opening.sources import SystemIds
from rote.sessions.session import Session
from rote.space import Space
from rote.testing.keys import did_of
from rote.testing.serving import serving
from tests.unit.sessions.conftest import SECONDS, WATCH

A, B, C = "urn:a", "urn:b", "urn:c"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.journal"


def crash(session: Session) -> None:
    """Leave a session as a killed process would: nothing is sent, and nothing is given back."""
    session.pause()
    session._exchange.close(forget=False)
    journal = session._replica.journal
    assert journal is not None
    journal.close()


def opened(space: Space, path: Path, watch: Any = WATCH) -> Session:
    return space.session(watch=watch, journal=path, timeout=SECONDS)


def test_what_was_not_decided_is_sent_after_a_crash(space: Space, path: Path) -> None:
    first = opened(space, path)
    first.set(A, 1)
    first.flush(SECONDS)
    first.pause()
    first.set(B, {"n": 1})
    with first.transaction() as tx:
        tx.set(C, tx.get(B))
    crash(first)
    assert space.get(B) is None
    with opened(space, path) as again:
        assert (again.get(A), again.get(B), again.get(C)) == (1, {"n": 1}, {"n": 1})
        assert again.flush(SECONDS) == []
        assert again.set("urn:d", 1).local == 4
    written = [commit.facts[0].id for commit in space.log()]
    assert written == [A, B, C, "urn:d"]


def test_a_session_goes_on_offline_with_what_it_holds(space: Space, path: Path) -> None:
    space.set(A, 1)
    first = opened(space, path)
    first.pause()
    first.set(B, 2)
    crash(first)
    again = Offline(space, path)
    assert (again.session.version, again.session.get(A), again.session.get(B)) == (1, 1, 2)
    assert [state.id for state in again.session.scan("urn:")] == [A, B]
    assert [pending.local for pending in again.session.pending] == [1]
    again.session.set(C, 3)
    crash(again.session)
    with opened(space, path) as last:
        assert last.flush(SECONDS) == []
        assert space.get(C) == 3


class Offline:
    """A session that is opened while the store cannot be reached."""

    def __init__(self, space: Space, path: Path) -> None:
        sessions: Any = space._home.sessions
        begun = getattr(sessions, "_sessions", sessions)
        linker, begun._linker = begun._linker, self
        try:
            self.session = opened(space, path)
            self.session.pause()
        finally:
            begun._linker = linker

    def connect(self, _: Any) -> Any:
        raise Unavailable("no network")


def test_what_was_rejected_stays_rejected(space: Space, path: Path) -> None:
    first = opened(space, path)
    first.pause()
    with first.transaction() as tx:
        tx.set(B, tx.get(A))
    with first.transaction() as tx:
        tx.set(C, tx.get(B))
    crash(first)
    space.set(A, "changed")
    with opened(space, path) as again:
        told = again.flush(SECONDS)
        assert [type(pending.error) for pending in told] == [Conflict, DependencyRejected]
    with opened(space, path) as last:
        assert last.pending == ()
        assert last.set(A, 1).local == 3


def test_a_commit_that_was_taken_back_is_not_sent_after_a_crash(space: Space, path: Path) -> None:
    first = opened(space, path)
    first.pause()
    assert first.set(A, 1).cancel()
    crash(first)
    with opened(space, path) as again:
        assert again.get(A) is None
        again.set(B, 1)
    assert [commit.facts[0].id for commit in space.log()] == [B]


def test_an_accepted_commit_shows_until_a_step_has_it(space: Space, path: Path) -> None:
    first = opened(space, path)
    made = first.set(A, 1)
    made.wait(SECONDS)
    crash(first)
    with opened(space, path) as again:
        assert again.get(A) == 1
        again.flush(SECONDS)
        assert again.read(A).version == 1
    assert space.version == 1


def test_other_watches_begin_from_nothing(space: Space, path: Path) -> None:
    space.set(A, 1)
    with opened(space, path):
        pass
    with opened(space, path, {"select": {A: {}}}) as again:
        for _ in again.watch({"select": {A: {}}}, timeout=SECONDS):
            if again.get(A) == 1:
                break
    with opened(space, path, None) as last:
        assert last.get(A) == 1


def space_url(stores: dict[str, Any], space: Space) -> str:
    return str(stores["here" if space._home.verbs is None else "served"].url)


def other_space(stores: dict[str, Any], space: Space) -> Space:
    """Return another space of the same store."""
    [store] = [each for each in stores.values() if each.url == space_url(stores, space)]
    other: Space = store.space(f"{space.name}-other")
    return other


def test_a_journal_of_another_session_is_refused(
    space: Space, path: Path, stores: dict[str, Any]
) -> None:
    with opened(space, path):
        pass
    with pytest.raises(InvalidInput, match="another space"):
        opened(other_space(stores, space), path)
    for elsewhere in (store for store in stores.values() if store.url != space_url(stores, space)):
        with pytest.raises(InvalidInput, match="another server"):
            opened(elsewhere.space(space.did), path)
    path.write_bytes(b"not a journal" * 100)
    with pytest.raises(InvalidInput, match="no journal"):
        opened(space, path)


def test_a_journal_that_somebody_holds_is_busy(space: Space, path: Path) -> None:
    with opened(space, path), pytest.raises(Busy):
        opened(space, path)
    with opened(space, path):
        pass


def test_a_refused_opening_leaves_the_lock_to_the_session(space: Space, path: Path) -> None:
    # A process that closes a file gives up all its locks on it, whoever has taken them.
    program = "import apsw, sys; apsw.Connection(sys.argv[1]).execute('BEGIN IMMEDIATE')"
    with opened(space, path):
        with pytest.raises(Busy):
            opened(space, path)
        ran = subprocess.run(
            [sys.executable, "-c", program, path], capture_output=True, timeout=60, check=False
        )
        assert b"BusyError" in ran.stderr


def test_the_file_of_somebody_else_is_refused_and_stays_as_it_is(space: Space, path: Path) -> None:
    database = apsw.Connection(str(path))
    database.execute("CREATE TABLE facts (name, value); INSERT INTO facts VALUES ('format', 'own')")
    database.close()
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="no journal"):
        opened(space, path)
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    for no_file in (path.parent, Path(os.devnull)):
        with pytest.raises(InvalidInput, match="is no file"):
            opened(space, no_file)


def test_a_journal_is_a_file_whatever_its_name(
    space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = opened(space, Path(":memory:"))
    first.pause()
    first.set(A, 1)
    crash(first)
    with opened(space, Path(":memory:")) as again:
        assert again.get(A) == 1


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM facts WHERE name = 'decided'",
        "UPDATE facts SET value = 1 WHERE name = 'decided'",
        "UPDATE facts SET value = CAST('[1]' AS BLOB) WHERE name = 'head'",
        "UPDATE facts SET value = CAST('7' AS BLOB) WHERE name = 'token'",
        "UPDATE facts SET name = CAST(x'ff41' AS TEXT) WHERE name = 'head'",
        "UPDATE commits SET body = CAST('{\"sent\":{}}' AS BLOB)",
        "UPDATE commits SET body = CAST(replace(body, 'branch', 'br_nch') AS BLOB)",
        "UPDATE commits SET body = CAST(replace(body, '\"op', '\"id') AS BLOB)",
        "UPDATE commits SET body = substr(body, 2)",
        "UPDATE commits SET version = 'x'",
        "UPDATE held SET body = CAST('[1]' AS BLOB)",
        "ALTER TABLE verdicts RENAME version TO versicn",
    ],
)
def test_a_damaged_journal_says_so(space: Space, path: Path, damage: str) -> None:
    first = opened(space, path)
    first.set(A, 1)
    first.flush(SECONDS)
    first.pause()
    first.set(B, 1)
    crash(first)
    database = apsw.Connection(str(path))
    database.execute(damage)
    database.close()
    with pytest.raises(Corrupt, match="damaged"):
        opened(space, path)


def test_only_its_owner_may_read_a_journal(space: Space, path: Path) -> None:
    with opened(space, path) as session:
        session.set(A, 1)
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_session_that_was_taken_over_does_not_go_on(space: Space, path: Path) -> None:
    first = opened(space, path)
    first.pause()
    first.set(A, 1)
    first._replica.end(SessionRevoked("taken over"))
    crash(first)
    with pytest.raises(SessionRevoked):
        opened(space, path)
    assert space.get(A) is None


def test_another_principal_leaves_the_session_to_its_own(path: Path) -> None:
    # The server tells others than its principal only that it does not know the session.
    with rote.open(":memory:") as here, serving(here, threads=2) as server:
        here.space("s").set(B, 1)
        own, other = [
            server.service.home.create_token(
                name, TokenRight("write"), now=0, expires=None, ids=SystemIds()
            )[0]
            for name in ("own", "other")
        ]
        with rote.open(server.url, token=own) as store:
            first = opened(store.space("s"), path)
            first.pause()
            first.set(A, 1)
            crash(first)
        with rote.open(server.url, token=other) as store:
            second = opened(store.space("s"), path)
            assert [event["type"] for event in second.events(SECONDS)][-1] == "ended"
            assert isinstance(second._replica.error, SessionExpired)
            second.close()
        with rote.open(server.url, token=own) as store, opened(store.space("s"), path) as again:
            assert again.flush(SECONDS) == []
        assert here.space("s").get(A) == 1


def test_a_session_that_is_gone_does_not_go_on(space: Space, path: Path) -> None:
    first = opened(space, path)
    first.set(A, 1)
    first.flush(SECONDS)
    first._replica.end(SessionExpired("it was closed"))
    crash(first)
    with pytest.raises(SessionExpired):
        opened(space, path)


def test_a_block_that_is_left_keeps_what_was_not_decided(space: Space, path: Path) -> None:
    with space.session(watch=WATCH, journal=path, timeout=0.1) as session:
        session.pause()
        session.set(A, 1)
    with opened(space, path) as again:
        again.flush(SECONDS)
    assert space.get(A) == 1


@pytest.mark.parametrize("is_large", [False, True])
def test_nothing_of_what_was_erased_stays_in_the_file(
    space: Space, path: Path, is_large: bool
) -> None:
    secret = "secret" * (5_000 if is_large else 1)
    space.set(A, secret)
    with opened(space, path) as session:
        assert session.get(A) == secret
        holding = [file for file in path.parent.iterdir() if b"secret" in file.read_bytes()]
        assert holding
        space.erase(A, reason="asked to")
        for _ in session.watch(WATCH, timeout=SECONDS):
            if session.get(A) is None:
                break
        assert [file for file in path.parent.iterdir() if b"secret" in file.read_bytes()] == []


def test_nothing_of_what_was_erased_meanwhile_stays_without_a_watch(
    space: Space, path: Path
) -> None:
    session = space.session(journal=path, timeout=SECONDS)
    session.set(A, "secret")
    session.flush(SECONDS)
    session.pause()
    assert [file for file in path.parent.iterdir() if b"secret" in file.read_bytes()]
    space.erase(A, reason="asked to")
    list(session.events(0))
    session.resume()
    assert next(session.events(SECONDS))["type"] == "online"
    assert session.version == space.version
    assert [file for file in path.parent.iterdir() if b"secret" in file.read_bytes()] == []
    session.close()


def test_nothing_of_a_commit_that_an_erasure_has_rejected_stays_in_the_file(
    space: Space, path: Path
) -> None:
    space.set(A, 1)
    with opened(space, path) as session:
        session.pause()
        pending = session.set(A, "secret" * 1_000)
        space.erase(A, reason="asked to")
        session.resume()
        assert session.flush(SECONDS) == [pending]
        for _ in session.watch(WATCH, timeout=SECONDS):
            if session.version == space.version:
                break
        assert [file for file in path.parent.iterdir() if b"secret" in file.read_bytes()] == []


def test_a_full_disk_makes_no_layer(
    space: Space, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(space, path) as session:
        session.set(A, 1)
        session.flush(SECONDS)
        database: Any = session._replica.journal._database  # type: ignore[union-attr]
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(Unavailable):
            session.set(B, "x" * 100_000)
        assert session.get(B) is None
        assert session.pending == ()
        database.execute("PRAGMA max_page_count = 100000")
        session.set(B, 2)
        assert session.flush(SECONDS) == []
    assert space.get(B) == 2


def test_a_journal_that_fails_ends_the_session_before_anything_is_lost(
    space: Space, path: Path
) -> None:
    session = opened(space, path)
    session.pause()
    pending = session.set(A, 1)
    database: Any = session._replica.journal._database  # type: ignore[union-attr]
    database.execute("PRAGMA query_only = ON")
    session.resume()
    with pytest.raises(Unavailable, match="journal"):
        pending.wait(SECONDS)
        session.flush(SECONDS)
    session.close()
    with opened(space, path) as again:
        assert again.flush(SECONDS) == []
        assert again.set(B, 1).local == 2
    assert [commit.facts[0].id for commit in space.log()] == [A, B]


def test_a_commit_that_is_kept_while_the_session_ends_is_unknown(space: Space, path: Path) -> None:
    # It raised, and was applied when the journal was opened again.
    session = opened(space, path)
    session.pause()
    replica, journal = session._replica, session._replica.journal
    assert journal is not None
    is_kept, is_held = threading.Event(), threading.Event()

    def end() -> None:
        assert is_kept.wait(SECONDS)
        with replica.changed:
            is_held.set()
            replica.end(None)
            journal.close()

    def await_end() -> bool:
        is_kept.set()
        return not is_held.wait(SECONDS)

    database: Any = journal._database
    database.set_commit_hook(await_end)
    ending = threading.Thread(target=end)
    ending.start()
    pending = session.set(A, 1)
    ending.join()
    assert (session.state, pending.status) == ("ended", "unknown")
    with pytest.raises(Unavailable, match="ended"):
        pending.wait(SECONDS)
    session.close()
    with opened(space, path) as again:
        assert again.flush(SECONDS) == []
    assert space.get(A) == 1


def test_a_journal_takes_every_value(space: Space, path: Path) -> None:
    values = [1.5, -0.0, 2**53 - 1, "é\u2028\U0001f600", [None, True, {}], {"": [[]]}]
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    first = opened(space, path)
    first.pause()
    first.transact(
        [{"op": "set", "id": A, "value": values}, {"op": "set", "id": B, "value": deep}],
        meta={"m": deep},
    )
    crash(first)
    with opened(space, path) as again:
        assert (again.get(A), again.get(B)) == (values, deep)
        again.flush(SECONDS)
    assert (space.get(A), space.get(B)) == (values, deep)


def test_a_session_goes_on_from_day_to_day(tmp_path: Path) -> None:
    for number in range(3):
        with (
            rote.open(tmp_path / "s.db") as store,
            store.space("s").session(journal=tmp_path / "j") as session,
        ):
            assert session.set(A, number).local == number + 1
    with rote.open(tmp_path / "s.db") as store:
        assert store.space("s").get(A) == 2


def test_however_its_path_is_written_a_store_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate((Path("s.db"), tmp_path / "s.db")):
        with rote.open(name) as store, store.space("s").session(journal="j") as session:
            assert session.set(A, number).local == number + 1


def test_a_process_that_starts_without_its_server_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with rote.open(":memory:") as here:
        with serving(here, threads=2) as server, rote.open(server.url, token=server.token) as store:
            space = store.space("s")
            with opened(space, path) as session:
                session.set(A, 1)
            with pytest.raises(NotFound):
                store.space(did_of("nobody"))
        with rote.open(server.url, token=server.token, timeout=0.3) as store:
            with pytest.raises(Unavailable):
                store.space("s")
            with pytest.raises(InvalidInput):
                store.space("did:key:no")
            again = store.space(space.did)
            session = opened(again, path)
            assert session.get(A) == 1 and session.set(B, 2).local == 2
            crash(session)
            with pytest.raises(Unavailable):
                again.get(A)


def test_a_journal_that_cannot_be_opened_is_named(space: Space, tmp_path: Path) -> None:
    path = tmp_path / "missing" / "session.journal"
    with pytest.raises(Unavailable, match="missing"):
        opened(space, path)
