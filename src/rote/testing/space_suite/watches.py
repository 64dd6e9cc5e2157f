"""Watches: frames from a version to the present, then with each commit; nothing twice, nothing left out."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rote.contract.commands import AwaitCommit
from rote.errors import Compacted, InvalidInput, NotFound, RoteError, Unavailable, VersionNotFound
from rote.testing.frames import Folded
from rote.testing.query_graphs import Graphs
from rote.testing.space_suite.ground import A, B, C, SpaceGround, put, remove
from rote.testing.space_suite.queries import NEVER, D, link
from rote.values.limits import WATCH_PAUSE_SECONDS

# Seconds: longer than any machine needs to deliver a frame that is due.
SOON = 30.0


def brief(frame: dict[str, Any]) -> tuple[list[str], list[str]]:
    return [upsert["id"] for upsert in frame["upserts"]], frame["removes"]


class WatchTests(SpaceGround):
    def test_waiting_for_a_commit_ends_with_it_or_with_its_time(self) -> None:
        version = self.space.set(A, 1).version
        assert self.port.answer(self.did, AwaitCommit(version - 1, SOON)) == version
        assert self.port.answer(self.did, AwaitCommit(version, 0)) == version
        found: list[int] = []
        command = AwaitCommit(version, SOON)
        waiter = threading.Thread(target=lambda: found.append(self.port.answer(self.did, command)))
        waiter.start()
        self.space.set(B, 1)
        waiter.join(SOON)
        assert found == [version + 1]

    @pytest.mark.parametrize(
        ("after", "seconds"), [(-1, 0), (True, 0), (0.5, 0), (0, -1), (0, 61), (0, "1"), ("0", 0)]
    )
    def test_waiting_for_a_commit_is_bounded(self, after: Any, seconds: Any) -> None:
        with pytest.raises(InvalidInput):
            self.port.answer(self.did, AwaitCommit(after, seconds))

    def watch(self, since: int | None = None, **select: Any) -> Iterator[dict[str, Any]]:
        """Return the frames that are there already."""
        selected = {id.replace("_", ":"): body for id, body in select.items()}
        return self.space.watch({"select": selected}, since=since, timeout=0)

    def test_an_erased_entity_leaves_every_watch(self) -> None:
        self.space.transact([put(A, {"to": link(B)}), put(B, "secret"), put(C, 1)])
        everything = self.space.watch({"select": {"*": {}}}, timeout=0)
        named = self.space.watch({"select": {B: {}}}, timeout=0)
        linked = self.space.watch({"select": {A: {"schema": True}}}, timeout=0)
        watches = (everything, named, linked)
        assert [brief(next(watch))[0] for watch in watches] == [[A, B, C], [B], [A, B]]
        erasure = self.space.erase(B, reason="asked to")
        for watch in watches:
            frame = next(watch)
            assert brief(frame) == ([], [B])
            assert frame["to"] == erasure.commit.version
        self.space.set(B, "new")
        assert [brief(next(watch)) for watch in watches] == [([B], [])] * 3
        assert self.space.query({"select": {B: {}}, "at": 1})["missing"] == [B]
        late = next(self.watch(since=1, **{"*": {}}))
        assert (late["from"], brief(late)) == (None, ([A, B, C], []))

    @pytest.mark.parametrize(
        "query",
        [
            {"select": {A: {"schema": True}}},
            {"select": {"urn:a*": {"schema": True}}},
            {"select": {"*": {}}, "max_entities": 2},
            {"select": {C: {"schema": {"additionalProperties": {"anyOf": [{"type": "object"}]}}}}},
            {"select": {D: {"schema": True}}},
            {"select": {D: {"path": ["to", "to"]}}},
        ],
        ids=str,
    )
    def test_a_watch_that_goes_on_after_an_erasure_folds_to_its_query(
        self, query: dict[str, Any]
    ) -> None:
        """The erased entity had led to some facts, pushed others out, or let them match. A watcher
        kept those facts: at the version it came from, the entity is absent now."""
        self.space.transact(
            [put(A, {"to": link(B)}), put(B, 1), put(C, {"to": link(A)}), put(D, {"to": link(A)})]
        )
        folded = Folded()
        folded.take(next(self.space.watch(query, timeout=0)))
        self.space.erase(A, reason="asked to")
        frame = next(self.space.watch(query, since=folded.version, timeout=0))
        assert (frame["from"], frame["removes"]) == (None, [])
        folded.take(frame)
        result = self.space.query(query)
        assert (folded.facts, folded.truncated) == (result["facts"], result["truncated"])
        again = self.space.watch(query, since=folded.version, timeout=0)
        assert [(one["from"], brief(one)) for one in again] == [(folded.version, ([], []))]

    def test_an_erasure_of_what_a_watch_never_met_is_nothing_to_it(self) -> None:
        self.space.transact([put(A, {"to": link(B)}), put(B, 1), put(C, {"to": link(B)})])
        self.space.erase(C, reason="asked to")
        selects: list[dict[str, Any]] = [{A: {"schema": True}}, {"urn:a*": {}}, {B: {}}]
        for select in selects:
            frame = next(self.space.watch({"select": select}, since=1, timeout=0))
            assert (frame["from"], brief(frame)) == (1, ([], []))

    def test_a_frame_that_is_due_comes_also_when_others_have_looked_less_far(self) -> None:
        self.space.transact([put(A, 0), put(B, 0)])
        watch = self.space.watch({"select": {B: {}}}, timeout=0)
        next(watch)
        self.space.set(A, 1)
        next(self.watch(urn_a={}))
        self.space.set(B, 1)
        assert brief(next(watch)) == ([B], [])

    def test_a_watch_goes_on_across_a_compaction(self) -> None:
        self.space.transact([put(A, 1), put(B, 1)])
        watch = self.space.watch({"select": {"*": {}}}, timeout=0)
        next(watch)
        for number in range(2, 6):
            self.space.set(A, number)
        self.space.delete(B)
        self.space.set(C, 1)
        self.space.compact(before=self.space.version)
        frame = next(watch)
        assert brief(frame) == ([A, C], [B])
        assert frame["upserts"][0]["value"] == 5
        with pytest.raises(Compacted):
            next(self.watch(since=1, **{"*": {}}))
        with pytest.raises(Compacted):
            self.space.query({"select": {"*": {}}, "at": 2})
        assert self.space.query({"select": {"*": {}}, "since": 3})["facts"].keys() == {A, C, B}

    def test_the_first_frame_brings_everything_and_the_next_what_has_changed(self) -> None:
        commit = self.space.transact([put(A, 1), put(B, 2)])
        watch = self.space.watch({"select": {"*": {}}}, timeout=0)
        hashes = [fact.hash for fact in commit.facts]
        assert next(watch) == {
            "from": None,
            "to": 1,
            "upserts": [
                {"id": A, "value": 1, "version": 1, "hash": hashes[0]},
                {"id": B, "value": 2, "version": 1, "hash": hashes[1]},
            ],
            "removes": [],
        }
        changed = self.space.transact([put(B, 3), put(C, 4)])
        self.space.delete(A)
        assert next(watch) == {
            "from": 1,
            "to": 3,
            "upserts": [
                {"id": B, "value": 3, "version": 2, "hash": changed.facts[0].hash},
                {"id": C, "value": 4, "version": 2, "hash": changed.facts[1].hash},
            ],
            "removes": [A],
        }
        assert list(watch) == []

    def test_the_first_frame_comes_also_when_it_is_empty(self) -> None:
        empty: dict[str, Any] = {"upserts": [], "removes": []}
        assert list(self.watch(urn_a={})) == [{"from": None, "to": 0, **empty}]
        self.space.set(A, 1)
        assert list(self.watch(since=1, urn_a={})) == [{"from": 1, "to": 1, **empty}]

    def test_a_watch_goes_on_from_the_version_of_its_last_frame(self) -> None:
        self.space.transact([put(A, link(B)), put(B, 1), put(C, 1)])
        self.space.transact([put(A, link(C)), put(D, 1)])
        frame = next(self.watch(since=1, urn_a={"schema": True}))
        assert (frame["from"], frame["to"]) == (1, 2)
        assert brief(frame) == ([A, C], [B])
        assert brief(next(self.watch(since=0, urn_a={"schema": True}))) == ([A, C], [])

    def test_what_was_asked_for_by_name_is_shown_when_it_is_deleted(self) -> None:
        self.space.transact([put(A, link(B)), put(B, 1)])
        watch = self.watch(urn_a={"schema": True})
        next(watch)
        self.space.delete(B)
        assert brief(next(watch)) == ([], [B])
        deleted = self.space.delete(A)
        (upsert,) = next(watch)["upserts"]
        assert upsert == {"id": A, "deleted": True, "version": 3, "hash": deleted.facts[0].hash}
        self.space.transact([put(A, link(B)), put(B, 1)])
        assert brief(next(watch)) == ([A, B], [])

    def test_links_that_move_take_what_they_led_to_away_cycles_too(self) -> None:
        self.space.transact(
            [put(A, [link(B), link(D)]), put(B, link(C)), put(C, link(B)), put(D, 1)]
        )
        watch = self.watch(urn_a={"schema": True})
        assert brief(next(watch)) == ([A, B, C, D], [])
        self.space.set(A, [link(D)])
        assert brief(next(watch)) == ([A], [B, C])
        self.space.set(D, link(C))
        assert brief(next(watch)) == ([B, C, D], [])

    def test_what_was_missing_or_did_not_match_is_watched(self) -> None:
        some = {"additionalProperties": {"anyOf": [{"type": "array"}]}}
        self.space.transact([put(A, {"x": link(B), "y": link(NEVER)}), put(B, 1)])
        exact, loose = self.watch(urn_a={"schema": some}), self.watch(urn_a={"schema": True})
        assert brief(next(exact)) == ([A], [])
        assert brief(next(loose)) == ([A, B], [])
        self.space.transact([put(B, [1]), put(NEVER, [2])])
        assert brief(next(exact)) == ([B, NEVER], [])
        assert brief(next(loose)) == ([B, NEVER], [])
        self.space.set(B, 1)
        assert brief(next(exact)) == ([], [B])
        assert brief(next(loose)) == ([B], [])

    def test_commits_elsewhere_and_without_effect_make_no_frame(self) -> None:
        self.space.set(A, 1)
        branch = self.space.create_branch("draft")
        here, there = self.watch(urn_a={}), branch.watch({"select": {A: {}}}, timeout=0)
        named = self.space.watch({"select": {A: {}}, "branch": "draft"}, timeout=0)
        for watch in (here, there, named):
            next(watch)
        branch.set(A, 2)
        self.space.set(B, 1)
        assert list(here) == []
        assert [brief(frame) for frame in there] == [([A], [])]
        assert [brief(frame) for frame in named] == [([A], [])]

    def test_a_watch_that_shows_less_than_there_is_follows_its_query(self) -> None:
        query = {"select": {"*": {"schema": True}}, "max_entities": 2}
        self.space.transact([put(B, 1), put(C, 1), put(D, 1)])
        watch = self.space.watch(query, timeout=0)
        for change, shown, at in (
            ([], ([B, C], []), D),
            ([put(A, 1)], ([A], [C]), C),
            ([remove(A), remove(B)], ([C, D], [A, B]), None),
            ([put(D, 2)], ([D], []), None),
            ([put(NEVER, 1)], ([], []), NEVER),
            ([remove(NEVER)], ([], []), None),
            ([put(NEVER, 1)], ([], []), NEVER),
        ):
            if change:
                self.space.transact(change)
            frame = next(watch)
            assert brief(frame) == shown
            assert ("truncated" in frame) is (at is not None)
            if at is not None:
                assert frame["truncated"] == {"reason": "max_entities", "at": at}
        self.space.set(NEVER, 2)
        assert list(watch) == []

    def test_a_frame_tells_what_is_too_far_away(self) -> None:
        self.space.transact([put(A, link(B)), put(B, link(C)), put(C, link(D))])
        query = {"select": {A: {"schema": True}}, "max_depth": 1}
        watch = self.space.watch(query, timeout=0)
        first = next(watch)
        assert (brief(first), first["truncated"]) == (
            ([A, B], []), {"reason": "max_depth", "at": C},
        )  # fmt: skip
        self.space.set(B, 1)
        whole = next(watch)
        assert (brief(whole), "truncated" in whole) == (([B], []), False)

    def test_what_moves_too_far_away_is_told(self) -> None:
        self.space.transact([put(A, [link(B), link(C)]), put(B, link(C)), put(C, 1)])
        watch = self.space.watch({"select": {A: {"schema": True}}, "max_depth": 1}, timeout=0)
        assert "truncated" not in next(watch)
        self.space.set(A, [link(B)])
        moved = next(watch)
        assert brief(moved) == ([A], [C])
        assert moved["truncated"] == {"reason": "max_depth", "at": C}
        self.space.set(A, [link(B), link(C)])
        back = next(watch)
        assert (brief(back), "truncated" in back) == (([A, C], []), False)

    def test_a_waiting_watch_is_woken_by_a_commit(self) -> None:
        watch = self.space.watch({"select": {A: {}}}, timeout=SOON)
        next(watch)
        begun, found = threading.Event(), []

        def wait() -> None:
            begun.set()
            found.append(next(watch))

        thread = threading.Thread(target=wait)
        thread.start()
        begun.wait()
        self.space.set(A, 1)
        thread.join()
        assert brief(found[0]) == ([A], [])

    def test_many_waiting_watches_are_all_woken(self) -> None:
        watches = [self.space.watch({"select": {A: {}}}, timeout=SOON) for _ in range(8)]
        found: list[dict[str, Any]] = []
        threads = [
            threading.Thread(target=lambda watch=watch: found.append(next(watch)))
            for watch in watches
        ]
        for watch in watches:
            next(watch)
        for thread in threads:
            thread.start()
        self.space.set(A, 1)
        for thread in threads:
            thread.join()
        assert [brief(frame) for frame in found] == [([A], [])] * len(watches)

    def test_a_watch_is_woken_at_most_so_often(self) -> None:
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                self.space.set(A, 1)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            watch = self.space.watch({"select": {A: {}}}, timeout=SOON)
            next(watch)
            times = []
            for _ in range(4):
                next(watch)
                times.append(time.monotonic())
        finally:
            stop.set()
            thread.join()
        # A frame is made after its wake, so three pauses lie between the first and the last wake.
        assert times[-1] - times[0] > 2 * WATCH_PAUSE_SECONDS

    def test_a_watch_ends_when_nothing_comes_for_its_time(self) -> None:
        start = time.monotonic()
        assert len(list(self.space.watch({"select": {A: {}}}, timeout=0.06))) == 1
        assert time.monotonic() - start >= 0.06

    def test_a_watch_ends_in_its_time_also_when_others_write_all_the_time(self) -> None:
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                self.space.set(B, 1)

        watch = self.space.watch({"select": {A: {}}}, timeout=0.1)
        ended: list[bool] = []
        watching = threading.Thread(target=lambda: ended.append(len(list(watch)) == 1))
        writing = threading.Thread(target=write)
        writing.start()
        watching.start()
        try:
            watching.join(SOON)
        finally:
            stop.set()
            writing.join()
            watching.join()
        assert ended == [True]

    @pytest.mark.parametrize("timeout", [float("inf"), 10**400, 1e300, 1e10])
    def test_a_time_that_no_system_can_wait_is_for_ever(self, timeout: float) -> None:
        watches = [self.space.watch({"select": {A: {}}}, timeout=timeout) for _ in range(2)]
        for watch in watches:
            next(watch)
        found: list[Any] = []
        threads = [
            threading.Thread(target=lambda watch=watch: found.append(next(watch)))
            for watch in watches
        ]
        for thread in threads:
            thread.start()
        self.space.set(A, 1)
        for thread in threads:
            thread.join()
        assert [brief(frame) for frame in found] == [([A], [])] * 2

    def test_a_watch_from_what_was_compacted_is_told_at_once(self) -> None:
        for number in range(3):
            self.space.set(A, number)
        self.space.compact(before=3)
        with pytest.raises(Compacted):
            self.space.watch({"select": {}}, since=2)

    def test_a_watch_of_a_closed_store_says_so(self) -> None:
        watch = self.space.watch({"select": {A: {}}}, timeout=SOON)
        next(watch)
        self.store.close()
        with pytest.raises(Unavailable):
            next(watch)

    @pytest.mark.parametrize(
        ("change", "call", "key", "kind"),
        [
            ({"at": 1}, {}, "at", InvalidInput),
            ({"since": 0}, {}, "since", InvalidInput),
            ({"limit": 1}, {}, "limit", InvalidInput),
            ({"cursor": "x"}, {}, "cursor", InvalidInput),
            ({"max_depth": -1}, {}, "max_depth", InvalidInput),
            ({}, {"since": -1}, "since", InvalidInput),
            ({}, {"since": True}, "since", InvalidInput),
            ({}, {"since": 2}, "since", VersionNotFound),
            ({}, {"timeout": -1}, "timeout", InvalidInput),
            ({}, {"timeout": float("nan")}, "timeout", InvalidInput),
            ({}, {"timeout": "1"}, "timeout", InvalidInput),
        ],
        ids=str,
    )
    def test_a_bad_watch_is_told_before_its_first_frame(
        self, change: dict[str, Any], call: dict[str, Any], key: str, kind: type[RoteError]
    ) -> None:
        self.space.set(A, 1)
        with pytest.raises(kind) as refused:
            self.space.watch({"select": {A: {}}, **change}, **call)
        assert refused.value.details["key"] == key

    def test_only_what_can_change_is_watched(self) -> None:
        self.space.set(A, 1)
        with pytest.raises(InvalidInput, match="pinned"):
            self.space.at(1).watch({"select": {A: {}}})
        with pytest.raises(NotFound):
            self.space.watch({"select": {A: {}}, "branch": "nowhere"})

    def test_the_query_of_a_watch_and_its_frames_are_the_callers_own(self) -> None:
        self.space.set(A, {"list": [1]})
        query: dict[str, Any] = {"select": {"*": {}}}
        watch = self.space.watch(query, timeout=0)
        next(watch)["upserts"][0]["value"]["list"].append(2)
        query["select"].clear()
        self.space.set(B, 1)
        assert brief(next(watch)) == ([B], [])
        assert self.space.get(A) == {"list": [1]}

    def test_frames_fold_to_the_result_of_the_query(self) -> None:
        graphs = Graphs(5)
        graphs.write(self.space, 4)
        watches = []
        for _ in range(6):
            query = graphs.query()
            watches.append((query, self.space.watch(query, timeout=0), Folded()))
        for _ in range(6):
            for query, watch, folded in watches:
                frame = next(watch, None)
                if frame is not None:
                    folded.take(frame)
                    expected = self.space.at(frame["to"]).query(query)
                    assert folded.facts == expected["facts"]
                    assert folded.truncated == expected["truncated"]
            graphs.write(self.space, 2)


class SharedWatchTests(SpaceGround):
    def test_what_another_store_commits_is_seen(self) -> None:
        watch = self.space.watch({"select": {A: {"schema": True}}}, timeout=SOON)
        next(watch)
        other = self.open().space("notes")
        for number in range(3):
            other.transact([put(A, link(B)), put(B, number)])
            assert brief(next(watch)) == ([A, B], [])
