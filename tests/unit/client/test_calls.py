"""Calls over lines that break: what is sent again, what is not, and what the caller hears."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rote
from rote.client import replies
from rote.contract.commands import PutSide, ReadPage
from rote.errors import Busy, Conflict, Denied, InvalidInput, NotFound, RoteError, Unavailable
from rote.opening.sources import SystemClock
from rote.space import Space, Store
from rote.space.sources import port_of
from rote.testing.intercepting import intercept
from rote.testing.keys import did_of, lend, seed_of
from rote.values import micros_of
from tests.cutting import (
    Between,
    Plan,
    answers,
    between,
    cut_at,
    once,
    refused,
    silent,
    swallowed,
    unanswered,
)
from tests.served import Served, served
from tests.wires import Wire

A = "urn:a"
BUSY = b'{"error":{"code":"busy","message":"others write","details":{}}}'
STOPPING = b'{"error":{"code":"stopping","message":"it stops","details":{}}}'


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as found:
        yield found


@pytest.fixture(params=["httptools", "http.client"])
def line(
    server: Served, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Between]:
    """The line to the server, whose answers either parser reads."""
    if request.param == "http.client":
        monkeypatch.setattr(replies, "httptools", None)
    server.new_space()
    with between(server.server.url) as found:
        yield found


def opened(server: Served, line: Between, **options: Any) -> Store:
    return rote.open(line.url, token=server.server.token, **{"timeout": 10, **options})


@pytest.fixture
def space(server: Served, line: Between) -> Iterator[Space]:
    """The space behind the line; its first request is made, so that a plan is for the next one."""
    with opened(server, line) as store:
        yield store.space(server.space.name)


def break_next(line: Between, space: Space, *plans: Plan) -> None:
    """Have the next connections follow plans; the idle one is closed by the server's side."""
    pool = space._port._calls.pool  # type: ignore[attr-defined]
    while pool._idle:
        pool._idle.pop().close()
        assert line.hung_up.acquire(timeout=10)
    line.plans.clear()
    line.plans.extend(plans)
    line.requests.clear()


@pytest.mark.parametrize("plan", [refused, swallowed, unanswered, cut_at(20), cut_at(200)])
def test_a_read_on_a_broken_line_is_sent_again(
    server: Served, line: Between, space: Space, plan: Plan
) -> None:
    server.space.set(A, {"text": "x" * 500})
    break_next(line, space, plan)
    assert space.get(A) == {"text": "x" * 500}


@pytest.mark.parametrize("plan", [refused, swallowed, unanswered, cut_at(20), cut_at(200)])
def test_a_write_on_a_broken_line_is_made_once(
    server: Served, line: Between, space: Space, plan: Plan
) -> None:
    break_next(line, space, plan, plan)
    commit = space.set(A, 1)
    assert server.space.version == 1
    assert (commit.version, commit.hash) == (1, server.space.head)
    attempts = {request.partition(b'"attempt":"')[2][:32] for request in line.requests}
    assert len(attempts) == 1


def test_every_cut_of_an_answer_leaves_one_commit(
    server: Served, line: Between, space: Space
) -> None:
    for number, size in enumerate(range(0, 400, 57), start=1):
        break_next(line, space, cut_at(size))
        assert space.set(A, number).version == number
    assert server.space.version == number


def test_a_blob_on_a_broken_line_is_put_once(server: Served, line: Between, space: Space) -> None:
    data = bytes(range(256)) * 1_000
    break_next(line, space, unanswered, swallowed)
    hash = space.put_blob(data, labels=["é"])
    assert (server.space.version, server.space.blob(hash)) == (1, data)
    break_next(line, space, cut_at(100_000))
    assert space.blob(hash) == data


def test_a_row_that_may_have_moved_is_not_moved_again(
    server: Served, line: Between, space: Space
) -> None:
    """The second of two who write under one fence is Denied, so a repetition would lie."""
    break_next(line, space, unanswered)
    with pytest.raises(Unavailable) as caught:
        port_of(space).answer(space.did, PutSide("note", "k", 1, 0))
    assert caught.value.details["outcome"] == "unknown"
    break_next(line, space, answers(503, STOPPING, "retry-after: 0"))
    assert port_of(space).answer(space.did, PutSide("note", "k", 2, 1)).fence == 2


def test_calls_of_one_thread_share_a_connection(line: Between, space: Space) -> None:
    before = line.connections
    for number in range(5):
        space.set(A, number)
        assert space.get(A) == number
        with pytest.raises(NotFound):
            space.at(99)
    assert line.connections == before


