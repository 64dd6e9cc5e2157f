"""Retrieval from spaces: one state, judged by its own time, equal to the same records in a file."""

from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any

import pytest

from rote.bridges import write_export
from rote.contract.commands import ListSides, PutSide
from rote.errors import InvalidInput, NotFound
from rote.records.memory import Memory
from rote.retrieval import receipt, retrieve, retrieving
from rote.retrieval.cache import CORPORA, CorpusKey
from rote.retrieval.corpus import Corpus
from rote.testing.naive_retrieval import naive_retrieve
from rote.testing.ranking_histories import RankingHistory
from rote.testing.retrieval_draws import Memories
from rote.testing.retrieval_histories import RetrievalHistory, plain_lines, renamed
from rote.testing.space_suite.ground import SpaceGround
from rote.values import canonical

# The kinds of steps in a history, and their number.
STEPS, HISTORIES = 40, 2
READERS, PUTS = 3, 25


class RetrievalTests(SpaceGround):
    """Store paths that begin with `rote:`."""

    def asked(self, *paths: str, **more: Any) -> list[str]:
        """Return the ids in the answer."""
        package = retrieve(_request(*paths), store=self.store, **more)
        return [item["memory_id"] for item in package["selection"]["selected"]]

    def test_a_space_and_a_file_with_the_same_records_give_one_package(self) -> None:
        memory, draws = Memory(self.space), Memories(7)
        for _ in range(30):
            payload: dict[str, Any] = {"text": draws.text()} if draws.chance(0.7) else {"n": [1.5]}
            metadata: dict[str, Any] | None = None
            if draws.chance(0.5):
                metadata = {"tags": ["Alpha", "x"]}
            if draws.chance(0.3):
                metadata = {**(metadata or {}), "valid_at": "2025-06-01T10:00:00+02:00"}
            id = draws.record()["memory_id"]
            memory.put("ops", draws.random.choice(("a/b", "c%")), id, payload, None, metadata)
            self.clock.move(seconds=1)
        memory.put("ops", "k", "expired", {"text": "alpha"}, 1)
        self.clock.move(seconds=10)
        memory.put("ops", "k", "last", {"text": "alpha"})
        (self.place / "file.jsonl").write_bytes(plain_lines(self.space))
        exported = BytesIO()
        write_export(memory, exported, format="retrieval")
        assert exported.getvalue() == (self.place / "file.jsonl").read_bytes() + b"\n"
        for seed in range(20):
            request = Memories(seed).request(["file.jsonl"])
            expected = renamed(naive_retrieve(request, self.place), "rote:notes", was="file.jsonl")
            request["store_paths"] = ["rote:notes"]
            assert dict(retrieve(request, store=self.store)) == expected

    def test_a_path_names_a_branch_and_a_version(self) -> None:
        memory = Memory(self.space)
        memory.put("ops", "k", "1", {"text": "word"})
        memory.put("ops", "k", "2", {"text": "word"})
        branch = self.space.create_branch("side")
        Memory(branch).put("ops", "k", "3", {"text": "word"})
        assert self.asked("rote:notes") == ["ops/k/1", "ops/k/2"]
        assert self.asked("rote:notes:1") == ["ops/k/1"]
        assert self.asked("rote:notes@main:2") == ["ops/k/1", "ops/k/2"]
        assert self.asked(f"rote:notes:{'0' * 25}1") == ["ops/k/1"]
        assert self.asked(f"rote:{self.did}@side") == ["ops/k/1", "ops/k/2", "ops/k/3"]

    def test_expired_records_stay_out_by_the_time_of_the_view(self) -> None:
        """That is the clock for the newest state, and the time of the commit for a version."""
        memory = Memory(self.space)
        memory.put("ops", "k", "short", {"text": "word"}, 10)
        self.clock.move(seconds=10)
        assert self.asked("rote:notes") == ["ops/k/short"]
        self.clock.move(seconds=1)
        assert self.asked("rote:notes") == []
        memory.put("ops", "k", "long", {"text": "word"})
        assert self.asked("rote:notes") == ["ops/k/long"]
        assert self.asked("rote:notes:1") == ["ops/k/short"]
        assert self.asked("rote:notes:2") == ["ops/k/long"]
        self.clock.move(seconds=-5)
        assert self.asked("rote:notes") == ["ops/k/long", "ops/k/short"]

    def test_what_was_erased_does_not_come_back(self) -> None:
        memory = Memory(self.space)
        memory.put("ops", "k", "1", {"text": "word"})
        assert self.asked("rote:notes:1") == ["ops/k/1"]
        self.space.erase(memory.entity_id("ops", "k", "1"), reason="asked to")
        assert self.asked("rote:notes:1") == []

    def test_a_receipt_made_since_the_first_write_of_what_is_erased_loses_its_hash(self) -> None:
        """The hash is an unsalted digest of excerpts, so an erased excerpt could be guessed from it."""
        memory = Memory(self.space)
        memory.put("ops", "k", "1", {"text": "word"})
        self.asked("rote:notes")
        self.clock.move(seconds=1)
        memory.put("ops", "k", "2", {"text": "word 4711"})
        # The clock is set back: the receipt is of after the write all the same.
        self.clock.move(seconds=-100)
        self.asked("rote:notes")
        memory.put("ops", "k", "2", {"text": "word"})
        self.asked("rote:notes")
        before = self.store.receipts()
        self.space.erase(memory.entity_id("ops", "k", "2"), reason="asked to")
        first, *others = self.store.receipts()
        assert first == before[0]
        assert first["data"]["package_hash"] is not None
        for left, old in zip(others, before[1:], strict=True):
            data = {**old["data"], "package_hash": None, "erased": True}
            assert left == {**old, "data": data}
        assert self.space.verify().ok
        # Once more changes nothing, and a copy has it too.
        self.space.erase([memory.entity_id("ops", "k", id) for id in "12"], reason="asked to")
        receipts = self.store.receipts()
        assert [each["data"]["package_hash"] for each in receipts] == [None] * 3
        target = self.open_fresh("copy")
        assert self.store.copy("notes", target).ok
        assert target.receipts() == receipts

    def test_a_compaction_hides_no_receipt_from_an_erasure(self) -> None:
        """The oldest fact that was left counted as the first one."""
        memory = Memory(self.space)
        memory.put("ops", "k", "1", {"text": "word 4711"})
        self.asked("rote:notes")
        self.clock.move(seconds=1)
        memory.put("ops", "k", "1", {"text": "word"})
        self.space.compact(before=self.space.version)
        self.space.erase(memory.entity_id("ops", "k", "1"), reason="asked to")
        assert [each["data"]["package_hash"] for each in self.store.receipts()] == [None]

    @pytest.mark.parametrize("in_run", [False, True])
    def test_a_receipt_of_a_retrieval_that_an_erasure_overlaps_has_no_hash(
        self, monkeypatch: pytest.MonkeyPatch, *, in_run: bool
    ) -> None:
        """The erasure had looked for receipts before this one was added."""
        Memory(self.space).put("ops", "k", "1", {"text": "word 4711"})
        self.space.set("urn:other", 1)
        self.space.erase("urn:other", reason="before it: it takes nothing away")
        build: Any = vars(retrieving)["build_package"]

        def erase_first(*arguments: Any, **more: Any) -> Any:
            self.space.erase(Memory.entity_id("ops", "k", "1"), reason="asked to")
            return build(*arguments, **more)

        def ask() -> Any:
            if not in_run:
                return retrieve(_request("rote:notes"), store=self.store)
            with self.space.run(workflow_id="w", model=None, policy_set_id="p") as run:
                return run.retrieve(_request("rote:notes"))

        packages = [ask()]
        monkeypatch.setattr(retrieving, "build_package", erase_first)
        self.clock.move(seconds=1)
        packages.append(ask())
        assert len(packages[1]["selection"]["selected"]) == 1
        left = [receipt(package) for package in packages]
        for each in left:
            each["data"] |= {"package_hash": None, "erased": True}
        assert self.store.receipts() == left
        monkeypatch.undo()
        package = ask()
        assert self.store.receipts()[-1]["data"]["package_hash"] == package["package_hash"]

    def test_receipts_of_a_copy_lose_their_hash_when_the_erasure_arrives(self) -> None:
        memory = Memory(self.space)
        memory.put("ops", "k", "1", {"text": "word"})
        target = self.open_fresh("copy")
        assert self.store.copy("notes", target).ok
        retrieve(_request("rote:notes"), store=target)
        self.space.erase(memory.entity_id("ops", "k", "1"), reason="asked to")
        assert self.store.copy("notes", target).ok
        (left,) = target.receipts()
        assert left["data"]["package_hash"] is None

    def test_side_rows_that_are_no_receipts_are_in_no_erasures_way(self) -> None:
        self.space.set("urn:a", 1)
        bodies: list[Any] = [1, {"data": 1}, {"data": {}}, {"data": {"package_hash": "x"}}]
        for number, body in enumerate(bodies):
            self.port.answer(self.did, PutSide("receipt", f"other {number}", body, 0))
        self.space.erase("urn:a", reason="asked to")
        rows = self.port.answer(self.did, ListSides("receipt")).rows
        assert [row.body for row in rows[:3]] == bodies[:3]

    def test_histories_are_answered_as_plain_scans_are(self) -> None:
        for seed in range(HISTORIES):
            # Without content rules, as in a store of earlier days.
            store = self.open_fresh(str(seed), content_rules=())
            RetrievalHistory(store, self.clock, self.place, seed).run(STEPS)

    def test_histories_are_answered_by_lexical_1_as_the_plain_reference_does(self) -> None:
        store = self.open_fresh("ranked", content_rules=())
        RankingHistory(store, self.clock, self.place, 1).run(STEPS)

    def test_what_is_kept_follows_the_commits_and_is_not_read_anew(self) -> None:
        memory = Memory(self.space)
        for number in range(3):
            memory.put("ops", "k", str(number), {"text": "word"})
        self.asked("rote:notes")
        first = _corpora(self.did)[-1]
        self.asked("rote:notes")
        assert _corpora(self.did)[-1] is first
        memory.put("ops", "k", "1", {"text": "another word"})
        memory.delete("ops", "k", "2")
        assert self.asked("rote:notes") == ["ops/k/0", "ops/k/1"]
        second = _corpora(self.did)[-1]
        assert second is not first
        assert second.ids is first.ids
        assert len(first) == 3

    def test_what_was_erased_is_not_kept_for_any_branch(self) -> None:
        memory = Memory(self.space)
        memory.put("ops", "k", "1", {"text": "word canary"}, None, {"tags": ["canary"]})
        memory.put("ops", "k", "2", {"text": "word"})
        self.space.create_branch("side")
        for _ in range(2):  # the second time there is a vocabulary
            assert len(self.asked("rote:notes")) == len(self.asked("rote:notes@side")) == 2
        assert "canary" in _kept(self.did)
        self.space.erase(memory.entity_id("ops", "k", "1"), reason="asked to")
        assert self.asked("rote:notes") == ["ops/k/2"]
        assert "canary" not in _kept(self.did)
        assert self.asked("rote:notes@side") == ["ops/k/2"]

    def test_two_stores_with_copies_of_a_space_have_each_their_own_answer(self) -> None:
        """Both have the same did and path; only the hash of the head tells them apart."""
        Memory(self.space).put("ops", "k", "1", {"text": "word"})
        other = self.open_fresh("other")
        self.store.copy("notes", other)
        assert self.asked("rote:notes") == ["ops/k/1"]
        Memory(self.space).put("ops", "k", "2", {"text": "word"})
        for _ in range(2):
            assert self.asked("rote:notes") == ["ops/k/1", "ops/k/2"]
            package = retrieve(_request("rote:notes"), store=other)
            assert [item["memory_id"] for item in package["selection"]["selected"]] == ["ops/k/1"]

    def test_what_is_asked_while_others_write_is_one_state_and_never_an_older_one(self) -> None:
        memory = Memory(self.space)
        memory.put("ops", "k", "0", {"text": "word"})

        def write() -> None:
            for number in range(1, PUTS):
                memory.put("ops", "k", str(number % 5), {"text": f"word {number}"}, 3)
                if number % 4 == 0:
                    memory.delete("ops", "k", str(number % 3))

        def read() -> list[tuple[int, str]]:
            """Return packages, each with a version that existed before it was asked for."""
            found: list[tuple[int, dict[str, Any]]] = []
            while not writing.done() or not found:
                version = self.space.version
                found.append((version, retrieve(_request("rote:notes"), store=self.store)))
            return [(version, package["package_hash"]) for version, package in found]

        with ThreadPoolExecutor(READERS + 1) as threads:
            writing = threads.submit(write)
            reading = [threads.submit(read) for _ in range(READERS)]
            answers = [answer for reader in reading for answer in reader.result()]
            writing.result()
        states = []
        for version in range(self.space.version + 1):
            path = f"rote:notes:{version}"
            package = dict(retrieve(_request(path), store=self.store))
            states.append(renamed(package, "rote:notes", was=path)["package_hash"])
        for version, hash in answers:
            assert hash in states[version:]

    @pytest.mark.parametrize(
        "path",
        ["rote:", "rote:nothing", "rote:notes@nothing", "rote:notes:9", "rote:notes@", "rote::1",
         "rote:notes:" + "9" * 400, "rote:no such name"],
    )  # fmt: skip
    def test_a_state_that_is_not_there_is_a_store_not_found(self, path: str) -> None:
        before = len(self.store.spaces())
        with pytest.raises(NotFound) as caught:
            retrieve(_request(path), store=self.store)
        assert caught.value.code == "store_not_found"
        assert caught.value.details == {"store_path": path}
        assert len(self.store.spaces()) == before

    def test_a_retrieval_leaves_a_receipt_and_nothing_of_what_it_found(self) -> None:
        """Unique words stand in every field of a record; none of them is in the ledger."""
        canaries = {"text": "canary-text word", "more": "canary-more"}
        metadata = {"tags": ["canary-tag"], "source": "canary-source"}
        Memory(self.space).put("ops", "canary-kind", "canary-id", canaries, None, metadata)
        (self.place / "file.jsonl").write_bytes(
            b'{"memory_id":"canary-file","text":"canary-line word","refs":[{"x":"canary-ref"}]}'
        )
        version, expected = self.space.version, []
        for paths in (["rote:notes"], ["file.jsonl"], ["rote:notes", "file.jsonl"]):
            package = retrieve(_request(*paths), store=self.store, root=self.place)
            assert package["selection"]["selected"]
            expected.append(receipt(package))
            self.clock.move(seconds=1)
        assert self.store.receipts() == expected
        assert "canary" not in canonical(self.store.receipts()).decode()
        assert self.space.version == version
        assert self.space.verify().ok

    def test_a_retrieval_from_files_makes_no_space_for_its_receipt(self) -> None:
        """The retrieval once failed at its end where no space may be made."""
        (self.place / "file.jsonl").write_bytes(b'{"memory_id":"a","text":"word"}')
        before = [space.did for space in self.store.spaces()]
        package = retrieve(_request("file.jsonl"), store=self.store, root=self.place)
        assert self.store.receipts() == [receipt(package)]
        assert [space.did for space in self.store.spaces()] == before

    def test_a_receipt_in_the_ledger_names_all_stores_that_were_asked(self) -> None:
        """Stores that held nothing were looked up by the hash of the package. Two questions that
        differ in such stores alone have the same hash."""
        (self.place / "file.jsonl").write_bytes(b'{"memory_id":"a","text":"word"}')
        (self.place / "empty.jsonl").write_bytes(b"")
        asked = [["empty.jsonl", "file.jsonl"], ["file.jsonl"]]
        packages = [
            retrieve(_request(*paths), store=self.store, root=self.place) for paths in asked
        ]
        assert packages[0] == packages[1]
        assert sorted(each["data"]["store_paths"] for each in self.store.receipts()) == asked

    def test_what_fails_leaves_no_receipt(self) -> None:
        with pytest.raises(NotFound):
            retrieve(_request("rote:nothing"), store=self.store)
        assert self.store.receipts() == []

    def test_receipts_of_one_instant_are_all_kept(self) -> None:
        for _ in range(3):
            retrieve(_request("rote:notes"), store=self.store)
        assert len(self.store.receipts()) == 3

    def test_a_store_is_what_rote_opened(self) -> None:
        store: Any = "rote.db"
        with pytest.raises(InvalidInput):
            retrieve(_request("rote:notes"), store=store)


