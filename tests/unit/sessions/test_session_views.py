"""Views of sessions: what is held, queries and watches with own writes, and records."""

import threading
from typing import Any

import pytest

import rote
from rote.errors import Conflict, InvalidInput, Unavailable
from rote.sessions.session import Session
from rote.space import Space
from rote.testing.frames import Folded
from rote.testing.serving import serving
from rote.values.limits import DEPTH_MAX
from tests.unit.sessions.conftest import SECONDS, WATCH

A, B, C = "urn:a", "urn:b", "urn:c"
OTHER, GONE = "x:other", "x:gone"
LINKED: Any = {"select": {A: {"schema": True}}}


def link(id: str) -> Any:
    return {"/": {"link@1": {"id": id}}}


# -- held -----------------------------------------------------------------------------------------


def test_what_a_watch_shows_is_held_and_read_offline(space: Space) -> None:
    space.set(A, 1)
    space.set(B, 2)
    space.delete(B)
    space.set(OTHER, 3)
    watches = {"some": WATCH, "one": {"select": {OTHER: {}, GONE: {}}}}
    with space.session(watch=watches, timeout=SECONDS) as session:
        session.pause()
        assert (session.get(A), session.get(OTHER)) == (1, 3)
        assert session.read(A) == space.read(A)
        assert (session.read(B).exists, session.get(GONE, "none")) == (False, "none")
        assert [state.id for state in session.scan("urn:")] == [A]
        assert [state.id for state in session.confirmed.scan("urn:")] == [A]
        assert session.query(WATCH)["facts"].keys() == {A}
        session.resume()


def test_the_deepest_value_is_held(space: Space) -> None:
    """A state is one level deeper than its value; whoever watched such an entity had no session any more."""
    value: Any = 1
    for _ in range(DEPTH_MAX):
        value = [value]
    space.set("urn:a", value)
    with space.session(watch=WATCH, timeout=SECONDS) as session:
        assert session.get("urn:a") == value
        session.set("urn:b", value)
        assert session.flush(SECONDS) == []


def test_what_was_deleted_reads_as_in_the_space(space: Space) -> None:
    # The watches hold that it does not exist, and no more: not which commit has deleted it.
    space.set(A, 1)
    space.delete(A)
    space.set(B, 1)
    space.erase(B, reason="asked to")
    queries: list[Any] = [{"select": {"urn:*": {}}, "since": 1}, {"select": {A: {}, B: {}}}]
    with space.session(watch=WATCH, timeout=SECONDS) as session:
        assert session.read_many([A, B]) == space.read_many([A, B])
        assert [session.query(query) for query in queries] == [
            space.query(query) for query in queries
        ]
        seen = session.read(A)
        reads = [{"id": A, "version": seen.version}]
        made = session.transact([{"op": "set", "id": A, "value": 2}], reads=reads)
        assert made.wait(SECONDS).facts[0].id == A


def test_what_is_absent_is_known_when_its_version_is_compacted(space: Space) -> None:
    space.set(A, 1)
    with space.session(watch=WATCH, timeout=SECONDS) as session:
        session.pause()
        space.set(A, 2)
        space.set(A, 3)
        space.compact(before=space.version)
        assert (session.get(A), session.get(B, "none")) == (1, "none")
        session.resume()


def test_linked_entities_are_held(space: Space) -> None:
    space.set(A, {"to": link(OTHER)})
    space.set(OTHER, 1)
    with space.session(watch=LINKED, timeout=SECONDS) as session:
        session.pause()
        assert session.get(OTHER) == 1
        assert session.values(LINKED)["values"] == {A: {"to": 1}}
        session.resume()


def test_what_is_not_held_is_unavailable_offline_behind_a_server(space: Space) -> None:
    space.set(A, 1)
    space.set(OTHER, 1)
    with space.session(timeout=SECONDS) as session:
        assert session.get(OTHER) == 1
        session.pause()
        session.set(B, 1)
        assert (session.get(B), session.get(OTHER)) == (1, 1)
        if space._home.verbs is not None:
            for read in (lambda: session.get(A), lambda: list(session.scan())):
                with pytest.raises(Unavailable, match="name it in watch="):
                    read()
            with pytest.raises(Unavailable):
                session.patch(A, [])
        session.resume()


