"""Conformance: the rules of the registry hold for every way to write a value."""

import threading
from typing import Any

import pytest

from rote.contract import DELETE
from rote.errors import InvalidInput, RoteError
from rote.records.memory import Memory
from rote.space import Space
from rote.testing.space_suite.ground import (
    A,
    SpaceGround,
    Unchanged,
    add,
    change,
    logged,
    put,
    remove,
)
from rote.values.limits import DEPTH_MAX, SCHEMA_BYTES_MAX

REGISTRY, NOTE, PERSON = "urn:schemas", "urn:schema:note", "urn:schema:person"
ONE, TWO = "urn:note:1", "urn:note:2"
TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
SHORT = {**TEXT, "properties": {"text": {"type": "string", "maxLength": 3}}}
GOOD, LONG, BAD = {"text": "a"}, {"text": "long"}, {"text": 1}


def govern(space: Space, schema: Any = TEXT, prefix: str = "urn:note:") -> None:
    space.transact([put(NOTE, schema), put(REGISTRY, {prefix: "note"})])


class ConformanceTests(SpaceGround):
    def refused(
        self, pointer: str, rule: str, *, id: str = ONE, name: str | None = "note"
    ) -> "_Refused":
        """Return a block that is refused with exactly this, and leaves nothing behind."""
        return _Refused(self, {"id": id, "pointer": pointer, "rule": rule, "schema": name})

    # -- values ------------------------------------------------------------------------------------

    def test_a_value_that_does_not_conform_is_refused_with_its_place_and_the_rule(self) -> None:
        govern(self.space)
        with self.refused("/text", "type") as caught:
            self.space.set(ONE, BAD)
        assert caught.value.code == "invalid_input"
        assert ONE in str(caught.value) and "'note'" in str(caught.value)
        with self.refused("", "required"):
            self.space.set(ONE, {})
        self.space.set(ONE, GOOD)
        assert self.space.get(ONE) == GOOD

    def test_without_a_registry_or_a_prefix_everything_goes(self) -> None:
        self.space.set(NOTE, TEXT)
        self.space.set(ONE, BAD)
        govern(self.space)
        self.space.set("urn:other:1", BAD)
        self.space.set("urn:note", BAD)
        self.space.set("urn:schemas-of-mine", BAD)

    def test_the_longest_prefix_decides(self) -> None:
        registry = {"": "any", "urn:note:": "note", "urn:note:free:": "any"}
        self.space.transact([put(NOTE, TEXT), put("urn:schema:any", True), put(REGISTRY, registry)])
        self.space.set("urn:note:free:1", BAD)
        self.space.set(A, BAD)
        with self.refused("/text", "type"):
            self.space.set(ONE, BAD)

    def test_the_value_that_a_patch_leaves_is_judged(self) -> None:
        govern(self.space)
        self.space.set(ONE, GOOD)
        with self.refused("", "required"):
            self.space.patch(ONE, [{"op": "remove", "path": "/text"}])
        self.space.patch(ONE, [add("/more", 1)])
        assert self.space.get(ONE) == {**GOOD, "more": 1}

    def test_patches_of_a_large_document_are_judged_whole(self) -> None:
        govern(self.space)
        self.space.set(ONE, {"text": "x" * 20_000})
        self.space.patch(ONE, [add("/more", 1)])
        with self.refused("/text", "type"):
            self.space.patch(ONE, [add("/text", 1)])

    def test_what_is_set_where_a_patch_finds_nothing_is_judged(self) -> None:
        govern(self.space)
        with self.refused("/text", "type"):
            self.space.transact([change(ONE, add("/more", 1), **{"else": BAD})])
        self.space.transact([change(ONE, add("/text", 1), **{"else": GOOD})])
        assert self.space.get(ONE) == GOOD

    def test_the_stamp_of_a_value_is_judged_with_it(self) -> None:
        govern(self.space, {"properties": {"at": {"type": "integer"}}})
        with self.refused("/at", "type"):
            self.space.transact([put(ONE, {}, stamp=["/at"])])

    def test_only_what_a_commit_leaves_is_judged(self) -> None:
        govern(self.space)
        self.space.transact([put(ONE, BAD), put(ONE, GOOD)])
        self.space.transact([put(TWO, BAD), remove(TWO)])
        with self.refused("/text", "type"):
            self.space.transact([put(ONE, GOOD), put(ONE, BAD)])

    def test_the_first_operation_that_leaves_something_wrong_is_told(self) -> None:
        govern(self.space)
        with self.refused("", "required", id=TWO):
            self.space.transact([put(ONE, BAD), put(TWO, {}), put(ONE, BAD)])

    def test_a_transaction_and_an_update_are_judged(self) -> None:
        govern(self.space)
        with self.refused("/text", "type"), self.space.transaction() as tx:
            tx.set(ONE, BAD)
        self.space.set(ONE, GOOD)
        with self.refused("/text", "type"):
            self.space.update(ONE, lambda value: BAD)

    def test_records_are_judged(self) -> None:
        memory, key = Memory(self.space), ("session", "log", "1")
        memory.append(*key, {"n": 1})
        [id] = [state.id for state in self.space.scan()]
        numbers = {"properties": {"n": {"type": "integer"}}}
        payload = {"properties": {"entries": {"items": numbers}, **numbers["properties"]}}
        govern(self.space, {"properties": {"payload": payload}}, id[:-1])
        memory.append(*key, {"n": 2})
        with self.refused("/payload/entries/2/n", "type", id=id):
            memory.append(*key, {"n": "three"})
        with self.refused("/payload/n", "type", id=id):
            memory.put(*key, {"n": "four"})

    def test_deletes_and_erasures_are_not_judged(self) -> None:
        self.space.set(ONE, BAD)
        self.space.set(TWO, BAD)
        govern(self.space)
        self.space.delete(ONE)
        self.space.erase(TWO, reason="asked for")
        with self.refused("/text", "type"):
            self.space.set(ONE, BAD)

    def test_what_is_there_stays_when_the_schema_becomes_stricter(self) -> None:
        self.space.set(ONE, BAD)
        govern(self.space)
        assert self.space.get(ONE) == BAD
        assert self.space.verify().ok
        with self.refused("/text", "type"):
            self.space.patch(ONE, [add("/more", 1)])
        self.space.patch(ONE, [add("/text", "mended")])

    def test_a_key_gives_back_what_was_accepted_before(self) -> None:
        govern(self.space)
        first = self.space.set(ONE, LONG, key="k")
        self.space.set(NOTE, SHORT)
        assert self.space.set(ONE, LONG, key="k") == first
        with self.refused("/text", "maxLength"):
            self.space.set(ONE, LONG, key="other")

    def test_conflicts_are_told_before_violations(self) -> None:
        govern(self.space)
        self.space.set(ONE, GOOD)
        with Unchanged(self, RoteError) as caught:
            self.space.transact([put(ONE, BAD)], reads=[{"id": ONE, "version": 0}])
        assert caught.value.code == "conflict"

    # -- the state that counts -----------------------------------------------------------------------

    def test_a_commit_is_judged_by_the_schemas_it_leaves(self) -> None:
        operations = [put(ONE, BAD), put(NOTE, TEXT), put(REGISTRY, {"urn:note:": "note"})]
        with self.refused("/text", "type"):
            self.space.transact(operations)
        govern(self.space)
        with self.refused("/text", "maxLength"):
            self.space.transact([put(ONE, LONG), put(NOTE, SHORT)])
        self.space.transact([put(ONE, BAD), put(REGISTRY, {})])
        govern(self.space)
        self.space.transact([put(ONE, BAD), remove(REGISTRY), remove(NOTE)])

    def test_the_registry_counts_from_its_commit_until_its_deletion(self) -> None:
        for _ in range(3):
            self.space.set(ONE, BAD)
            govern(self.space)
            with self.refused("/text", "type"):
                self.space.set(ONE, BAD)
            self.space.delete(REGISTRY)
        self.space.set(ONE, BAD)

    def test_a_refused_commit_takes_no_registry_away(self) -> None:
        govern(self.space)
        with self.refused("", "type", id=PERSON, name="person"):
            self.space.transact([remove(REGISTRY), put(PERSON, 1)])
        with self.refused("/text", "type"):
            self.space.set(ONE, BAD)

    def test_each_branch_has_its_own_rules(self) -> None:
        self.space.set(ONE, GOOD)
        self.space.create_branch("before")
        govern(self.space)
        after = self.space.create_branch("after")
        self.space.on("before").set(ONE, BAD)
        with self.refused("/text", "type"):
            after.set(ONE, BAD)
        after.delete(REGISTRY)
        after.set(ONE, BAD)
        with self.refused("/text", "type"):
            self.space.set(ONE, BAD)
        govern(self.space.on("before"), SHORT)
        self.space.set(ONE, LONG)

    def test_an_erased_schema_refuses_what_it_governs_until_it_is_set_again(self) -> None:
        govern(self.space)
        self.space.erase(NOTE, reason="it named somebody")
        with self.refused("", "registry"):
            self.space.set(ONE, GOOD)
        self.space.set(NOTE, TEXT)
        self.space.set(ONE, GOOD)

    # -- merges --------------------------------------------------------------------------------------

    def test_a_merge_is_judged_by_its_target(self) -> None:
        self.space.set(ONE, GOOD)
        side = self.space.create_branch("side")
        side.set(ONE, BAD)
        side.set(TWO, GOOD)
        govern(self.space)
        for dry_run in (True, False):
            with self.refused("/text", "type"):
                self.space.merge("side", dry_run=dry_run)
        side.set(ONE, LONG)
        assert self.space.merge("side", dry_run=True).merged == (ONE, TWO)
        assert self.space.merge("side").merged == (ONE, TWO)

    def test_a_merge_is_judged_by_the_schemas_it_brings(self) -> None:
        self.space.set(ONE, GOOD)
        side = self.space.create_branch("side")
        govern(side, SHORT)
        side.set(ONE, GOOD)
        self.space.set(TWO, LONG)
        assert self.space.merge("side").merged == (NOTE, REGISTRY)
        with self.refused("/text", "maxLength", id=TWO):
            self.space.set(TWO, LONG)

    def test_a_resolution_is_judged(self) -> None:
        govern(self.space)
        self.space.set(ONE, GOOD)
        side = self.space.create_branch("side")
        side.set(ONE, LONG)
        self.space.set(ONE, {"text": "b"})
        with self.refused("/text", "type"):
            self.space.merge("side", resolutions={ONE: BAD})
        self.space.merge("side", resolutions={ONE: DELETE})

    def test_a_merge_does_not_delete_a_schema_that_the_target_names(self) -> None:
        self.space.set(NOTE, TEXT)
        side = self.space.create_branch("side")
        side.delete(NOTE)
        self.space.set(REGISTRY, {"urn:note:": "note"})
        with self.refused("", "registry", id=NOTE):
            self.space.merge("side")

    # -- schemas and the registry ----------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("schema", "pointer", "rule"),
        [
            (1, "", "type"),
            ({"items": {"$ref": "file:///etc/hostname"}}, "/items/$ref", "$ref"),
            ({"pattern": r"(a)\1"}, "/pattern", "pattern"),
            ({"description": "x" * SCHEMA_BYTES_MAX}, "", "schema"),
        ],
        ids=lambda part: str(part)[:40],
    )
    def test_what_is_no_schema_that_stands_alone_is_refused(
        self, schema: Any, pointer: str, rule: str
    ) -> None:
        with self.refused(pointer, rule, id=NOTE):
            self.space.set(NOTE, schema)

    def test_a_schema_is_judged_after_a_patch_too(self) -> None:
        self.space.set(NOTE, TEXT)
        with self.refused("/type", "anyOf", id=NOTE):
            self.space.patch(NOTE, [add("/type", "text")])

    @pytest.mark.parametrize(
        ("registry", "pointer", "name"),
        [
            ([], "", None),
            ({"urn:a*": "note"}, "/urn:a*", None),
            ({"urn:a/b": "person"}, "/urn:a~1b", "person"),
        ],
        ids=lambda part: str(part)[:40],
    )
    def test_what_is_no_registry_is_refused(
        self, registry: Any, pointer: str, name: str | None
    ) -> None:
        self.space.set(NOTE, TEXT)
        with self.refused(pointer, "registry", id=REGISTRY, name=name):
            self.space.set(REGISTRY, registry)

    def test_a_schema_that_the_registry_names_is_not_deleted(self) -> None:
        govern(self.space)
        self.space.set(PERSON, True)
        with self.refused("", "registry", id=NOTE):
            self.space.delete(NOTE)
        self.space.delete(PERSON)
        self.space.transact([remove(NOTE), remove(REGISTRY)])

    def test_recursive_schemas_judge_values_of_every_depth(self) -> None:
        govern(self.space, {"type": "object", "additionalProperties": {"$ref": "#"}})
        value: Any = {}
        for _ in range(DEPTH_MAX - 1):
            value = {"a": value}
        self.space.set(ONE, value)
        wrong: Any = 1
        for _ in range(DEPTH_MAX):
            wrong = {"a": wrong}
        with self.refused("/a" * DEPTH_MAX, "type"):
            self.space.set(ONE, wrong)

    # -- history that is taken over --------------------------------------------------------------------

    def test_a_copy_is_taken_over_as_it_is_and_governed_from_then_on(self) -> None:
        self.space.set(ONE, BAD)
        govern(self.space)
        target = self.open_fresh("target")
        self.store.copy("notes", target, with_key=True)
        copied = target.space("notes")
        assert logged(copied) == logged(self.space)
        with pytest.raises(InvalidInput) as caught:
            copied.set(TWO, BAD)
        assert caught.value.details["rule"] == "type"

    def test_writers_and_a_change_of_the_schema_come_one_after_the_other(self) -> None:
        write_and_govern([self.space] * 3)
        assert_each_commit_conformed(self.space)


