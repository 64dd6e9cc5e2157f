"""Credentials that end, or cannot be got in time: what the caller hears of a write."""

import threading
import time
from collections.abc import Iterator

import pytest

import rote
from rote.errors import Denied, NotFound, RoteError, Unavailable
from rote.space import Space
from rote.testing.keys import did_of, seed_of
from tests.cutting import Between, Plan, between, once, silent, swallowed, unanswered
from tests.served import Served, served
from tests.unit.client.test_calls import break_next
from tests.wires import Wire

A = "urn:a"


@pytest.fixture
def server() -> Iterator[Served]:
    with served(auth=("token", "did")) as found:
        found.space.grant(did_of("ada"), "owner")
        found.space.grant(did_of("ben"), "write")
        yield found


@pytest.fixture
def line(server: Served) -> Iterator[Between]:
    with between(server.server.url) as found:
        yield found


def failed(space: Space) -> RoteError:
    with pytest.raises(RoteError) as caught:
        space.set(A, 1)
    return caught.value


def test_a_right_that_ends_after_a_lost_answer_leaves_the_write_unknown(
    server: Served, line: Between
) -> None:
    """The refusal of the second attempt was all that was said, as if nothing was written."""

    def loses_right(client: object, _: object) -> None:
        unanswered(client, line)  # type: ignore[arg-type]
        server.space.withdraw(did_of("ben"))

    with rote.open(line.url, key=seed_of("ben")) as store:
        space = store.space(server.space.name)
        assert space.get(A) is None
        break_next(line, space, loses_right)
        error = failed(space)
        assert isinstance(error, NotFound)
        assert error.details["outcome"] == "unknown"
        made = server.space.settle(error.details["attempt"])
        assert made is not None and made.facts[0].id == A
        assert "outcome" not in failed(space).details


@pytest.mark.parametrize(("plan", "outcome"), [(swallowed, "unknown"), (None, "not_sent")])
def test_a_write_says_what_became_of_it_when_no_grant_can_be_got(
    server: Served, line: Between, plan: Plan | None, outcome: str
) -> None:
    with rote.open(line.url, key=seed_of("ada"), timeout=1) as store:
        space = store.space(server.space.name)
        grants = store._port._calls.credentials  # type: ignore[attr-defined]
        with Wire(server.server.url, grants.bearer()) as wire:
            assert wire.ask("DELETE", "/v1/grants").status == 200
        if plan is None:
            grants.renew(grants.bearer())
            break_next(line, space, *[silent] * 9)
        else:
            break_next(line, space, plan, once, *[silent] * 9)
        error = failed(space)
        assert isinstance(error, Unavailable)
        assert (error.code, error.details["outcome"]) == ("timeout", outcome)
        assert error.details["attempt"]


def test_threads_wait_for_one_grant_no_longer_than_for_a_call(line: Between) -> None:
    """Each waited for its own time after those before it had waited for theirs."""
    line.plans.extend([silent] * 9)
    errors: list[Exception] = []
    with rote.open(line.url, key=seed_of("ada"), timeout=0.5) as store:

        def ask() -> None:
            try:
                store.space("notes")
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=ask) for _ in range(6)]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert time.monotonic() - begun < 2
    assert [getattr(error, "code", None) for error in errors] == ["timeout"] * 6


def test_a_token_that_never_was_good_is_no_unknown_outcome(line: Between, server: Served) -> None:
    with rote.open(line.url, token="rote_0123456789ab_" + "x" * 43) as store:
        with pytest.raises(Denied) as caught:
            store.space(server.space.name)
        assert "outcome" not in caught.value.details


def test_a_grant_is_asked_for_again_when_its_answer_is_lost(server: Served, line: Between) -> None:
    line.plans.extend([once, swallowed])
    with rote.open(line.url, key=seed_of("ada")) as store:
        assert store.space(server.space.name).did == server.space.did
    assert not line.plans
