"""Operations: the effects of set, patch and delete, alone and together."""

from typing import Any

import pytest

from rote.errors import InvalidInput, NotFound, PatchFailed, PayloadMismatch
from rote.testing.space_suite.ground import (
    A,
    B,
    C,
    SpaceGround,
    Unchanged,
    add,
    change,
    put,
    remove,
)

AT = "2026-01-01T12:00:00.000000Z"


class OperationTests(SpaceGround):
    def test_set_replaces_the_whole_value(self) -> None:
        self.space.set(A, {"a": 1, "b": 2})
        self.space.set(A, {"b": 3})
        assert self.space.get(A) == {"b": 3}

    def test_a_value_may_be_null_and_then_exists(self) -> None:
        self.space.set(A, None)
        state = self.space.read(A)
        assert (state.exists, state.value) == (True, None)
        assert self.space.get(A, "default") is None

    def test_patch_changes_the_current_value(self) -> None:
        self.space.set(A, {"items": [1, 2, 3]})
        commit = self.space.patch(
            A,
            [
                {"op": "test", "path": "/items/0", "value": 1.0},
                {"op": "splice", "path": "/items", "index": 1, "remove": 9, "add": ["x"]},
                {"op": "copy", "from": "/items", "path": "/copy"},
            ],
        )
        assert self.space.get(A) == {"items": [1, "x"], "copy": [1, "x"]}
        assert commit.facts[0].op == "patch"

    def test_a_patch_fact_holds_its_operations_with_known_members_only(self) -> None:
        self.space.set(A, {})
        commit = self.space.patch(A, [{**add("/n", 1), "note": "unknown", "from": "/x"}])
        assert commit.facts[0].body == [{"op": "add", "path": "/n", "value": 1}]

    def test_delete_leaves_a_state_with_the_deletes_version_and_hash(self) -> None:
        self.space.set(A, 1)
        commit = self.space.delete(A)
        state = self.space.read(A)
        assert (state.exists, state.value, state.version) == (False, None, 2)
        assert state.hash == commit.facts[0].hash
        assert commit.facts[0].body is None
        assert self.space.get(A, "default") == "default"

    def test_a_never_written_entity_reads_as_absent(self) -> None:
        state = self.space.read(A)
        assert (state.id, state.value, state.exists) == (A, None, False)
        assert (state.version, state.hash, state.erased) == (0, None, False)

    def test_set_after_delete_lives_again_and_follows_the_delete(self) -> None:
        self.space.set(A, 1)
        deleted = self.space.delete(A)
        revived = self.space.set(A, 2)
        assert self.space.get(A) == 2
        assert revived.facts[0].parent == deleted.facts[0].hash

    @pytest.mark.parametrize("operation", [change(A, add("", 1)), remove(A)])
    def test_changing_what_was_never_written_is_not_found(self, operation: dict[str, str]) -> None:
        self.space.set(B, 1)
        with Unchanged(self, NotFound):
            self.space.transact([operation])

    @pytest.mark.parametrize("operation", [change(A, add("", 1)), remove(A)])
    def test_changing_what_was_deleted_is_not_found(self, operation: dict[str, str]) -> None:
        self.space.set(A, 1)
        self.space.delete(A)
        with Unchanged(self, NotFound):
            self.space.transact([operation])

    def test_several_operations_on_one_entity_are_applied_in_order_each_a_fact(self) -> None:
        commit = self.space.transact(
            [put(A, []), change(A, add("/-", 1)), remove(A), put(A, [2]), change(A, add("/-", 3))]
        )
        assert self.space.get(A) == [2, 3]
        assert [fact.op for fact in commit.facts] == ["set", "patch", "delete", "set", "patch"]
        parents = [fact.parent for fact in commit.facts[1:]]
        assert parents == [fact.hash for fact in commit.facts[:-1]]
        assert {fact.version for fact in commit.facts} == {1}
        assert len(self.ids.draws) == 2  # the space's key, and one salt

    def test_a_delete_at_the_end_of_a_commit_leaves_nothing(self) -> None:
        self.space.transact([put(A, 1), put(B, 1), remove(A)])
        assert [state.id for state in self.space.scan()] == [B]
        assert not self.space.read(A).exists

    def test_one_bad_operation_undoes_all_of_them(self) -> None:
        self.space.set(A, {"n": 1})
        with Unchanged(self, NotFound):
            self.space.transact([put(B, 1), put(A, 2), remove(C)])
        with Unchanged(self, PatchFailed):
            self.space.transact([put(B, 1), change(A, add("/x/y", 1))])
        assert (self.space.get(A), self.space.get(B)) == ({"n": 1}, None)

    def test_a_patch_that_does_not_apply_says_which_operation_and_where(self) -> None:
        self.space.set(A, {"n": 1})
        ops = [add("/m", 1), {"op": "test", "path": "/n", "value": 2}]
        with Unchanged(self, PatchFailed) as caught:
            self.space.patch(A, ops)
        assert caught.value.details["index"] == 1
        assert caught.value.details["pointer"] == "/n"
        assert caught.value.details["reason"]

    def test_writes_without_reads_always_apply(self) -> None:
        other = self.store.space("notes")
        self.space.set(A, 1)
        other.set(A, 2)
        self.space.set(A, 3)
        assert other.get(A) == 3

    # -- else --------------------------------------------------------------------------------------

    def test_else_is_set_where_the_patch_finds_nothing(self) -> None:
        operation = change(A, add("/n", 1), **{"else": {"n": 0}})
        first = self.space.transact([operation])
        assert (first.facts[0].op, first.facts[0].body) == ("set", {"n": 0})
        assert self.space.get(A) == {"n": 0}
        second = self.space.transact([operation])
        assert second.facts[0].op == "patch"
        assert self.space.get(A) == {"n": 1}

    def test_else_is_set_after_a_delete(self) -> None:
        self.space.set(A, {})
        self.space.delete(A)
        self.space.transact([change(A, add("/n", 1), **{"else": None})])
        assert self.space.read(A).exists
        assert self.space.get(A) is None

    # -- stamp -------------------------------------------------------------------------------------

    def test_stamp_writes_the_commits_time_into_a_set(self) -> None:
        commit = self.space.transact([put(A, {"at": 0, "in": {}}, stamp=["/at", "/in/at"])])
        assert commit.at == AT
        assert self.space.get(A) == {"at": AT, "in": {"at": AT}}
        assert commit.facts[0].body == {"at": AT, "in": {"at": AT}}

    def test_stamp_is_appended_to_a_patch_as_an_add(self) -> None:
        self.space.set(A, {})
        commit = self.space.transact([change(A, add("/n", 1), stamp=["/at"])])
        assert commit.facts[0].body == [
            {"op": "add", "path": "/n", "value": 1},
            {"op": "add", "path": "/at", "value": AT},
        ]
        assert self.space.get(A) == {"n": 1, "at": AT}

    def test_stamp_goes_into_else_too(self) -> None:
        self.space.transact([change(A, add("/n", 1), stamp=["/at"], **{"else": {}})])
        assert self.space.get(A) == {"at": AT}

    def test_else_may_have_a_stamp_of_its_own(self) -> None:
        operation = change(
            A, add("/n", 1), stamp=["/changed"], **{"else": {}, "else_stamp": ["/made", "/changed"]}
        )
        self.space.transact([operation], key="first")
        self.clock.move(seconds=1)
        later = self.space.transact([operation], key="second").at
        assert self.space.get(A) == {"made": AT, "changed": later, "n": 1}
        assert later != AT

    def test_an_empty_stamp_of_else_stamps_nothing(self) -> None:
        more = {"else": {"n": 0}, "else_stamp": []}
        self.space.transact([change(A, add("/n", 1), stamp=["/at"], **more)])
        assert self.space.get(A) == {"n": 0}

    def test_a_key_stands_for_the_stamp_of_else_too(self) -> None:
        self.space.transact([change(A, **{"else": {}, "else_stamp": ["/at"]})], key="once")
        with Unchanged(self, PayloadMismatch):
            self.space.transact([change(A, **{"else": {}, "else_stamp": ["/on"]})], key="once")

    @pytest.mark.parametrize("more", [{"else_stamp": ["/at"]}, {"else": {}, "else_stamp": [""]}])
    def test_a_stamp_of_else_without_a_place_is_refused(self, more: dict[str, Any]) -> None:
        with Unchanged(self, InvalidInput):
            self.space.transact([change(A, **more)])

    def test_stamp_is_the_commits_time_also_when_the_clock_went_back(self) -> None:
        self.space.set(B, 1)
        self.clock.move(seconds=-60)
        self.space.transact([put(A, {}, stamp=["/at"])])
        assert self.space.get(A) == {"at": AT}

    def test_update_sets_what_the_function_makes_of_the_value(self) -> None:
        self.space.update(A, lambda value: (value or 0) + 1)
        commit = self.space.update(A, lambda value: value + 1)
        assert self.space.get(A) == 2
        assert commit.facts[0].op == "set"

    def test_update_tries_again_when_someone_was_faster(self) -> None:
        self.space.set(A, 0)
        seen: list[int] = []

        def add_one(value: int) -> int:
            seen.append(value)
            if len(seen) < 3:
                self.store.space("notes").set(A, value + 10)
            return value + 1

        self.space.update(A, add_one)
        assert seen == [0, 10, 20]
        assert self.space.get(A) == 21