def test_a_function_that_reads_while_the_line_is_down_is_called_again_when_it_is_up(
    space: Space,
) -> None:
    """A line that broke at the wrong moment rejected what `apply` and `update` had promised."""
    calls, is_down = [], threading.Event()
    with space.session(timeout=SECONDS) as session:

        def count(tx: Any) -> None:
            calls.append(tx)
            if len(calls) == 2:
                session.pause()
                is_down.set()
            tx.set(A, (tx.get(A) or 0) + 1)

        assert session.get(A) is None  # it is kept until the next step
        session.pause()
        pending = session.apply(count)
        assert pending is not None
        space.set(A, 5)
        session.resume()
        assert is_down.wait(SECONDS)
        session.resume()
        assert pending.wait(SECONDS).version == 2
        assert space.get(A) == 6


def test_a_watch_that_was_cut_holds_only_what_it_shows(space: Space) -> None:
    space.transact([{"op": "set", "id": f"urn:{n}", "value": n} for n in range(5)])
    with space.session(watch={**WATCH, "max_entities": 2}, timeout=SECONDS) as session:
        assert [state.id for state in session.scan("urn:")] == [f"urn:{n}" for n in range(5)]
        assert session.get("urn:4") == 4


@pytest.mark.parametrize("watch", [1, {"select": 1}, {"a": {"select": {}, "at": 1}}, {"": WATCH}])
def test_a_wrong_watch_is_refused(space: Space, watch: Any) -> None:
    with pytest.raises(InvalidInput):
        space.session(watch=watch)


# -- queries --------------------------------------------------------------------------------------


def test_queries_answer_as_the_view(space: Space, offline: Session) -> None:
    offline.set(A, {"to": link(B)})
    offline.set(B, {"n": 1})
    offline.delete(B)
    offline.set(B, {"n": 2})
    answer = offline.query(LINKED)
    assert answer["facts"] == {
        A: {"value": {"to": link(B)}, "version": 0, "hash": None},
        B: {"value": {"n": 2}, "version": 0, "hash": None},
    }
    assert offline.values(LINKED)["values"] == {A: {"to": {"n": 2}}}
    assert space.query(LINKED)["facts"] == {}


def test_a_query_goes_on_page_by_page_in_one_view(offline: Session) -> None:
    for number in range(5):
        offline.set(f"urn:{number}", number)
    query: dict[str, Any] = {**WATCH, "limit": 2}
    seen: list[str] = []
    while True:
        page = offline.query(query)
        seen += page["facts"]
        if page["cursor"] is None:
            break
        query = {**query, "cursor": page["cursor"]}
    assert seen == [f"urn:{number}" for number in range(5)]
    first = offline.query({**WATCH, "limit": 2})
    offline.set("urn:9", 9)
    with pytest.raises(InvalidInput, match="cursor"):
        offline.query({**WATCH, "limit": 2, "cursor": first["cursor"]})


def test_a_query_since_a_version_shows_own_writes_too(space: Space, session: Session) -> None:
    space.set(A, 1)
    space.set(B, 1)
    session.set("urn:x", 1)
    session.flush(SECONDS)
    session.set(C, 1)
    facts = session.query({**WATCH, "since": 1})["facts"]
    assert {A, "urn:x"} & facts.keys() == {"urn:x"}
    assert {B, C} <= facts.keys()


# -- watches --------------------------------------------------------------------------------------


def test_frames_of_a_view_folded_are_the_query(space: Space, session: Session) -> None:
    folded = Folded()
    frames = session.watch(LINKED, timeout=SECONDS)

    def take_until(facts: Any) -> None:
        while folded.facts.keys() != facts:
            folded.take(next(frames))
        assert folded.facts == session.query(LINKED)["facts"]

    take_until(set())
    session.pause()
    session.set(A, {"to": link(B)})
    take_until({A})
    session.set(B, 1)
    take_until({A, B})
    session.delete(B)
    take_until({A})
    session.resume()
    session.flush(SECONDS)
    space.set(B, 2)
    take_until({A, B})


def test_a_frame_says_that_a_result_is_whole_again(offline: Session) -> None:
    query = {"select": {"urn:*": {}}, "max_entities": 1}
    offline.set(A, 1)
    offline.set(B, 1)
    frames = offline.watch(query, timeout=0)
    assert next(frames)["truncated"] == {"reason": "max_entities", "at": B}
    offline.delete(B)
    frame = next(frames)
    assert (frame["upserts"], frame["removes"], "truncated" in frame) == ([], [], False)
    assert offline.query(query)["truncated"] is None


def test_a_watch_ends_when_nothing_comes_and_when_the_session_ends(session: Session) -> None:
    frames = session.watch(WATCH, timeout=0)
    assert [frame["upserts"] for frame in frames] == [[]]
    waiting = session.watch(WATCH, timeout=SECONDS)
    next(waiting)
    session.close()
    assert list(waiting) == []