class SharedConformanceTests(SpaceGround):
    def test_a_registry_that_another_process_sets_counts_at_once(self) -> None:
        other = self.open().space("notes")
        for _ in range(2):
            self.space.set(ONE, BAD)
            self.space.set(TWO, BAD)
            govern(other)
            with pytest.raises(InvalidInput):
                self.space.set(ONE, BAD)
            other.delete(REGISTRY)

    def test_writers_of_several_stores_obey_a_change_of_the_schema(self) -> None:
        write_and_govern([self.open().space("notes") for _ in range(3)])
        assert_each_commit_conformed(self.space)


ROUNDS = 24


def write_and_govern(spaces: list[Space]) -> None:
    """Let the first change the rules while the others write values that some of them forbid."""
    start = threading.Barrier(len(spaces))
    failures: list[BaseException] = []

    def switch() -> None:
        for number in range(ROUNDS):
            if number % 3 == 0:
                govern(spaces[0], SHORT)
            elif number % 3 == 1:
                spaces[0].set(NOTE, TEXT)
            else:
                spaces[0].delete(REGISTRY)

    def write(space: Space, id: str) -> None:
        for _ in range(ROUNDS):
            try:
                space.set(id, LONG)
            except InvalidInput as error:
                assert error.details["rule"] == "maxLength"

    def run(work: Any, *arguments: Any) -> None:
        try:
            start.wait()
            work(*arguments)
        except BaseException as error:
            failures.append(error)

    writers = [(write, space, f"urn:note:{n}") for n, space in enumerate(spaces[1:])]
    threads = [threading.Thread(target=run, args=part) for part in [(switch,), *writers]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def assert_each_commit_conformed(space: Space) -> None:
    """Check from the log alone that a long text was never written under the rules that forbid it."""
    rules: dict[str, Any] = {}
    for commit in space.log():
        rules |= {fact.id: fact.body for fact in commit.facts if fact.id in (NOTE, REGISTRY)}
        is_short = rules.get(REGISTRY) is not None and rules[NOTE] == SHORT
        written = [fact for fact in commit.facts if fact.id not in rules]
        assert not (is_short and written), f"version {commit.version}"
        assert all(fact.body == LONG for fact in written)


class _Refused:
    """A block that is refused as InvalidInput with these details, and leaves nothing behind."""

    def __init__(self, ground: SpaceGround, details: dict[str, Any]) -> None:
        self._unchanged = Unchanged(ground, InvalidInput)
        self._details = details

    def __enter__(self) -> "pytest.ExceptionInfo[RoteError]":
        self._caught = self._unchanged.__enter__()
        return self._caught

    def __exit__(self, *error: Any) -> bool:
        expected = self._unchanged.__exit__(*error)
        assert self._caught.value.details == self._details
        return expected
