"""Ids of records: an entity below `record:` holds a record or nothing, whoever writes it; two merge."""

from typing import Any

import pytest

from rote.contract import Resolution
from rote.errors import InvalidInput
from rote.records.memory import Memory
from rote.space import Space
from rote.testing.space_suite.ground import Unchanged, add, change, put, remove
from rote.testing.space_suite.records import AT, KEY, LATER, NO_RECORDS, RecordGround

ENTITY = Memory.entity_id("ops", "k", "i")
ENVELOPE: dict[str, Any] = {
    "namespace": "ops", "record_kind": "k", "record_id": "i", "created_at": AT, "updated_at": AT,
    "ttl_seconds": None, "payload": {}, "metadata": None,
}  # fmt: skip
# Ids that no record can have.
ODD_IDS = ("record:", "record:a", "record:ops!!k!!", "record:Big!!k!!i!!", "record:ops!!k!!i")
BAD_MEMBERS: list[tuple[str, Any]] = [
    ("payload", []), ("payload", None), ("payload", "{"), ("metadata", []), ("metadata", "x"),
    ("metadata", 1), ("created_at", "x"), ("created_at", 5), ("updated_at", None),
    ("ttl_seconds", 0), ("ttl_seconds", "5"), ("ttl_seconds", True), ("namespace", "session"),
    ("record_kind", "K"), ("record_id", 1), ("more", 1),
]  # fmt: skip


