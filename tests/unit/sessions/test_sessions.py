"""Sessions, sentence by sentence of what they promise."""

import threading
from typing import Any

import pytest

from rote.errors import (
    Conflict,
    Denied,
    DependencyRejected,
    InvalidInput,
    LimitExceeded,
    NotFound,
    PatchFailed,
    RoteError,
    Unavailable,
    Withdrawn,
)
from rote.sessions import stack
from rote.sessions.session import Session
from rote.space import Space
from rote.values.session_limits import SESSION_PENDING_MAX, SESSION_TRANSACTIONS_MAX
from tests.unit.sessions.conftest import SECONDS, WATCH, come_back

A, B, C = "urn:a", "urn:b", "urn:c"


def await_value(session: Session, id: str, value: Any) -> None:
    """Wait until a step has brought a value."""
    for _ in session.watch(WATCH, timeout=SECONDS):
        if session.get(id) == value:
            return
    raise AssertionError("it has not come")


# -- writes show at once --------------------------------------------------------------------------


def test_a_write_shows_at_once_and_only_here(space: Space, offline: Session) -> None:
    pending = offline.set(A, {"n": 1})
    assert offline.get(A) == {"n": 1}
    assert space.get(A) is None
    assert offline.confirmed.get(A) is None
    assert (pending.local, pending.branch, pending.status) == (1, "main", "pending")
    assert pending.operations == [{"op": "set", "id": A, "value": {"n": 1}}]
    assert offline.pending == (pending,)
    assert come_back(offline) == []
    assert space.get(A) == {"n": 1}
    assert pending.status == "integrated"
    assert not offline.pending
    assert pending.commit == space.commit(1)
    assert offline.version == 1


def test_what_a_layer_wrote_reads_with_version_0_and_what_is_confirmed_with_its_own(
    space: Space, offline: Session
) -> None:
    offline.set(A, 1)
    assert (offline.read(A).version, offline.read(A).hash) == (0, None)
    come_back(offline)
    assert offline.read(A) == space.read(A)


def test_operations_of_every_kind_apply_in_their_order(offline: Session) -> None:
    offline.set(A, {"n": 1})
    offline.patch(A, [{"op": "add", "path": "/m", "value": 2}])
    offline.set(B, 1)
    offline.delete(B)
    assert offline.get(A) == {"n": 1, "m": 2}
    assert not offline.read(B).exists
    assert [state.id for state in offline.scan("urn:")] == [A]


def test_scans_show_own_writes_in_the_order_of_ids(space: Space, session: Session) -> None:
    space.transact([{"op": "set", "id": f"urn:{n}", "value": n} for n in (1, 3, 5)])
    session.set("urn:0", "new").wait(SECONDS)
    session.flush(SECONDS)
    session.pause()
    session.set("urn:2", "own")
    session.delete("urn:3")
    assert [state.id for state in session.scan("urn:")] == ["urn:0", "urn:1", "urn:2", "urn:5"]
    assert [state.id for state in session.scan("urn:", after="urn:0", limit=2)] == [
        "urn:1", "urn:2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        ({"op": "patch", "id": A, "ops": []}, NotFound),
        ({"op": "delete", "id": A}, NotFound),
        ({"op": "patch", "id": B, "ops": [{"op": "remove", "path": "/x"}]}, PatchFailed),
        ({"op": "set", "id": A}, InvalidInput),
        ({"op": "set", "id": A, "value": object()}, InvalidInput),
        ({"op": "set", "id": A, "value": "x" * 20_000_000}, LimitExceeded),
    ],
)
def test_what_cannot_apply_raises_and_makes_no_layer(
    offline: Session, operation: dict[str, Any], error: type[RoteError]
) -> None:
    offline.set(B, {})
    with pytest.raises(error):
        offline.transact([{"op": "set", "id": C, "value": 1}, operation])
    assert len(offline.pending) == 1
    assert offline.get(C) is None


