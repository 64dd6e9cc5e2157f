"""Scopes of a host in a run: what joins its commit, what acts at once, and what a mode refuses."""

from collections.abc import Callable
from typing import Any

import pytest

from rote.contract.commands import ListSides, PutSide
from rote.errors import Denied, InvalidInput, NotFound, PayloadMismatch, RoteError
from rote.opening.hosts import Host
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A, B, port_of
from rote.testing.space_suite.run_ground import RunGround
from rote.tiers.messages import KIND

Q, OUT = "alerts", "done"
TASK: dict[str, Any] = {
    "schema_version": "1.0", "task_id": "t1", "requester_id": "a", "target_agent": "b",
    "task_type": "c", "input": {},
}  # fmt: skip
RESULT: dict[str, Any] = {
    "schema_version": "1.0", "task_id": "t1", "agent_id": "b", "status": "done",
    "output": {"summary": "s"},
}  # fmt: skip


class RunTierGround(RunGround):
    """A host on the space of the runs."""

    tiers: Host

    @pytest.fixture
    def hosting(self, agency: None) -> None:
        self.tiers = self.tiers_on()

    def tiers_on(self, **options: Any) -> Host:
        given: dict[str, Any] = {"space": self.notes, "queue": {"lease_seconds": 3_600}, **options}
        return Host("operator-controlled", **given)

    def message_rows(self) -> list[str]:
        rows = port_of(self.agents).answer(self.notes.did, ListSides(KIND, "", 1_000)).rows
        return [row.key for row in rows]

    def expire_leases(self) -> None:
        """Let leases run out: on every engine, whatever its clock."""
        port = port_of(self.agents)
        for row in port.answer(self.notes.did, ListSides(KIND, "", 1_000)).rows:
            body = {**row.body, "until": 0}
            port.answer(self.notes.did, PutSide(KIND, row.key, body, row.fence))

    def queued(self, queue: str = Q) -> tuple[int, int, int]:
        told = self.tiers.queue.depth(queue)
        return told["ready"], told["leased"], told["dead"]


def code_of(call: Callable[[], Any], kind: type[RoteError]) -> str:
    with pytest.raises(kind) as raised:
        call()
    return raised.value.code


def named(message: Any) -> tuple[str, str, str]:
    return Q, message["id"], message["lease"]


