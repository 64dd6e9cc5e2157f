"""Memory records: the verbs, their results, and the lifetime of a record."""

from collections.abc import Callable
from typing import Any

import pytest

from rote.errors import InvalidInput, LimitExceeded, NotFound, RoteError
from rote.records.memory import Memory
from rote.space import Space
from rote.testing.space_suite.ground import SpaceGround, Unchanged, logged
from rote.values import canonical

AT = "2026-01-01T12:00:00.000000Z"
LATER = "2026-01-01T12:01:00.000000Z"
KEY = ("workflow", "checkpoint", "cp-42")
META = {
    "source": "runner",
    "confidence": 0.95,
    "tags": ["checkpoint", "billing"],
    "valid_at": "2026-03-20T10:00:00+00:00",
    "last_accessed": None,
    "access_count": 3,
    "unknown": {"kept": [1]},
}


class RecordGround(SpaceGround):
    """A memory on the test's own space."""

    @property
    def memory(self) -> Memory:
        return Memory(self.space)

    def record(self, memory: Memory | None = None, *key: str) -> dict[str, Any]:
        found = (memory or self.memory).get(*(key or KEY))
        assert found["found"]
        record: dict[str, Any] = found["record"]
        return record

    def listed(self, *arguments: Any, **more: Any) -> list[str]:
        return [item["record_id"] for item in self.memory.list(*arguments, **more)["items"]]


BAD_METADATA: list[Any] = [
    [], "text", 1,
    {"source": ""}, {"source": 1},
    {"confidence": 1.1}, {"confidence": -0.1}, {"confidence": True}, {"confidence": "1"},
    {"confidence": float("nan")},
    {"tags": "a"}, {"tags": [""]}, {"tags": [1]}, {"tags": ["\ud800"]},
    {"valid_at": "2026-01-01T10:00:00"}, {"valid_at": "tomorrow"}, {"valid_at": 1},
    {"last_accessed": "2026-02-30T00:00:00Z"},
    {"access_count": -1}, {"access_count": True}, {"access_count": 1.5},
    {"unknown": float("inf")}, {"unknown": "\udfff"},
]  # fmt: skip


BAD_CALLS: list[Any] = [
    ("nothing", []), ("", []), (None, []), (1, []), ("call", []), ("_entity", []),
    ("get", KEY[:2]), ("get", [*KEY, "more"]), ("put", KEY), ("append", KEY),
    ("list", []), ("delete", []), ("get", "abc"), ("get", None), ("get", {"a": 1}),
    ("put", [*KEY, []]), ("put", [*KEY, "text"]), ("put", [*KEY, None]),
    ("append", [*KEY, []]), ("append", [*KEY, 1]),
    ("put", ["", "k", "i", {}]), ("put", ["ops", "", "i", {}]), ("put", ["ops", "k", "", {}]),
    ("put", ["unknown", "k", "i", {}]), ("put", ["OPS", "k", "i", {}]),
    ("put", [1, "k", "i", {}]), ("put", ["ops", 1, "i", {}]), ("put", ["ops", "k", None, {}]),
    ("put", ["ops", "k", "\ud800", {}]), ("put", ["ops", "\u2028", "i", {}]),
    ("put", ["ops", "k", "\x7f", {}]),
    ("put", [*KEY, {}, 0]), ("put", [*KEY, {}, -1]), ("put", [*KEY, {}, 1.5]),
    ("put", [*KEY, {}, True]), ("put", [*KEY, {}, "60"]), ("put", [*KEY, {}, 2**63]),
    ("put", [*KEY, {}, 10**12]), ("append", [*KEY, {}, 0]),
    ("put", [*KEY, {"x": float("nan")}]), ("put", [*KEY, {"x": "\udc00"}]),
    ("append", [*KEY, {"x": float("inf")}]), ("put", [*KEY, {"x": 2**64}]),
    ("get", ["unknown", "k", "i"]), ("touch", ["ops", "k", ""]), ("prune", ["unknown"]),
    ("prune", [1]), ("list", ["unknown"]), ("list", ["ops", ""]), ("list", ["ops", 1]),
    ("list", ["ops", None, 1]), ("list", ["ops", None, "\ud800"]),
    ("list", ["ops", None, None, "yesterday"]), ("list", ["ops", None, None, None, []]),
    ("retention_report", [-1]), ("retention_report", ["x"]),
    ("retention_report", [1, "unknown"]), ("retention_report", [1, 1]),
    ("retention_report", [1, None, 1]), ("retention_report", [1, None, [""]]),
    ("retention_report", [1, None, [1]]), ("retention_report", [1, None, [], 1]),
]  # fmt: skip


