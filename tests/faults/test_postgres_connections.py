"""A connection that is cut at every message of a commit; the message is lost or arrives.

Every answer is true. An acknowledged commit is there, whole and once. A failed one is not there and
does not appear later. An answer is "unknown" only when no server could be asked. The same store
goes on by itself, and a repeated key writes nothing twice.
"""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import psycopg
import pytest

import rote
from rote.contract.commands import GetSide, PutSide
from rote.engines.postgres import PostgresEngine, engine
from rote.errors import RoteError, Unavailable
from rote.kernel.committing import committer
from rote.testing.faults import Cut, Proxy
from rote.testing.postgres import schema_of, server_url
from tests.faults.postgres_rig import (
    LEFT,
    NAME,
    RIGHT,
    Operations,
    check_chain,
    facts_of,
    facts_sent,
    fresh,
    open_postgres,
    pair,
    proxied,
    single,
    through,
    upstream_of,
)
from tests.lanes import SLOW, examples

WARM = "urn:entity:warm"
LIMIT_SECONDS = 60  # only a hang reaches it
TRIES_MAX = 10

Make = Callable[[int], Operations]


class Campaign:
    """Commits whose connection is cut, and the outcome of each."""

    def __init__(
        self, proxy: Proxy, space: rote.Space, direct: rote.Space, *, make: Make, keyed: bool
    ) -> None:
        self._proxy = proxy
        self._space = space
        self._direct = direct  # the same space, through connections that are never cut
        self._make = make
        self._keyed = keyed
        self._number = 0
        self._commit(self._next())
        for id in (LEFT, RIGHT, WARM):
            space.get(id)  # cached from here on, so that commits take equally many messages
        self.outcomes: Counter[str] = Counter()

    def cut_at_every_message(self, *, delivered: bool) -> int:
        """Cut at each message until a commit passes whole; return the number of messages it took."""
        message = 1
        while self.cut(Cut(message, delivered=delivered)):
            message += 1
        return message - 1

    def cut(self, cut: Cut) -> bool:
        """Make one commit that is cut, and check everything that must hold then; return False when
        it was not cut."""
        self._warm()
        number, before = self._next(), self._direct.version
        self._proxy.plan(cut)
        answer = self._commit(number)
        was_cut = self._proxy.has_cut()
        self._proxy.plan(None)
        if not was_cut:
            return False
        made = self._made_since(before, number)
        self._compare(answer, made)
        if self._keyed:
            repeated = self._space.transact(self._make(number), key=f"key-{number}")
            found = self._made_since(before, number)
            assert [commit.hash for commit in found] == [repeated.hash], "twice"
            assert not made or made[0].hash == repeated.hash, "twice"
        return True

    def _warm(self) -> None:
        """Use the same store once, so that it has a connection for the next commit.

        A new key lets the store presume again that keys are new, so that all commits take the same
        number of messages.
        """
        number = self._next()
        self._space.set(WARM, number, key=f"warm-{number}" if self._keyed else None)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _commit(self, number: int) -> rote.Commit | Unavailable:
        try:
            key = f"key-{number}" if self._keyed else None
            return self._space.transact(self._make(number), key=key)
        except Unavailable as error:
            assert "\n" not in str(error)
            return error

    def _made_since(self, version: int, number: int) -> list[rote.Commit]:
        """Return the commits of this number; check that there are no others and none in part."""
        made = list(self._direct.log(since=version))
        for commit in made:
            assert facts_of(commit) == facts_sent(self._make(number)), "in part"
        return made

    def _compare(self, answer: rote.Commit | Unavailable, made: list[rote.Commit]) -> None:
        if isinstance(answer, Unavailable):
            assert answer.details.get("outcome") != "unknown", "the server could be asked"
            assert not made, "an error, and yet written"
            self.outcomes["not written"] += 1
        else:
            assert [commit.hash for commit in made] == [answer.hash], "lost"
            self.outcomes["written"] += 1

    def finish(self) -> None:
        """Check that no failed write has appeared later, and that the chain is whole."""
        check_chain(self._space)
        numbers = [
            commit.facts[0].body["number"]
            for commit in self._direct.log()
            if commit.facts[0].id.startswith(LEFT)
        ]
        assert len(numbers) == len(set(numbers)), "twice"