def test_a_connection_that_was_closed_while_idle_is_not_used(
    server: Served, line: Between, space: Space
) -> None:
    break_next(line, space, once, once, once)
    for fence in range(3):
        port_of(space).answer(space.did, PutSide("note", "idle", fence, fence))
        assert line.hung_up.acquire(timeout=10)


def test_a_write_without_an_answer_can_be_settled(server: Served, line: Between) -> None:
    with opened(server, line, timeout=0.5) as store:
        space = store.space(server.space.name)
        break_next(line, space, unanswered, *[swallowed] * 20)
        with pytest.raises(Unavailable) as caught:
            space.set(A, 1)
        details = caught.value.details
        assert details["outcome"] == "unknown"
        line.plans.clear()
        assert space.settle(details["attempt"]) == server.space.commit(1)


def test_a_write_that_was_not_sent_says_so(server: Served) -> None:
    with rote.open("http://127.0.0.1:1", token="rote_x", timeout=0.3) as store:
        with pytest.raises(Unavailable) as caught:
            store.space("notes")
        assert caught.value.details["outcome"] == "not_sent"
        assert "attempt" not in caught.value.details


def test_a_server_that_asks_for_patience_gets_it(
    server: Served, line: Between, space: Space
) -> None:
    server.space.set(A, 1)
    for status in (429, 502, 503, 504):
        for body in (BUSY, b"<html>"):
            break_next(line, space, answers(status, body))
            assert space.get(A) == 1
    break_next(line, space, answers(503, STOPPING, "retry-after: 1"))
    begun = time.monotonic()
    assert space.get(A) == 1
    assert time.monotonic() - begun >= 1


def test_patience_ends_with_the_time_of_the_call(server: Served, line: Between) -> None:
    with opened(server, line, timeout=0.5) as store:
        space = store.space(server.space.name)
        break_next(line, space, answers(503, BUSY, "retry-after: 3"))
        begun = time.monotonic()
        with pytest.raises(Busy):
            space.get(A)
        assert time.monotonic() - begun < 0.5
        break_next(line, space, silent)
        with pytest.raises(Unavailable) as caught:
            space.get(A)
        assert caught.value.code == "timeout"
        assert 0.4 < time.monotonic() - begun < 5


def test_closing_ends_calls_that_wait(server: Served, line: Between) -> None:
    store = opened(server, line, timeout=60)
    space = store.space(server.space.name)
    break_next(line, space, silent)
    errors: list[Exception] = []

    def get() -> None:
        try:
            space.get(A)
        except Exception as error:
            errors.append(error)

    waiting = threading.Thread(target=get)
    waiting.start()
    while not line.requests:
        pass
    store.close()
    waiting.join(10)
    assert [type(error) for error in errors] == [Unavailable]
    with pytest.raises(Unavailable):
        space.get(A)


def test_errors_of_the_server_are_those_of_the_store(server: Served, space: Space) -> None:
    server.space.set(A, 1)
    asks: list[tuple[Callable[[Space], object], type[RoteError]]] = [
        (lambda each: each.delete("urn:b"), NotFound),
        (lambda each: each.set("no id", 1), InvalidInput),
        (lambda each: each.set(A, float("nan")), InvalidInput),
        (lambda each: each.set(A, {"x": [1, {"y": object()}]}), InvalidInput),
        (
            lambda each: each.transact(
                [{"op": "delete", "id": A}], reads=[{"id": A, "version": 0}]
            ),
            Conflict,
        ),
        (lambda each: each.patch(A, [{"op": "remove", "path": "/x"}]), InvalidInput),
        (lambda each: each.at(99), NotFound),
    ]
    for ask, kind in asks:
        told = []
        for each in (server.space, space):
            with pytest.raises(kind) as caught:
                ask(each)
            told.append((type(caught.value), caught.value.to_dict()))
        assert told[0] == told[1]


def test_what_cannot_be_sent_is_refused_before(server: Served, line: Between, space: Space) -> None:
    line.requests.clear()
    for value in (float("nan"), "\ud800", {1: 2}, b"bytes", 2**70):
        with pytest.raises(InvalidInput):
            space.set(A, value)
    assert line.requests == []


def test_what_is_no_server_of_rote_is_told(server: Served, line: Between, space: Space) -> None:
    break_next(line, space, answers(404, b"<html>"))
    with pytest.raises(Unavailable, match="not as a server of Rote"):
        space.get(A)
    break_next(line, space, answers(200, b"{}"))
    with pytest.raises(Unavailable):
        space.get(A)


