"""Vectors of texts: stored once for all states, gone with the last state that has the text."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import pytest

from rote.contract.commands import GetVectors, ListVectorNames, PutVectors, VectorsOut
from rote.contract.vectors import join_rows, split_rows
from rote.engines.sqlite import SqliteEngine
from rote.errors import Corrupt, Denied, InvalidInput, LimitExceeded
from rote.opening.keys import MemoryKeys
from rote.records.memory import Memory
from rote.retrieval import retrieve
from rote.retrieval.vector_cache import VECTORS
from rote.space import Store
from rote.testing.naive_ranking import naive_rank
from rote.testing.ranking_questions import plain_memories
from rote.testing.space_suite.ground import kernel_of, port_of
from rote.testing.space_suite.records import RecordGround
from rote.testing.stores import StoreSettings, open_on
from rote.values import canonical

NAME = "vectors/letters@1/3"
QUESTION: dict[str, Any] = {
    "query": "tea or a plan",
    "policy": "hybrid-1",
    "store_paths": ["rote:notes"],
    "budget": {"max_excerpt_tokens": 1_000},
}
TEXTS = ("a plan for Friday", "green tea", "Ada: tea?", "Bob: no, coffee")


class Letters:
    """An embedder that counts letters, and notes what it was asked."""

    name, version, dimension = "letters", "1", 3

    def __init__(self, then: Callable[[], Any] = lambda: None) -> None:
        self.asked: list[str] = []
        self._then = then

    def embed(self, texts: Sequence[str], /) -> list[list[int]]:
        self.asked += texts
        self._then()
        return [[text.count(letter) for letter in "aet"] for text in texts]

    def embed_query(self, text: str, /) -> list[int]:
        return [text.count(letter) for letter in "aet"]


def hash_of(text: str) -> bytes:
    return sha256(text.encode()).digest()


def stored(store: Store, did: str) -> dict[bytes, bytes]:
    """Return all vectors of the embedder."""
    found: dict[bytes, bytes] = {}
    while page := port_of(store).answer(did, VectorsOut(NAME, max(found, default=b""))):
        found |= split_rows(page, 3)
    return found


class VectorTests(RecordGround):
    def put_embedded(self) -> Letters:
        """Write records, and make the vectors of their texts."""
        self.memory.put("long_term", "note", "one", {"text": TEXTS[0]})
        self.memory.put("long_term", "note", "two", {"text": TEXTS[1]})
        for who, text in (("Ada", "tea?"), ("Bob", "no, coffee")):
            self.memory.append("session", "chat", "c", {"speaker": who, "text": text})
        embedder = Letters()
        self.memory.embed(embedder)
        return embedder

    def asked_by(self, embedder: Any, store: Store | None = None, **more: Any) -> dict[str, Any]:
        VECTORS.begin()  # as another process would ask
        return retrieve({**QUESTION, **more}, store=store or self.store, embedder=embedder)

    def texts_stored(self, store: Store | None = None) -> set[str]:
        known = {hash_of(text): text for text in (*TEXTS, "secret", "other", "changed")}
        return {known[hash] for hash in stored(store or self.store, self.did)}

    # -- making them -------------------------------------------------------------------------------

    def test_each_text_is_embedded_once_for_all_states_and_processes(self) -> None:
        embedder = self.put_embedded()
        assert sorted(embedder.asked) == sorted(TEXTS)
        first = self.asked_by(embedder)
        self.memory.put("long_term", "note", "again", {"text": TEXTS[0]})
        self.space.create_branch("topic")
        for paths in (["rote:notes"], ["rote:notes@topic"], ["rote:notes:2"]):
            self.asked_by(embedder, store_paths=paths)
        assert len(embedder.asked) == len(TEXTS)
        assert len(first["selection"]["selected"]) == 4
        self.memory.put("long_term", "note", "more", {"text": "other"})
        self.asked_by(embedder)
        assert embedder.asked[len(TEXTS) :] == ["other"]
        assert self.texts_stored() == {*TEXTS, "other"}

    def test_the_answer_is_that_of_the_plain_reference(self) -> None:
        embedder = self.put_embedded()
        name = f"rote:{self.did}@main:{self.space.version}"
        lines = b"\n".join(canonical(line) for line in plain_memories(self.space))
        expected = naive_rank(
            QUESTION, self.place, spaces={"rote:notes": (name, lines)}, embedder=embedder
        )
        expected["selection"].pop("dropped")
        assert self.asked_by(embedder) == expected

    def test_filtered_memories_are_not_embedded(self) -> None:
        self.memory.put("long_term", "note", "one", {"text": TEXTS[0]})
        self.memory.put("session", "note", "two", {"text": TEXTS[1]})
        embedder = Letters()
        self.asked_by(embedder, filters={"namespaces": ["session"]})
        assert embedder.asked == [TEXTS[1]]

    def test_embed_tells_how_far_it_is_and_makes_what_is_missing(self) -> None:
        many = [f"text {number}" for number in range(100)]
        records = [
            {
                "namespace": "ops",
                "record_kind": "note",
                "record_id": text,
                "payload": {"text": text},
            }
            for text in many
        ]
        self.memory.put_many(records)
        told: list[tuple[int, int]] = []
        embedder = Letters()
        made = self.memory.embed(embedder, lambda done, total: told.append((done, total)))
        assert made == {"texts": 100, "embedded": 100}
        assert told == [(0, 100), (64, 100), (100, 100)]
        assert self.memory.embed(embedder) == {"texts": 100, "embedded": 0}
        VECTORS.begin()
        assert self.memory.embed(embedder) == {"texts": 100, "embedded": 0}
        assert len(embedder.asked) == 100
        with pytest.raises(InvalidInput):
            self.memory.embed(embedder, progress=5)  # type: ignore[arg-type]
        assert len(stored(self.store, self.did)) == 100
        own = Memory(self.space, namespaces=("ours",))
        assert own.embed(Letters()) == {"texts": 0, "embedded": 0}

    def test_what_was_made_before_an_embedder_failed_is_kept(self) -> None:
        self.test_embed_tells_how_far_it_is_and_makes_what_is_missing()
        for number in range(70):
            self.memory.put("ops", "more", f"{number}", {"text": f"more {number}"})

        def fail() -> None:
            if len(failing.asked) > 64:
                raise RuntimeError("no connection")

        failing = Letters(fail)
        with pytest.raises(RuntimeError, match="no connection"):
            self.asked_by(failing)
        assert len(stored(self.store, self.did)) == 164
        assert self.store.receipts() == []

    def test_the_vectors_that_were_stored_first_count(self) -> None:
        self.put_embedded()
        before = stored(self.store, self.did)
        for text in TEXTS:
            rows = {hash_of(text): b"\x7f\0\0" + (65_536).to_bytes(4, "big")}
            self.port.answer(self.did, PutVectors(NAME, join_rows(rows), self.space.version))
        assert stored(self.store, self.did) == before

    def test_a_question_uses_the_vector_that_another_process_stored_first(self) -> None:
        self.memory.put("ops", "note", "one", {"text": "tea"})
        self.memory.put("ops", "note", "two", {"text": "secret"})
        other = join_rows({hash_of("secret"): b"\x7f\0\0" + (65_536).to_bytes(4, "big")})
        embedder = Letters(lambda: self.port.answer(self.did, PutVectors(NAME, other, 2)))
        first = self.asked_by(embedder)
        assert self.asked_by(Letters()) == first
        assert len(embedder.asked) == 2

    def test_another_version_of_an_embedder_has_vectors_of_its_own(self) -> None:
        self.put_embedded()
        later = Letters()
        later.version = "2"
        self.asked_by(later)
        assert sorted(later.asked) == sorted(TEXTS)
        names = self.port.answer(self.did, ListVectorNames())
        assert names == ("vectors/letters@1/3", "vectors/letters@2/3")

    def test_a_transaction_embeds_nothing(self) -> None:
        with self.space.transaction() as tx:
            Memory(tx).put("ops", "note", "x", {"text": "secret"})
            with pytest.raises(InvalidInput):
                Memory(tx).embed(Letters())
        assert stored(self.store, self.did) == {}

    def test_bad_commands_are_refused(self) -> None:
        good = b"\x7f\0\0" + (65_536).to_bytes(4, "big")
        row = hash_of("a") + good
        bad: list[Any] = [
            GetVectors("vectors/a/3", b""), GetVectors("", b""), GetVectors(NAME, b"short"),
            PutVectors("a@1/3", row, 1), PutVectors(NAME, row[:-1], 1), PutVectors(NAME, b"x", 1),
            PutVectors("vectors/letters@1/4", row, 1), PutVectors(NAME, row, -1),
            PutVectors(NAME, hash_of("a") + b"\x80\x7f\0" + good[3:], 1),
            VectorsOut("vectors", b""), VectorsOut(NAME, b"short"),
        ]  # fmt: skip
        for command in bad:
            with pytest.raises(InvalidInput):
                self.port.answer(self.did, command)
        for large in (GetVectors(NAME, bytes(32 * 1_001)), PutVectors(NAME, _rows(1_001), 1)):
            with pytest.raises(LimitExceeded):
                self.port.answer(self.did, large)
        assert self.port.answer(self.did, ListVectorNames()) == ()

    # -- taking them away --------------------------------------------------------------------------

    def test_an_erasure_takes_the_vectors_of_all_texts_the_record_ever_had(self) -> None:
        self.memory.put("ops", "note", "x", {"text": "secret"})
        self.put_embedded()
        self.memory.put("ops", "note", "x", {"text": "changed"})
        topic = Memory(self.space.create_branch("topic"))
        topic.put("ops", "note", "x", {"text": "other"})
        topic.embed(Letters())
        self.memory.embed(Letters())
        self.memory.delete("ops", "note", "x")
        assert self.texts_stored() == {*TEXTS, "secret", "changed", "other"}
        self.memory.erase("ops", "note", "x", reason="asked to")
        assert self.texts_stored() == set(TEXTS)
        assert self.space.verify().ok

    def test_a_text_that_another_memory_has_or_had_keeps_its_vector(self) -> None:
        self.put_embedded()
        for number in range(2):
            self.memory.put("ops", "note", f"{number}", {"text": "secret"})
        self.memory.embed(Letters())
        self.memory.put("ops", "note", "1", {"text": "changed"})
        self.memory.erase("ops", "note", "0", reason="asked to")
        assert self.texts_stored() == {*TEXTS, "secret"}
        self.memory.erase("ops", "note", "1", reason="asked to")
        assert self.texts_stored() == set(TEXTS)

    def test_what_is_erased_while_an_embedder_works_keeps_no_vector(self) -> None:
        self.put_embedded()
        self.memory.put("ops", "note", "x", {"text": "secret"})
        erase: list[Callable[[], Any]] = [
            lambda: self.memory.erase("ops", "note", "x", reason="asked to")
        ]
        embedder = Letters(lambda: erase.pop()() if erase else None)
        self.asked_by(embedder)
        assert embedder.asked == ["secret"]
        assert self.texts_stored() == set(TEXTS)
        # The others get theirs: embed reads what is left, and stores it.
        self.memory.put("ops", "note", "y", {"text": "other"})
        self.memory.put("ops", "note", "x", {"text": "secret"})
        erase.append(lambda: self.memory.erase("ops", "note", "x", reason="asked to"))
        VECTORS.begin()
        assert self.memory.embed(embedder)["texts"] == 5
        assert self.texts_stored() == {*TEXTS, "other"}

    def test_a_compaction_and_gc_drop_vectors_of_texts_that_no_state_has(self) -> None:
        self.put_embedded()
        self.memory.put("long_term", "note", "one", {"text": "changed"})
        self.memory.embed(Letters())
        self.space.gc()
        assert self.texts_stored() == {*TEXTS, "changed"}
        self.space.compact(before=self.space.version)
        assert self.texts_stored() == {*TEXTS[1:], "changed"}
        rows = join_rows({hash_of(TEXTS[0]): b"\x7f\0\0" + (65_536).to_bytes(4, "big")})
        self.port.answer(self.did, PutVectors(NAME, rows, 1))
        assert self.texts_stored() == {*TEXTS[1:], "changed"}, "it is of before the compaction"
        self.port.answer(self.did, PutVectors(NAME, rows, self.space.version))
        assert TEXTS[0] in self.texts_stored()
        self.space.gc()
        assert self.texts_stored() == {*TEXTS[1:], "changed"}
        assert self.space.verify().ok

    def test_a_branch_keeps_the_vectors_of_its_texts(self) -> None:
        self.put_embedded()
        topic = Memory(self.space.create_branch("topic"))
        topic.update("long_term", "note", "two", payload={"text": "other"})
        topic.embed(Letters())
        self.space.delete_branch("topic")
        self.space.gc()
        assert self.texts_stored() == {*TEXTS, "other"}

    def test_an_erased_space_has_no_vectors(self) -> None:
        self.put_embedded()
        self.store.erase_space("notes", reason="asked to", confirm="notes")
        engine = kernel_of(self.port).spaces.wiring.engine
        assert not any(engine.reader().vector_names(number) for number in range(1, 4))

    # -- elsewhere ---------------------------------------------------------------------------------

    def test_copies_carry_vectors_and_lose_those_that_were_erased_since(self) -> None:
        embedder = self.put_embedded()
        package = self.asked_by(embedder)
        self.memory.put("ops", "note", "x", {"text": "secret"})
        self.memory.embed(embedder)
        other = self.open_fresh("other")
        assert self.store.copy("notes", other).ok
        assert stored(other, self.did) == stored(self.store, self.did)
        # A vector of a text that the copy has not got yet.
        rows = join_rows({hash_of("changed"): b"\x7f\0\0" + (65_536).to_bytes(4, "big")})
        port_of(other).answer(self.did, PutVectors(NAME, rows, self.space.version))
        self.memory.put("ops", "note", "y", {"text": "changed"})
        self.memory.erase("ops", "note", "y", reason="asked to")
        assert self.store.copy("notes", other).ok
        assert self.texts_stored(other) == {*TEXTS, "secret"}
        self.memory.erase("ops", "note", "x", reason="asked to")
        assert self.store.copy("notes", other).ok
        assert self.texts_stored(other) == set(TEXTS)
        count = len(embedder.asked)
        found = self.asked_by(embedder, other)
        assert (
            found["selection"]["selected"][0]["excerpt"]
            == (package["selection"]["selected"][0]["excerpt"])
        )
        assert len(embedder.asked) == count

    def test_a_backup_carries_vectors(self) -> None:
        self.put_embedded()
        self.store.backup(self.place / "backup.db")
        engine = SqliteEngine(self.place / "backup.db", create=False)
        settings = StoreSettings(clock=self.clock, ids=self.ids)
        with open_on(engine, settings, keys=MemoryKeys()) as backup:
            assert stored(backup, self.did) == stored(self.store, self.did)
            assert backup.space("notes").verify().ok

    # -- damage ------------------------------------------------------------------------------------

    def test_a_vector_that_was_changed_is_found_and_gc_drops_it(self) -> None:
        self.put_embedded()
        engine = kernel_of(self.port).spaces.wiring.engine
        space = kernel_of(self.port).spaces.open(self.did).number
        row = engine.reader().vectors(space, NAME, [hash_of(TEXTS[0])])[hash_of(TEXTS[0])]
        with engine.writer(space) as writes:
            writes.drop_vectors(space, NAME, [row.hash])
            writes.put_vectors(space, NAME, [type(row)(row.hash, bytes(7), row.seal)])
        report = self.space.verify()
        assert [(fault.kind, fault.id) for fault in report.faults] == [("vector", row.hash.hex())]
        with pytest.raises(Corrupt, match="rote gc"):
            self.asked_by(Letters())
        self.space.gc()
        assert self.space.verify().ok
        self.asked_by(Letters())
        assert self.texts_stored() == set(TEXTS)


def _rows(count: int) -> bytes:
    vector = b"\x7f\0\0" + (65_536).to_bytes(4, "big")
    return join_rows({number.to_bytes(32, "big"): vector for number in range(count)})


class SharedVectorTests(RecordGround):
    """For stores whose data outlives them."""

    def test_a_look_makes_vectors_and_stores_none(self) -> None:
        self.memory.put("ops", "note", "one", {"text": TEXTS[0]})
        look = self.open(read_only=True)
        embedder = Letters()
        VECTORS.begin()
        found = retrieve(QUESTION, store=look, embedder=embedder)
        assert found["selection"]["selected"][0]["excerpt"] == TEXTS[0]
        assert retrieve(QUESTION, store=look, embedder=embedder) == found
        assert embedder.asked == [TEXTS[0]], "the process has it"
        assert stored(look, self.did) == {}
        with pytest.raises(Denied):
            Memory(look.space("notes")).embed(embedder)