def run(
    place: Path,
    *,
    make: Make,
    keyed: bool,
    engine: type[PostgresEngine] = PostgresEngine,
) -> Counter[str]:
    """Cut at every message, in both ways."""
    with proxied(place, engine=engine) as (proxy, space, direct):
        campaign = Campaign(proxy, space, direct, make=make, keyed=keyed)
        for _ in range(examples(1, 10)):
            lost = campaign.cut_at_every_message(delivered=False)
            arrived = campaign.cut_at_every_message(delivered=True)
            assert lost == arrived
        campaign.finish()
        campaign.outcomes["messages"] = lost
        return campaign.outcomes


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commits take the lock at once, as they do after others were faster twice."""
    monkeypatch.setattr(committer, "OPTIMISTIC_ATTEMPTS_MAX", 0)


def check_outcomes(outcomes: Counter[str], *, at_least: int) -> None:
    """Check that both outcomes occurred; otherwise nothing was shown."""
    assert outcomes["messages"] >= at_least, outcomes
    assert outcomes["written"] > 0, outcomes
    assert outcomes["not written"] > 0, outcomes


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("make", [single, pair, fresh])
def test_a_commit_of_one_statement_is_answered_rightly_wherever_its_connection_ends(
    tmp_path: Path, make: Make, keyed: bool
) -> None:
    # Five messages to the server (parse, bind, describe, execute, sync), six back.
    check_outcomes(run(tmp_path, make=make, keyed=keyed), at_least=11)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.usefixtures("locked")
def test_a_commit_under_the_lock_is_answered_rightly_wherever_its_connection_ends(
    tmp_path: Path, keyed: bool
) -> None:
    # The lock, the writes and the commit are one exchange each.
    check_outcomes(run(tmp_path, make=pair, keyed=keyed), at_least=20)


@pytest.mark.parametrize("delivered", [False, True])
def test_a_side_row_is_written_or_not_and_never_otherwise_than_was_answered(
    tmp_path: Path, delivered: bool
) -> None:
    url = server_url()
    with (
        Proxy(upstream_of(url)) as proxy,
        open_postgres(tmp_path, url=through(proxy, url)) as store,
    ):
        port, did, fence = store._port, store.space(NAME).did, 0
        message, unknown = 0, 0
        while message == 0 or proxy.has_cut():
            message += 1
            proxy.plan(Cut(message, delivered=delivered))
            try:
                written: bool | None = bool(
                    port.answer(did, PutSide("run", "r", message, fence=fence))
                )
            except Unavailable as error:
                written = None if error.details.get("outcome") == "unknown" else False
            if written is None:
                # Side rows carry no attempt to ask for; the fence tells the caller the outcome. A
                # statement that still runs holds the space, so a later write comes after it.
                port.answer(did, PutSide("run", "behind", 0, fence=unknown))
                unknown += 1
            row = port.answer(did, GetSide("run", "r"))
            found = 0 if row is None else row.fence
            assert found - fence in ((0, 1) if written is None else (int(written),))
            fence = found
        assert message > 20
        assert unknown > 0


# -- the checks have teeth -------------------------------------------------------------------------


class TakesSilenceForNo(PostgresEngine):
    """Takes the end of a connection for proof that nothing was written."""

    def settle(self, space: int, version: int, attempt: bytes) -> bool:
        super().settle(space, version, attempt)
        return False


class TakesSilenceForYes(PostgresEngine):
    """Takes a sent statement for an executed one."""

    def settle(self, space: int, version: int, attempt: bytes) -> bool:
        return True


@pytest.mark.parametrize("engine", [TakesSilenceForNo, TakesSilenceForYes])
@pytest.mark.parametrize("keyed", [False, True])
def test_a_planted_guess_is_found(
    tmp_path: Path, engine: type[PostgresEngine], keyed: bool
) -> None:
    with pytest.raises((AssertionError, RoteError)):
        run(tmp_path, make=pair, keyed=keyed, engine=engine)


# -- a statement that is still under way -----------------------------------------------------------


def test_a_statement_that_outlives_its_connection_is_waited_for_before_anyone_is_answered(
    tmp_path: Path,
) -> None:
    """The server finishes the statement that it has: here it waits for a lock while the client asks."""
    with (
        proxied(tmp_path) as (proxy, space, direct),
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(server_url(), autocommit=True) as onlooker,
    ):
        space.transact(pair(0))
        assert space.get(LEFT) == space.get(RIGHT)
        proxy.plan(None)
        before = space.transact(pair(1)).version
        last = proxy.count() - 6
        with psycopg.connect(server_url()) as holder:
            holder.execute(f"select from {schema_of(tmp_path)}.spaces for update".encode())
            proxy.plan(Cut(last, delivered=True))
            answer = pool.submit(space.transact, pair(2))
            # The statement of the commit, and behind it the one that settles its outcome.
            while not wait([answer], timeout=0.01).done and waiting(onlooker, tmp_path) < 2:
                pass
            holder.rollback()
        try:
            expected = [answer.result(LIMIT_SECONDS).hash]
        except Unavailable as error:
            # On a busy machine the question may come before the statement, which is void then.
            assert error.details["outcome"] == "not_written"
            expected = []
        assert [commit.hash for commit in direct.log(since=before)] == expected
        check_chain(space)


def waiting(onlooker: psycopg.Connection[tuple[int]], place: Path) -> int:
    """Return the number of statements on the store of a place that wait for a lock."""
    rows = onlooker.execute(
        "select count(*) from pg_stat_activity"
        " where wait_event_type = 'Lock' and position(%s in query) > 0",
        (schema_of(place),),
    ).fetchall()
    return rows[0][0]


# -- when nobody can be asked ----------------------------------------------------------------------


@pytest.mark.parametrize("delivered", [False, True])
def test_nobody_knows_is_said_only_when_the_server_stays_away_and_the_key_settles_it(
    tmp_path: Path, delivered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not SLOW:
        monkeypatch.setattr(engine, "POSTGRES_SETTLE_SECONDS_MAX", 1)
    with proxied(tmp_path) as (proxy, space, direct):
        space.transact(pair(0))
        before = direct.version
        assert space.get(LEFT) == space.get(RIGHT)
        error, number = None, 0
        while error is None:
            # Tried again when a commit took fewer messages than the one before it, which had made a
            # new connection; then it was not cut.
            number += 1
            proxy.plan(None)
            space.transact(pair(number), key=f"whole {number}")
            # After the client's last message the server sends six.
            proxy.plan(Cut(proxy.count() - 6, delivered=delivered, refusing=True))
            try:
                space.transact(pair(-number), key=f"cut {number}")
            except Unavailable as caught:
                error = caught
            assert number < TRIES_MAX
        assert error.details["outcome"] == "unknown"
        assert "same key" in str(error)
        with pytest.raises(Unavailable, match="no server answers"):
            space.get(LEFT)
        made = [commit for commit in direct.log(since=before) if commit.key == f"cut {number}"]
        assert len(made) == int(delivered)
        proxy.plan(None)
        settled = space.transact(pair(-number), key=f"cut {number}")
        assert [c.hash for c in direct.log(since=before) if c.key == f"cut {number}"] == [
            settled.hash
        ]
        assert not made or made[0].hash == settled.hash
        check_chain(space)


# -- several threads -------------------------------------------------------------------------------


def test_threads_that_commit_together_are_each_answered_rightly(tmp_path: Path) -> None:
    threads = 6
    with proxied(tmp_path) as (proxy, space, direct), ThreadPoolExecutor(threads) as pool:
        answers: dict[str, rote.Commit | None] = {}
        meeting = threading.Barrier(threads)

        def commit(number: int) -> None:
            meeting.wait(LIMIT_SECONDS)
            try:
                answers[f"key-{number}"] = space.transact(pair(number), key=f"key-{number}")
            except Unavailable as error:
                assert error.details.get("outcome") != "unknown"
                answers[f"key-{number}"] = None

        for round_number in range(examples(24, 400)):
            space.set(WARM, round_number)
            proxy.plan(Cut(1 + 11 * round_number % 97, delivered=round_number % 2 == 0))
            first = round_number * threads
            list(pool.map(commit, range(first, first + threads)))
            proxy.plan(None)
        made = [commit for commit in direct.log() if commit.key is not None]
        assert len({commit.key for commit in made}) == len(made), "twice"
        expected = {key: commit.hash for key, commit in answers.items() if commit is not None}
        assert {commit.key: commit.hash for commit in made} == expected
        assert 0 < len(expected) < len(answers)
        for found in made:
            assert found.facts[0].body == found.facts[1].body, "in part"
        check_chain(space)


# -- opening ---------------------------------------------------------------------------------------


def test_a_store_whose_making_was_cut_anywhere_is_made_by_the_next_who_opens_it(
    tmp_path: Path,
) -> None:
    url = server_url()
    with Proxy(upstream_of(url)) as proxy:

        def make(place: Path) -> None:
            with open_postgres(place, url=through(proxy, url)) as store:
                store.space(NAME)

        proxy.plan(None)
        make(tmp_path / "whole")
        messages = proxy.count()
        for message in range(1, messages, examples(9, 1)):
            for delivered in (False, True):
                place = tmp_path / f"{message}-{delivered}"
                proxy.plan(Cut(message, delivered=delivered))
                with contextlib.suppress(Unavailable):
                    make(place)
                assert proxy.has_cut()
                with open_postgres(place) as store:
                    space = store.space(NAME)
                    space.transact(pair(1))
                    assert space.verify(against=space.checkpoint()).ok
                    assert len(store.spaces()) == 1
