"""Events of a run in order, with their calls and retrievals, and its output.

Events are flat and come one after the other. So do calls: their order is part of the trace, and a
recording is replayed in it. Calls side by side are given as one list and have its order.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, get_args

from rote.contract.run_modes import LIVE, Mode
from rote.errors import InvalidInput, LimitExceeded, NotFound, RoteError, Unavailable
from rote.recordings.calls import Call, Reply
from rote.recordings.recordings import Recording, Replay, RunEnd, error_name
from rote.recordings.redaction import NOTHING
from rote.runs.calls import perform, perform_side_by_side
from rote.runs.trace_files import TraceFiles
from rote.runs.turns import Turn, Turns
from rote.traces.formats import NORMALIZATION
from rote.traces.models import ModelConfig, is_fixed, model_config_id
from rote.traces.partial import read_partial
from rote.traces.profiles import ToolProfile, profiles_by_name, tool_runtime_profile_hash
from rote.traces.writing import REPLY_BYTES, Ending, Envelope, TraceWriter
from rote.values import (
    Json,
    canonical,
    check_run_id,
    check_trace_name,
    decode_canonical,
    fingerprint,
)
from rote.values.limits import (
    ERROR_NAME_CHARACTERS_MAX,
    EVENT_PARTS_MAX,
    TRACE_BYTES_MAX,
    TRACE_DEPTH_MAX,
)
from rote.values.names import told


class MakeRetrieval(Protocol):
    """Makes the retrieval event for the ids under which it will be linked."""

    def __call__(
        self, *, run_id: str, event_id: str, retrieval_event_id: str
    ) -> dict[str, Json]: ...


class RunEvents:
    """The part of a run that tells what happened. It ends with `finish` or `fail`, once, and the
    recording with it; when the run cannot begin, `discard` leaves nothing.

    May be used from any thread; what would put calls or events side by side is refused.
    """

    def __init__(
        self,
        *,
        run_id: str,
        workflow_id: str,
        memory_snapshot_id: str,
        mode: Mode,
        model: ModelConfig | None,
        policy_set_id: str,
        tools: Sequence[ToolProfile],
        folder: Path | None,
        recording: Recording | Replay | None,
        size_bytes_max: int = TRACE_BYTES_MAX,
    ) -> None:
        is_replay = isinstance(recording, Replay)
        with ExitStack() as undo:
            if recording is not None:
                undo.callback(recording.discard)
            check_run_id(run_id)
            check_trace_name(workflow_id, "workflow_id")
            check_trace_name(policy_set_id, "policy_set_id")
            _check_model(model, mode)
            self._tools = profiles_by_name(tools)
            self.model_config_id = model_config_id(
                model, tool_runtime_profile_hash(self._tools.values())
            )
            self._files = TraceFiles(folder, run_id)
            undo.callback(self._files.drop)
            self._writer = TraceWriter(
                Envelope(
                    run_id=run_id,
                    workflow_id=workflow_id,
                    memory_snapshot_id=memory_snapshot_id,
                    visibility_mode=mode,
                    model_config_id=self.model_config_id,
                    policy_set_id=policy_set_id,
                    model_fixed=is_fixed(model, replayed=is_replay),
                    replayed=is_replay,
                    model=None if model is None else model.to_dict(),
                    tools=[profile.to_dict() for profile in self._tools.values()],
                ),
                partial=self._files.partial,
                size_bytes_max=size_bytes_max,
            )
            undo.pop_all()
        self._run_id = run_id
        self._process = os.getpid()
        self._model = model
        self._recording = recording
        self._lock = threading.Lock()
        self._open: Event | None = None
        self._mode = mode
        self._turns = Turns()
        self._state = "open"
        self._event_count = 0
        self._retrieval_count = 0
        self._adapter_calls = 0  # without a profile, since the last event
        self.redaction = NOTHING  # of the scopes of hosts that have been in the run
        self._has_output = False

    def event(self, *, role: str, interceptor: str, decision_type: str) -> "Event":
        """The next event: a context manager."""
        check_trace_name(role, "role")
        check_trace_name(interceptor, "interceptor")
        check_trace_name(decision_type, "decision_type")
        return Event(self, role=role, interceptor=interceptor, decision_type=decision_type)

    def retrieval(self, make_event: MakeRetrieval) -> None:
        """Add a retrieval to the open event, or as an event of its own."""
        with self._lock:
            self._check_open()
            self._check_replayable("retrieve")
            event = self._open
            if event is None:
                event = Event(self, role="run", interceptor="retrieval", decision_type="retrieve")
                event.index = self._event_count
            retrieval_event_id = f"retrieval-{self._retrieval_count}"
            row = make_event(
                run_id=self._run_id, event_id=event.id, retrieval_event_id=retrieval_event_id
            )
            event._add_retrieval(retrieval_event_id, canonical(row, depth_max=TRACE_DEPTH_MAX))
            self._retrieval_count += 1
            if event is not self._open:
                self._write(event)

    def output(self, value: Json) -> None:
        """Note the output of the run, by its structure; a run has one."""
        with self._lock:
            self._check_open()
            self._check_replayable("give the output")
            if self._has_output:
                raise InvalidInput("this run has its output already; give it once, at the end")
            self._writer.describe(value)
            self._has_output = True

    def finish(self, payload_fingerprint: str, *, recorded: str | None = None) -> None:
        """The run has come to its end: the traces take their places, the recording is complete. When
        one of them cannot, the run goes on, without its recording, until `fail`.

        recorded  the fingerprint for the recording, where something is redacted in it

        A replay is compared with what it replays: RunAborted when it would have written something
        else, InvalidInput when calls are left over, or when the recorded run failed.
        """
        with self._lock:
            self._check_open()
            if self._open is not None:
                raise InvalidInput("an event of this run is still open; leave its with block first")
            # A live run has written already.
            is_live = self._mode == LIVE
            end = RunEnd(payload_fingerprint=None if is_live else recorded or payload_fingerprint)
            self._conclude(end, None if is_live else payload_fingerprint)
            if isinstance(self._recording, Replay):
                self._recording.compare(end)

    def fail(self, error: BaseException) -> None:
        """The block of the run has raised: the traces and the recording say so. When they cannot be
        written, a note of the error says that. Does nothing after the end.

        A replay is compared with what it replays: InvalidInput when that failed in another way.
        """
        with self._lock:
            if self._state != "open":
                return
            try:
                self._tell(error)
            except Exception as failure:
                self._leave()
                error.add_note(f"the trace of the run {self._run_id} was not completed: {failure}")
            if isinstance(self._recording, Replay):
                self._recording.compare_failure(error)

    def discard(self) -> None:
        """The run has not begun: nothing of it is kept. Does nothing after its end."""
        with self._lock:
            if self._state == "open" and not self.is_elsewhere:
                self._drop()

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is a process that was forked from the one in which it began."""
        return os.getpid() != self._process

    def check_here(self) -> None:
        """Refuse a fork: its files are those of the run, which goes on where it began."""
        if self.is_elsewhere:
            raise Unavailable(
                "this run was begun before a fork and goes on in the process that began it; start"
                " another one here"
            )

    def check_replayable(self, what: str) -> None:
        """Refuse to `what` inside a function that a replay will not call."""
        with self._lock:
            self._check_replayable(what)

    @property
    def trace(self) -> dict[str, Json]:
        """The determinism trace; before the end of the run, as it is so far."""
        return self._told()[0]

    @property
    def retrieval_trace(self) -> dict[str, Json]:
        return self._told()[1]

    def _told(self) -> tuple[dict[str, Json], dict[str, Json]]:
        """Return both traces."""
        with self._lock:
            files = self._files
            if self._state == "discarded":
                raise NotFound("this run never began, so it has no trace", run_id=self._run_id)
            if self._state == "cut":
                return read_partial(files.partial.content())
            if self._state == "finished":
                return _decoded(files.trace.content()), _decoded(files.retrieval.content())
            trace, retrieval = BytesIO(), BytesIO()
            self._writer.compose(files.partial.lines, Ending(), trace=trace, retrieval=retrieval)
            return _decoded(trace.getvalue()), _decoded(retrieval.getvalue())

    # What events ask their run for.

    def _begin(self, event: "Event") -> None:
        with self._lock:
            self._check_open()
            if self._open is not None or self._turns.inside is not None:
                raise InvalidInput(
                    "an event of this run is open already; events are flat and come one after the "
                    "other, also from threads: leave its with block first, and begin none in the "
                    "function of a tool"
                )
            event.index = self._event_count
            self._open = event

    def _end(self, event: "Event", error: BaseException | None) -> None:
        """End an event; nothing takes the place of an error that its block has raised."""
        with self._lock:
            if self._open is not event or self.is_elsewhere:
                return  # the run has ended meanwhile, or goes on where it began
            if self._turns.current is not None and error is None:
                raise InvalidInput("a call of this event is still under way in another thread")
            self._open = None
            try:
                self._write(event)
            except RoteError:
                if error is None:  # otherwise the end of the run tells it
                    raise

    @contextmanager
    def _alone(self, event: "Event", *, side_by_side: bool = False) -> Iterator[Turn]:
        """The time of one call, or of one list of calls."""
        with self._lock:
            self._check_current(event)
            self._check_no_call()
            turn = self._turns.begin(side_by_side=side_by_side)
        with self._turns.lasting(turn):
            yield turn

    def _answer(
        self, event: "Event", calls: Sequence[Call], note: Callable[[Call, Reply], None], turn: Turn
    ) -> list[Reply]:
        """The replies: from the functions, or from the recording that is replayed.

        Each is recorded and noted as soon as it and all before it are there.
        """
        replies: list[Reply] = []

        def take(call: Call, reply: Reply) -> None:
            with self._lock:
                self._check_awaited(event)
                if isinstance(self._recording, Recording):
                    self._recording.add(call, reply, note)
                else:
                    note(call, reply)
            replies.append(reply)

        if isinstance(self._recording, Replay):
            for call in calls:
                with self._lock:
                    self._check_awaited(event)
                    replies.append(self._recording.answer(call))
                    note(call, replies[-1])
        elif turn.is_side_by_side:
            perform_side_by_side(calls, take)
        else:
            for call in calls:
                take(call, perform(call))
        return replies

    def _check_awaited(self, event: "Event") -> None:
        """Refuse a reply that came when its event, or the whole run, had ended by an error."""
        self.check_here()
        if self._state != "open" or self._open is not event:
            raise InvalidInput(
                "the run or its event has ended while this call was under way, so neither trace nor"
                " recording has it; wait for the threads that call before you leave the event"
            )

    def _check_open(self) -> None:
        self.check_here()
        if self._state != "open":
            raise InvalidInput(f"the run is {self._state}; start another one")

    def _check_current(self, event: "Event") -> None:
        self._check_open()
        if self._open is not event:
            raise InvalidInput("this event is not open; use it inside its with block")

    def _check_no_call(self) -> None:
        if self._turns.current is not None or self._turns.inside is not None:
            raise InvalidInput(
                "a call of this run is under way; calls come one after the other, also from "
                "threads, and a tool's function makes none of its own: give calls that are to be "
                "made at once to event.calls, as one list"
            )

    def _check_replayable(self, what: str) -> None:
        turn = self._turns.current or self._turns.inside
        if turn is not None and self._recording is not None:
            raise InvalidInput(
                f"a replay calls no function, so it would not {what} there; do it outside of "
                "event.call, event.calls and event.model"
            )
        if turn is not None and turn.is_side_by_side and self._mode != LIVE:
            raise InvalidInput(
                f"functions side by side come in no order, so none may {what}; do it outside of "
                "event.calls"
            )

    def _write(self, event: "Event") -> None:
        self._event_count += 1
        event._adapter_calls, self._adapter_calls = self._adapter_calls, 0
        if event._size > self._writer.size_bytes_max:
            self._writer.cut(len(event._retrieval_event_ids))
        else:
            data = canonical(event._to_dict(), depth_max=TRACE_DEPTH_MAX)
            self._writer.add(data, event._rows, event._replies)

    # The end.

    def _tell(self, error: BaseException) -> None:
        """Put the traces of a run that has failed in place, and its recording if that can be."""
        end = RunEnd(error=error_name(error))
        event, self._open = self._open, None
        if event is not None:  # nobody will leave it; it is told as far as it came
            self._write(event)
        self._writer.describe({"type": "error", "error": end.error})
        recording = self._recording
        try:
            self._conclude(end)
        except Exception as failure:
            if self._recording is recording:
                raise
            self._conclude(end)
            error.add_note(f"the run {self._run_id} has no recording: {failure}")

    def _conclude(self, end: RunEnd, payload_fingerprint: str | None = None) -> None:
        """Complete the recording, put the traces in place, and then the recording. After a failure none
        of them is there: the recording is given up, and the traces can be concluded without it."""
        recording = self._recording
        try:
            digest = None if recording is None else recording.seal(end)
            error = None if end.error is None else end.error[:ERROR_NAME_CHARACTERS_MAX]
            ending = Ending(payload_fingerprint, digest, error)
            self._files.compose(
                lambda trace, retrieval: self._writer.compose(
                    self._files.partial.lines, ending, trace=trace, retrieval=retrieval
                ),
                place_last=recording.place if isinstance(recording, Recording) else None,
            )
            self._state = "finished"
        except BaseException:
            if isinstance(recording, Recording):
                recording.discard()
                self._recording = None
            raise

    def _leave(self) -> None:
        """Leave the trace as far as it came; a recording that is not whole is deleted."""
        self._state = "cut"
        self._files.close()
        if isinstance(self._recording, Recording):
            self._recording.discard()

    def _drop(self) -> None:
        self._state = "discarded"
        self._open = None
        self._files.drop()
        if self._recording is not None:
            self._recording.discard()


