"""Calls of a host's adapters in a run: in its recording, and as tool calls where they have a profile.

cache, sqlite, fs, queue, agent     lines of the recording, which answers them in a replay
frame, memory, store                made again in a replay, so the recording has none of them
"""

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from rote.recordings.adapter_calls import AdapterCall
from rote.recordings.calls import Reply, stored
from rote.recordings.recordings import Recording, Replay
from rote.recordings.redaction import Redaction
from rote.runs.events import Event, RunEvents, check_room, tool_call
from rote.traces.profiles import ToolProfile
from rote.values import Json

# Of a call with a profile that comes when no event is open.
_OWN_EVENT = {"role": "run", "interceptor": "host", "decision_type": "adapter_call"}


class AdapterCalls:
    """The calls of one run. Any thread may make them; those that are recorded, or have a profile,
    go one at a time."""

    def __init__(self, events: RunEvents) -> None:
        self._events = events
        self._turn = threading.Lock()

    def call(
        self,
        call: AdapterCall,
        perform: Callable[[], Json],
        *,
        is_line: bool,
        writes: bool,
        again: Callable[[Json], None],
    ) -> Json:
        """Make a call, or let the recording answer it.

        is_line  whether recordings have it; otherwise it is made again in a replay
        again    does what joins the commit, for the result that the recording gave
        """
        events = self._events
        profile = events._tools.get(call.name)
        is_told = is_line or profile is not None
        self._check(call, is_told=is_told or writes, is_tool=profile is not None)
        if not is_told:
            return perform() if events._recording is None else call.perform(perform).outcome()
        # Where no order is kept, nobody waits for a call that waits, such as a take.
        is_ordered = events._recording is not None or profile is not None
        with self._turn if is_ordered else nullcontext():
            noted = _Noted(events, call, profile, is_line=is_line)
            if is_line and isinstance(events._recording, Replay):
                with events._lock:
                    reply = events._recording.answer(call)
                if reply.raised is None:
                    again(reply.result)
            else:
                reply = call.perform(lambda: noted.checked(perform()))
            with events._lock:
                events._check_open()
                if is_line and isinstance(events._recording, Recording):
                    events._recording.add(call, reply, noted.note)
                else:
                    noted.note(call, reply)
        return reply.outcome()

    @property
    def redaction(self) -> Redaction:
        """The redaction of all names that hosts have brought into the run so far."""
        return self._events.redaction

    def redact(self, names: frozenset[str], draw: Callable[[], bytes]) -> None:
        """Hide the values of some names from now on, in all calls of the run; `draw` gives the salt of a
        new recording."""
        events = self._events
        with events._lock:
            if names:
                recorded = None if events._recording is None else events._recording.salt
                before = events.redaction or Redaction((), recorded or draw())
                events.redaction = before.with_names(names)

    def hidden(self, operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the operations of the run as its recording knows them. Where nothing is redacted in it,
        a replay has all values, and so the operations as they are."""
        recording = self._events._recording
        if recording is None or recording.salt is None:
            return operations
        known: list[dict[str, Any]] = self._events.redaction.hidden(operations)
        return known

    def _check(self, call: AdapterCall, *, is_told: bool, is_tool: bool) -> None:
        events = self._events
        with events._lock:
            events._check_open()
            if is_told:
                events._check_replayable(f"call {call.name}")
            if is_tool:
                events._check_no_call()
                if events._open is not None:
                    check_room("calls", events._open._tool_calls)


class _Noted:
    """A call as its event tells of it."""

    def __init__(
        self, events: RunEvents, call: AdapterCall, profile: ToolProfile | None, *, is_line: bool
    ) -> None:
        self._events = events
        self._profile = profile
        self._is_line = is_line
        self._what = f"the result of {call.name}"
        self._normalized = None if profile is None else profile.normalized_args(call.traced_args())

    def checked(self, result: Json) -> Json:
        """Return a result; InvalidValue where a trace could not have it."""
        if self._profile is not None:
            stored(result, self._what)
        return result

    def note(self, call: AdapterCall, reply: Reply) -> None:
        events = self._events
        if self._profile is None or self._normalized is None:
            events._adapter_calls += 1
            return
        event = events._open
        if event is None:
            event = Event(events, **_OWN_EVENT)
            event.index = events._event_count
        told = tool_call(self._profile, self._normalized, call.traced(reply))
        event._add_call(told if self._is_line else {**told, "is_recorded": False})
        if event is not events._open:
            events._write(event)