def test_a_rejected_write_leaves_the_watch(space: Space, offline: Session) -> None:
    offline.transact([{"op": "set", "id": B, "value": 1}], reads=[{"id": A, "version": 0}])
    folded, frames = Folded(), offline.watch(WATCH, timeout=SECONDS)
    folded.take(next(frames))
    assert folded.facts.keys() == {B}
    space.set(A, 1)
    offline.resume()
    while folded.facts.keys() != {A}:
        folded.take(next(frames))


# -- conflicts that are sure ----------------------------------------------------------------------


def test_a_step_that_overtakes_a_transaction_is_a_conflict_at_once(
    space: Space, session: Session
) -> None:
    with pytest.raises(Conflict) as caught, session.transaction() as tx:
        tx.set(B, tx.get(A))
        commit = space.set(A, 1)
        frames = session.watch(WATCH, timeout=SECONDS)
        while session.get(A) is None:
            next(frames)
    assert caught.value.conflicts[0].actual_version == commit.version
    assert session.pending == ()


def test_a_step_with_own_commits_that_were_seen_is_no_conflict(session: Session) -> None:
    session.set(A, 1)
    with session.transaction() as tx:
        tx.set(B, tx.get(A))
        session.flush(SECONDS)
        assert session.confirmed.get(A) == 1
    assert tx.pending is not None
    assert tx.pending.wait(SECONDS).facts[0].id == B


# -- records --------------------------------------------------------------------------------------


def test_records_are_written_and_listed_offline(space: Space) -> None:
    record: tuple[str, str, str] = ("long_term", "note", "1")
    with space.session(watch={"select": {"record:*": {}}}, timeout=SECONDS) as session:
        memory = rote.Memory(session)
        session.pause()
        assert memory.put(*record, {"text": "one"})["version"] is None
        memory.append("long_term", "log", "2", {"text": "two"})
        memory.append("long_term", "log", "2", {"text": "three"})
        memory.update(*record, patch=[{"op": "add", "path": "/more", "value": 1}])
        assert memory.get(*record)["record"]["payload"] == {"text": "one", "more": 1}
        listed = memory.list("long_term", include=("version",))["items"]
        assert [(item["record_id"], item["version"]) for item in listed] == [
            ("2", None),
            ("1", None),
        ]
        with pytest.raises(InvalidInput, match="leave if_version"):
            memory.put(*record, {}, if_version=7)
        session.resume()
        assert session.flush(SECONDS) == []
        plain = rote.Memory(space)
        assert memory.get(*record) == plain.get(*record)
        assert memory.list("long_term") == plain.list("long_term")
        entries = plain.get("long_term", "log", "2")["record"]["payload"]["entries"]
        assert [entry["text"] for entry in entries] == ["two", "three"]
        assert memory.delete(*record)["deleted"]
        assert not memory.get(*record)["found"]


def test_a_record_that_was_overtaken_is_reverted(space: Space) -> None:
    with space.session(watch={"select": {"record:*": {}}}, timeout=SECONDS) as session:
        memory = rote.Memory(session)
        session.pause()
        memory.put("long_term", "note", "1", {"text": "mine"})
        rote.Memory(space).put("long_term", "note", "1", {"text": "theirs"})
        session.resume()
        [rejected] = session.flush(SECONDS)
        assert isinstance(rejected.error, Conflict)


def test_a_search_finds_own_records(space: Space) -> None:
    with space.session(timeout=SECONDS) as session:
        memory = rote.Memory(session)
        memory.append(
            "long_term",
            "chat",
            "1",
            {"speaker": "Ada", "text": "deploy keys", "ts_utc": "2026-02-01"},
        )
        shown = [item["record_id"] for item in memory.search("deploy keys")["items"]]
        assert shown == ["1"]


def test_a_frame_tells_true_from_1(offline: Session) -> None:
    frames = offline.watch(WATCH, timeout=0)
    for value in (1, True, [False], [0]):
        offline.set(A, value)
        assert str(next(frames)["upserts"][0]["value"]) == str(value)


def test_what_is_held_is_read_while_nobody_answers() -> None:
    with rote.open(":memory:") as here:
        here.space("s").set(A, 1)
        with serving(here, threads=2) as server:
            store = rote.open(server.url, token=server.token, timeout=SECONDS)
            session = store.space("s").session(watch=WATCH, timeout=SECONDS)
            session.pause()
        try:
            session.set(A, 2)
            assert session.confirmed.get(A) == 1
            assert session.confirmed.query(WATCH)["facts"][A]["value"] == 1
        finally:
            store.close()
