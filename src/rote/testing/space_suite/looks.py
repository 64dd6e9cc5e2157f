"""Looks: a store that is opened read only answers everything, and nothing can be written to it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rote.contract.commands import FindSpace, GetSide, ListSides, PutSide
from rote.errors import Denied, NotFound
from rote.records.memory import Memory
from rote.retrieval import retrieve
from rote.runs.run import Run
from rote.runs.run_rows import LEASE, RUN
from rote.space import Space, Store
from rote.testing.space_suite.ground import A, B, C, add, port_of
from rote.testing.space_suite.run_ground import VAULT, RunGround

QUESTION = {**VAULT, "store_paths": ["rote:notes"]}


class SharedLookTests(RunGround):
    look: Store
    seen: Space

    @pytest.fixture
    def looked(self, agency: None) -> None:
        """Write a little of everything, and open it once more to look at it."""
        self.notes.set(A, {"text": "a"}, key="first")
        self.notes.patch(A, [add("/more", 1)])
        self.hash = self.notes.put_blob(b"bytes", "text/plain")
        topic = self.notes.create_branch("topic")
        topic.set(B, 2)
        self.notes.set(C, "erased")
        self.notes.erase(C, reason="asked to")
        memory = Memory(self.notes)
        memory.put("ops", "fact", "vault", {"text": "two keys"}, metadata={"tags": ["keys"]})
        with self.look_run() as run:
            run.set(C, "anew")
        retrieve(QUESTION, store=self.agents)
        self.look = self.open(read_only=True, modes=("off", "read_only", "buffered_write"))
        self.seen = self.look.space("notes")

    def look_run(
        self, mode: str = "buffered_write", space: Space | None = None, **more: Any
    ) -> Run:
        asked = {"workflow_id": "w", "model": None, "policy_set_id": "p", "mode": mode, **more}
        return (space or self.notes).run(**asked)

    def look_told(self, store: Store) -> list[Any]:
        """Return the answers to all kinds of reads."""
        space = store.space("notes")
        memory = Memory(space)
        return [
            [(each.name, each.did) for each in store.spaces()],
            (space.version, space.head, space.oldest),
            [space.read(id) for id in (A, B, C, "urn:none")],
            [space.at(1).get(A), space.on("topic").get(B)],
            [list(view.scan()) for view in (space, space.on("topic"), space.at(2))],
            list(space.history(A)),
            [commit.to_dict() for commit in space.log()],
            space.branches(),
            space.diff("topic"),
            space.query({"select": {"*": {}}}),
            (space.blob(self.hash), space.blob_info(self.hash)),
            memory.list("ops", filters={"tags_any": ["keys"]}),
            memory.get("ops", "fact", "vault"),
            [record.run_id for record in store.runs()],
            store.receipts(),
            space.verify(),
            next(space.watch({"select": {"*": {}}}, timeout=0)),
        ]

    @pytest.mark.usefixtures("looked")
    def test_a_look_answers_every_question_as_the_store_does(self) -> None:
        assert self.look.read_only and not self.agents.read_only
        assert self.look_told(self.look) == self.look_told(self.agents)
        assert self.seen.verify().ok

    @pytest.mark.usefixtures("looked")
    def test_an_index_that_was_not_brought_up_gives_a_look_the_same_hits(self) -> None:
        """A look may not add rows to the index, so it reads the records themselves."""
        behind = Memory(self.open(indexes=()).space("notes"))
        for number in range(40):
            tags = ["keys"] if number % 3 else ["keys", "ünï"]
            behind.put("ops", "fact", f"f{number}", {"n": number}, metadata={"tags": tags})
        behind.delete("ops", "fact", "f3")
        looking = Memory(self.seen)
        wanted = [{"tags_any": [tag], "limit": 30} for tag in ("keys", "ünï", "none")]
        found = [looking.list("ops", filters=each) for each in wanted]
        assert [len(each["items"]) for each in found] == [30, 13, 0]
        assert found == [Memory(self.notes).list("ops", filters=each) for each in wanted]

    @pytest.mark.usefixtures("looked")
    def test_every_write_is_denied_and_changes_nothing(self, tmp_path: Path) -> None:
        before = self.look_told(self.agents)
        refused = []
        for write in self.look_writes():
            try:
                write()
            except Denied as error:
                refused.append(error.details.get("read_only"))
            except Exception as error:
                refused.append(repr(error))
            else:
                refused.append(None)
        assert {*refused} == {True}, refused
        with pytest.raises(NotFound):
            self.look.space("new")
        assert self.look_told(self.agents) == before
        self.look.backup(tmp_path / "elsewhere.db")  # another file is no part of the store

    def look_writes(self) -> list[Callable[[], object]]:
        space, store, port, did = self.seen, self.look, port_of(self.look), self.seen.did
        other = self.open_fresh("other")
        other.space("more").set(A, 1)
        return [
            lambda: space.set(A, 1),
            lambda: space.set(A, {"text": "a"}, key="first"),
            lambda: space.patch(A, [add("/x", 1)]),
            lambda: space.delete(A),
            lambda: space.transact([{"op": "set", "id": A, "value": 1}]),
            lambda: space.update(A, lambda value: 1),
            lambda: space.create_branch("other"),
            lambda: space.delete_branch("topic"),
            lambda: space.merge("topic"),
            lambda: space.put_blob(b"more"),
            lambda: space.erase(A, reason="asked to"),
            lambda: space.compact(keep=1),
            space.gc,
            space.reindex,
            space.checkpoint,
            lambda: Memory(space).put("ops", "fact", "x", {}),
            lambda: store.add_receipt("notes", {"x": 1}),
            lambda: store.erase_space("notes", reason="asked to", confirm="notes"),
            store.recover,
            lambda: self.look_run(space=space),
            lambda: other.copy("more", store),
            lambda: port.answer(did, PutSide("note", "one", 1, fence=0)),
            lambda: port.answer("", FindSpace("new", create=True)),
        ]

    @pytest.mark.usefixtures("looked")
    def test_a_merge_is_tried_and_a_transaction_reads(self) -> None:
        assert self.seen.merge("topic", dry_run=True) == self.notes.merge("topic", dry_run=True)
        with self.seen.transaction() as tx:
            assert tx.get(A) == {"text": "a", "more": 1}
        assert tx.commit is None

    @pytest.mark.usefixtures("looked")
    def test_a_run_that_reads_leaves_no_trace_in_the_store(self) -> None:
        runs, receipts = self.agents.runs(), self.agents.receipts()
        with self.look_run("read_only", self.seen) as run:
            assert run.get(A) == {"text": "a", "more": 1}
            assert run.retrieve(VAULT)["selection"]["selected"]
            assert run.memory.search("keys")["items"]
            run.output({"type": "none"})
        assert (run.state, run.discarded, run.trace["run_id"]) == (
            "commit_applied",
            False,
            run.run_id,
        )
        with pytest.raises(ZeroDivisionError), self.look_run("off", self.seen) as failed:
            raise ZeroDivisionError
        assert failed.discarded
        assert (self.agents.runs(), self.agents.receipts()) == (runs, receipts)
        port = port_of(self.agents)
        assert port.answer(self.seen.did, GetSide(RUN, run.run_id)) is None

    @pytest.mark.usefixtures("looked")
    def test_a_recorded_run_is_replayed_without_a_row(self, tmp_path: Path) -> None:
        place = tmp_path / "run.jsonl"
        with self.look_run(record=place) as recorded:
            recorded.set(B, 1)
        runs = self.agents.runs()
        with self.look_run(space=self.seen, replay=place) as run:
            run.set(B, 1)
        assert run.discarded and run.payload_fingerprint == recorded.payload_fingerprint
        assert self.agents.runs() == runs

    @pytest.mark.usefixtures("looked")
    def test_a_retrieval_leaves_no_receipt(self) -> None:
        receipts = self.agents.receipts()
        package = retrieve(QUESTION, store=self.look)
        assert package == retrieve(QUESTION, store=self.agents)
        assert len(self.agents.receipts()) == len(receipts) + 1
        assert Memory(self.seen).search("key") == Memory(self.notes).search("key")

    @pytest.mark.usefixtures("looked")
    def test_a_look_recovers_nothing(self) -> None:
        with self.open(modes=("buffered_write",), lease_seconds=0.001) as gone:
            self.look_run(space=gone.space("notes")).__enter__()
            self.open(read_only=True)
            assert port_of(self.agents).answer(self.notes.did, ListSides(LEASE)).rows
            assert any(run.ended_at is None for run in self.look.runs())

    @pytest.mark.usefixtures("looked")
    def test_a_look_reads_what_a_commit_patched_twice_before_a_compaction(self) -> None:
        """A generated history found it: the look took the first of two patches for a torn one."""
        self.notes.set(A, {"n": 0})
        with self.notes.transaction() as tx:
            tx.patch(A, [add("/one", 1)])
            tx.patch(A, [add("/two", 2)])
        self.notes.set(B, 1)
        self.notes.compact(before=self.notes.version - 1)
        seen = self.open(read_only=True).space("notes")
        assert seen.get(A) == {"n": 0, "one": 1, "two": 2}

    @pytest.mark.usefixtures("looked")
    def test_a_look_sees_what_others_write(self) -> None:
        watch = self.seen.watch({"select": {A: {}}}, timeout=30.0)
        next(watch)
        for number in range(3):
            self.notes.set(A, number)
            assert self.seen.get(A) == number
            assert next(watch)["upserts"][0]["value"] == number