def test_a_store_is_of_its_process(server: Served, space: Space) -> None:
    child = os.fork()
    if child == 0:
        try:
            space.get(A)
        except Unavailable as error:
            os._exit(0 if "fork" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert space.get(A) is None


def test_an_unchanged_value_is_not_sent_again(server: Served, line: Between, space: Space) -> None:
    value = {"text": "x" * 10_000}
    server.space.set(A, value)
    first = space.get(A)
    first["text"] = "changed by the caller"
    sizes: list[int] = []
    whole = line.ask

    def ask(request: bytes) -> bytes:
        answer = whole(request)
        sizes.append(len(answer))
        return answer

    line.ask = ask  # type: ignore[method-assign]
    assert space.get(A) == value
    assert sizes[0] < 1_000
    server.space.set(A, 2)
    assert space.get(A) == 2


def test_a_pinned_view_is_asked_once_until_something_is_erased(
    server: Served, line: Between, space: Space
) -> None:
    server.space.set(A, "secret")
    server.space.set("urn:b", 1)
    view = space.at(2)
    asked = (lambda: view.get(A), lambda: list(view.scan()), lambda: view.history(A))
    first = [ask() for ask in asked]
    line.requests.clear()
    assert [ask() for ask in asked] == first
    assert line.requests == []
    server.space.erase(A, reason="asked to")
    assert space.get("urn:b") == 1  # an answer that tells of it
    assert view.get(A) is None
    assert "secret" not in str(view.history(A)[0].data)


def test_what_is_erased_while_it_is_read_is_not_kept(
    server: Served, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer said the version of the erasure, so that its reader kept the value beyond it."""
    server.space.set(A, "secret")
    did, view = server.space.did, space.at(1)

    def erasing(asked: str, command: ReadPage, answer: Callable[[ReadPage], Any]) -> Any:
        found = answer(command)
        if asked == did and server.space.version == 1:
            server.space.erase(A, reason="asked to")
        return found

    port = server.server.service.admission.port_of(None)
    intercept(monkeypatch, port, ReadPage, erasing)
    view.get(A)
    assert server.space.version == 2
    space.get("urn:b")
    assert view.get(A) is None


def test_what_is_kept_counts_for_a_minute(
    server: Served, line: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    server.space.set(A, 1)
    with opened(server, line) as store:
        view = store.space(server.space.name).at(1)
        assert view.get(A) == 1
        line.requests.clear()
        now[0] += 59
        assert (view.get(A), line.requests) == (1, [])
        now[0] += 2
        assert view.get(A) == 1
        assert len(line.requests) == 1


# -- who calls -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    with served(auth=("token", "did")) as found:
        found.space.grant(did_of("ada"), "owner")
        yield found


def test_a_key_calls_by_grants_and_gets_new_ones(guarded: Served) -> None:
    with (
        between(guarded.server.url) as line,
        rote.open(line.url, key=seed_of("ada"), timeout=10) as store,
    ):
        space = store.space(guarded.space.name)
        assert space.set(A, 1).author == did_of("ada")
        granted = [request for request in line.requests if request.startswith(b"POST /v1/grants")]
        assert len(granted) == 1
        grants = store._port._calls.credentials  # type: ignore[attr-defined]
        before = grants.bearer()
        with Wire(guarded.server.url, before) as wire:
            assert wire.ask("DELETE", "/v1/grants").status == 200
        assert space.get(A) == 1
        assert grants.bearer() != before
        grants._renewal = 0.0  # two thirds are over
        last = grants.bearer()
        assert space.get(A) == 1 and grants.bearer() == last


def test_a_key_without_a_right_hears_so_and_proofs_lend_one(guarded: Served) -> None:
    with rote.open(guarded.server.url, key=seed_of("ben")) as store, pytest.raises(NotFound):
        store.space(guarded.space.name).get(A)
    now = micros_of(SystemClock().now())
    proof = lend("ada", "ben", space=guarded.space.did, right="read", now=now)
    with rote.open(guarded.server.url, key=seed_of("ben"), proofs=[proof], create=False) as store:
        assert store.space(guarded.space.name).acl() is not None


def test_a_wrong_token_is_refused_once(guarded: Served) -> None:
    with (
        between(guarded.server.url) as line,
        rote.open(line.url, token="rote_0123456789ab_" + "x" * 43) as store,
    ):
        with pytest.raises(Denied) as caught:
            store.space("notes")
        assert (caught.value.code, len(line.requests)) == ("unauthenticated", 1)