def test_a_write_under_a_layer_that_changes_later_is_left_out_whole(
    space: Space, offline: Session
) -> None:
    offline.set(A, {"n": 1})
    come_back(offline)
    offline.pause()
    patch = {"op": "patch", "id": A, "ops": [{"op": "replace", "path": "/n", "value": 2}]}
    made = offline.transact([patch, {"op": "set", "id": B, "value": 1}])
    space.set(A, [])
    assert come_back(offline) == [made]
    assert isinstance(made.error, PatchFailed)
    await_value(offline, A, [])
    assert offline.get(B) is None


def test_more_than_the_limit_is_refused_and_nothing_of_it_applied(offline: Session) -> None:
    for number in range(SESSION_PENDING_MAX):
        offline.set(A, number)
    with pytest.raises(LimitExceeded):
        offline.set(A, "too many")
    assert offline.get(A) == SESSION_PENDING_MAX - 1
    assert len(offline.pending) == SESSION_PENDING_MAX


def test_the_bytes_of_undecided_commits_are_limited(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack, "SESSION_PENDING_BYTES_MAX", 2_500)
    session.pause()
    session.set(A, "x" * 1_000)
    session.set(B, "x" * 1_000)
    with pytest.raises(LimitExceeded, match="in bytes"):
        session.set(C, "x" * 1_000)
    assert [pending.local for pending in session.pending] == [1, 2]
    assert come_back(session) == []
    session.set(C, "x" * 1_000).wait(SECONDS)


def test_a_commit_with_more_reads_than_a_server_takes_is_refused(session: Session) -> None:
    # The server ended the line for the message, and with it the session ended.
    reads = [{"id": f"urn:{number}:{'x' * 900}", "version": 0} for number in range(75_000)]
    with pytest.raises(LimitExceeded, match="with its reads"):
        session.transact([{"op": "set", "id": A, "value": 1}], reads=reads)
    assert (session.pending, session.get(A)) == ((), None)
    assert session.set(A, 2).wait(SECONDS).version == 1


def test_what_the_caller_changes_after_a_call_does_not_matter(space: Space) -> None:
    query: dict[str, Any] = {"select": {"urn:*": {}}}
    meta: Any = {"n": 1}
    with space.session(watch=query, timeout=SECONDS) as session:
        session.pause()
        pending = session.transact([{"op": "set", "id": A, "value": {"n": 1}}], meta=meta)
        meta["n"] = object()
        pending.operations[0]["value"]["n"] = 2
        query["select"] = {"other:*": {}}
        space.set(B, 1)
        assert come_back(session) == []
        assert pending.wait(SECONDS).meta_data == b'{"n":1}'
        assert (session.get(A), session.get(B)) == ({"n": 1}, 1)


@pytest.mark.parametrize("given", [5, iter([]), {}, "urn:a"])
def test_operations_and_reads_are_lists(offline: Session, given: Any) -> None:
    with pytest.raises(InvalidInput):
        offline.transact(given)
    with pytest.raises(InvalidInput):
        offline.transact([{"op": "set", "id": A, "value": 1}], reads=given)
    assert not offline.pending


# -- verdicts -------------------------------------------------------------------------------------


def test_wait_returns_the_commit_or_raises_why_it_was_rejected(
    space: Space, session: Session
) -> None:
    commit = session.set(
        A,
        1,
        key="k",
    ).wait(SECONDS)
    assert commit == space.commit(commit.version)
    assert commit.key == "k"
    space.set(A, 2)
    with pytest.raises(Conflict) as caught:
        session.transact(
            [{"op": "set", "id": B, "value": 1}], reads=[{"id": A, "version": 0}]
        ).wait(SECONDS)
    assert caught.value.conflicts[0].id == A


def test_a_wait_that_takes_too_long_leaves_it_pending(offline: Session) -> None:
    pending = offline.set(A, 1)
    with pytest.raises(Unavailable) as caught:
        pending.wait(0)
    assert caught.value.code == "timeout"
    assert pending.status == "pending"
    with pytest.raises(Unavailable) as caught:
        offline.flush(0)
    assert (caught.value.code, caught.value.details["locals"]) == ("timeout", [1])
    come_back(offline)
    assert pending.status == "integrated"


