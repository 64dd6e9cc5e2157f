"""Calls of a host in a run that is recorded and replayed: the same results, trace and writes, and nothing
touched; adapters with a profile as tool calls."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rote.errors import Denied, InvalidInput, RoteError
from rote.opening.hosts import Host
from rote.recordings.calls import Effects
from rote.runs.run import Run
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A, B
from rote.testing.space_suite.run_tiers import OUT, RESULT, TASK, Q, RunTierGround, code_of, named
from rote.traces import ModelConfig, ToolProfile, check_trace, compare_traces
from rote.values import decode

EVENT = {"role": "r", "interceptor": "i", "decision_type": "d"}
SECRET = "hunter2-the-secret"
TOOLS = (
    ToolProfile("cache.get", "1"),
    ToolProfile("memory.put", "1"),
    ToolProfile("agent.send_task", "1"),
    ToolProfile("search", "1"),
)


def lines_of(path: Path) -> list[Any]:
    return [decode(line) for line in path.read_bytes().splitlines()]


def adapter_calls(path: Path) -> list[str]:
    return [line["name"] for line in lines_of(path) if line["kind"] == "adapter"]


@each_test_uses("hosting")
class RunTierReplayTests(RunTierGround):
    @property
    def recording(self) -> Path:
        return self.place / "run.jsonl"

    def begin_with_messages(self, redact: tuple[str, ...] = ("password",)) -> Host:
        """Return a host with files; its queue has two messages."""
        (self.place / "out").mkdir()
        self.notes.set(A, 1)
        self.tiers.queue.put(Q, {"n": 1, "password": SECRET})
        self.tiers.queue.put(Q, {"n": 2})
        return self.tiers_on(fs={"sandbox_root": str(self.place / "out")}, redact=redact)

    def tiers_of_space(self) -> Host:
        """Return a host that has the space alone."""
        return self.tiers_on(redact=["password"])

    def use_every_tier(self, run: Run, host: Host) -> list[Any]:
        """Use every tier; return what was told."""
        told: list[Any] = []

        def tell(call: Callable[[], Any]) -> Any:
            try:
                told.append(call())
                return told[-1]
            except RoteError as error:
                told.append([type(error).__name__, error.code, str(error), error.details])

        with host.scope(run=run, frame={"a": 1}) as flow:
            message = tell(lambda: flow.queue.take(Q))["message"]
            tell(lambda: flow.queue.put(OUT, {"got": message["payload"]}))
            tell(lambda: flow.memory.put("ops", "k", "i", {"x": message["payload"]}))
            tell(lambda: flow.store.set(B, [message["payload"], flow.store.get(A)]))
            tell(lambda: flow.fs.write("a.txt", "hello"))
            tell(lambda: flow.fs.read("../a.txt"))
            tell(lambda: flow.fs.read("none.txt"))
            tell(lambda: flow.cache.set("n", "k", message["payload"]))
            with run.event(**EVENT) as event:
                event.call("search", lambda query: [query], query=1)
                tell(lambda: flow.cache.get("n", "k"))
                tell(flow.fs.list)
            tell(lambda: flow.agent.send_task(TASK))
            tell(lambda: flow.agent.post_result(RESULT))
            tell(lambda: flow.agent.post_result(RESULT))
            tell(lambda: flow.queue.ack(*named(message)))
            tell(lambda: flow.queue.ack(*named(message)))
            tell(lambda: flow.frame.set("b", 2))
            tell(flow.frame.get)
        return told

    def test_a_replay_is_told_the_same_and_touches_nothing(self) -> None:
        host = self.begin_with_messages()
        with self.begin(tools=TOOLS, record=self.recording) as run:
            first = self.use_every_tier(run, host)
        assert run.state == "commit_applied"
        assert adapter_calls(self.recording) == [
            "queue.take", "queue.put", "fs.write", "fs.read", "fs.read", "cache.set", "cache.get",
            "fs.list", "agent.send_task", "agent.post_result", "agent.post_result", "queue.ack",
            "queue.ack",
        ]  # fmt: skip
        assert SECRET.encode() not in self.recording.read_bytes()
        (self.place / "out" / "a.txt").write_text("changed")
        self.tiers.queue.put(Q, {"n": 3})
        before = (self.notes.version, self.message_rows(), self.queued(), self.queued(OUT))
        with self.begin(tools=TOOLS, replay=self.recording) as again:
            told = self.use_every_tier(again, self.tiers_of_space())
        assert before == (self.notes.version, self.message_rows(), self.queued(), self.queued(OUT))
        assert (self.place / "out" / "a.txt").read_text() == "changed"
        assert SECRET not in str(told)
        mark = told[0]["message"]["payload"]["password"]
        assert told == with_marks(first, mark)
        assert (again.state, again.discarded) == ("buffer_open", True)
        assert check_trace(run.trace).ok
        assert compare_traces(run.trace, again.trace).status == "equivalent"
        assert [each["id"] for each in again.operations] == [each["id"] for each in run.operations]

    def test_without_redaction_the_writes_are_the_same_to_the_byte(self) -> None:
        host = self.begin_with_messages(redact=())
        with self.begin(tools=TOOLS, record=self.recording) as run:
            first = self.use_every_tier(run, host)
        with self.begin(tools=TOOLS, replay=self.recording) as again:
            assert self.use_every_tier(again, self.tiers) == first
        assert again.payload_fingerprint == run.payload_fingerprint
        report = compare_traces(run.trace, again.trace, level="full")
        assert report.status == "equivalent", report.failures

    def test_a_replay_where_nothing_may_be_written_is_told_the_same(self) -> None:
        host = self.begin_with_messages()

        def look(run: Run, host: Host) -> list[Any]:
            with host.scope(run=run) as flow:
                return [flow.queue.peek(Q, 5), flow.queue.depth(Q), flow.fs.exists("a")]

        with self.begin("read_only", record=self.recording) as run:
            first = look(run, host)
        self.tiers.queue.take(Q)
        with self.begin("read_only", replay=self.recording) as again:
            told = look(again, self.tiers_of_space())
        assert told[1:] == first[1:]
        assert [each["id"] for each in told[0]["items"]] == [
            each["id"] for each in first[0]["items"]
        ]

    def test_a_redacted_value_that_a_memory_alone_has_is_written_again(self) -> None:
        """No line has its salt then, and none needs it."""
        host = self.tiers_of_space()
        runs = []
        for how in ("record", "replay"):
            terms: dict[str, Any] = {how: self.recording}
            with self.begin(**terms) as run, host.scope(run=run) as flow:
                flow.memory.put("ops", "k", "i", {"password": SECRET})
                flow.cache.get("n", "k")
            runs.append(run)
        assert runs[0].payload_fingerprint == runs[1].payload_fingerprint

    def test_another_write_in_a_replay_is_still_found(self) -> None:
        host = self.begin_with_messages()

        def work(run: Run, extra: Any) -> None:
            with host.scope(run=run) as flow:
                message = flow.queue.take(Q)["message"]
                flow.memory.put(
                    "ops", "k", "i", {"password": message["payload"]["password"], "n": extra}
                )

        with self.begin(record=self.recording) as run:
            work(run, 1)
        with self.begin(replay=self.recording) as run:
            work(run, 1)
        with self.aborts("payload_mismatch"), self.begin(replay=self.recording) as run:
            work(run, 2)

    def test_the_first_call_that_differs_ends_a_replay(self) -> None:
        with self.begin(record=self.recording) as run, self.tiers.scope(run=run) as flow:
            flow.cache.set("n", "k", 1)
            flow.queue.put(OUT, 1)
        for calls in ([("set", 2)], [("set", 1), ("get", None)], []):
            with (
                pytest.raises(InvalidInput) as refused,
                self.begin(replay=self.recording) as run,
                self.tiers.scope(run=run) as flow,
            ):
                for verb, value in calls:
                    if verb == "set":
                        flow.cache.set("n", "k", value)
                    else:
                        flow.cache.get("n", "k")
            assert refused.value.code == "replay_differs"
        assert (self.queued(OUT), self.tiers.cache.get("n", "k")["value"]) == ((1, 0, 0), 1)

    def test_a_block_that_failed_is_replayed_up_to_there(self) -> None:
        host = self.begin_with_messages()
        for how in ("record", "replay"):
            terms: dict[str, Any] = {how: self.recording}
            with pytest.raises(KeyError), self.begin(**terms) as run, host.scope(run=run) as flow:
                flow.queue.ack(*named(flow.queue.take(Q)["message"]))
                raise KeyError
        assert (self.queued(), lines_of(self.recording)[-1]["error"]) == (
            (1, 1, 0),
            {"type": "KeyError"},
        )

    # -- tool calls --------------------------------------------------------------------------------

    def test_an_adapter_with_a_profile_is_a_tool_call_of_the_open_event_or_of_its_own(self) -> None:
        runs = []
        for how in ("record", "replay"):
            terms: dict[str, Any] = {how: self.recording}
            with self.begin(tools=TOOLS, **terms) as run, self.tiers.scope(run=run) as flow:
                flow.cache.get("n", "k")
                with run.event(**EVENT) as event:
                    event.call("search", lambda query: [query], query=1)
                    flow.memory.put("ops", "k", "i", {"n": 1})
                    flow.cache.set("n", "k", 1)
                    flow.cache.get("n", "k")
                flow.store.get(A)
            runs.append(run)
        events = runs[0].trace["events"]
        names = [[call["tool_name"] for call in event["tool_calls"]] for event in events]
        assert names == [["cache.get"], ["search", "memory.put", "cache.get"]]
        own = {name: events[0][name] for name in ("role", "interceptor", "decision_type")}
        assert own == {"role": "run", "interceptor": "host", "decision_type": "adapter_call"}
        asked = events[1]["tool_calls"][1]["normalized_args"][""]
        assert asked == {"namespace": "ops", "kind": "k", "id": "i", "payload": {"n": 1}}
        assert check_trace(runs[0].trace).ok
        report = compare_traces(*(run.trace for run in runs), level="full")
        assert report.status == "equivalent", report.failures

    def test_an_error_of_an_adapter_is_the_reply_of_its_tool_call(self) -> None:
        fingerprints = []
        tools = [ToolProfile("queue.ack", "1", tool_result_fingerprint_fields=["/error/code"])]
        for verb in ("record", "replay", None):
            terms: dict[str, Any] = {} if verb is None else {verb: self.recording}
            with self.begin(tools=tools, **terms) as run, self.tiers.scope(run=run) as flow:
                assert code_of(lambda: flow.queue.ack(Q, "0" * 32, "x"), Denied) == "lease_lost"
            [call] = run.trace["events"][0]["tool_calls"]
            fingerprints.append(call["tool_result_fingerprint"])
        expected = tools[0].result_fingerprint({"error": {"code": "lease_lost"}})
        assert fingerprints == [expected] * 3

    def test_a_redacted_value_is_in_no_trace_and_changes_no_fingerprint(self) -> None:
        told = []
        for number, verb in enumerate(("record", "replay", None)):
            terms: dict[str, Any] = {} if verb is None else {verb: self.recording}
            with (
                self.begin(tools=TOOLS, **terms) as run,
                self.tiers_of_space().scope(run=run) as flow,
            ):
                flow.cache.set("n", "k", {"password": SECRET, "n": 1})
                flow.cache.get("n", "k", {"password": f"{SECRET}-{0 if number < 2 else 1}"})
            assert SECRET not in str(run.trace)
            told.append(run.trace["events"])
        assert told[0] == told[1] == told[2]
        assert told[0][0]["tool_calls"][0]["normalized_args"][""]["default"] == {
            "password": "[redacted]"
        }

    def test_tools_and_the_model_hide_what_a_host_of_the_run_redacts(self) -> None:
        model = ModelConfig("acme", "large-1", seed=7)

        def log_in(user: str, password: str) -> Any:
            if user == "bob":
                raise ValueError(f"{user} has not {password}")
            return Effects({"user": user, "password": password}, {"password": password})

        told, runs = [], []
        ways = [
            ("record", self.recording),
            ("replay", self.recording),
            ("record", self.place / "2"),
        ]
        for how, path in ways:
            terms: dict[str, Any] = {how: path, "tools": TOOLS, "model": model}
            with self.begin(**terms) as run, self.tiers_of_space().scope(run=run) as flow:
                flow.cache.set("n", "k", {"password": SECRET})
                found = flow.cache.get("n", "k")["value"]["password"]
                with run.event(**EVENT) as event:
                    first: Any = event.call("search", log_in, user="ada", password=found)
                    [second] = event.calls([("search", log_in, first)], return_exceptions=True)
                    with pytest.raises(ValueError, match="bob has not") as raised:
                        event.call("search", log_in, user="bob", password=found)
                    third: Any = event.model(lambda **asked: asked, prompt=[second])
                flow.memory.put("ops", "k", "i", third["prompt"][0])
            told.append([first, second, third])
            runs.append(run)
            # An exception of the function itself is raised as it is.
            assert (SECRET in str(raised.value)) == (how == "record")
        assert told[0][0] == {"user": "ada", "password": SECRET}
        assert told[1] == with_marks(told[0], told[1][0]["password"])
        assert SECRET.encode() not in self.recording.read_bytes()
        assert SECRET not in str([run.trace for run in runs])
        assert runs[0].trace["events"] == runs[1].trace["events"]
        # Also by another salt; but the memory has the record then.
        for run in runs[1:]:
            assert run.trace["events"][:-1] == runs[0].trace["events"][:-1]
            replies = [each.trace["metadata"]["model_replies"] for each in (run, runs[0])]
            assert replies[0] == replies[1]
        assert self.tiers.memory.get("ops", "k", "i")["record"]["payload"]["password"] == SECRET

    def test_another_redacted_argument_of_a_tool_differs(self) -> None:
        def work(how: str, password: str) -> None:
            terms: dict[str, Any] = {how: self.recording, "tools": TOOLS}
            with (
                self.begin(**terms) as run,
                self.tiers_of_space().scope(run=run),
                run.event(**EVENT) as event,
            ):
                event.call("search", lambda password: 1, password=password)

        work("record", SECRET)
        work("replay", SECRET)
        with pytest.raises(InvalidInput) as refused:
            work("replay", "another one")
        assert refused.value.code == "replay_differs"
        for text in (SECRET, "another one"):
            assert text not in f"{refused.value} {refused.value.details}"

    @pytest.mark.parametrize("how", ["call", "calls", "model"])
    def test_inside_a_function_of_an_event_adapters_are_refused_as_writes_are(
        self, how: str
    ) -> None:
        self.notes.set(A, 1)
        model = ModelConfig("acme", "large-1", seed=7)
        with (
            self.begin(tools=TOOLS, model=model, record=self.recording) as run,
            self.tiers.scope(run=run) as flow,
        ):
            calls: list[Callable[[], Any]] = [
                lambda: flow.cache.get("n", "k"), lambda: flow.queue.depth(Q),
                lambda: flow.cache.set("n", "k", 1), lambda: flow.queue.put(Q, 1),
                lambda: flow.frame.set("a", 1), lambda: flow.store.set(A, 2),
            ]  # fmt: skip

            def function() -> Any:
                for call in calls:
                    code_of(call, InvalidInput)
                return [flow.store.get(A), flow.frame.get()]

            with run.event(**EVENT) as event:
                if how == "call":
                    told = event.call("search", function)
                elif how == "calls":
                    [told] = event.calls([("search", function, {})])
                else:
                    told = event.model(function)
        assert (told, run.commit, adapter_calls(self.recording)) == ([1, {}], None, [])

    def test_where_nothing_is_recorded_only_tool_calls_are_refused_there(self) -> None:
        with self.begin(tools=TOOLS) as run, self.tiers.scope(run=run) as flow:

            def function() -> Any:
                code_of(lambda: flow.cache.get("n", "k"), InvalidInput)
                flow.store.set(A, 1)
                return flow.cache.set("n", "k", 1)

            with run.event(**EVENT) as event:
                assert event.call("search", function) == {"ok": True}
        assert self.notes.get(A) == 1


def with_marks(told: Any, mark: Any) -> Any:
    """Return what was told with a mark in the places of the secret."""
    if isinstance(told, dict):
        return {
            name: mark if name == "password" else with_marks(each, mark)
            for name, each in told.items()
        }
    return [with_marks(each, mark) for each in told] if isinstance(told, list) else told