BAD_SETTINGS: list[Any] = [
    {"namespaces": []}, {"namespaces": "ops"}, {"namespaces": ["Ops"]},
    {"namespaces": ["a" * 65]}, {"namespaces": ["a b"]}, {"namespaces": [1]},
    {"profile": "v2"}, {"profile": None},
    {"default_ttl_by_namespace": {"ops": 0}}, {"default_ttl_by_namespace": {"x": 1}},
    {"default_ttl_by_namespace": [1]},
    {"prune_strategy_by_namespace": {"ops": "all"}},
    {"prune_strategy_by_namespace": {"x": "none"}},
]  # fmt: skip


NO_RECORDS: list[Any] = [
    None, 1, "text", [], {}, {"payload": {}},
    {"namespace": "ops", "record_kind": "k", "record_id": "other", "created_at": AT,
     "updated_at": AT, "ttl_seconds": None, "payload": {}, "metadata": None},
    {"namespace": "ops", "record_kind": "k", "record_id": "i", "created_at": AT,
     "updated_at": "never", "ttl_seconds": None, "payload": {}, "metadata": None},
    {"namespace": ["ops"], "record_kind": {}, "record_id": 1, "created_at": AT,
     "updated_at": AT, "ttl_seconds": 10**18, "payload": {}, "metadata": None},
]  # fmt: skip


