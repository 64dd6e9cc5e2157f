"""Runs in the ledger: their ends, what is kept of them, and the effects of erasures and compactions."""

from collections.abc import Callable
from typing import Any

import pytest

from rote.contract import Guard
from rote.contract.commands import GetSide, MakeCommit, PutSide
from rote.errors import Busy, InvalidInput, InvalidValue, NotFound, PatchFailed, RunAborted
from rote.runs.run_rows import RUN
from rote.schemas.registry import REGISTRY_ID, SCHEMA_PREFIX
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A, B, C, add, port_of, put
from rote.testing.space_suite.run_ground import RunGround, life_of
from rote.values import canonical, digest
from rote.values.limits import DEPTH_MAX


@each_test_uses("agency")
class RunLedgerTests(RunGround):
    # -- the state machine -------------------------------------------------------------------------

    def test_a_policy_that_rejects_aborts_without_an_exception(self) -> None:
        asked: list[Any] = []

        def policy(operations: list[dict[str, Any]]) -> bool:
            asked.extend(operations)
            return False

        with self.begin(commit_policy=policy) as run:
            run.set(A, 1)
        assert asked == [{"op": "set", "id": A, "value": 1}]
        assert (run.state, run.reason_code, run.commit) == (
            "commit_aborted", "policy_rejected", None,
        )  # fmt: skip
        assert (self.notes.version, self.record_of(run).reason_code) == (0, "policy_rejected")

    def test_a_policy_that_fails_discards(self) -> None:
        with pytest.raises(ZeroDivisionError), self.begin(commit_policy=lambda _: 1 // 0) as run:
            run.set(A, 1)
        assert (self.notes.version, run.state, run.discarded) == (0, "buffer_open", True)

    def test_an_operation_that_no_longer_applies_aborts(self) -> None:
        self.notes.set(A, {"n": 1})
        with self.aborts("validation_failed"), self.begin() as run:
            run.patch(A, [{"op": "replace", "path": "/n", "value": 2}])
            run.set(B, 1)
            self.notes.set(A, {})
        assert self.notes.get(B) is None

    def test_what_cannot_be_applied_is_refused_when_it_is_buffered(self) -> None:
        self.notes.set(A, {"n": 1})
        schema = {"type": "object", "required": ["n"]}
        self.notes.transact(
            [put(f"{SCHEMA_PREFIX}s", schema), put(REGISTRY_ID, {"urn:governed:": "s"})]
        )
        with self.begin() as run:
            run.set(B, {"n": 1})
            run.delete(B)
            refused: list[tuple[type[Exception], Callable[[], Any]]] = [
                (NotFound, lambda: run.delete(B)),
                (NotFound, lambda: run.patch(C, [add("/n", 1)])),
                (PatchFailed, lambda: run.patch(A, [add("/x/y", 1)])),
                (InvalidValue, lambda: run.set(C, float("nan"))),
                (InvalidInput, lambda: run.set("no uri", 1)),
                (InvalidInput, lambda: run.set("urn:governed:x", {})),
            ]
            for kind, write in refused:
                with pytest.raises(kind):
                    write()
            run.set("urn:governed:x", {"n": 1})
        assert run.commit is not None
        assert [fact.id for fact in run.commit.facts] == [B, B, "urn:governed:x"]

    def test_a_value_as_deep_as_values_can_be_goes_through_a_run(self) -> None:
        value: Any = 1
        for _ in range(DEPTH_MAX - 1):
            value = [value]
        self.notes.set(A, value)
        with self.begin(commit_policy=bool) as run:
            assert run.query({"select": {A: {}}})["facts"][A]["value"] == value
            assert next(run.scan()).value == value
            run.set(B, value)
            run.memory.put("ops", "fact", "x", {"deep": value[0][0][0]})
            self.notes.set(C, 1)
            self.notes.delete(C)
        assert run.state == "commit_applied"
        assert self.notes.get(B) == value

    def test_a_value_is_taken_over_when_it_is_buffered(self) -> None:
        value = {"n": [1]}
        with self.begin() as run:
            run.set(A, value)
            value["n"].append(2)
        assert self.notes.get(A) == {"n": [1]}

    def test_a_run_id_is_used_once(self) -> None:
        with self.begin(run_id="nightly-1.a") as run:
            run.set(A, 1)
        with pytest.raises(InvalidInput, match="used before"), self.begin(run_id="nightly-1.a"):
            pass
        assert self.notes.version == 1
        for bad in ("", ".a", "a/b", "a" * 101, "a b"):
            with pytest.raises(InvalidInput):
                self.begin(run_id=bad)
        with self.begin() as made:
            pass
        assert len(made.run_id) == 32
        assert int(made.run_id, 16) >= 0

    def test_the_identities_are_those_of_the_contract(self) -> None:
        first = self.notes.set(A, 1)
        with self.begin(run_id="r") as run:
            run.set(B, 2)
            run.patch(B, [{"op": "test", "path": "", "value": 2, "comment": "left out"}])
        snapshot = f"main:1:{first.hash}"
        assert run.memory_snapshot_id == snapshot
        assert run.commit_id == digest(
            {
                "kind": "commit_id/1", "run_id": "r", "memory_snapshot_id": snapshot,
                "policy_set_id": "p",
            }
        )  # fmt: skip
        operations = [
            {"op": "set", "id": B, "value": 2},
            {"op": "patch", "id": B, "ops": [{"op": "test", "path": "", "value": 2}]},
        ]
        payload = {"kind": "commit_payload/1", "branch": "main", "operations": operations}
        assert run.payload_fingerprint == digest(payload)
        assert self.entry_of(run).payload_fingerprint == digest(payload)
        noted = port_of(self.agents).answer(
            self.notes.did, GetSide("key", f"rote:run:{run.commit_id}")
        )
        assert noted is not None
        assert noted.body == {"payload": digest(payload), "version": 2}

    def test_a_commit_that_is_sent_again_is_the_first_one_or_a_mismatch(self) -> None:
        with self.begin() as run:
            run.set(A, {"n": 0.1234567})
        port = port_of(self.agents)
        life, did = life_of(port), self.notes.did
        same = [{"op": "set", "id": A, "value": {"n": 0.1234567}}]
        assert life.repeat(did, run.run_id, same) == run.commit
        with pytest.raises(RunAborted) as error:
            life.repeat(did, run.run_id, [{"op": "set", "id": A, "value": {"n": 0.1234568}}])
        assert error.value.reason_code == "payload_mismatch"
        assert self.notes.version == 1
        assert self.record_of(run).state == "commit_applied"

    def test_a_key_that_stands_for_something_else_aborts_for_good(self) -> None:
        """Only the run itself makes its key, but a copy that was written to by hand may have it."""
        run = self.begin(run_id="r")
        port = port_of(self.agents)
        port.answer(self.notes.did, PutSide("forged", "g", {}, fence=0))
        guard = Guard("forged", "g", 1, {})
        key = f"rote:run:{run.commit_id}"
        port.answer(self.notes.did, MakeCommit([put(B, 1)], key=key, guards=[guard]))
        with self.aborts("payload_mismatch"), run:
            run.set(A, 1)
        assert self.notes.get(A) is None
        assert self.record_of(run).reason_code == "payload_mismatch"

    def test_the_ledger_keeps_no_operations_of_a_run_that_has_ended(self) -> None:
        with self.begin() as applied:
            applied.set(A, "secret")
        self.notes.set(B, 1)
        with self.aborts("validation_failed"), self.begin() as aborted:
            aborted.get(B)
            aborted.set(A, "secret")
            self.notes.set(B, 2)
        with self.begin(commit_policy=lambda _: False) as rejected:
            rejected.set(A, "secret")
        for run in (applied, aborted, rejected):
            assert b"secret" not in canonical(self.entry_of(run).body())
        assert self.entry_of(aborted).conflicts[0]["id"] == B

    def test_the_ledger_lists_runs_by_when_they_began(self) -> None:
        with self.begin("read_only", run_id="z"):
            self.clock.move(seconds=1)
        with self.begin(run_id="a") as run:
            run.set(A, 1)
        assert [record.run_id for record in self.agents.runs()] == ["z", "a"]
        first, second = self.agents.runs()
        assert (first.mode, first.workflow_id, first.state) == ("read_only", "w", "commit_applied")
        assert (second.version, second.commit_id) == (1, run.commit_id)
        assert second.to_dict()["ended_at"] == second.ended_at

    # -- erasures and compactions ------------------------------------------------------------------

    def test_an_erased_entity_leaves_no_digest_in_the_ledger(self) -> None:
        with self.begin() as run:
            run.set(A, "secret")
        with self.begin() as other:
            other.set(B, 1)
        self.notes.erase(A, reason="asked to")
        assert self.entry_of(run).payload_fingerprint is None
        assert self.entry_of(run).version == 1
        assert self.entry_of(other).payload_fingerprint == other.payload_fingerprint
        assert self.notes.verify().ok

    def test_an_erased_entity_leaves_no_digest_of_a_run_that_was_aborted(self) -> None:
        """The value that the run would have written could be guessed from its fingerprint."""
        self.notes.set(A, 1)
        with self.aborts("validation_failed"), self.begin() as run:
            run.get(A)
            run.set(B, "4711")
            self.notes.set(A, 2)
        with self.begin() as other:
            other.set(C, 1)
        self.notes.set(B, 1)
        self.notes.erase(B, reason="asked to")
        assert self.entry_of(run).payload_fingerprint is None
        assert self.entry_of(other).payload_fingerprint is not None
        assert self.notes.verify().ok

    def test_an_erasure_aborts_a_run_that_read_or_writes_the_entity(self) -> None:
        self.notes.set(A, 1)
        with self.aborts("validation_failed"), self.begin() as run:
            run.get(A)
            run.set(B, 1)
            self.notes.erase(A, reason="asked to")
        assert self.notes.get(B) is None
        self.notes.set(A, 1)
        with self.aborts("validation_failed") as caught, self.begin() as run:
            run.set(A, "what it was")
            self.notes.erase(A, reason="asked to")
            self.notes.set(A, 2)
        assert caught[0].conflicts[0].id == A
        assert self.notes.get(A) == 2

    def test_an_erasure_of_what_no_answer_showed_aborts_nobody(self) -> None:
        """The entity is in the range of the question, so the answer is asked again before it is stored."""
        for id in (A, B):
            self.notes.set(id, 1)
        self.notes.delete(B)
        with self.begin() as run:
            assert [state.id for state in run.scan("urn:")] == [A]
            run.set("urn:new", 1)
            self.notes.erase(B, reason="asked to")
        assert run.state == "commit_applied"
        with self.aborts("validation_failed"), self.begin() as run:
            assert [state.id for state in run.scan("urn:a")] == [A]
            run.set("urn:newer", 1)
            self.notes.erase(A, reason="asked to")
        assert self.notes.get("urn:newer") is None

    def test_a_run_row_is_refused_that_holds_what_was_erased_since(self) -> None:
        self.notes.set(A, 1)
        with self.begin() as run:
            pass
        row = port_of(self.agents).answer(self.notes.did, GetSide(RUN, run.run_id))
        assert row is not None
        for since in ("1", True, 1.0):
            put = PutSide(RUN, run.run_id, row.body, row.fence, since)  # type: ignore[arg-type]
            with pytest.raises(InvalidInput):
                port_of(self.agents).answer(self.notes.did, put)
        with pytest.raises(InvalidInput):
            port_of(self.agents).answer(self.notes.did, PutSide("note", "n", 1, 0, 1))

    def test_history_below_a_living_run_is_not_let_go_of(self) -> None:
        for number in range(4):
            self.notes.set(A, number)
        with self.begin(space=self.notes.at(2)) as run:
            with pytest.raises(Busy, match=run.run_id):
                self.notes.compact(before=3)
            assert self.notes.compact(before=2).commit is not None
            assert run.get(A) == 1
        assert self.notes.compact(before=3).commit is not None