class Event:
    """One decision of a run: who took it, where, and what it called."""

    def __init__(self, run: RunEvents, *, role: str, interceptor: str, decision_type: str) -> None:
        self._run = run
        self._names = {"role": role, "interceptor": interceptor, "decision_type": decision_type}
        self._tool_calls: list[dict[str, Json]] = []
        self._guardrails: list[str] = []
        self.index = -1  # its place in the trace, known when it begins
        self._retrieval_event_ids: list[str] = []
        self._rows: list[bytes] = []
        self._replies: list[str] = []  # fingerprints
        self._adapter_calls = 0  # without a profile, since the event before
        self._size = 0  # of its parts, in bytes

    @property
    def id(self) -> str:
        return f"event-{self.index}"

    def __enter__(self) -> Self:
        if self.index >= 0:
            raise InvalidInput("this event has been; begin another one with run.event")
        self._run._begin(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._run._end(self, error)

    def call(self, tool_name: str, function: Callable[..., Any], /, **args: Json) -> Json:
        """Call a tool of the run; its result, or what it raised."""
        calls = [self._asked(tool_name, function, args)]
        with self._run._alone(self) as turn:
            [reply] = self._called(calls, turn)
        return reply.outcome()

    def calls(
        self,
        calls: Sequence[tuple[str, Callable[..., Any], Mapping[str, Json]]],
        /,
        *,
        return_exceptions: bool = False,
    ) -> list[Any]:
        """Call tools of the run side by side, each as (tool_name, function, args); their results in
        the order of the list.

        Every function is called on a thread and waited for. Then the first error of the list is
        raised; with `return_exceptions` each error stands in the place of its result.
        """
        asked = [self._asked(*one) for one in _listed(calls)]
        with self._run._alone(self, side_by_side=True) as turn:
            replies = self._called(asked, turn)
        if return_exceptions:
            return [reply.outcome() if reply.raised is None else reply.raised for reply in replies]
        return [reply.outcome() for reply in replies]

    def model(self, function: Callable[..., Any], /, **args: Json) -> Json:
        """Ask the model of the run; its reply, or what the function raised. Not a tool call."""
        if self._run._model is None:
            raise InvalidInput("the run has no model; start it with model=ModelConfig(…)")
        name, redaction = self._run._model.model_name, self._run.redaction
        call = Call("model", name, function, args, dict, redaction)
        with self._run._alone(self) as turn:
            [reply] = self._run._answer(self, [call], self._note_reply, turn)
        return reply.outcome()

    def guardrail(self, guardrail_id: str, /) -> None:
        """A guardrail was triggered."""
        check_trace_name(guardrail_id, "a guardrail id")
        with self._run._lock:
            self._run._check_current(self)
            self._run._check_replayable("trigger a guardrail")
            check_room("guardrails", self._guardrails)
            self._guardrails.append(guardrail_id)

    def _asked(self, tool_name: object, function: Callable[..., Any], args: dict[str, Any]) -> Call:
        profile = self._run._tools.get(tool_name) if isinstance(tool_name, str) else None
        if profile is None:
            raise InvalidInput(
                f"the run has no profile of the tool {tool_name!r:.120}; {told(self._run._tools)}: "
                "name it in tools=[ToolProfile(…)]"
            )
        normalize, redaction = profile.normalized_args, self._run.redaction
        return Call("tool", profile.tool_name, function, args, normalize, redaction)

    def _called(self, calls: Sequence[Call], turn: Turn) -> list[Reply]:
        check_room("calls", self._tool_calls, len(calls))
        return self._run._answer(self, calls, self._note_call, turn)

    def _note_reply(self, call: Call, reply: Reply) -> None:
        self._replies.append(fingerprint(reply.blanked(call.redaction).told))
        self._grow(REPLY_BYTES)

    def _note_call(self, call: Call, reply: Reply) -> None:
        shown = reply.blanked(call.redaction)
        self._add_call(tool_call(self._run._tools[call.name], call.traced, shown))

    def _add_call(self, told: dict[str, Json]) -> None:
        self._tool_calls.append(told)
        self._grow(len(canonical(told["normalized_args"])))

    def _add_retrieval(self, retrieval_event_id: str, row: bytes) -> None:
        check_room("retrievals", self._retrieval_event_ids)
        self._retrieval_event_ids.append(retrieval_event_id)
        self._rows.append(row)
        self._grow(len(row))

    def _to_dict(self) -> dict[str, Json]:
        return {
            **self._names,
            "event_id": self.id,
            "index": self.index,
            "tool_calls": self._tool_calls,
            "guardrails_triggered": self._guardrails,
            "retrieval_event_ids": self._retrieval_event_ids,
            # Never compared: these tell which calls of a recording are of this event.
            "model_calls": len(self._replies),
            **({"adapter_calls": self._adapter_calls} if self._adapter_calls else {}),
        }

    def _grow(self, size: int) -> None:
        """Count what is held; an event that no artifact can take is not held, only counted."""
        self._size += size
        if self._size > self._run._writer.size_bytes_max:
            self._tool_calls = []
            self._rows = []
            self._replies = []


def tool_call(
    profile: ToolProfile, normalized_args: dict[str, Json], reply: Reply
) -> dict[str, Json]:
    """A tool call as a trace has it."""
    effects = {} if reply.effects is None else reply.effects
    return {
        "tool_name": profile.tool_name,
        "tool_profile_version": profile.tool_profile_version,
        "normalization_version": NORMALIZATION,
        "normalized_args": normalized_args,
        "tool_result_fingerprint": profile.result_fingerprint(reply.told),
        "side_effect_required": profile.side_effect_required,
        "side_effect_fingerprint": profile.side_effect_fingerprint(effects),
    }


def _listed(calls: object) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """The calls of a list, in their form; all else about them is checked where one is taken."""
    if not isinstance(calls, list | tuple):
        raise InvalidInput(
            f"calls are a list of (tool_name, function, args), not {type(calls).__qualname__}"
        )
    check_room("calls", (), len(calls))
    for place, call in enumerate(calls):
        match call:
            case (name, function, Mapping() as args):
                yield name, function, dict(args)
            case _:
                raise InvalidInput(
                    f"calls[{place}] is no (tool_name, function, args) with a mapping as args"
                )


def _check_model(model: ModelConfig | None, mode: Mode) -> None:
    if mode not in get_args(Mode):
        raise InvalidInput(f"there is no mode {mode!r:.80}; {told(get_args(Mode))}")
    if model is not None and not isinstance(model, ModelConfig):
        raise InvalidInput(f"a model is a ModelConfig or None, not {type(model).__qualname__}")


def check_room(what: str, parts: Sequence[object], more: int = 1) -> None:
    if len(parts) + more > EVENT_PARTS_MAX:
        raise LimitExceeded(
            f"the number of {what} of one event",
            size=len(parts) + more,
            limit=EVENT_PARTS_MAX,
            advice="begin another event",
        )


def _decoded(data: bytes) -> dict[str, Json]:
    value: dict[str, Json] = decode_canonical(data)
    return value