class RecordTests(RecordGround):
    # -- put and get -------------------------------------------------------------------------------

    def test_a_new_record_has_the_whole_envelope(self) -> None:
        written = self.memory.put(*KEY, {"step": 3}, 60, META)
        assert written == {"ok": True, "created": True, "updated_at": AT, "version": 1}
        assert self.memory.get(*KEY) == {
            "found": True,
            "record": {
                "namespace": "workflow", "record_kind": "checkpoint", "record_id": "cp-42",
                "created_at": AT, "updated_at": AT, "ttl_seconds": 60, "payload": {"step": 3},
                "metadata": META,
            },
        }  # fmt: skip
        assert self.space.get(Memory.entity_id(*KEY)) == self.record()

    def test_a_put_replaces_everything_but_the_time_of_creation(self) -> None:
        self.memory.put(*KEY, {"step": 3}, 60, META)
        self.clock.move(seconds=60)
        written = self.memory.put(*KEY, {"other": 1})
        assert written == {"ok": True, "created": False, "updated_at": LATER, "version": 2}
        record = self.record()
        assert (record["created_at"], record["updated_at"]) == (AT, LATER)
        assert (record["payload"], record["ttl_seconds"], record["metadata"]) == (
            {"other": 1}, None, None,
        )  # fmt: skip

    def test_what_was_never_put_is_not_found(self) -> None:
        assert self.memory.get(*KEY) == {"found": False, "record": None}

    def test_a_record_is_there_as_it_was_at_every_version_and_on_its_branch(self) -> None:
        self.memory.put(*KEY, {"n": 1})
        branch = self.space.create_branch("draft")
        Memory(branch).put(*KEY, {"n": 2})
        self.memory.put(*KEY, {"n": 3})
        seen = [self.memory.get(*KEY, at=version) for version in range(5)]
        assert [found["found"] for found in seen] == [False, True, True, True, True]
        assert [found["record"]["payload"]["n"] for found in seen[1:]] == [1, 1, 1, 3]
        assert self.record(Memory(branch))["payload"] == {"n": 2}
        assert self.record(Memory(self.space.at(1)))["payload"] == {"n": 1}
        assert [fact.op for fact in self.space.history(Memory.entity_id(*KEY))] == ["set", "set"]

    def test_a_pinned_view_is_not_written(self) -> None:
        self.memory.put(*KEY, {"entries": []}, 1)
        self.clock.move(seconds=5)
        self.memory.put("ops", "k", "other", {})
        pinned = Memory(self.space.at(2))
        other = ("ops", "k", "other")
        for verb, arguments in (
            ("put", (*KEY, {})), ("append", (*KEY, {})), ("delete", KEY), ("touch", other),
            ("prune", ()),
        ):  # fmt: skip
            with Unchanged(self, InvalidInput):
                pinned.call(verb, arguments)

    # -- metadata ----------------------------------------------------------------------------------

    def test_metadata_in_a_payload_is_copied_in_its_normal_form(self) -> None:
        payload = {"_metadata": {"tags": ["b", "a", "b"], "valid_at": "2026-01-01t10:00:00+02:00"}}
        self.memory.put(*KEY, payload)
        assert self.record()["payload"] == payload
        assert self.record()["metadata"] == {
            "tags": ["b", "a"], "valid_at": "2026-01-01t10:00:00+02:00",
        }  # fmt: skip

    def test_explicit_metadata_wins_over_that_in_the_payload(self) -> None:
        choices: list[Any] = [None, {}, {"tags": ["mine"]}]
        for explicit in choices:
            self.memory.put(*KEY, {"_metadata": {"tags": ["theirs"]}}, None, explicit)
            assert self.record()["metadata"] == explicit

    def test_bad_metadata_is_refused(self) -> None:
        for metadata in BAD_METADATA:
            self._refuse_metadata(metadata)

    def _refuse_metadata(self, metadata: Any) -> None:
        for verb, arguments in (
            ("put", (*KEY, {}, None, metadata)),
            ("append", (*KEY, {}, None, metadata)),
            ("put", (*KEY, {"_metadata": metadata})),
        ):
            with Unchanged(self, InvalidInput):
                self.memory.call(verb, arguments)

    # -- append ------------------------------------------------------------------------------------

    def test_append_makes_a_record_and_then_adds_to_it(self) -> None:
        first = self.memory.append(*KEY, {"n": 1}, 60, {"tags": ["log"]})
        self.clock.move(seconds=60)
        second = self.memory.append(*KEY, {"n": 2})
        assert first == {"ok": True, "created": True, "updated_at": AT, "entries": 1, "version": 1}
        assert second == {
            "ok": True, "created": False, "updated_at": LATER, "entries": 2, "version": 2,
        }  # fmt: skip
        record = self.record()
        assert record["payload"] == {"entries": [{"n": 1}, {"n": 2}]}
        assert (record["created_at"], record["updated_at"]) == (AT, LATER)
        assert (record["ttl_seconds"], record["metadata"]) == (60, {"tags": ["log"]})

    def test_append_changes_ttl_and_metadata_when_they_are_given(self) -> None:
        self.memory.append(*KEY, {"n": 1}, 60, {"tags": ["log"]})
        self.memory.append(*KEY, {"n": 2}, None, None)
        assert (self.record()["ttl_seconds"], self.record()["metadata"]) == (None, None)
        self.memory.append(*KEY, {"n": 3}, 5, {"source": "me"})
        assert (self.record()["ttl_seconds"], self.record()["metadata"]) == (5, {"source": "me"})

    def test_append_is_one_patch_without_the_entries_that_are_there(self) -> None:
        self.memory.put(*KEY, {"entries": [{"text": "x" * 5000}] * 3, "title": "log"})
        self.memory.append(*KEY, {"n": 1})
        fact = self.space.history(Memory.entity_id(*KEY), limit=1)[0]
        assert fact.op == "patch"
        assert len(fact.data or b"") < 300
        assert self.record()["payload"]["title"] == "log"

    def test_appends_between_a_look_and_a_commit_are_counted(self) -> None:
        memory = self.memory
        memory.append(*KEY, {"n": 1})
        seen, _ = memory._look(Memory.entity_id(*KEY), sizes=("/payload/entries",))
        memory.append(*KEY, {"n": 2})
        commit = logged(self.space)[-1]
        self.memory.append(*KEY, {"n": 3})
        later = logged(self.space)[-1]
        assert memory._entries_after(commit, seen) == 2
        assert memory._entries_after(later, seen) == 3

    def test_append_needs_a_list_of_entries(self) -> None:
        payloads: list[Any] = [{}, {"entries": {}}, {"entries": None}, {"entries": "x"}]
        for payload in payloads:
            self.memory.put(*KEY, payload)
            with Unchanged(self, InvalidInput):
                self.memory.append(*KEY, {})

    def test_a_list_of_entries_that_goes_away_in_the_last_moment_is_not_made_up(self) -> None:
        self.memory.put(*KEY, {"entries": {}})
        operations = [{"op": "patch", "id": Memory.entity_id(*KEY), "ops": []}]
        self.memory.append("ops", "k", "model", {})
        self.memory.append("ops", "k", "model", {})
        body: Any = logged(self.space)[-1].facts[0].body
        operations[0]["ops"] = body[:2]
        with Unchanged(self, InvalidInput):
            self.space.transact(operations)

    # -- expiry ------------------------------------------------------------------------------------

    def test_a_record_expires_after_its_time_and_not_at_it(self) -> None:
        self.memory.put(*KEY, {"entries": []}, 60)
        self.clock.move(seconds=60)
        assert self.memory.get(*KEY)["found"]
        assert self.listed("workflow") == ["cp-42"]
        self.clock.move(seconds=0.000001)
        assert not self.memory.get(*KEY)["found"]
        assert self.listed("workflow") == []
        assert self.memory.get(*KEY, at=1)["found"]

    def test_what_has_expired_is_new_when_it_is_put(self) -> None:
        self.memory.put(*KEY, {}, 1)
        self.clock.move(seconds=60)
        assert self.memory.put(*KEY, {})["created"]
        assert self.record()["created_at"] == LATER

    def test_what_has_expired_is_new_when_it_is_appended_to(self) -> None:
        self.memory.append(*KEY, {"n": 1}, 1, {"tags": ["old"]})
        self.clock.move(seconds=60)
        written = self.memory.append(*KEY, {"n": 2})
        assert (written["created"], written["entries"]) == (True, 1)
        record = self.record()
        assert record["payload"] == {"entries": [{"n": 2}]}
        assert (record["created_at"], record["ttl_seconds"], record["metadata"]) == (
            LATER, None, None,
        )  # fmt: skip

    def test_writing_gives_new_life_and_touching_does_not(self) -> None:
        self.memory.append(*KEY, {}, 60)
        self.clock.move(seconds=50)
        self.memory.append(*KEY, {})
        self.clock.move(seconds=50)
        assert self.memory.touch(*KEY)["found"]
        self.clock.move(seconds=11)
        assert not self.memory.get(*KEY)["found"]

    def test_a_default_ttl_is_for_what_says_nothing(self) -> None:
        memory = Memory(self.space, default_ttl_by_namespace={"workflow": 7, "ops": None})
        memory.put("workflow", "k", "default", {})
        memory.put("workflow", "k", "never", {}, None)
        memory.put("workflow", "k", "own", {}, 9)
        memory.append("workflow", "k", "appended", {})
        memory.append("workflow", "k", "always", {}, None)
        memory.put("ops", "k", "none", {})
        memory.put("session", "k", "unnamed", {})
        ttls = {
            item["record_id"]: item["ttl_seconds"]
            for namespace in ("workflow", "ops", "session")
            for item in memory.list(namespace)["items"]
        }
        assert ttls == {
            "default": 7, "never": None, "own": 9, "appended": 7, "always": None, "none": None,
            "unnamed": None,
        }  # fmt: skip

    # -- delete, prune, touch ----------------------------------------------------------------------

    def test_delete_says_whether_there_was_something(self) -> None:
        self.memory.put(*KEY, {})
        assert self.memory.delete(*KEY) == {"ok": True, "deleted": True}
        assert self.memory.delete(*KEY) == {"ok": True, "deleted": False}
        assert self.memory.delete("ops", "k", "never") == {"ok": True, "deleted": False}
        assert self.space.version == 2
        assert self.memory.put(*KEY, {})["created"]

    def test_delete_takes_what_has_expired(self) -> None:
        self.memory.put(*KEY, {}, 1)
        self.clock.move(seconds=2)
        assert self.memory.delete(*KEY) == {"ok": True, "deleted": True}

    def test_prune_takes_what_has_expired_where_it_may(self) -> None:
        memory = Memory(self.space, prune_strategy_by_namespace={"ops": "none"})
        for namespace in ("workflow", "session", "ops"):
            memory.put(namespace, "k", "short", {}, 1)
            memory.put(namespace, "k", "long", {}, 60)
            memory.put(namespace, "k", "ever", {})
        self.clock.move(seconds=2)
        assert memory.prune("ops") == {"ok": True, "pruned": 0}
        assert memory.prune("workflow") == {"ok": True, "pruned": 1}
        assert memory.prune() == {"ok": True, "pruned": 1}
        before = self.space.version
        assert memory.prune() == {"ok": True, "pruned": 0}
        assert self.space.version == before
        gone = [
            self.space.read(Memory.entity_id(name, "k", "short")).exists
            for name in ("workflow", "session", "ops")
        ]
        assert gone == [False, False, True]
        assert memory.stats()["records"] == 7

    def test_touch_counts_and_leaves_the_rest(self) -> None:
        self.memory.put(*KEY, {"n": 1}, 600, {"tags": ["a"], "access_count": 4})
        self.clock.move(seconds=60)
        touched = self.memory.touch(*KEY)
        assert touched == {
            "ok": True, "found": True, "last_accessed": LATER, "access_count": 5, "version": 2,
        }  # fmt: skip
        record = self.record()
        assert (record["created_at"], record["updated_at"]) == (AT, AT)
        assert record["metadata"] == {"tags": ["a"], "access_count": 5, "last_accessed": LATER}
        assert record["payload"] == {"n": 1}

    def test_touch_makes_metadata_where_there_is_none_and_no_record(self) -> None:
        self.memory.put(*KEY, {})
        assert self.memory.touch(*KEY)["access_count"] == 1
        before = self.space.version
        assert self.memory.touch("ops", "k", "absent") == {
            "ok": True, "found": False, "last_accessed": None, "access_count": None,
            "version": None,
        }  # fmt: skip
        assert self.space.version == before

    def test_reading_writes_nothing(self) -> None:
        self.memory.put(*KEY, {}, 1, {"tags": ["a"], "access_count": 1})
        before = (self.space.version, self.space.head)
        for _ in range(2):
            self.memory.get(*KEY)
            self.memory.list("workflow", filters={"tags_any": ["a"]}, include=("metadata",))
            self.memory.stats()
            self.memory.retention_report()
            self.memory.capabilities()
            self.clock.move(seconds=2)
        assert (self.space.version, self.space.head) == before

    # -- reports -----------------------------------------------------------------------------------

    def test_stats_add_up_what_is_stored(self) -> None:
        self.memory.put("ops", "a", "1", {"x": 1})
        self.memory.put("ops", "b", "2", {}, 1)
        self.memory.put("session", "a", "3", {})
        self.clock.move(seconds=9)
        sizes = {state.id: len(canonical(state.value)) for state in self.space.scan()}
        by_namespace = {
            "ops": {"records": 2, "bytes": sum(s for id, s in sizes.items() if ":ops!" in id)},
            "session": {
                "records": 1,
                "bytes": sum(s for i, s in sizes.items() if ":ops!" not in i),
            },
        }
        assert self.memory.stats() == {
            "records": 3, "bytes": sum(sizes.values()), "by_namespace": by_namespace,
        }  # fmt: skip

    def test_the_retention_report_counts_and_names(self) -> None:
        day = 86_400
        self.memory.put("ops", "a", "old", {})
        self.clock.move(seconds=31 * day)
        self.memory.put("ops", "a", "gone", {}, day)
        self.clock.move(seconds=8 * day)
        self.memory.put("ops", "b", "week", {}, 30 * day)
        self.clock.move(seconds=2 * day)
        self.memory.put("session", "b", "soon", {}, 100)
        self.memory.put("session", "b", "edge", {}, 101)
        report = self.memory.retention_report(100)
        counts = {"records": 0, "with_ttl": 0, "without_ttl": 0, "expired": 0, "expiring_soon": 0}
        assert report["totals"] == {
            "records": 5, "with_ttl": 4, "without_ttl": 1, "expired": 1, "expiring_soon": 1,
        }  # fmt: skip
        assert report["by_namespace"] == {
            "ops": {**counts, "records": 3, "with_ttl": 2, "without_ttl": 1, "expired": 1},
            "session": {**counts, "records": 2, "with_ttl": 2, "expiring_soon": 1},
        }
        assert report["by_kind"] == {
            "a": {**counts, "records": 2, "with_ttl": 1, "without_ttl": 1, "expired": 1},
            "b": {**counts, "records": 3, "with_ttl": 3, "expiring_soon": 1},
        }
        assert report["age"] == {"last_24h": 2, "24h_to_7d": 1, "7d_to_30d": 1, "older": 1}
        assert [record["record_id"] for record in report["expired"]] == ["gone"]
        assert [record["record_id"] for record in report["expiring_soon"]] == ["soon"]
        assert self.memory.retention_report(101)["totals"]["expiring_soon"] == 2

    def test_a_retention_report_is_of_a_namespace_and_of_kinds(self) -> None:
        for namespace, kind, id in (
            ("ops", "a", "1"), ("ops", "aa", "2"), ("ops", "b", "3"), ("session", "a", "4"),
        ):  # fmt: skip
            self.memory.put(namespace, kind, id, {}, 9)

        def counted(*arguments: Any) -> tuple[list[str], list[str], list[str]]:
            report = self.memory.call("retention_report", [9, *arguments])
            assert report["totals"]["records"] == sum(report["age"].values())
            named = [record["record_id"] for record in report["expiring_soon"]]
            return list(report["by_namespace"]), list(report["by_kind"]), named

        everything = (["ops", "session"], ["a", "aa", "b"], ["1", "2", "3", "4"])
        assert counted() == counted(None) == counted(None, None) == counted(None, []) == everything
        assert counted("ops") == (["ops"], ["a", "aa", "b"], ["1", "2", "3"])
        assert counted(None, ["a"]) == (["ops", "session"], ["a"], ["1", "4"])
        assert counted("ops", ["b", "a", "b"]) == (["ops"], ["a", "b"], ["1", "3"])
        assert counted("workflow", ["a"]) == ([], [], [])

    # -- hosts -------------------------------------------------------------------------------------

    def test_a_host_calls_verbs_by_position(self) -> None:
        call = self.memory.call
        assert call(" Put ", [*KEY, {"entries": []}])["created"]
        assert call("APPEND", (*KEY, {"n": 1}, None, {"tags": ["a"]}))["entries"] == 1
        assert call("get", KEY)["found"]
        assert (
            call("list", ["workflow"])["items"] == call("list", ["workflow", None, None])["items"]
        )
        assert len(call("list", ["workflow", "checkpoint", "cp", AT, {"tags_any": ["a"]}])["items"])
        assert call("touch", KEY)["access_count"] == 1
        assert call("prune", [])["pruned"] == call("prune", ["ops"])["pruned"] == 0
        assert call("stats")["records"] == 1
        assert call("retention_report", [5])["totals"]["records"] == 1
        assert call("delete", KEY) == {"ok": True, "deleted": True}
        assert call("capabilities")["memory_profile"] == "v1.1-deterministic-metadata"

    def test_a_bad_call_is_refused_and_stores_nothing(self) -> None:
        self.memory.put(*KEY, {"entries": []})
        for verb, arguments in BAD_CALLS:
            with Unchanged(self, InvalidInput) as raised:
                self.memory.call(verb, arguments)
            assert raised.value.code in ("invalid_input", "invalid_value")

    def test_a_key_that_is_too_long_is_refused(self) -> None:
        for kind, id in (("k" * 201, "i"), ("k", "i" * 513), ("k", " " * 171), ("é" * 101, "i")):
            with Unchanged(self, LimitExceeded):
                self.memory.put("ops", kind, id, {})

    def test_a_key_that_fits_is_taken(self) -> None:
        keys = [("k" * 200, "i" * 512), ("é" * 100, " " * 170), ("a!b", "\0\t\n"), ("*", "*")]
        for kind, id in keys:
            self.memory.put("ops", kind, id, {})
        items = self.memory.list("ops")["items"]
        assert [(item["record_kind"], item["record_id"]) for item in items] == sorted(keys)

    def test_a_host_may_have_namespaces_of_its_own(self) -> None:
        memory = Memory(self.space, namespaces=["zoo", "a-1_b"])
        advice = r"there are a-1_b, zoo; list all that you use in Memory\(space, namespaces=\[…\]\)"
        with pytest.raises(InvalidInput, match=advice):
            memory.get("ops", "note", "1")
        memory.put("zoo", "k", "i", {})
        assert memory.capabilities()["namespaces"] == ["a-1_b", "zoo"]
        with pytest.raises(InvalidInput):
            memory.put("session", "k", "i", {})

    def test_bad_settings_are_refused(self) -> None:
        for settings in BAD_SETTINGS:
            with pytest.raises(InvalidInput):
                Memory(self.space, **settings)

    def test_the_profile_v1_takes_all_of_v1_and_nothing_else(self) -> None:
        memory = Memory(self.space, profile="v1")
        memory.call("put", [*KEY, {"_metadata": 5}, 60])
        assert memory.call("get", KEY)["record"]["payload"] == {"_metadata": 5}
        assert memory.call("list", ["workflow", "checkpoint", "cp", AT, None])["items"]
        assert memory.capabilities()["memory_profile"] == "v1"
        assert memory.capabilities()["filters"] == []
        assert not {"history", "touch"} & set(memory.capabilities()["verbs"])
        refused: list[Callable[[], Any]] = [
            lambda: memory.call("put", [*KEY, {}, 60, {}]),
            lambda: memory.call("append", [*KEY, {}, 60, None]),
            lambda: memory.call("list", ["workflow", None, None, None, {}]),
            lambda: memory.call("touch", KEY),
            lambda: memory.history(*KEY),
            lambda: memory.get(*KEY, at=1),
            lambda: memory.list("workflow", at=1),
            lambda: memory.list("workflow", include=("payload",)),
        ]
        for call in refused:
            with Unchanged(self, InvalidInput) as raised:
                call()
            assert "v1.1-deterministic-metadata" in str(raised.value)

    def test_a_version_that_is_not_there_is_not_found(self) -> None:
        with pytest.raises(NotFound):
            self.memory.get(*KEY, at=9)
        with pytest.raises(NotFound):
            self.memory.list("workflow", at=9)

    # -- what others put under the ids of records --------------------------------------------------

    def test_what_is_no_record_is_absent_and_can_be_put(self) -> None:
        """A store of the time before content rules may hold anything under the id of a record."""
        space = self.open_fresh("old", content_rules=()).space("notes")
        for value in NO_RECORDS:
            self._put_over(space, value)

    def _put_over(self, space: Space, value: Any) -> None:
        memory = Memory(space)
        space.set(Memory.entity_id("ops", "k", "i"), value)
        space.set("record:ops!!k!!", 1)
        assert memory.get("ops", "k", "i") == {"found": False, "record": None}
        assert memory.list("ops")["items"] == memory.list("ops", None, "i")["items"] == []
        assert memory.stats()["records"] == 0
        assert memory.put("ops", "k", "i", {})["created"]
        assert [item["record_id"] for item in memory.list("ops")["items"]] == ["i"]
        assert space.verify().ok

    def test_metadata_of_any_shape_poisons_no_list(self) -> None:
        self.memory.put("ops", "k", "i", {})
        odd = {"tags": 5, "source": [], "valid_at": "x", "last_accessed": 3, "access_count": "y"}
        self.space.patch(
            Memory.entity_id("ops", "k", "i"), [{"op": "add", "path": "/metadata", "value": odd}]
        )
        for filters in ({"tags_any": ["a"]}, {"source": "a"}, {"valid_at_after": AT}):
            assert self.listed("ops", filters=filters) == []
        assert self.listed("ops") == ["i"]
        assert self.memory.touch("ops", "k", "i")["access_count"] == 1

    def test_errors_are_of_the_one_tree(self) -> None:
        with pytest.raises(RoteError):
            self.memory.call("get", [])
        with pytest.raises(TypeError):
            self.memory.get("ops")  # type: ignore[call-arg]
