"""Runs that raise: their traces and recordings are there, nothing is applied, and a replay raises the
same."""

from collections.abc import Callable
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from rote.errors import InvalidInput, NotFound, RecordedError
from rote.records.memory import Memory
from rote.runs.run import Run
from rote.space import Store
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A, B
from rote.testing.space_suite.run_ground import ALL_MODES, VAULT, RunGround
from rote.traces import ModelConfig, ToolProfile, check_trace, compare_traces, output_shape_hash
from rote.values import decode

TERMS: dict[str, Any] = {
    "model": ModelConfig("acme", "large-1", seed=7),
    "tools": (ToolProfile("search", "1"), ToolProfile("shop", "1")),
}
EVENT = {"role": "r", "interceptor": "i", "decision_type": "d"}
STEPS = 12  # of the program, with the one at its end


class Boom(Exception):
    """Raised by a program in the middle of its work."""


class Closed(Exception):
    """Raised by a tool."""


def closed() -> None:
    raise Closed("on Sundays")


def program(run: Run, step: Callable[[], None]) -> None:
    """Do everything that a run can do; a step may raise between any two lines."""
    step()
    run.retrieve(VAULT)
    step()
    run.memory.put("ops", "fact", "y", {"text": str(run.get(A))})
    with run.event(**EVENT) as event:
        step()
        plan = event.model(lambda prompt: f"look for {prompt}", prompt="keys")
        step()
        event.guardrail("pii")
        step()
        run.retrieve(VAULT)
        step()
    with run.event(**EVENT) as event:
        hits = event.call("search", lambda query: [query, 1.0], query=plan)
        step()
        try:
            event.call("shop", closed)
        except (Closed, RecordedError):
            step()
    run.set(B, hits)
    step()
    run.output({"type": "plan", "steps": [{"id": 1, "action": "look"}]})
    step()
    run.memory.append("ops", "log", "l", {"n": 1})
    step()
    with run.event(**EVENT):
        step()


def raising(at: int, error: BaseException) -> Callable[[], None]:
    """Return a step that raises when it is asked for that time."""
    steps = count()

    def step() -> None:
        if next(steps) == at:
            raise error

    return step


