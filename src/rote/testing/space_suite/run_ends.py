"""The end of a run: it comes once, nothing comes after it, and no acknowledged write is lost."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rote.contract import reads as commit_reads
from rote.contract.commands import Rehearse
from rote.errors import InvalidInput, LimitExceeded, RecordedError, RoteError
from rote.recordings import recordings
from rote.records.memory import Memory
from rote.runs import reads
from rote.runs.run import Run
from rote.testing.intercepting import intercept
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A, B, C, port_of
from rote.testing.space_suite.run_ground import RunGround
from rote.traces.profiles import ToolProfile

EVENT = {"role": "r", "interceptor": "i", "decision_type": "d"}
TOOLS = [ToolProfile("tool", "1")]
ROUNDS = 10


@each_test_uses("agency")
class RunEndTests(RunGround):
    # -- once --------------------------------------------------------------------------------------

    def test_a_run_that_has_ended_is_not_ended_again(self) -> None:
        """A second end once turned an applied run into a discarded one in the ledger."""
        with self.begin() as run:
            run.set(A, 1)
        for error in (None, ZeroDivisionError()):
            with pytest.raises(InvalidInput, match="ended"):
                run.__exit__(None, error, None)
        record = self.record_of(run)
        assert (record.state, record.discarded, record.version) == ("commit_applied", False, 1)
        with pytest.raises(InvalidInput, match="not begun"):
            self.begin().__exit__(None, None, None)

    def test_what_another_thread_writes_while_a_run_ends_is_in_it_or_refused(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The write was once acknowledged, and nobody ever saw it."""
        port = port_of(self.agents)
        is_inside, has_ended = threading.Event(), threading.Event()
        seen: list[str] = []

        def late(space: str, command: Rehearse, answer: Any) -> Any:
            is_inside.set()
            has_ended.wait(0.2)  # or until the policy is asked, which is too late
            return answer(command)

        def policy(operations: list[dict[str, Any]]) -> bool:
            has_ended.set()
            writer.join()
            seen.extend(operation["id"] for operation in operations)
            return True

        with self.begin(commit_policy=policy) as run:
            run.set(A, 1)
            intercept(monkeypatch, port, Rehearse, late)
            writer = threading.Thread(target=run.set, args=(B, 2))
            writer.start()
            assert is_inside.wait(60)
        assert run.commit is not None
        assert [fact.id for fact in run.commit.facts] == seen == [A, B]
        with pytest.raises(InvalidInput, match="ended"):
            run._buffer.add([{"op": "set", "id": C, "value": 1}])

    def test_nothing_is_written_live_before_a_run_or_after_it(self) -> None:
        run = self.begin("live_read_write")
        uses: list[Callable[[], Any]] = [
            lambda: run.memory.put("ops", "fact", "x", {"text": "t"}),
            lambda: run.memory.append("ops", "log", "x", {"n": 1}),
            lambda: run.memory.delete("ops", "fact", "x"),
            lambda: run.memory.get("ops", "fact", "x"),
            lambda: run.memory.list("ops"),
            lambda: run.memory.space.erase(A, reason="asked to"),
            lambda: run.set(A, 1),
        ]
        for use in uses:
            with pytest.raises(InvalidInput, match="begun"):
                use()
        with run:
            run.memory.put("ops", "fact", "y", {"text": "t"})
        for use in uses:
            with pytest.raises(InvalidInput, match="ended"):
                use()
        assert self.notes.version == 1

    # -- calls -------------------------------------------------------------------------------------

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_a_call_that_is_interrupted_is_in_the_trace_and_in_the_recording(
        self, kind: type[BaseException], tmp_path: Path
    ) -> None:
        def tool() -> None:
            raise kind

        def agent(run: Run, expected: type[BaseException]) -> None:
            with run.event(**EVENT) as event:
                with pytest.raises(expected):
                    event.call("tool", tool)
                assert event.call("tool", lambda: 1) == 1

        with self.begin(tools=TOOLS, record=tmp_path / "calls") as run:
            agent(run, kind)
        with self.begin(tools=TOOLS, replay=tmp_path / "calls") as again:
            agent(again, RecordedError)
        events: Any = run.trace["events"]
        assert len(events[0]["tool_calls"]) == 2
        assert again.trace["events"] == events

    def test_a_run_whose_recording_misses_a_call_is_discarded(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recordings, "RECORDING_CALLS_MAX", 1)
        with (
            pytest.raises(LimitExceeded),
            self.begin(tools=TOOLS, record=tmp_path / "calls") as run,
        ):
            run.set(A, 1)
            with run.event(**EVENT) as event:
                event.call("tool", lambda: 1)
                with pytest.raises(LimitExceeded):
                    event.call("tool", lambda: 2)
        assert (self.notes.version, run.discarded) == (0, True)
        assert list(tmp_path.glob("*calls*")) == []

    # -- limits ------------------------------------------------------------------------------------

    def test_what_a_run_may_not_read_any_more_is_not_in_its_way(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The read was refused but kept all the same, and then made the commit too large."""
        monkeypatch.setattr(reads, "RUN_READS_MAX", 3)
        monkeypatch.setattr(commit_reads, "READS_MAX", 3)
        with self.begin() as run:
            run.query({"select": {A: {}, B: {}}})
            with pytest.raises(LimitExceeded):
                run.query({"select": {A: {}, C: {}}})
            for _ in range(2):
                run.get(A)
            for _ in range(2):
                with pytest.raises(LimitExceeded):
                    run.get(B)
            run.set(C, 1)
            self.notes.set("urn:d", 1)
        assert run.state == "commit_applied"

    # -- arguments ---------------------------------------------------------------------------------

    @pytest.mark.parametrize("id", [["x"], {"a": 1}, 1, None, "", "a\ud800"])
    def test_an_id_that_is_none_is_refused_when_it_is_buffered(self, id: Any) -> None:
        with self.begin() as run:
            with pytest.raises(RoteError):
                run.set(id, 1)
            with pytest.raises(RoteError):
                run.patch(id, [])
            with pytest.raises(RoteError):
                run.delete(id)
        assert (run.state, self.notes.version) == ("commit_applied", 0)

    @pytest.mark.parametrize("tools", [None, 1, "tool", [1], float("nan")])
    def test_tools_are_profiles(self, tools: Any) -> None:
        with pytest.raises(InvalidInput, match="ToolProfile"), self.begin(tools=tools):
            pass

    def test_a_recording_needs_a_name_that_a_file_can_have(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput), self.begin(record=tmp_path / ("x" * 1_000)):
            pass

    def test_a_run_id_is_used_once_in_a_store(self) -> None:
        """The traces of a run in another space once replaced those of the first."""
        with self.begin(run_id="r"):
            pass
        with pytest.raises(InvalidInput, match="used before"):
            self.begin(space=self.agents.space("other"), run_id="r")

    def test_a_run_id_is_used_once_also_by_runs_that_begin_inside_each_other(self) -> None:
        first = self.begin(run_id="r")
        second = self.begin(space=self.agents.space("other"), run_id="r")
        with first, pytest.raises(InvalidInput, match="used before"), second:
            pass
        assert [record.run_id for record in self.agents.runs()] == ["r"]

    def test_of_runs_that_begin_at_once_with_one_id_in_two_spaces_at_most_one_goes_on(self) -> None:
        """Both once went on, and the trace of one replaced that of the other."""
        spaces = [self.agents.space(name) for name in ("one", "other")]
        together = threading.Barrier(len(spaces))

        def go_on(run: Run) -> bool:
            together.wait()
            try:
                with run:
                    return True
            except InvalidInput:
                return False

        with ThreadPoolExecutor(len(spaces)) as pool:
            for number in range(ROUNDS):
                runs = [self.begin(space=space, run_id=f"r{number}") for space in spaces]
                assert sum(pool.map(go_on, runs)) <= 1
        assert all(run.discarded or run.state == "commit_applied" for run in self.agents.runs())

    def test_a_recording_is_where_it_was_asked_for_when_the_program_moves(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The whole run was once discarded, because its recording could not be put in place."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "elsewhere").mkdir()
        with self.begin(record="run.jsonl") as run:
            run.set(A, 1)
            monkeypatch.chdir(tmp_path / "elsewhere")
        assert run.state == "commit_applied"
        assert (tmp_path / "run.jsonl").is_file()

    def test_a_live_run_is_not_recorded(self, tmp_path: Path) -> None:
        """The writes of a live run are in no buffer, so a replay found another payload, or none at all."""
        path = tmp_path / "live.jsonl"
        with pytest.raises(InvalidInput, match="buffered_write"):
            self.begin("live_read_write", record=path)
        assert not path.exists()

    def test_what_a_policy_raises_leaves_the_trace_and_the_recording_of_a_run_that_ended(
        self, tmp_path: Path
    ) -> None:
        """The block has come to its end: the trace says so, and a replay does not ask the policy."""
        path = tmp_path / "run.jsonl"
        for policy, kind in ((lambda _: 1 // 0, ZeroDivisionError), (lambda _: 1, InvalidInput)):
            run = self.begin(record=path, commit_policy=policy)
            with pytest.raises(kind), run:
                run.set(A, 1)
            assert (run.discarded, self.notes.version) == (True, 0)
            metadata: Any = run.trace["metadata"]
            assert metadata["discarded"] is False
            assert metadata["commit_payload_fingerprint"] == run.payload_fingerprint
            with self.begin(replay=path) as again:
                again.set(A, 1)
            path.unlink()

    # -- threads -----------------------------------------------------------------------------------

    def test_verbs_of_many_threads_of_a_run_are_all_there(self) -> None:
        """Each verb looks first and writes then; what another thread had written in between was lost."""
        outside = Memory(self.notes)
        outside.put("ops", "fact", "x", {})
        with self.begin() as run, ThreadPoolExecutor(4) as pool:

            def work(number: int) -> None:
                run.memory.touch("ops", "fact", "x")
                run.memory.append("ops", "log", "l", {"n": number})

            list(pool.map(work, range(40)))
        record = outside.get("ops", "fact", "x")["record"]
        assert record["metadata"]["access_count"] == 40
        entries = outside.get("ops", "log", "l")["record"]["payload"]["entries"]
        assert sorted(entry["n"] for entry in entries) == list(range(40))

    def test_a_run_needs_no_folder_to_stand_in(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("gone", "\udcff"):  # the second is not UTF-8
            folder = tmp_path / name
            folder.mkdir()
            with monkeypatch.context() as patch:
                patch.chdir(folder)
                if name == "gone":
                    folder.rmdir()
                with self.begin() as run:
                    run.set(A, 1)
            assert run.state == "commit_applied"

    def test_a_replay_begins_where_the_recorded_run_did_or_not_at_all(self, tmp_path: Path) -> None:
        self.notes.set(A, 1)
        self.notes.create_branch("topic")
        self.notes.set(A, 2)
        path = tmp_path / "calls"
        with self.begin(record=path) as run:
            run.get(A)
        for branch in ("topic", "nowhere"):
            changed = tmp_path / branch
            changed.write_bytes(path.read_bytes().replace(b'"main:', f'"{branch}:'.encode()))
            with pytest.raises(InvalidInput, match="does not have"):
                self.begin(replay=changed)
