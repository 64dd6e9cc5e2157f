"""Retrieval from spaces: one state, judged by its own time, equal to the same records in a file."""

from io import BytesIO
from typing import Any

import pytest

from rote.bridges import write_export
from rote.errors import InvalidInput, NotFound
from rote.records import Memory
from rote.retrieval import receipt, retrieve
from rote.space import Space
from rote.testing.naive_retrieval import naive_retrieve
from rote.testing.retrieval_draws import Memories
from rote.testing.space_suite.ground import SpaceGround
from rote.values import canonical, digest

EXPIRED = "expired"


class RetrievalTests(SpaceGround):
    """`rote:` store paths."""

    def asked(self, *paths: str, **more: Any) -> list[str]:
        """The ids that come back."""
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
        memory.put("ops", "k", EXPIRED, {"text": "alpha"}, 1)
        self.clock.move(seconds=10)
        memory.put("ops", "k", "last", {"text": "alpha"})
        (self.place / "file.jsonl").write_bytes(_lines(self.space))
        self.clock.move(seconds=10**6)
        exported = BytesIO()
        write_export(memory, exported, format="retrieval")
        assert exported.getvalue() == (self.place / "file.jsonl").read_bytes() + b"\n"
        for seed in range(20):
            request = Memories(seed).request(["file.jsonl"])
            expected = _renamed(naive_retrieve(request, self.place), "rote:notes")
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
        assert self.asked(f"rote:{self.did}@side") == ["ops/k/1", "ops/k/2", "ops/k/3"]

    def test_expired_records_stay_out_by_the_time_of_the_state(self) -> None:
        memory = Memory(self.space)
        memory.put("ops", "k", "short", {"text": "word"}, 10)
        self.clock.move(seconds=60)
        assert self.asked("rote:notes") == ["ops/k/short"]
        memory.put("ops", "k", "long", {"text": "word"})
        assert self.asked("rote:notes") == ["ops/k/long"]
        assert self.asked("rote:notes:1") == ["ops/k/short"]

    def test_what_was_erased_does_not_come_back(self) -> None:
        memory = Memory(self.space)
        memory.put("ops", "k", "1", {"text": "word"})
        assert self.asked("rote:notes:1") == ["ops/k/1"]
        self.space.erase(memory.entity_id("ops", "k", "1"), reason="asked to")
        assert self.asked("rote:notes:1") == []

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


def _lines(space: Space) -> bytes:
    """The records of a space as the contract writes them for a JSONL store."""
    lines = []
    for state in space.scan("record:"):
        record: Any = state.value
        if record["record_id"] == EXPIRED:
            continue
        key = (record["namespace"], record["record_kind"], record["record_id"])
        payload, metadata = record["payload"], record["metadata"] or {}
        line: dict[str, Any] = {
            "memory_id": "/".join(part.replace("%", "%25").replace("/", "%2F") for part in key),
            "text": payload["text"] if "text" in payload else canonical(payload).decode(),
            "ts_utc": metadata.get("valid_at") or record["updated_at"],
            "tags": metadata.get("tags") or [],
            "refs": [],
        }
        lines.append(canonical(line))
    return b"\n".join(lines)


def _renamed(package: dict[str, Any], path: str) -> dict[str, Any]:
    """The package with another store path, and the hash of that."""
    for items in package["selection"].values():
        for item in items:
            item["store_path"] = path
    del package["package_hash"]
    return {**package, "package_hash": digest(package)}