def test_flush_returns_what_was_rejected_and_only_once(space: Space, offline: Session) -> None:
    bad = offline.transact([{"op": "set", "id": B, "value": 1}], reads=[{"id": A, "version": 0}])
    good = offline.set(C, 1)
    space.set(A, 1)
    assert come_back(offline) == [bad]
    assert (bad.status, good.status) == ("rejected", "integrated")
    assert offline.flush(SECONDS) == []
    assert offline.get(B) is None


def test_a_rejected_layer_takes_all_that_have_seen_it_and_nothing_else(
    space: Space, offline: Session
) -> None:
    with offline.transaction() as first:
        first.set(B, first.get(A))
    with offline.transaction() as second:
        second.set(C, second.get(B))
    with offline.transaction() as third:
        third.set("urn:d", third.get(C))
    other = offline.set("urn:e", 1)
    assert first.pending and second.pending and third.pending
    assert (second.pending.depends, third.pending.depends) == ((1,), (2,))
    space.set(A, "changed")
    assert come_back(offline) == [first.pending, second.pending, third.pending]
    assert isinstance(first.pending.error, Conflict)
    for pending, local in ((second.pending, 1), (third.pending, 2)):
        assert isinstance(pending.error, DependencyRejected)
        assert pending.error.local == local
    assert other.status == "integrated"
    assert [state.id for state in offline.scan("urn:")] == [A, "urn:e"]
    told = [(each["type"], each["local"]) for each in offline.events(0) if each["local"]]
    assert told == [
        ("reverted", 1), ("reverted", 2), ("reverted", 3), ("committed", 4), ("integrated", 4),
    ]  # fmt: skip


def test_a_key_that_was_used_before_stands_for_its_commit(space: Space, session: Session) -> None:
    made = space.set(A, 1, key="once")
    space.set(B, 2)
    assert session.set(A, 1, key="once").wait(SECONDS) == made
    assert session.flush(SECONDS) == []
    assert space.version == 2


def test_what_the_caller_changes_later_does_not_matter(space: Space, offline: Session) -> None:
    value: Any = {"n": [1]}
    meta: Any = {"m": [1]}
    reads: Any = [{"id": B, "version": 0, "besides": []}]
    operations: Any = [{"op": "set", "id": A, "value": value}]
    pending = offline.transact(operations, reads=reads, meta=meta)
    value["n"].append(2)
    meta["m"].append(2)
    reads[0]["besides"].append("no version")
    operations.append("nonsense")
    offline.get(A)["n"].append(3)
    assert come_back(offline) == []
    assert pending.commit is not None
    assert (pending.commit.facts[0].body, pending.commit.meta) == ({"n": [1]}, {"m": [1]})


# -- taking back ----------------------------------------------------------------------------------


def test_what_was_not_sent_can_be_taken_back_with_what_has_seen_it(
    space: Space, offline: Session
) -> None:
    first = offline.set(A, 1)
    with offline.transaction() as tx:
        tx.set(B, tx.get(A))
    assert first.cancel()
    assert isinstance(first.error, Withdrawn)
    assert tx.pending is not None
    assert isinstance(tx.pending.error, DependencyRejected)
    assert offline.get(A) is None
    offline.set(C, 1)
    assert come_back(offline) == [first, tx.pending]
    assert [commit.facts[0].id for commit in space.log()] == [C]


def test_what_was_decided_cannot_be_taken_back(session: Session) -> None:
    pending = session.set(A, 1)
    pending.wait(SECONDS)
    assert not pending.cancel(SECONDS)


# -- transactions ---------------------------------------------------------------------------------


def test_a_transaction_reads_one_state_to_its_end(space: Space, session: Session) -> None:
    session.set(A, "own")
    with session.transaction() as tx:
        assert tx.get(A) == "own"
        session.set(A, "later")
        space.set(B, 1)
        session.flush(SECONDS)
        assert session.get(B) == 1
        assert (tx.get(A), tx.get(B)) == ("own", None)
    assert tx.pending is None


def test_a_transaction_that_an_own_layer_has_overtaken_is_a_conflict_at_once(
    offline: Session,
) -> None:
    with pytest.raises(Conflict), offline.transaction() as tx:
        tx.set(B, tx.get(A))
        offline.set(A, 1)
    assert [pending.local for pending in offline.pending] == [1]