class RecordContentTests(RecordGround):
    def test_an_entity_below_record_holds_a_record_or_nothing(self) -> None:
        values = [*NO_RECORDS, *({**ENVELOPE, name: value} for name, value in BAD_MEMBERS)]
        values += [{name: ENVELOPE[name] for name in ENVELOPE if name != gone} for gone in ENVELOPE]
        for value in values:
            with Unchanged(self, InvalidInput) as caught:
                self.space.set(ENTITY, value)
            assert caught.value.details["id"] == ENTITY
        for id in ODD_IDS:
            with Unchanged(self, InvalidInput):
                self.space.set(id, ENVELOPE)
        for namespace, kind, id in (("ops", "", "d"), ("ops", "k", ""), ("OPS", "k", "i")):
            odd = {**ENVELOPE, "namespace": namespace, "record_kind": kind, "record_id": id}
            with Unchanged(self, InvalidInput):
                self.space.set(f"record:{namespace}!!{kind}!!{id}!!", odd)
        with Unchanged(self, InvalidInput):
            self.space.set("record:ops!!k!!i!!d!!", {**ENVELOPE, "namespace": "ops!!k"})
        self.space.set("records:a", 1)
        self.space.set(ENTITY, {**ENVELOPE, "payload": {"any": ["thing", {"at": {"all": None}}]}})
        assert self.memory.get("ops", "k", "i")["found"]

    def test_a_patch_leaves_a_record(self) -> None:
        self.memory.put("ops", "k", "i", {"entries": [1]})
        for name, value in BAD_MEMBERS:
            with Unchanged(self, InvalidInput):
                self.space.patch(ENTITY, [add(f"/{name}", value)])
        for name in ENVELOPE:
            with Unchanged(self, InvalidInput):
                self.space.patch(ENTITY, [{"op": "remove", "path": f"/{name}"}])
        for operation in (
            add("", 5), {"op": "move", "from": "/payload", "path": "/other"},
            {"op": "move", "from": "/metadata", "path": "/payload/metadata"},
        ):  # fmt: skip
            with Unchanged(self, InvalidInput):
                self.space.patch(ENTITY, [operation])
        self.space.patch(ENTITY, [add("/payload/entries/-", [2]), add("/metadata", {"any": 1})])
        # Large documents are patched on another path than small ones.
        self.memory.put("ops", "k", "i", {"entries": ["x" * 100] * 100})
        with Unchanged(self, InvalidInput):
            self.space.patch(ENTITY, [add("/more", 1)])

    def test_no_operation_of_a_commit_may_write_anything_else(self) -> None:
        good = put(ENTITY, ENVELOPE)
        for operations in (
            [put("urn:a", 1), put(ENTITY, 1)],
            [put(ENTITY, 1), good],
            [good, change(ENTITY, add("/more", 1)), change(ENTITY, add("/more", 1)), good],
            [change(ENTITY, add("/x", 1), **{"else": 5})],
        ):
            with Unchanged(self, InvalidInput):
                self.space.transact(operations)
        with Unchanged(self, InvalidInput), self.space.transaction() as tx:
            tx.set(ENTITY, 1)
        with Unchanged(self, InvalidInput):
            self.space.update(ENTITY, lambda _: 1)
        self.space.transact([good, remove(ENTITY)])

    def test_a_run_is_told_at_once(self) -> None:
        store = self.open_fresh("runs", modes=("buffered_write",))
        space = store.space("notes")
        with space.run(
            workflow_id="w", model=None, policy_set_id="p", mode="buffered_write"
        ) as run:
            with pytest.raises(InvalidInput):
                run.set(ENTITY, 1)
            run.memory.put("ops", "k", "i", {})
            with pytest.raises(InvalidInput):
                run.patch(ENTITY, [add("/more", 1)])
        assert run.state == "commit_applied"
        assert Memory(space).get("ops", "k", "i")["record"]["payload"] == {}

    # -- stores of earlier days --------------------------------------------------------------------

    def _old(self) -> Space:
        """Return a copy of a space that was written before there were content rules."""
        old = self.open_fresh("old", content_rules=())
        space = old.space("old")
        space.set(ENTITY, {"text": "no record"})
        space.set("record:odd", 1)
        Memory(space).put(*KEY, {})
        branch = space.create_branch("b")
        branch.patch(Memory.entity_id(*KEY), [add("/more", 1)])
        branch.delete("record:odd")
        old.copy("old", self.store)
        return self.store.space("old")

    def test_a_copy_is_taken_as_it_is_and_verify_warns(self) -> None:
        space = self._old()
        report = space.verify()
        assert (report.ok, report.faults) == (True, ())
        found = [(fault.kind, fault.id, fault.version) for fault in report.warnings]
        branched = ("content", Memory.entity_id(*KEY), 5)
        assert found == [("content", "record:odd", 2), ("content", ENTITY, 1), branched]
        assert report.to_dict()["warnings"]
        assert self.space.verify().warnings == ()

    def test_what_is_no_record_can_be_deleted_and_replaced_by_one(self) -> None:
        space = self._old()
        with pytest.raises(InvalidInput):
            space.patch(ENTITY, [add("/text", "still none")])
        space.delete("record:odd")
        assert Memory(space).put("ops", "k", "i", {})["created"]
        space.on("b").patch(Memory.entity_id(*KEY), [{"op": "remove", "path": "/more"}])
        assert space.verify().warnings == ()

    def test_a_merge_carries_what_a_branch_has(self) -> None:
        space = self._old()
        assert space.merge("b").status == "merged"
        assert [fault.id for fault in space.verify().warnings][:1] == [ENTITY]

    # -- merges ------------------------------------------------------------------------------------

    def _sides(self, *, metadata: dict[str, Any] | None = None) -> tuple[Memory, Memory]:
        self.memory.put(*KEY, {"a": 1, "b": 1}, None, metadata)
        self.clock.move(seconds=10)
        branch = self.space.create_branch("b")
        return self.memory, Memory(branch)

    def test_a_resolution_is_a_record(self) -> None:
        ours, theirs = self._sides()
        entity = Memory.entity_id(*KEY)
        ours.update(*KEY, patch=[add("/a", 2)])
        theirs.update(*KEY, patch=[add("/a", 3)])
        for dry_run in (True, False):
            with Unchanged(self, InvalidInput):
                self.space.merge("b", resolutions={entity: {"a": 4}}, dry_run=dry_run)
        record = {**self.record(), "payload": {"a": 4}}
        assert self.space.merge("b", resolutions={entity: record}).status == "merged"
        theirs.update(*KEY, patch=[add("/a", 5)])
        assert self.space.merge("b", resolutions={entity: Resolution.DELETE}).status == "merged"

    def test_two_sides_that_changed_different_members_merge_by_path(self) -> None:
        ours, theirs = self._sides()
        theirs.update(*KEY, patch=[add("/b", 2)])
        self.clock.move(seconds=50)
        ours.update(*KEY, patch=[add("/a", 2)], ttl_seconds=60)
        assert self.space.merge("b").status == "conflict"
        dry = self.space.merge("b", on_conflict="paths", dry_run=True)
        assert self.space.merge("b", on_conflict="paths").merged == dry.merged
        record = self.record()
        assert (record["payload"], record["ttl_seconds"]) == ({"a": 2, "b": 2}, 60)
        assert (record["created_at"], record["updated_at"]) == (AT, LATER)
        assert self.space.on("b").merge("main", on_conflict="paths").status == "merged"
        assert self.record(theirs) == record

    def test_a_merge_by_path_takes_the_later_access_and_all_accesses(self) -> None:
        for base, added, total in (
            ({"access_count": 3, "tags": ["t"]}, (2, 1), 6), (None, (1, 2), 3), ({}, (0, 2), 2),
        ):  # fmt: skip
            self.memory.put(*KEY, {"a": 1}, None, base)
            name = f"b{total}"
            branch = Memory(self.space.create_branch(name))
            for memory, count in zip((self.memory, branch), added, strict=True):
                for _ in range(count):
                    self.clock.move(seconds=1)
                    memory.touch(*KEY)
            latest = max(
                (memory.get(*KEY)["record"]["metadata"] or {}).get("last_accessed", "")
                for memory in (self.memory, branch)
            )
            assert self.space.merge(name, on_conflict="paths").status == "merged"
            merged = self.record()["metadata"]
            expected = {**(base or {}), "access_count": total, "last_accessed": latest}
            assert merged == expected

    def test_accesses_are_not_counted_twice_where_the_bases_conflict(self) -> None:
        """Two branches that have merged each other crosswise have two bases, which differ."""
        self.memory.put(*KEY, {}, None, {"access_count": 10})
        sides = {name: self.space.create_branch(name) for name in "bc"}
        for name, child in (("b", "x"), ("c", "y")):
            self.clock.move(seconds=1)
            Memory(sides[name]).touch(*KEY)
            sides[name].create_branch(child)
        sides["b"].merge("y", on_conflict="paths")
        sides["c"].merge("x", on_conflict="paths")
        for name in "bc":
            self.clock.move(seconds=1)
            Memory(sides[name]).touch(*KEY)
        sides["b"].merge("c", on_conflict="paths")
        assert self.record(Memory(sides["b"]))["metadata"]["access_count"] == 13

    def test_sides_that_changed_the_same_member_still_conflict(self) -> None:
        ours, theirs = self._sides(metadata={"tags": ["a"]})
        ours.update(*KEY, metadata={"tags": ["b"]})
        theirs.update(*KEY, metadata={"tags": ["c"]})
        assert self.space.merge("b", on_conflict="paths").status == "conflict"
        theirs.update(*KEY, metadata=None)
        assert self.space.merge("b", on_conflict="paths").status == "conflict"
        assert self.space.merge("b", on_conflict="theirs").status == "merged"

    def test_a_merge_by_path_that_gives_no_record_stays_a_conflict(self) -> None:
        """One side moved the record's members away before there were content rules."""
        old = self.open_fresh("old", content_rules=()).space("notes")
        Memory(old).put(*KEY, {"a": 1})
        branch = old.create_branch("b")
        old.patch(Memory.entity_id(*KEY), [add("/more", 1)])
        Memory(branch).update(*KEY, patch=[add("/a", 2)])
        assert old.merge("b", on_conflict="paths", dry_run=True).status == "merged"
        target = self.open_fresh("new")
        self._opened[-2].copy("notes", target)
        copied = target.space("notes")
        assert copied.merge("b", on_conflict="paths").status == "conflict"
