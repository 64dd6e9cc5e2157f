"""Writing records safely: keys, conditions on versions, corrections, many records at once."""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from rote.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    PatchFailed,
    PayloadMismatch,
    RunAborted,
)
from rote.records.memory import Memory
from rote.space import Space
from rote.testing.space_suite.ground import Unchanged, logged
from rote.testing.space_suite.records import AT, BAD_METADATA, KEY, LATER, RecordGround
from rote.values.limits import INTEGER_MAX

Write = Callable[..., Any]
RUN: dict[str, Any] = {
    "workflow_id": "w", "model": None, "policy_set_id": "p", "mode": "buffered_write",
}  # fmt: skip


def many(*ids: str, **more: Any) -> list[dict[str, Any]]:
    return [
        {"namespace": "ops", "record_kind": "k", "record_id": id, "payload": {"id": id}, **more}
        for id in ids
    ]


def replacing(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


BAD_UPDATES: list[Any] = [
    {}, {"payload": {}, "patch": []}, {"payload": []}, {"payload": None}, {"patch": {}},
    {"patch": None}, {"patch": [{"op": "no", "path": ""}]}, {"patch": [{"op": "add", "path": "x"}]},
    {"patch": [{"op": "remove", "path": ""}]}, {"patch": [replacing("", [])]},
    {"patch": [{"op": "remove", "path": "/none"}]}, {"patch": [replacing("/none", 1)]},
    {"payload": {"x": float("nan")}}, {"payload": {"_metadata": {"tags": 5}}},
    {"patch": [{"op": "add", "path": "/_metadata", "value": {"tags": 5}}]},
    {"ttl_seconds": 0}, {"ttl_seconds": True}, {"ttl_seconds": "60"},
    {"if_version": -1, "payload": {}}, {"if_version": True, "payload": {}},
    {"if_version": "1", "payload": {}}, {"key": "", "payload": {}}, {"key": 5, "payload": {}},
    {"key": "rote:x", "payload": {}}, {"key": "x" * 201, "payload": {}},
]  # fmt: skip

BAD_MANY: list[Any] = [
    (None, None), ("text", None), ({"namespace": "ops"}, None), (5, None),
    ([*many("a"), 5], 1), ([*many("a"), {}], 1), ([*many("a"), *many("b", more=1)], 1),
    ([*many("a"), *many("b", payload=[])], 1), ([*many("a", "b"), *many("")], 2),
    (many("a", "b", "a"), 2), ([*many("a"), *many("b", namespace="unknown")], 1),
    (many("a", ttl_seconds=0), 0), (many("a", metadata={"tags": 1}), 0),
    ([*many("a"), *many("b", payload={"x": float("inf")})], 1),
    ([*many("a"), *many("b", payload={"x": "\udc00"})], 1), ([*many("a"), *many("b" * 600)], 1),
]  # fmt: skip


class RecordWriteTests(RecordGround):
    # -- keys --------------------------------------------------------------------------------------

    def _writes(self) -> list[tuple[str, Write, Write]]:
        """Return each writing verb with a key: its name, a call, and another call."""
        memory = self.memory
        return [
            ("put", lambda **more: memory.put(*KEY, {"entries": []}, **more),
             lambda **more: memory.put(*KEY, {"entries": [1]}, **more)),
            ("append", lambda **more: memory.append(*KEY, {"n": 1}, **more),
             lambda **more: memory.append(*KEY, {"n": 2}, **more)),
            ("update", lambda **more: memory.update(*KEY, metadata={"tags": ["a"]}, **more),
             lambda **more: memory.update(*KEY, metadata={"tags": ["b"]}, **more)),
            ("delete", lambda **more: memory.delete(*KEY, **more),
             lambda **more: memory.delete("ops", "k", "other", **more)),
        ]  # fmt: skip

    def test_the_same_call_with_a_key_changes_nothing_and_answers_the_same(self) -> None:
        answers = [(name, call(key=name)) for name, call, _ in self._writes()]
        assert [answer.get("created") for _, answer in answers] == [True, False, None, None]
        assert answers[1][1]["entries"] == 1
        assert answers[3][1]["deleted"]
        self.clock.move(seconds=60)
        # By now the record is deleted, then there again, then expired.
        for change in (lambda: None, lambda: self.memory.put(*KEY, {"x": 1}, 1)):
            change()
            self.clock.move(seconds=2)
            before = logged(self.space)
            assert [(name, call(key=name)) for name, call, _ in self._writes()] == answers
            assert logged(self.space) == before

    def test_a_touch_with_a_key_counts_once(self) -> None:
        self.memory.put(*KEY, {})
        self.memory.touch(*KEY)
        touched = self.memory.touch(*KEY, key="k")
        assert (touched["access_count"], touched["version"]) == (2, 3)
        self.memory.touch(*KEY)
        before = logged(self.space)
        assert self.memory.touch(*KEY, key="k") == touched
        assert logged(self.space) == before
        with Unchanged(self, PayloadMismatch):
            self.memory.touch("ops", "k", "other", key="k")
        self.space.compact(before=4)
        again = self.memory.touch(*KEY, key="k")
        assert again == {**touched, "access_count": None}

    def test_a_key_stands_for_one_call(self) -> None:
        self.memory.put("ops", "k", "other", {})
        for name, call, other in self._writes():
            call(key=name)
            with Unchanged(self, PayloadMismatch):
                other(key=name)
        branch = Memory(self.space.create_branch("b"))
        with Unchanged(self, PayloadMismatch):
            branch.put(*KEY, {"entries": []}, key="put")

    def test_a_replaced_record_is_answered_as_replaced(self) -> None:
        self.memory.put(*KEY, {"n": 1})
        answer = self.memory.put(*KEY, {"n": 2}, key="k")
        assert not answer["created"]
        assert self.memory.put(*KEY, {"n": 2}, key="k") == answer
        self.memory.put("ops", "k", "short", {}, 1)
        self.clock.move(seconds=2)
        answer = self.memory.put("ops", "k", "short", {"n": 2}, key="expired")
        assert answer["created"]
        assert self.memory.put("ops", "k", "short", {"n": 2}, key="expired") == answer

    def test_a_key_answers_before_any_condition(self) -> None:
        answer = self.memory.put(*KEY, {}, key="k", if_version=0)
        assert self.memory.put(*KEY, {}, key="k", if_version=0) == answer
        changed = self.memory.update(*KEY, ttl_seconds=5, key="u", if_version=1)
        assert self.memory.update(*KEY, ttl_seconds=5, key="u", if_version=1) == changed
        deleted = self.memory.delete(*KEY, key="d", if_version=2)
        assert self.memory.delete(*KEY, key="d", if_version=2) == deleted

    def test_a_key_that_wrote_nothing_is_not_used(self) -> None:
        assert not self.memory.delete(*KEY, key="k")["deleted"]
        assert self.memory.put_many([], key="k")["version"] is None
        assert self.memory.put(*KEY, {}, key="k")["created"]

    def test_a_key_answers_after_an_erasure_and_a_compaction(self) -> None:
        written = self.memory.put(*KEY, {"n": 1}, key="p")
        self.memory.append("ops", "k", "log", {}, key="a")
        self.space.erase(Memory.entity_id(*KEY), reason="asked to")
        assert self.memory.put(*KEY, {"n": 1}, key="p") == written
        with Unchanged(self, PayloadMismatch):
            self.memory.put("ops", "k", "other", {"n": 1}, key="p")
        self.space.compact(before=self.space.version)
        assert self.memory.put(*KEY, {"n": 1}, key="p")["version"] == written["version"]
        again = self.memory.append("ops", "k", "log", {}, key="a")
        assert (again["version"], again["updated_at"]) == (2, AT)

    # -- conditions --------------------------------------------------------------------------------

    def _conditional(self, version: int) -> list[Write]:
        memory = self.memory
        return [
            lambda: memory.put(*KEY, {}, if_version=version),
            lambda: memory.append(*KEY, {}, if_version=version),
            lambda: memory.update(*KEY, ttl_seconds=9, if_version=version),
            lambda: memory.delete(*KEY, if_version=version),
        ]

    def test_a_write_with_another_version_conflicts_and_names_both(self) -> None:
        self.memory.put(*KEY, {"entries": []})
        self.memory.touch(*KEY)
        for version in (0, 1, 3, 99):
            for write in self._conditional(version):
                with Unchanged(self, Conflict) as caught:
                    write()
                (conflict,) = caught.value.conflicts  # type: ignore[attr-defined]
                assert conflict.id == Memory.entity_id(*KEY)
                assert (conflict.expected_version, conflict.actual_version) == (version, 2)

    def test_a_write_with_the_version_of_the_record_is_made(self) -> None:
        self.memory.put(*KEY, {"entries": []})
        for number in range(3):
            seen = self.memory.get(*KEY, include=("version",))["version"]
            write = self._conditional(seen)[(1, 2, 3)[number]]
            assert write()["ok"]
        assert self.memory.get(*KEY, include=("version",)) == {
            "found": False, "record": None, "version": 0,
        }  # fmt: skip

    def test_version_0_means_that_there_is_no_record(self) -> None:
        assert self.memory.put(*KEY, {}, 1, if_version=0)["created"]
        self.clock.move(seconds=2)
        # It has expired; then it is deleted.
        assert self.memory.append(*KEY, {}, if_version=0)["created"]
        self.memory.delete(*KEY)
        assert self.memory.put(*KEY, {}, if_version=0)["created"]
        self.memory.delete(*KEY)
        with Unchanged(self, Conflict):
            self.memory.put(*KEY, {}, if_version=4)
        assert not self.memory.delete(*KEY, if_version=0)["deleted"]

    def test_of_two_who_saw_the_same_version_one_writes(self) -> None:
        self.memory.put(*KEY, {"n": 0})
        seen = self.memory.get(*KEY, include=["version"])["version"]
        Memory(self.store.space("notes")).put(*KEY, {"n": 1}, if_version=seen)
        with Unchanged(self, Conflict):
            self.memory.put(*KEY, {"n": 2}, if_version=seen)

    def test_versions_are_in_a_list_when_they_are_asked_for(self) -> None:
        self.memory.put_many(many("a", "b"))
        self.memory.touch("ops", "k", "a")
        items = self.memory.list("ops", include=("version", "payload"))["items"]
        assert [(item["version"], item["payload"]["id"]) for item in items] == [(2, "a"), (1, "b")]
        old = self.memory.list("ops", include=("version",), at=1)["items"]
        assert [item["version"] for item in old] == [1, 1]

    # -- update ------------------------------------------------------------------------------------

    def test_an_update_changes_what_is_given_and_keeps_the_rest(self) -> None:
        self.memory.put(*KEY, {"a": 1, "b": [1, 2]}, 60, {"tags": ["x"], "source": "me", "n": 1})
        before = self.record()
        self.clock.move(seconds=60)
        result = self.memory.update(*KEY, patch=[replacing("/a", 2)])
        assert result == {"ok": True, "updated_at": LATER, "version": 2}
        expected = {**before, "updated_at": LATER, "payload": {"a": 2, "b": [1, 2]}}
        assert self.record() == expected
        self.memory.update(*KEY, metadata={"tags": ["y", "y"], "source": None, "new": {"x": 1}})
        expected["metadata"] = {"tags": ["y"], "n": 1, "new": {"x": 1}}
        assert self.record() == expected
        self.memory.update(*KEY, payload={"c": 3}, ttl_seconds=None)
        expected |= {"payload": {"c": 3}, "ttl_seconds": None}
        assert self.record() == expected
        self.memory.update(*KEY, metadata=None)
        assert self.record() == {**expected, "metadata": None}
        self.memory.update(*KEY, metadata={"gone": None})
        self.memory.update(*KEY, metadata={"a/b~c": 1, "gone": None})
        assert self.record()["metadata"] == {"a/b~c": 1}
        ops = [fact.op for fact in self.space.history(Memory.entity_id(*KEY))]
        assert ops == ["patch"] * 6 + ["set"]

    def test_an_update_gives_new_life(self) -> None:
        self.memory.put(*KEY, {}, 60)
        self.clock.move(seconds=59)
        self.memory.update(*KEY, metadata={"tags": ["a"]})
        self.clock.move(seconds=59)
        assert self.memory.get(*KEY)["found"]

    def test_a_patch_takes_every_operation_of_patches(self) -> None:
        self.memory.put(*KEY, {"list": [1, 2, 3], "a": {"b": 1}})
        self.memory.update(
            *KEY,
            patch=[
                {"op": "test", "path": "/a/b", "value": 1},
                {"op": "splice", "path": "/list", "index": 1, "remove": 1, "add": [8, 9]},
                {"op": "move", "from": "/a/b", "path": "/c"},
                {"op": "copy", "from": "/list", "path": "/d"},
            ],
        )
        assert self.record()["payload"] == {
            "list": [1, 8, 9, 3], "a": {}, "c": 1, "d": [1, 8, 9, 3],
        }  # fmt: skip
        with Unchanged(self, PatchFailed):
            self.memory.update(*KEY, patch=[{"op": "test", "path": "/c", "value": 2}])

    def test_metadata_in_an_updated_payload_is_copied_as_by_put(self) -> None:
        self.memory.put(*KEY, {}, None, {"source": "me"})
        self.memory.update(*KEY, payload={"n": 1})
        assert self.record()["metadata"] == {"source": "me"}
        self.memory.update(*KEY, payload={"_metadata": {"tags": ["a", "a"]}})
        assert self.record()["metadata"] == {"tags": ["a"]}
        self.memory.update(*KEY, patch=[replacing("/_metadata", {"tags": ["b"]})])
        assert self.record()["metadata"] == {"tags": ["b"]}
        self.memory.update(*KEY, patch=[replacing("/_metadata/tags/0", "c")], metadata={"n": 1})
        assert self.record()["metadata"] == {"tags": ["b"], "n": 1}

    def test_an_absent_or_expired_record_is_not_updated(self) -> None:
        with Unchanged(self, NotFound):
            self.memory.update(*KEY, payload={})
        self.memory.put(*KEY, {}, 1)
        self.clock.move(seconds=2)
        with Unchanged(self, NotFound):
            self.memory.update(*KEY, payload={})

    def test_a_bad_update_is_refused(self) -> None:
        self.memory.put(*KEY, {"a": 1})
        for changes in [*BAD_UPDATES, *({"metadata": each} for each in BAD_METADATA)]:
            with Unchanged(self, InvalidInput):
                self.memory.update(*KEY, **changes)

    def test_an_update_is_tried_again_when_others_write(self) -> None:
        self.memory.put(*KEY, {"n": 0})
        memory, look, others = self.memory, self.memory.space.glance, [1, 2]

        def late(*arguments: Any, **more: Any) -> Any:
            seen = look(*arguments, **more)
            if others:
                Memory(self.store.space("notes")).update(*KEY, patch=[
                    {"op": "add", "path": f"/other{others.pop()}", "value": 1}
                ])  # fmt: skip
            return seen

        memory.space.glance = late  # type: ignore[method-assign]
        memory.update(*KEY, patch=[replacing("/n", 1)])
        assert self.record()["payload"] == {"n": 1, "other1": 1, "other2": 1}

    # -- put_many ----------------------------------------------------------------------------------

    def test_many_records_are_one_commit(self) -> None:
        self.memory.put("ops", "k", "b", {"old": 1}, None, {"tags": ["old"]})
        self.clock.move(seconds=60)
        result = self.memory.put_many(
            [*many("a"), *many("b"), *many("c", ttl_seconds=5, metadata={"tags": ["x", "x"]})]
        )
        assert result == {"ok": True, "created": 2, "version": 2}
        assert self.space.version == 2
        records = [self.record(None, "ops", "k", id) for id in "abc"]
        assert [record["created_at"] for record in records] == [LATER, AT, LATER]
        assert [record["updated_at"] for record in records] == [LATER] * 3
        assert [record["ttl_seconds"] for record in records] == [None, None, 5]
        assert [record["metadata"] for record in records] == [None, None, {"tags": ["x"]}]
        assert records[1]["payload"] == {"id": "b"}

    def test_many_records_are_put_once_with_a_key(self) -> None:
        self.memory.put("ops", "k", "b", {})
        first = self.memory.put_many(many("a", "b"), key="k")
        assert first["created"] == 1
        self.memory.delete("ops", "k", "a")
        assert self.memory.put_many(iter(many("a", "b")), key="k") == first
        for other in (many("a"), many("b", "a"), many("a", "b", ttl_seconds=5)):
            with Unchanged(self, PayloadMismatch):
                self.memory.put_many(other, key="k")

    def test_the_first_bad_record_is_named_and_none_is_put(self) -> None:
        for records, index in BAD_MANY:
            with Unchanged(self, InvalidInput) as caught:
                self.memory.put_many(records)
            assert caught.value.details.get("index") == index
            if index is not None:
                assert f"record {index}: " in str(caught.value)

    def test_no_records_make_no_commit(self) -> None:
        assert self.memory.put_many([]) == {"ok": True, "created": 0, "version": None}
        assert self.space.version == 0

    def test_the_verbs_can_be_called_by_position(self) -> None:
        self.memory.call("put_many", [many("a")])
        result = self.memory.call("UPDATE", ["ops", "k", "a", {"payload": {"n": 1}}])
        assert result["version"] == 2
        for arguments in (
            [],
            ["ops", "k", "a"],
            ["ops", "k", "a", {"key": "x"}],
            ["ops", "k", "a", 5],
        ):
            with Unchanged(self, InvalidInput):
                self.memory.call("update", arguments)

    def test_the_first_profile_knows_none_of_it(self) -> None:
        memory = Memory(self.space, profile="v1")
        calls: list[Write] = [
            lambda: memory.put(*KEY, {}, key="k"), lambda: memory.append(*KEY, {}, if_version=0),
            lambda: memory.update(*KEY, payload={}), lambda: memory.put_many([]),
            lambda: memory.delete(*KEY, key="k"), lambda: memory.list("ops", order="created"),
            lambda: memory.list("ops", descending=True),
            lambda: memory.get(*KEY, include=("version",)),
        ]  # fmt: skip
        for call in calls:
            with Unchanged(self, InvalidInput):
                call()
        assert {"update", "put_many"} <= set(self.memory.capabilities()["verbs"])
        assert not {"update", "put_many"} & set(memory.capabilities()["verbs"])

    # -- runs --------------------------------------------------------------------------------------

    def _run_space(self) -> Space:
        return self.open_fresh("runs", modes=("buffered_write",)).space("notes")

    def test_a_run_corrects_records_in_its_buffer(self) -> None:
        space = self._run_space()
        memory = Memory(space)
        memory.put(*KEY, {"a": 1, "entries": []}, None, {"tags": ["t"]})
        seen = memory.get(*KEY, include=("version",))["version"]
        with space.run(**RUN) as run:
            changes = {"patch": [replacing("/a", 2)], "if_version": seen}
            assert run.memory.update(*KEY, **changes) == {
                "ok": True, "updated_at": None, "version": None,
            }  # fmt: skip
            run.memory.update(*KEY, metadata={"source": "run"})
            run.memory.append(*KEY, {"n": 1})
            result = run.memory.put_many(many("a", "b"))
            assert result == {"ok": True, "created": 2, "version": None}
            assert run.memory.put_many(many("b", "c"))["created"] == 1
            assert memory.get(*KEY)["record"]["payload"]["a"] == 1
            with pytest.raises(InvalidInput):
                run.memory.put(*KEY, {}, if_version=seen)  # written by the run itself
            with pytest.raises(Conflict):
                run.memory.put("ops", "k", "new", {}, if_version=5)
            with pytest.raises(InvalidInput):
                run.memory.put("ops", "k", "new", {}, key="k")
        record = memory.get(*KEY)["record"]
        assert record["payload"] == {"a": 2, "entries": [{"n": 1}]}
        assert record["metadata"] == {"tags": ["t"], "source": "run"}
        listed = memory.list("ops", include=("version",))["items"]
        assert [(item["record_id"], item["version"]) for item in listed] == [
            ("a", 2), ("b", 2), ("c", 2),
        ]  # fmt: skip

    def test_a_run_that_found_nothing_to_update_relies_on_that(self) -> None:
        space = self._run_space()
        with pytest.raises(RunAborted) as caught, space.run(**RUN) as run:
            with pytest.raises(NotFound):
                run.memory.update(*KEY, payload={})
            run.set("urn:result", "nothing to correct")
            Memory(space).put(*KEY, {})
        assert caught.value.reason_code == "validation_failed"

    def test_a_list_of_a_run_is_checked_in_its_order(self) -> None:
        space = self._run_space()
        memory = Memory(space)
        for id in "abc":
            memory.put("ops", "k", id, {})
            self.clock.move(seconds=1)
        newest: dict[str, Any] = {"order": "updated", "descending": True, "filters": {"limit": 1}}
        with space.run(**RUN) as run:
            since = run.memory.space.now  # the time of the snapshot, at which c was put
            asked: list[dict[str, Any]] = [{}, {"updated_since": since}]
            for more in asked:
                items = run.memory.list("ops", **newest, **more)["items"]
                assert [item["record_id"] for item in items] == ["c"]
            run.set("urn:result", 1)
            # An older record was deleted, and the newest is still the same.
            memory.delete("ops", "k", "a")
        assert run.state == "commit_applied"
        with pytest.raises(RunAborted), space.run(**RUN) as run:
            run.memory.list("ops", **newest)
            run.set("urn:result", 2)
            memory.update("ops", "k", "b", ttl_seconds=None)

    # -- transactions ------------------------------------------------------------------------------

    def test_a_transaction_corrects_records(self) -> None:
        self.memory.put(*KEY, {"a": 1}, None, {"tags": ["t"]})
        with self.space.transaction() as tx:
            memory = Memory(tx)
            assert memory.update(*KEY, patch=[replacing("/a", 2)], if_version=1)["version"] is None
            memory.update(*KEY, metadata={"source": "tx"})
            assert memory.put_many(many("b", "c", "a"))["created"] == 3
            assert memory.delete("ops", "k", "b")["deleted"]
            for order, descending in (("id", True), ("created", True), ("updated", False)):
                items = memory.list(
                    "ops", order=order, descending=descending, include=("version",)
                )["items"]
                found = [(item["record_id"], item["version"]) for item in items]
                expected = [("a", None), ("c", None)]
                assert found == (expected[::-1] if descending else expected)
            with pytest.raises(InvalidInput):
                memory.put(*KEY, {}, if_version=1)  # written by the transaction itself
            with pytest.raises(InvalidInput):
                memory.put(*KEY, {}, key="k")
        assert self.space.version == 2
        record = self.record()
        assert (record["payload"], record["metadata"]) == (
            {"a": 2},
            {"tags": ["t"], "source": "tx"},
        )
        assert self.listed("ops") == ["a", "c"]

    def test_a_transaction_relies_on_what_it_was_told(self) -> None:
        self.memory.put_many(many("a", "b"))
        told: list[tuple[Write, Write]] = [
            (lambda memory: memory.update("ops", "k", "x", payload={}),
             lambda: self.memory.put("ops", "k", "x", {})),
            (lambda memory: memory.put("ops", "k", "a", {}, if_version=7),
             lambda: self.memory.put("ops", "k", "a", {})),
            (lambda memory: memory.list("ops", order="id", descending=True, filters={"limit": 1}),
             lambda: self.memory.put("ops", "k", "z", {})),
            (lambda memory: memory.list("ops", order="updated", descending=True),
             lambda: self.memory.put("ops", "k", "z", {})),
        ]  # fmt: skip
        for look, change in told:
            with pytest.raises(Conflict), self.space.transaction() as tx:
                with suppress(NotFound, Conflict):
                    look(Memory(tx))
                tx.set("urn:result", 1)
                change()
            assert self.space.get("urn:result") is None

    # -- times -------------------------------------------------------------------------------------

    def test_whatever_takes_a_time_takes_a_datetime(self) -> None:
        when = datetime(2026, 3, 20, 12, tzinfo=timezone(timedelta(hours=2)))
        metadata = {"valid_at": when, "last_accessed": when.astimezone(UTC)}
        self.memory.put(*KEY, {}, None, metadata)
        text = "2026-03-20T10:00:00.000000Z"
        assert self.record()["metadata"] == {"valid_at": text, "last_accessed": text}
        self.memory.update(*KEY, metadata={"valid_at": when + timedelta(days=1)})
        now = self.space.now
        for filters, found in (
            ({"valid_at_after": when}, ["cp-42"]), ({"valid_at_before": when}, []),
            ({"since_last_accessed": when}, ["cp-42"]),
            ({"created_after": now, "updated_before": now}, ["cp-42"]),
            ({"created_before": now - timedelta(seconds=1)}, []),
        ):  # fmt: skip
            assert self.listed("workflow", filters=filters) == found
        assert self.listed("workflow", None, None, now) == ["cp-42"]
        assert self.listed("workflow", at=now) == ["cp-42"]
        assert self.memory.get(*KEY, at=now)["found"]
        entity = Memory.entity_id(*KEY)
        assert self.space.query({"select": {entity: {}}, "at": now})["facts"]
        assert self.space.values({"select": {entity: {}}, "at": now})["values"]

    def test_a_datetime_without_a_zone_is_refused(self) -> None:
        naive = datetime(2026, 3, 20)
        calls: list[Write] = [
            lambda: self.memory.put(*KEY, {}, None, {"valid_at": naive}),
            lambda: self.memory.list("ops", filters={"created_after": naive}),
            lambda: self.memory.list("ops", None, None, naive),
            lambda: self.memory.get(*KEY, at=naive),
            lambda: self.space.query({"select": {"*": {}}, "at": naive}),
        ]
        for call in calls:
            with pytest.raises(InvalidInput, match="time zone"):
                call()

    def test_a_patch_that_only_looks_at_metadata_in_the_payload_leaves_the_metadata(self) -> None:
        payload = {"_metadata": {"tags": ["in the payload"]}}
        self.memory.put(*KEY, payload, metadata={"tags": ["given"]})
        looks = [
            {"op": "test", "path": "/_metadata/tags/0", "value": "in the payload"},
            {"op": "copy", "from": "/_metadata/tags", "path": "/copied"},
        ]
        self.memory.update(*KEY, patch=looks)
        assert self.record()["metadata"] == {"tags": ["given"]}
        self.memory.update(*KEY, patch=[{"op": "remove", "path": "/_metadata/tags/0"}])
        assert self.record()["metadata"] == {"tags": []}

    def test_objects_of_subclasses_are_taken_as_what_they_are(self) -> None:
        self.memory.put(*KEY, OrderedDict(text="tea"), metadata=OrderedDict(tags=["a"]))
        self.memory.append("ops", "log", "1", OrderedDict(n=1))
        assert self.record()["payload"] == {"text": "tea"}
        filters = OrderedDict(tags_any=["a"])
        assert len(self.memory.list(KEY[0], filters=filters)["items"]) == 1
        assert len(self.memory.erase(filters=filters, reason="asked to")["erased"]) == 1

    def test_a_count_of_accesses_stays_at_the_largest_integer(self) -> None:
        """A merge leaves it there; then nobody could note a use any more."""
        self.memory.put(*KEY, {}, metadata={"access_count": INTEGER_MAX})
        assert self.memory.touch(*KEY)["access_count"] == INTEGER_MAX

    def test_put_many_names_the_record_with_bad_metadata(self) -> None:
        records = [
            {"namespace": "ops", "record_kind": "k", "record_id": id, "payload": {}} for id in "ab"
        ]
        records[1]["metadata"] = {"unknown": object()}
        with Unchanged(self, InvalidInput) as caught:
            self.memory.put_many(records)
        assert caught.value.details["index"] == 1
