"""The reads of a run: its snapshot under any name, and entities inside answers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rote.contract import Caller, View
from rote.contract.commands import Erase, FindSpace, GetHead, PutSide, Read, Scan, Watch
from rote.errors import Denied, InvalidInput, NotFound
from rote.records.memory import Memory
from rote.retrieval import retrieve
from rote.runs.run import Run
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.blobs import hash_of
from rote.testing.space_suite.ground import A, B, C
from rote.testing.space_suite.run_ground import VAULT, RunGround

_LATER = "2999-01-01T00:00:00Z"
_LINK = {"to": {"/": {"link@1": {"id": B, "schema": True}}}}


def _path(run: Run) -> str:
    return f"rote:notes:{run.memory.space.version}"


@each_test_uses("agency")
class RunReadTests(RunGround):
    @pytest.mark.parametrize(
        "ask",
        [
            lambda run: run.memory.list("ops", at=_LATER),
            lambda run: run.memory.list("ops", at=run.memory.space.version),
            lambda run: run.retrieve({**VAULT, "store_paths": [_path(run)]}),
            lambda run: run.memory.space.at(1).diff(run.memory.space.version),
            lambda run: run.memory.space.at(1).diff(run.memory.space),
            lambda run: list(run.memory.space.log(newest=True)),
        ],
    )
    def test_the_snapshot_is_read_by_its_version_or_a_time_too(
        self, ask: Callable[[Run], Any]
    ) -> None:
        memory = Memory(self.notes)
        self.notes.set(A, 1)
        memory.put("ops", "fact", "x", {"text": "nothing of it"})
        with self.aborts("validation_failed"), self.begin() as run:
            ask(run)
            run.set(C, 1)
            memory.put("ops", "fact", "y", {"text": "vault keys"})

    @pytest.mark.parametrize(
        "wrong",
        [
            {"budget": {"max_excerpt_tokens": float("nan")}},
            {"budget": {"max_excerpt_tokens": 2**70}},
            {"query": "a\ud800"},
            {"query": b"a"},
            {"x\ud800": 1},
            {"now_utc": object()},
            {"store_paths": []},
        ],
    )
    def test_a_bad_request_is_refused_as_it_is_outside_of_a_run(self, wrong: Any) -> None:
        errors = []
        request = {**VAULT, "store_paths": ["rote:notes"], **wrong}
        with self.begin() as run:
            for ask in (run.retrieve, partial(retrieve, store=self.agents)):
                with pytest.raises(InvalidInput) as caught:
                    ask(request)
                errors.append((type(caught.value), caught.value.code, str(caught.value)))
        assert errors[0] == errors[1]

    def test_the_version_that_a_run_was_begun_at_is_its_snapshot(self) -> None:
        """The last commit has no facts, so the snapshot has the version of an older one."""
        memory = Memory(self.notes)
        memory.put("ops", "fact", "x", {"text": "vault keys"})
        self.notes.create_branch("draft")
        version = self.notes.version
        with self.begin(space=self.notes.at(version)) as run:
            path = f"rote:notes:{version}"
            assert len(run.memory.list("ops", at=version)["items"]) == 1
            assert run.memory.get("ops", "fact", "x", at=version)["found"]
            package = run.retrieve({**VAULT, "store_paths": [path]})
            assert package["selection"]["selected"][0]["store_path"] == path
            with pytest.raises(InvalidInput):
                run.memory.list("ops", at=self.notes.set(A, 1).version)
        self.notes.create_branch("another")
        with self.aborts("validation_failed"), self.begin() as run:
            run.retrieve({**VAULT, "store_paths": [f"rote:notes:{self.notes.version}"]})
            run.set(C, 1)
            memory.put("ops", "fact", "a", {"text": "vault keys"})

    @pytest.mark.parametrize(
        "ask",
        [
            lambda run: run.memory.list("ops", at=1),
            lambda run: run.retrieve({**VAULT, "store_paths": ["rote:notes:1"]}),
            lambda run: run.memory.space.at(2).diff(1),
        ],
    )
    def test_what_is_past_is_in_nobodys_way(self, ask: Callable[[Run], Any]) -> None:
        memory = Memory(self.notes)
        for id in "xyz":
            memory.put("ops", "fact", id, {"text": "vault keys"})
        with self.begin() as run:
            ask(run)
            run.set(C, 1)
            memory.put("ops", "fact", "x", {"text": "vault keys vault keys"})
        assert run.state == "commit_applied"

    @pytest.mark.parametrize("validate", ["answers", "entities", "writes"])
    def test_values_of_linked_entities_are_read(self, validate: str) -> None:
        self.notes.set(B, {"n": 1})
        self.notes.set(A, _LINK)
        with self.aborts("validation_failed"), self.begin(validate=validate) as run:
            assert run.values({"select": {A: {"schema": True}}})["values"]
            run.patch(B, [{"op": "add", "path": "/seen", "value": True}])
            self.notes.set(B, {"n": 2})

    def test_what_a_run_has_written_anew_is_not_pruned_by_it(self) -> None:
        """The record had expired in the snapshot, and pruning deleted what the run had just put there."""
        memory = Memory(self.notes)
        memory.put("ops", "fact", "put", {"old": 1}, 1)
        memory.put("ops", "fact", "appended", {"entries": []}, 1)
        memory.put("ops", "fact", "left", {"old": 1}, 1)
        self.clock.move(seconds=5)
        self.notes.set(A, 1)
        with self.begin() as run:
            run.memory.put("ops", "fact", "put", {"new": 1})
            run.memory.append("ops", "fact", "appended", {"n": 1})
            assert run.memory.prune()["pruned"] == 1
        assert memory.get("ops", "fact", "put")["record"]["payload"] == {"new": 1}
        assert memory.get("ops", "fact", "appended")["found"]
        assert [item["record_id"] for item in memory.list("ops")["items"]] == ["appended", "put"]

    @pytest.mark.parametrize("include", [5, None, "payload", ["x"]])
    def test_what_is_included_is_checked_as_outside(self, include: Any) -> None:
        with self.begin() as run, pytest.raises(InvalidInput, match="include"):
            run.memory.list("ops", include=include)

    @pytest.mark.parametrize("name", ["gc", "reindex", "verify", "checkpoint"])
    def test_a_run_does_not_tend_its_store(self, name: str) -> None:
        """gc once deleted blobs in a mode that may not write."""
        self.notes.set(A, 1)
        for mode in ("read_only", "buffered_write"):
            with self.begin(mode) as run:
                for view in (run.memory.space, run.memory.space.at(0)):
                    with pytest.raises(InvalidInput, match=name):
                        getattr(view, name)()

    def test_that_there_is_no_such_blob_is_an_answer(self) -> None:
        hash = hash_of(b"abc")
        with self.aborts("validation_failed"), self.begin() as run:
            with pytest.raises(NotFound):
                run.memory.space.blob_info(hash)
            assert self.notes.put_blob(b"abc") == hash
            run.set(A, 1)

    def test_nothing_leads_out_of_a_run(self) -> None:
        """The port of a run refuses by itself what a space would refuse."""
        self.notes.set(A, 1)
        did = self.notes.did
        with self.begin() as run:
            port = run.memory.space._port
            self.notes.set(A, 2)
            for command in (
                Read((A,)), Read((A,), View("main", 2)), Scan(), FindSpace("another", True),
                PutSide("note", "n", 1, 0), Erase("asked to", A),
            ):  # fmt: skip
                with pytest.raises(InvalidInput):
                    port.answer(did, command)
            with pytest.raises(InvalidInput):
                port.for_caller(Caller("Eve"))
            with pytest.raises(InvalidInput):
                port.watch(did, Watch({"select": {"*": {}}}))
            assert port.answer(did, GetHead()).version == 1
        assert [space.name for space in self.agents.spaces()] == ["notes"]

    def test_a_live_run_that_has_ended_watches_nothing(self) -> None:
        with self.begin("live_read_write") as run:
            space = run.memory.space
        with pytest.raises(InvalidInput):
            next(space.watch({"select": {"*": {}}}, timeout=0))

    def test_a_run_that_may_not_read_sees_no_branches(self) -> None:
        with self.begin("off") as run, pytest.raises(Denied):
            run.memory.space.branches()