def _request(*paths: str) -> dict[str, Any]:
    return {
        "query": "word", "store_paths": list(paths), "budget": {"max_excerpt_tokens": 1_000}
    }  # fmt: skip


def _corpora(did: str) -> list[Corpus]:
    """Return all corpora that this process keeps of a space, the last used at the end."""
    return [
        kept.corpus
        for place, kept in CORPORA._kept.items()
        if isinstance(place, CorpusKey) and place.did == did
    ]


def _kept(did: str) -> str:
    """Return the same as text."""
    kept = _corpora(did)
    words = [vars(piece) for corpus in kept for piece in corpus._vocabulary._pieces]
    drops = [vars(corpus.encoded_drops) for corpus in kept]
    return repr([*map(vars, kept), *words, *drops])


class SharedRetrievalTests(SpaceGround):
    def test_what_another_store_has_written_is_never_missed(self) -> None:
        others = self.open().space("notes")
        for number in range(4):
            Memory(others).put("ops", "k", str(number), {"text": "word"})
            package = retrieve(_request("rote:notes"), store=self.store)
            assert len(package["selection"]["selected"]) == number + 1
        others.erase(Memory.entity_id("ops", "k", "0"), reason="asked to")
        package = retrieve(_request("rote:notes"), store=self.store)
        assert len(package["selection"]["selected"]) == 3
