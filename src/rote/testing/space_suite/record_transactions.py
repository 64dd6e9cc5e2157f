"""Records in a transaction: one commit with entities, own writes seen, reads noted."""

from collections.abc import Callable
from typing import Any

import pytest

from rote.errors import Conflict, InvalidInput, Unavailable
from rote.records.memory import Memory
from rote.space.own_hits import OwnHits
from rote.testing.space_suite.ground import Unchanged
from rote.testing.space_suite.records import AT, LATER, RecordGround

FACT = ("long_term", "fact", "tea")
LOG = ("session", "turns", "one")


class RecordTransactionTests(RecordGround):
    def test_records_and_entities_become_one_commit(self) -> None:
        self.clock.move(seconds=60)
        with self.space.transaction(key="k", meta={"why": "asked"}) as tx:
            memory = Memory(tx)
            memory.put(*FACT, {"text": "likes tea"})
            tx.set("urn:ada", {"fact": "tea"})
            memory.append(*LOG, {"n": 1})
        assert tx.commit is not None
        assert [fact.id for fact in tx.commit.facts] == [
            Memory.entity_id(*FACT),
            "urn:ada",
            Memory.entity_id(*LOG),
        ]
        assert (tx.commit.version, tx.commit.key, tx.commit.meta) == (1, "k", {"why": "asked"})
        record = self.record(None, *FACT)
        assert (record["created_at"], record["updated_at"]) == (LATER, LATER)
        assert self.space.verify().ok

    def test_answers_have_no_version_and_no_time_until_the_block_ends(self) -> None:
        with self.space.transaction() as tx:
            memory = Memory(tx)
            put = memory.put(*FACT, {"text": "tea"})
            assert put == {"ok": True, "created": True, "updated_at": None, "version": None}
            again = memory.put(*FACT, {"text": "green tea"})
            assert (again["created"], again["version"]) == (False, None)
            assert memory.append(*LOG, {"n": 1})["entries"] == 1
            assert memory.append(*LOG, {"n": 2})["entries"] == 2
            touched = memory.touch(*FACT)
            assert (touched["found"], touched["last_accessed"], touched["access_count"]) == (
                True, None, 1,
            )  # fmt: skip
            assert memory.delete(*LOG) == {"ok": True, "deleted": True}
            assert memory.delete(*LOG) == {"ok": True, "deleted": False}
        metadata = self.record(None, *FACT)["metadata"]
        assert metadata == {"access_count": 1, "last_accessed": AT}

    def test_get_and_list_see_own_writes_and_nobody_else_does(self) -> None:
        for name in ("a", "b", "c"):
            self.memory.put("ops", "note", name, {"n": name}, None, {"tags": ["x"]})
        with self.space.transaction() as tx:
            memory = Memory(tx)
            memory.delete("ops", "note", "a")
            memory.put("ops", "note", "b", {"n": "B"}, None, {"tags": ["y"]})
            memory.put("ops", "note", "bb", {"n": "bb"}, None, {"tags": ["x"]})
            assert memory.get("ops", "note", "b")["record"]["payload"] == {"n": "B"}
            assert not memory.get("ops", "note", "a")["found"]

            def listed(**filters: Any) -> list[str]:
                found = memory.list("ops", filters=filters)["items"]
                return [item["record_id"] for item in found]

            assert listed() == ["b", "bb", "c"]
            assert listed(limit=1, offset=1) == ["bb"]
            assert listed(tags_any=["x"]) == ["bb", "c"]
            assert listed(tags_all=["y"]) == ["b"]
            assert listed(tags_all=["x", "y"]) == []
            assert listed(created_after=AT) == ["b", "bb", "c"]
            assert memory.stats()["records"] == 3
            assert self.listed("ops") == ["a", "b", "c"]
        assert self.listed("ops", filters={"tags_any": ["x"]}) == ["bb", "c"]

    def test_an_offset_passes_what_the_transaction_sees(self) -> None:
        for number in range(9):
            self.memory.put("ops", "note", f"{number}", {})
        page: Any = {"filters": {"offset": 5, "limit": 2}}
        with self.space.transaction() as tx:
            assert [item["record_id"] for item in Memory(tx).list("ops", **page)["items"]] == [
                "5",
                "6",
            ]
            Memory(tx).delete("ops", "note", "2")
            Memory(tx).put("ops", "note", "00", {})
            Memory(tx).delete("ops", "note", "3")
            assert [item["record_id"] for item in Memory(tx).list("ops", **page)["items"]] == [
                "6",
                "7",
            ]
        with pytest.raises(Conflict), self.space.transaction() as tx:
            Memory(tx).list("ops", **page)
            tx.set("urn:ada", 1)
            self.memory.delete("ops", "note", "0")

    def test_the_terms_of_an_own_write_are_asked_for_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A list by two tags asks for one hit after the other, each time with all own writes."""
        asked: list[str] = []
        terms = OwnHits._terms

        def counted(hits: OwnHits, index: str, states: Any) -> Any:
            asked.extend(states)
            return terms(hits, index, states)

        monkeypatch.setattr(OwnHits, "_terms", counted)
        tags = {"tags": ["x", "y"]}
        for number in range(3):
            self.memory.put("ops", "k", f"stored {number}", {}, None, tags)
        with self.space.transaction() as tx:
            memory = Memory(tx)
            for number in range(9):
                memory.put("ops", "k", f"own {number}", {}, None, tags)
            memory.put("ops", "k", "stored 1", {}, None, {"tags": ["x"]})
            for descending in (False, True):
                items = memory.list("ops", filters={"tags_all": ["x", "y"]}, descending=descending)[
                    "items"
                ]
                expected = [*(f"own {n}" for n in range(9)), "stored 0", "stored 2"]
                found = [item["record_id"] for item in items]
                assert found == (expected[::-1] if descending else expected)
        assert len(asked) == 10

    def test_a_search_that_failed_forgets_no_own_write(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Own writes whose terms could not be asked for counted as known, and were found no more."""
        tags = {"tags": ["x"]}
        self.memory.put("ops", "k", "stored", {}, None, tags)

        def broken(hits: OwnHits, index: str, states: Any) -> Any:
            raise Unavailable("the store is out of reach")

        with self.space.transaction() as tx:
            memory = Memory(tx)
            for id in ("own", "stored"):
                memory.put("ops", "k", id, {}, None, tags)
            monkeypatch.setattr(OwnHits, "_terms", broken)
            with pytest.raises(Unavailable):
                memory.list("ops", filters={"tags_any": ["x"]})
            monkeypatch.undo()
            found = memory.list("ops", filters={"tags_any": ["x"]})["items"]
            assert [item["record_id"] for item in found] == ["own", "stored"]

    def test_expired_records_are_pruned_with_the_transaction(self) -> None:
        self.memory.put("ops", "note", "old", {}, ttl_seconds=10)
        self.memory.put("ops", "note", "kept", {}, ttl_seconds=10)
        self.clock.move(seconds=60)
        with self.space.transaction() as tx:
            memory = Memory(tx)
            memory.put("ops", "note", "kept", {}, ttl_seconds=10)
            assert memory.prune("ops") == {"ok": True, "pruned": 1}
            assert memory.prune("ops") == {"ok": True, "pruned": 0}
        assert tx.commit is not None
        assert len(tx.commit.facts) == 2

    def test_the_past_is_read_as_it_was(self) -> None:
        self.memory.put(*FACT, {"text": "coffee"})
        self.memory.put(*FACT, {"text": "tea"})
        with self.space.transaction() as tx:
            memory = Memory(tx)
            memory.put(*FACT, {"text": "water"})
            assert memory.get(*FACT, at=1)["record"]["payload"] == {"text": "coffee"}
            assert memory.get(*FACT)["record"]["payload"] == {"text": "water"}
            self.memory.put(*LOG, {})
            with pytest.raises(InvalidInput, match="after its beginning"):
                memory.get(*FACT, at=3)
            memory.list(
                "long_term", at=self.space.now
            )  # by time: its own state, not what came later

    # -- what it notices ---------------------------------------------------------------------------

    def is_refused(self, work: Callable[[Memory], Any], meanwhile: Callable[[Memory], Any]) -> bool:
        """Whether a transaction that does `work` conflicts with what somebody else does."""
        try:
            with self.space.transaction() as tx:
                work(Memory(tx))
                meanwhile(Memory(self.store.space("notes")))
                tx.set("urn:result", 1)
        except Conflict:
            return True
        return False

    def test_what_was_read_conflicts_with_what_others_write(self) -> None:
        self.memory.put(*FACT, {"text": "tea"}, None, {"tags": ["x"]})

        def write(memory: Memory) -> None:
            memory.put(*FACT, {"text": "coffee"}, None, {"tags": ["x"]})

        for work in (
            lambda memory: memory.get(*FACT),
            lambda memory: memory.list("long_term"),
            lambda memory: memory.list("long_term", filters={"tags_all": ["x"]}),
            lambda memory: memory.list("long_term", filters={"updated_after": AT}),
            lambda memory: memory.put(*FACT, {"text": "water"}),
            lambda memory: memory.delete(*FACT),
            lambda memory: memory.stats(),
        ):
            assert self.is_refused(work, write)
        assert not self.is_refused(lambda memory: memory.list("ops"), write)
        assert not self.is_refused(
            lambda memory: memory.list("ops", filters={"source": "x"}), write
        )

    def test_a_record_that_was_absent_conflicts_with_its_first_write(self) -> None:
        def write(memory: Memory) -> None:
            memory.put(*FACT, {"text": "coffee"})

        for work in (
            lambda memory: memory.get(*FACT),
            lambda memory: memory.touch(*FACT),
            lambda memory: memory.delete(*FACT),
            lambda memory: memory.list("long_term", filters={"tags_any": ["x"]}),
        ):
            self.memory.delete(*FACT)
            assert self.is_refused(work, write)

    def test_appends_and_own_records_are_in_nobodys_way(self) -> None:
        self.memory.append(*LOG, {"n": 1})

        def append(memory: Memory) -> None:
            memory.append(*LOG, {"n": 2})

        assert not self.is_refused(append, append)
        assert len(self.record(None, *LOG)["payload"]["entries"]) == 3

    # -- what it refuses ---------------------------------------------------------------------------

    def test_only_its_block_writes_and_only_one_commit_is_made(self) -> None:
        tx = self.space.transaction()
        memory = Memory(tx)
        with Unchanged(self, InvalidInput):
            memory.put(*FACT, {})
        with tx, pytest.raises(InvalidInput, match="one commit"):
            tx.space.set("urn:a", 1, key="k")
        with Unchanged(self, InvalidInput):
            memory.get(*FACT)
        with Unchanged(self, InvalidInput):
            memory.put(*FACT, {})

    def test_what_is_not_of_entities_and_records_is_refused_in_it(self) -> None:
        self.space.create_branch("topic")
        with self.space.transaction() as tx:
            for call in (
                lambda: tx.space.query({"select": {"*": {}}}),
                lambda: tx.space.create_branch("other"),
                lambda: tx.space.on("topic"),
                tx.space.verify,
                lambda: next(tx.space.watch({"select": {"*": {}}})),
                lambda: tx.space.put_blob(b"x"),
                lambda: tx.space.erase("urn:a", reason="r"),
            ):
                with pytest.raises(InvalidInput):
                    call()

    def test_an_append_to_a_record_without_entries_is_told_at_once(self) -> None:
        self.memory.put(*FACT, {"text": "tea"})
        with self.space.transaction() as tx:
            memory = Memory(tx)
            with pytest.raises(InvalidInput, match="entries"):
                memory.append(*FACT, {"n": 1})
            memory.append(*LOG, {"n": 1})
        assert tx.commit is not None
        assert [fact.id for fact in tx.commit.facts] == [Memory.entity_id(*LOG)]