@each_test_uses("traced_agency")
class RunFailureTests(RunGround):
    traces: Path

    @pytest.fixture
    def traced_agency(self) -> None:
        self.traces = self.place / "traces"
        self.agents = self.open(modes=ALL_MODES, traces=self.traces)
        self.notes = self.agents.space("notes")
        self.notes.set(A, "keys")
        Memory(self.notes).put("ops", "fact", "x", {"text": "the vault has the keys"})

    def failed(self, at: int, error: BaseException, **terms: Any) -> Run:
        run = self.begin(**{**TERMS, "record": True, **terms})
        with pytest.raises(type(error)) as caught, run:
            program(run, raising(at, error))
        assert caught.value is error
        return run

    def recording_of(self, run: Run) -> Path:
        return self.traces / run.run_id / "recording.jsonl"

    def test_the_program_has_so_many_steps(self) -> None:
        steps = count()
        with self.begin(**TERMS) as run:
            program(run, lambda: list.clear([next(steps)]))
        assert next(steps) == STEPS

    def test_a_run_that_raises_anywhere_is_told_as_far_as_it_came(self) -> None:
        with self.begin(**TERMS, record=True) as whole:
            program(whole, lambda: None)
        events, rows = whole.trace["events"], whole.retrieval_trace["events"]
        lines = self.recording_of(whole).read_bytes().splitlines()
        version, start, lengths = self.notes.version, self.notes.at(2), list[int]()
        for at in range(STEPS):
            run = self.failed(at, Boom(f"step {at}"), space=start)
            self.check_told(run, version)
            self.check_beginning(run, events, rows, lines)
            lengths.append(len(run.trace["events"]))
        assert lengths == sorted(lengths)
        assert set(lengths) == set(range(len(events) + 1))

    def check_told(self, run: Run, version: int) -> None:
        """Check what a failed run has left."""
        names = {path.name for path in (self.traces / run.run_id).iterdir()}
        assert names == {"trace.json", "trace.retrieval.json", "recording.jsonl"}
        metadata: Any = run.trace["metadata"]
        recorded = self.recording_of(run).read_bytes()
        assert metadata["recording"] == sha256(recorded).hexdigest()
        assert decode(recorded.splitlines()[-1]) == {"kind": "end", "error": {"type": "Boom"}}
        assert (metadata["discarded"], metadata["commit_payload_fingerprint"]) == (True, None)
        assert run.trace["output"] == {
            "output_type": "error",
            "output_shape_hash": output_shape_hash({"type": "error", "error": "Boom"}),
            "normalization_version": "json-v1",
        }
        report = check_trace(run.trace, run.retrieval_trace)
        assert (report.status, report.failures) == ("valid", ())
        record = self.record_of(run)
        assert (record.state, record.discarded, record.version) == ("buffer_open", True, None)
        assert (run.commit, self.notes.version) == (None, version)

    def check_beginning(self, run: Run, events: Any, rows: Any, lines: list[bytes]) -> None:
        """Check that it did what the whole run did, up to its last event; the open one as far as it
        came."""
        own: Any = run.trace["events"]
        if own:
            assert own[:-1] == events[: len(own) - 1]
            whole = events[len(own) - 1]
            for name in ("tool_calls", "guardrails_triggered", "retrieval_event_ids"):
                assert own[-1][name] == whole[name][: len(own[-1][name])]
        own_rows: Any = run.retrieval_trace["events"]
        fingerprints = [row["query_fingerprint"] for row in own_rows]
        assert fingerprints == [row["query_fingerprint"] for row in rows[: len(own_rows)]]
        own_lines = self.recording_of(run).read_bytes().splitlines()
        assert own_lines[1:-1] == lines[1 : len(own_lines) - 1]

    def test_a_replay_of_a_run_that_raised_anywhere_raises_the_same(self) -> None:
        for at in range(STEPS):
            first = self.failed(at, Boom(f"step {at}"))
            again = self.failed(
                at, Boom("of the replay"), record=None, replay=self.recording_of(first)
            )
            self.check_same(first, again)
            assert (again.discarded, self.record_of(again).replayed) == (True, True)

    def check_same(self, first: Run, again: Run) -> None:
        assert first.trace["metadata"]["discarded"] is again.trace["metadata"]["discarded"] is True
        report = compare_traces(
            first.trace, again.trace,
            left_retrieval=first.retrieval_trace, right_retrieval=again.retrieval_trace,
        )  # fmt: skip
        assert report.status == "equivalent", report.failures

    def test_a_replay_that_raises_something_else_or_nothing_differs(self) -> None:
        path = self.recording_of(self.failed(6, Boom("x")))
        for at, error in ((6, ValueError("x")), (5, Boom("too early")), (-1, None)):
            run = self.begin(**TERMS, replay=path)
            with pytest.raises(InvalidInput) as caught, run:
                program(run, raising(at, error or Boom()))
            assert caught.value.code == "replay_differs"
            assert "Boom" in caught.value.details["recorded"] or at == 5
            if error is not None:
                assert caught.value.__cause__ is error
            assert run.discarded

    def test_an_error_of_a_tool_that_leaves_the_block_is_the_same_in_the_replay(self) -> None:
        """Its kind is RecordedError there."""
        runs: list[Run] = []
        for how in ("record", "replay"):
            given = self.recording_of(runs[0]) if runs else True
            terms: dict[str, Any] = {**TERMS, how: given}
            run = self.begin(**terms)
            with pytest.raises((Closed, RecordedError)), run, run.event(**EVENT) as event:
                event.call("shop", closed)
            runs.append(run)
        self.check_same(*runs)

    def test_a_replay_that_leaves_a_failed_recording_says_where(self) -> None:
        """The difference is InvalidInput, and so is what was recorded."""

        def ask(run: Run, query: int, *, goes_on: bool = True) -> None:
            with run.event(**EVENT) as event:
                try:
                    event.call("search", lambda query: 1, query=query)
                except InvalidInput:
                    if not goes_on:
                        raise
                raise InvalidInput("of the program")

        first = self.begin(**TERMS, record=True)
        with pytest.raises(InvalidInput, match="of the program"), first:
            ask(first, 1)
        for goes_on in (False, True):
            run = self.begin(**TERMS, replay=self.recording_of(first))
            with pytest.raises(InvalidInput, match="leaves the recording") as caught, run:
                ask(run, 2, goes_on=goes_on)
            assert caught.value.code == "replay_differs"
            assert (caught.value.__cause__ is None) is not goes_on

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_a_run_that_is_interrupted_is_told_too(self, kind: type[BaseException]) -> None:
        run = self.failed(4, kind())
        assert run.trace["metadata"]["discarded"] is True
        again = self.failed(4, kind(), record=None, replay=self.recording_of(run))
        self.check_same(run, again)

    def test_an_event_that_nobody_has_left_is_told_as_far_as_it_came(self) -> None:
        """Both when the block raises and when it forgets the event, which is refused."""
        for error, kind in ((Boom(), Boom), (None, InvalidInput)):
            run = self.begin(**TERMS, record=True)
            with pytest.raises(kind), run:
                event = run.event(**EVENT)
                event.__enter__()
                event.guardrail("pii")
                run.set(A, 5)
                if error is not None:
                    raise error
            [told] = run.trace["events"]
            assert told["guardrails_triggered"] == ["pii"]
            assert run.trace["output"]["output_type"] == "error"
            assert (run.discarded, self.notes.get(A)) == (True, "keys")
            with pytest.raises(InvalidInput):
                event.guardrail("late")

    def test_live_writes_of_a_run_that_raises_stay_and_its_trace_says_that_it_raised(self) -> None:
        run = self.begin("live_read_write")
        with pytest.raises(Boom), run:
            run.set(A, "live")
            raise Boom
        assert (self.notes.get(A), run.trace["metadata"]["discarded"]) == ("live", True)

    # -- record=True -------------------------------------------------------------------------------

    def test_a_recording_beside_the_trace_is_replayed_from_there(self) -> None:
        with self.begin(**TERMS, record=True) as run:
            program(run, lambda: None)
        with self.begin(**TERMS, replay=self.recording_of(run)) as again:
            program(again, lambda: None)
        assert again.payload_fingerprint == run.payload_fingerprint
        assert again.trace["metadata"]["recording"] == run.trace["metadata"]["recording"]

    def test_a_recording_beside_a_trace_needs_a_folder_of_traces(self) -> None:
        store: Store = self.open_fresh("elsewhere", modes=ALL_MODES)
        with pytest.raises(InvalidInput, match="traces="):
            self.begin(space=store.space("notes"), record=True)
        with self.begin(space=store.space("notes"), record=False):
            pass

    def test_a_run_that_cannot_begin_leaves_no_file(self) -> None:
        with pytest.raises(InvalidInput), self.begin(tools=[1], record=True):
            pass
        assert list(self.traces.iterdir()) == []
        first = self.begin(run_id="r", record=True)
        second = self.begin(space=self.agents.space("other"), run_id="r", record=True)
        with first, pytest.raises(InvalidInput, match=r"used before|there already"), second:
            pass
        names = sorted(path.name for path in (self.traces / "r").iterdir())
        assert names == ["recording.jsonl", "trace.json", "trace.retrieval.json"]
        with pytest.raises(NotFound, match="no recording"):
            self.begin(replay=self.traces / "r" / "recording.jsonl.partial")

    def test_while_a_run_goes_on_its_files_are_there_and_partial(self) -> None:
        with self.begin(**TERMS, record=True) as run:
            folder = self.traces / run.run_id
            assert sorted(path.name for path in folder.iterdir()) == [
                "recording.jsonl.partial",
                "trace.partial.jsonl",
            ]
