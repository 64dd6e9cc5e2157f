"""The flow of steps: when the next one is due, and how many are on their way."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from rote.contract import Port
from rote.contract.sync import (
    AddWatches,
    Mark,
    Opened,
    RemoveWatches,
    SetWatches,
    WatchRequest,
)
from rote.errors import InvalidInput
from rote.sessions.marks import known_since
from rote.sessions.sittings import Sitting
from rote.sessions.steps import LiveWatch, LiveWatches, Step
from rote.values.sync_limits import SYNC_EMPTY_SECONDS, SYNC_WINDOW


class StepFlow:
    """The steps of one session. One thread at a time asks; acknowledgements come from any."""

    def __init__(self, port: Port, space: str) -> None:
        self.watches = LiveWatches(port, space)
        self._port = port
        self._space = space
        self._unacked: deque[int] = deque()
        self._ready: Step | None = None  # it waits for its time, or for verdicts that it shows
        self._said = float("-inf")  # when a step was sent
        self.to = 0  # of the newest step that was sent
        self.reached = 0  # all that there is to say up to this version was sent

    @property
    def has_room(self) -> bool:
        return len(self._unacked) < SYNC_WINDOW

    @property
    def unacknowledged(self) -> int:
        """The number of steps that were sent, and not acknowledged."""
        return len(self._unacked)

    def acknowledge(self, to: int) -> None:
        """Note that the client has taken all steps up to a version."""
        if to > self.to:
            raise InvalidInput(f"to: no step to {to} was sent", argument="to")
        while self._unacked and self._unacked[0] <= to:
            self._unacked.popleft()

    def begin(
        self, queries: Mapping[str, Any], mark: Mark | None
    ) -> tuple[dict[str, LiveWatch], int]:
        """Return watches that are not followed yet, and the head; raise what is wrong with one of them."""
        since = known_since(self._port, self._space, mark)
        return self.watches.begin(queries, since), self.watches.head()

    def names_after(self, request: WatchRequest) -> set[str]:
        """Return the names of all watches after a change; raise for one that cannot be."""
        match request:
            case SetWatches():
                return set(request.watches)
            case AddWatches():
                return self.watches.names | set(self.watches.added(request.watches))
            case RemoveWatches():
                return self.watches.names - set(request.names)

    def change(self, request: WatchRequest) -> int:
        """Change the watches; return up to which version all that the others had to say was sent.

        What is refused changes nothing.
        """
        match request:
            case SetWatches():
                self._replace(self.begin(request.watches, request.since)[0])
            case AddWatches():
                self.watches.add(self.watches.begin(self.watches.added(request.watches)))
            case RemoveWatches():
                self._remove(request.names)
        return self.reached

    def open(self, begun: Mapping[str, LiveWatch], head: int) -> None:
        """Follow the first watches; the client knows how far the space has come."""
        self._replace(begun)
        self.watches.reached = self.reached = self.to = head

    def _replace(self, begun: Mapping[str, LiveWatch]) -> None:
        self.watches.replace(begun)
        self._ready = None

    def _remove(self, names: list[str]) -> None:
        self.watches.remove(names)
        if self._ready is not None:
            for name in names:
                self._ready.frames.pop(name, None)

    def ready(self, now: float, *, own: int = 0) -> Step | None:
        """Return the step that is due; None when none is, or there is no room.

        It may be sent when afterwards the verdicts of all that was decided were; otherwise it is asked
        for again.

        now  seconds of a clock that only goes forward
        own  the version of the newest commit of the session itself: what shows it is not put off
        """
        if not self.has_room:
            return None
        if self._ready is None or not self._ready.frames:
            self._ready = self.watches.go_on() or self._ready
        step = self._ready
        if step is None:
            self.reached = self.watches.reached
            return None
        if not step.frames:
            self.reached = step.head.version
            is_own = self.to < own <= step.head.version
            if not is_own and now < self._said + SYNC_EMPTY_SECONDS:
                return None
        return step

    def sent(self, step: Step, now: float) -> None:
        """Note that the step that was ready is sent now."""
        self._ready = None
        self.to = self.reached = step.head.version
        self._said = now
        self._unacked.append(self.to)

    @property
    def due(self) -> float | None:
        """The time at which a step comes though nothing moves any more; None when none does."""
        return None if self._ready is None else self._said + SYNC_EMPTY_SECONDS

    def close(self) -> None:
        self.watches.close()


def opened_of(sitting: Sitting, flow: StepFlow) -> Opened:
    """Return what a client is told of its opening; the head is not older than any verdict."""
    verdicts = tuple(sitting.verdicts())
    return Opened(
        sitting.space,
        sitting.session,
        sitting.token,
        flow.watches.head(),
        resumed=sitting.is_resumed,
        decided=sitting.decided,
        verdicts=verdicts,
    )