def test_a_transaction_that_has_seen_what_is_dead_is_rejected_at_once(offline: Session) -> None:
    seen = offline.set(A, 1)
    with pytest.raises(DependencyRejected) as caught, offline.transaction() as tx:
        tx.set(B, tx.get(A))
        assert seen.cancel()
    assert caught.value.local == 1


def test_a_transaction_that_writes_nothing_or_fails_makes_no_commit(offline: Session) -> None:
    with offline.transaction() as tx:
        tx.get(A)
    assert tx.pending is None
    with pytest.raises(KeyError), offline.transaction() as tx:
        tx.set(A, 1)
        raise KeyError
    assert offline.pending == ()


def test_transactions_that_are_open_are_limited(offline: Session) -> None:
    held = [offline.transaction() for _ in range(SESSION_TRANSACTIONS_MAX)]
    with pytest.raises(LimitExceeded):
        offline.transaction()
    with held[0]:
        pass
    offline.transaction()


def test_apply_makes_a_commit_again_until_it_holds(space: Space, offline: Session) -> None:
    space.set(A, 1)
    pending = offline.update(A, lambda value: (value or 0) + 1)
    assert pending.local == 1
    assert come_back(offline) == []
    assert (space.get(A), offline.get(A)) == (2, 2)
    assert (pending.status, pending.local) == ("integrated", 2)


@pytest.mark.parametrize("error", [None, Denied("the token has ended")])
def test_a_flush_that_waits_raises_when_the_session_ends_undecided(
    offline: Session, error: RoteError | None
) -> None:
    """A server was started with another token, and the flush said that nothing was rejected."""
    pending = offline.set(A, 1)
    replica = offline._replica
    ending = threading.Thread(target=replica.end, args=[error])
    with replica.changed:
        ending.start()  # it gets on when the flush waits
        with pytest.raises(Unavailable if error is None else Denied):
            offline.flush(SECONDS)
    ending.join()
    assert pending.status == "unknown"


@pytest.mark.parametrize("verb", ["apply", "update"])
def test_a_coroutine_function_is_refused_and_makes_nothing(offline: Session, verb: str) -> None:
    """Its coroutine was dropped: nothing was written, and nobody heard of it."""

    async def change(_: Any) -> int:
        return 1

    with pytest.raises(InvalidInput, match="plain function"):
        offline.apply(change) if verb == "apply" else offline.update(A, change)
    assert not offline.pending


@pytest.mark.parametrize("given", ["urn:*", ["urn:*"], {"urn:*": {}}, {"selct": {"urn:*": {}}}, 5])
def test_what_is_no_query_to_watch_is_shown_one(space: Space, given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"watch is a query, as in \{'select': ") as caught:
        space.session(watch=given)
    assert caught.value.details["argument"] == "watch"


def test_a_session_does_not_wait_for_ever(space: Space) -> None:
    with pytest.raises(InvalidInput, match="timeout"):
        space.session(timeout=None)  # type: ignore[arg-type]


def test_apply_gives_up_after_its_attempts(space: Space, offline: Session) -> None:
    space.set(A, 1)
    pending = offline.update(A, lambda value: (value or 0) + 1, attempts=1)
    assert come_back(offline) == [pending]
    assert isinstance(pending.error, Conflict)
    with pytest.raises(Conflict):
        pending.wait(SECONDS)


def test_updates_of_many_threads_are_all_there(space: Space, session: Session) -> None:
    def work() -> None:
        for _ in range(5):
            session.update(A, lambda value: (value or 0) + 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.flush(SECONDS) == []
    assert space.get(A) == 20


@pytest.mark.parametrize("failure", [KeyError, SystemExit])
def test_a_function_that_fails_when_it_is_called_again_rejects_its_commit(
    space: Space, offline: Session, failure: type[BaseException]
) -> None:
    def function(value: Any) -> Any:
        if value is not None:
            raise failure("no")
        return 1

    space.set(A, 1)
    pending = offline.update(A, function)
    assert come_back(offline) == [pending]
    assert isinstance(pending.error, failure)
    offline.update(B, lambda value: (value or 0) + 1).wait(SECONDS)