@each_test_uses("hosting")
class RunTierTests(RunTierGround):
    def test_memory_and_store_are_the_runs_own(self) -> None:
        self.notes.set(A, 1)
        with self.begin() as run, self.tiers.scope(run=run) as flow:
            assert flow.store.set(B, {"n": 1}) == {"version": None, "hash": None}
            added = [{"op": "add", "path": "/m", "value": 2}]
            assert flow.store.patch(B, added) == {"version": None, "hash": None}
            assert flow.memory.put("ops", "k", "i", {"n": 1})["version"] is None
            assert flow.store.get(B) is None
            assert [each["id"] for each in flow.store.scan("urn:")["items"]] == [A]
            assert flow.memory.list("ops")["items"] == []
            assert self.notes.version == 1
        assert run.commit is not None
        assert (run.commit.version, self.notes.version) == (2, 2)
        assert self.tiers.store.get(B) == {"n": 1, "m": 2}
        assert self.tiers.memory.get("ops", "k", "i")["record"]["payload"] == {"n": 1}

    def test_what_a_scope_has_read_must_hold_at_the_commit(self) -> None:
        self.notes.set(A, 1)
        with (
            self.aborts("validation_failed"),
            self.begin() as run,
            self.tiers.scope(run=run) as flow,
        ):
            self.notes.set(A, 2)
            flow.store.set(B, flow.store.get(A))
        assert self.notes.get(B) is None

    def test_settings_and_grants_of_the_host_hold_in_a_run(self) -> None:
        host = self.tiers_on(memory={"namespaces": ["tickets", "ops"]})
        grant = {"memory": {"namespaces": ["tickets"]}, "queue": {"queues": [Q]}}
        with self.begin() as run, host.scope(run=run, grant=grant) as flow:
            flow.memory.put("tickets", "k", "i", {})
            assert code_of(lambda: flow.memory.put("ops", "k", "i", {}), Denied) == "grant_denied"
            assert code_of(lambda: flow.queue.put(OUT, 1), Denied) == "grant_denied"
            assert code_of(lambda: flow.store.set("record:x", 1), Denied) == "reserved_id"
        assert host.memory.get("tickets", "k", "i")["found"]

    # -- queues ------------------------------------------------------------------------------------

    def test_a_put_and_an_ack_are_one_commit_with_the_rest(self) -> None:
        id = self.tiers.queue.put(Q, {"n": 1})
        with self.begin() as run, self.tiers.scope(run=run) as flow:
            message = flow.queue.take(Q)["message"]
            assert (message["id"], message["payload"]) == (id, {"n": 1})
            new = flow.queue.put(OUT, {"from": id})
            assert flow.queue.ack(*named(message)) == {"ok": True}
            run.set(A, 1)
            assert (self.queued(), self.queued(OUT)) == ((0, 1, 0), (0, 0, 0))
            assert code_of(lambda: flow.queue.ack(*named(message)), Denied) == "lease_lost"
            assert flow.queue.take(Q) == {"message": None}
        assert run.commit is not None
        facts = [(fact.op, fact.id) for fact in run.commit.facts]
        assert facts == [("set", f"queue:{OUT}/{new}"), ("delete", f"queue:{Q}/{id}"), ("set", A)]
        assert (self.queued(), self.queued(OUT), self.message_rows()) == ((0, 0, 0), (1, 0, 0), [])
        message = self.tiers.queue.take(OUT)["message"]
        assert (message["id"], message["put_at"]) == (new, run.commit.at)
        assert self.notes.verify().ok

    def test_a_block_that_raises_acknowledges_and_puts_nothing(self) -> None:
        self.tiers.queue.put(Q, 1)
        with pytest.raises(KeyError), self.begin() as run, self.tiers.scope(run=run) as flow:
            message = flow.queue.take(Q)["message"]
            flow.queue.ack(*named(message))
            flow.queue.put(OUT, 1)
            raise KeyError
        assert (self.queued(), self.queued(OUT)) == ((0, 1, 0), (0, 0, 0))
        self.expire_leases()
        assert self.tiers.queue.take(Q)["message"]["tries"] == 2

    def test_a_rejected_run_acknowledges_nothing(self) -> None:
        self.tiers.queue.put(Q, 1)
        with (
            self.begin(commit_policy=lambda operations: False) as run,
            self.tiers.scope(run=run) as flow,
        ):
            flow.queue.ack(*named(flow.queue.take(Q)["message"]))
        assert (run.reason_code, self.queued()) == ("policy_rejected", (0, 1, 0))

    def test_a_take_gives_messages_of_the_snapshot_alone(self) -> None:
        self.tiers.queue.put(Q, "before")
        with self.begin() as run, self.tiers.scope(run=run) as flow:
            self.tiers.queue.put(Q, "after")
            assert flow.queue.depth(Q)["ready"] == 2  # told as it is now
            assert flow.queue.take(Q)["message"]["payload"] == "before"
            assert flow.queue.take(Q)["message"] is None
            late = self.tiers.queue.take(Q)["message"]
            assert code_of(lambda: flow.queue.ack(*named(late)), Denied) == "lease_lost"
            assert self.tiers.queue.ack(*named(late)) == {"ok": True}

    @pytest.mark.parametrize("how", ["acked", "taken", "nacked"])
    def test_a_message_that_others_have_moved_meanwhile_ends_the_run(self, how: str) -> None:
        self.tiers.queue.put(Q, 1)
        with (
            self.aborts("validation_failed") as aborted,
            self.begin() as run,
            self.tiers.scope(run=run) as flow,
        ):
            message = flow.queue.take(Q)["message"]
            flow.queue.ack(*named(message))
            flow.queue.put(OUT, 1)
            if how == "acked":
                self.tiers.queue.ack(*named(message))
            elif how == "nacked":
                flow.queue.nack(*named(message))
            else:
                self.expire_leases()
                assert self.tiers.queue.take(Q)["message"]["tries"] == 2
        assert aborted[0].reason_code == run.reason_code
        assert self.record_of(run).reason_code == "validation_failed"
        assert self.queued(OUT) == (0, 0, 0)
        assert self.queued() == {"acked": (0, 0, 0), "taken": (0, 1, 0), "nacked": (1, 0, 0)}[how]

    def test_a_lease_that_runs_out_in_a_run_and_is_not_followed_counts(self) -> None:
        self.tiers.queue.put(Q, 1)
        with self.begin() as run, self.tiers.scope(run=run) as flow:
            flow.queue.ack(*named(flow.queue.take(Q)["message"]))
        assert (run.state, self.queued()) == ("commit_applied", (0, 0, 0))
        self.tiers.queue.put(Q, 1)
        with self.begin() as run, self.tiers.scope(run=run) as flow:
            message = flow.queue.take(Q)["message"]
            self.expire_leases()
            flow.queue.ack(*named(message))
        assert (run.state, self.queued()) == ("commit_applied", (0, 0, 0))

    def test_a_message_may_be_extended_after_its_ack(self) -> None:
        self.tiers.queue.put(Q, 1)
        with self.begin() as run, self.tiers.scope(run=run) as flow:
            message = flow.queue.take(Q)["message"]
            flow.queue.ack(*named(message))
            for seconds in (7_000, 8_000):
                flow.queue.extend(*named(message), seconds)
        assert (run.state, self.queued(), self.message_rows()) == ("commit_applied", (0, 0, 0), [])

    def test_other_verbs_of_queues_act_at_once(self) -> None:
        self.tiers.queue.put(Q, 1)
        with self.begin() as run, self.tiers.scope(run=run) as flow:
            message = flow.queue.take(Q)["message"]
            assert self.queued() == (0, 1, 0)
            assert flow.queue.nack(*named(message)) == {"ok": True, "dead": False}
            assert self.queued() == (1, 0, 0)
            assert flow.queue.peek(Q)["items"][0]["tries"] == 1
        assert (run.commit, self.notes.version) == (None, 1)

    def test_a_commit_has_one_key_and_it_is_the_runs(self) -> None:
        with self.begin() as run, self.tiers.scope(run=run) as flow:
            refused: list[Callable[[], Any]] = [
                lambda: flow.queue.put(Q, 1, "key"),
                lambda: flow.store.set(A, 1, "key"),
                lambda: flow.memory.put("ops", "k", "i", {}, key="key"),
            ]
            for call in refused:
                code_of(call, InvalidInput)
        assert run.commit is None

    # -- agents ------------------------------------------------------------------------------------

    def test_a_task_and_its_result_are_in_the_commit(self) -> None:
        with self.begin() as run, self.tiers.scope(run=run) as flow:
            assert flow.agent.send_task(TASK) == "t1"
            assert flow.agent.send_task(TASK) == "t1"
            assert flow.agent.post_result(RESULT) == {"ok": True, "created": True}
            assert flow.agent.post_result(RESULT) == {"ok": True, "created": False}
            other = {**RESULT, "status": "failed"}
            assert code_of(lambda: flow.agent.post_result(other), PayloadMismatch)
            # Told as it is now.
            assert code_of(lambda: flow.agent.read_task("t1"), NotFound) == "no_task"
            assert flow.agent.tasks(None, "all") == {"items": [], "next": None}
        assert run.commit is not None
        assert [fact.id for fact in run.commit.facts] == ["agent:task/t1", "agent:result/t1"]
        assert self.tiers.agent.read_result("t1") == RESULT

    def test_tasks_and_results_are_judged_at_the_snapshot(self) -> None:
        self.tiers.agent.send_task(TASK)
        with self.begin() as run, self.tiers.scope(run=run) as flow:
            self.tiers.agent.send_task({**TASK, "task_id": "t2"})
            assert flow.agent.read_task("t2")["task_id"] == "t2"
            later = {**RESULT, "task_id": "t2"}
            assert code_of(lambda: flow.agent.post_result(later), NotFound) == "no_task"
            assert code_of(
                lambda: flow.agent.send_task({**TASK, "input": {"n": 1}}), PayloadMismatch
            )
            assert flow.agent.send_task(TASK) == "t1"
        assert run.commit is None

    @pytest.mark.parametrize("kind", ["task", "result"])
    def test_one_that_others_wrote_meanwhile_ends_the_run(self, kind: str) -> None:
        if kind == "result":
            self.tiers.agent.send_task(TASK)
        with (
            self.aborts("validation_failed"),
            self.begin(validate="writes") as run,
            self.tiers.scope(run=run) as flow,
        ):
            for agent in (flow.agent, self.tiers.agent):
                if kind == "task":
                    agent.send_task(TASK)
                else:
                    agent.post_result(RESULT)
            flow.queue.put(OUT, 1)
        assert self.queued(OUT) == (0, 0, 0)

    def test_a_run_leaves_the_files_of_the_mailbox_to_the_bridge(self) -> None:
        (self.place / "box").mkdir()
        host = self.tiers_on(agent={"root": str(self.place / "box")})
        with self.begin() as run, host.scope(run=run) as flow:
            flow.agent.send_task(TASK)
            assert list((self.place / "box").rglob("*.jsonl")) == []
        assert host.agent.bridge()["tasks_out"] == 1

    # -- modes and scopes --------------------------------------------------------------------------

    @pytest.mark.parametrize("mode", ["off", "read_only"])
    def test_a_mode_refuses_what_it_may_not(self, mode: str) -> None:
        id = self.tiers.queue.put(Q, 1)
        self.tiers.agent.send_task(TASK)
        version = self.notes.version
        reads: list[tuple[str, str, list[Any]]] = [
            ("memory", "get", ["ops", "k", "i"]), ("memory", "stats", []), ("store", "get", [A]),
            ("store", "scan", []), ("queue", "peek", [Q]), ("queue", "depth", [Q]),
            ("agent", "read_task", ["t1"]), ("agent", "tasks", []),
        ]  # fmt: skip
        writes: list[tuple[str, str, list[Any]]] = [
            ("memory", "put", ["ops", "k", "i", {}]), ("store", "set", [A, 1]),
            ("queue", "put", [Q, 1]), ("queue", "take", [Q]), ("queue", "ack", [Q, id, "x"]),
            ("queue", "nack", [Q, id, "x"]), ("queue", "extend", [Q, id, "x"]),
            ("queue", "revive", [Q, id]), ("queue", "drop", [Q, id]),
            ("agent", "send_task", [TASK]), ("agent", "post_result", [RESULT]), ("agent", "bridge", []),
        ]  # fmt: skip
        with self.begin(mode) as run, self.tiers.scope(run=run) as flow:
            for call in (*writes, *(reads if mode == "off" else ())):
                with pytest.raises(Denied) as refused:
                    flow.call(*call)
                assert refused.value.details["mode"] == mode
            for call in reads if mode == "read_only" else ():
                flow.call(*call)
            flow.cache.set("n", "k", 1)
            assert flow.frame.set("a", 1)["ok"]
            offered = flow.capabilities()["adapters"]
            assert "put" not in offered.get("queue", ())
            assert ("peek" in offered.get("queue", ())) == (mode == "read_only")
        assert (self.notes.version, self.message_rows(), self.queued()) == (version, [], (1, 0, 0))

    def test_a_live_run_acts_at_once(self) -> None:
        self.tiers.queue.put(Q, 1)
        with self.begin("live_read_write") as run, self.tiers.scope(run=run) as flow:
            flow.store.set(A, 1)
            assert (flow.store.get(A), self.notes.get(A)) == (1, 1)
            flow.queue.put(Q, 2, "key")
            flow.queue.ack(*named(flow.queue.take(Q)["message"]))
            assert self.queued() == (1, 0, 0)
            flow.agent.send_task(TASK)
            assert flow.agent.post_result(RESULT)["created"]
            assert self.tiers.agent.read_result("t1") == RESULT

    def test_a_scope_is_in_a_run_of_its_space_and_branch_that_goes_on(self) -> None:
        self.notes.set(A, 1)
        self.notes.create_branch("other")
        elsewhere = self.agents.space("elsewhere")
        hosts = [
            Host("minimal"),
            self.tiers_on(space=elsewhere),
            self.tiers_on(space=self.notes.on("other")),
        ]
        with self.begin() as run, self.begin() as second:
            for host in hosts:
                code_of(lambda host=host: host.scope(run=run), InvalidInput)  # type: ignore[misc]
            flow = self.tiers.scope(run=run)
            code_of(lambda: flow.scope(run=second), InvalidInput)
            assert flow.scope(run=run).scope().store.get(A) == 1
            on_view = self.tiers_on(space=self.notes.at(1)).scope(run=run)
            assert on_view.store.get(A) == 1
            for bad in (1, "run", self.notes):
                code_of(lambda bad=bad: self.tiers.scope(run=bad), InvalidInput)  # type: ignore[misc]
        for call in (flow.store.get, flow.cache.get, flow.frame.get):
            code_of(lambda call=call: call("a", "b"), InvalidInput)  # type: ignore[misc]
        for over in (run, self.begin()):
            code_of(lambda over=over: self.tiers.scope(run=over), InvalidInput)  # type: ignore[misc]

    def test_a_host_is_not_recorded_in_the_scope_of_a_run(self) -> None:
        with self.begin() as run:
            flow = self.tiers.scope(run=run)
            with pytest.raises(InvalidInput, match=r"space\.run"), flow.record(self.place / "r"):
                pass
            with self.tiers.record(self.place / "r"):
                code_of(lambda: self.tiers.scope(run=run), InvalidInput)
                code_of(lambda: flow.cache.get("n", "k"), InvalidInput)
            flow.cache.get("n", "k")

    def test_calls_count_in_a_run_too(self) -> None:
        grant = {"limits": {"max_adapter_calls": 2}}
        with self.begin() as run, self.tiers.scope(run=run, grant=grant) as flow:
            flow.store.get(A)
            flow.frame.get()
            flow.cache.get("n", "k")
            assert code_of(lambda: flow.store.get(A), RoteError) == "limit_exceeded"
