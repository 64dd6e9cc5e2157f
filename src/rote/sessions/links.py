"""Links in the process: a session at its desk without a wire between them.

    threads of the client ── send ──> queue ─┐
    its receiver          <── receive ───────┴─ decides what was sent, in its order, and looks for steps

So all the work of a link is done by the thread that receives.
"""

import threading
import time
from collections import deque
from typing import assert_never

from rote.contract import IdSource, Port
from rote.contract import sync as wire
from rote.contract.commands import FindSpace
from rote.contract.links import Decided, Done, LinkRequest, Message, Refused, ended
from rote.contract.sync import WatchRequest
from rote.contract.verdicts import Verdict
from rote.errors import (
    Busy,
    InvalidInput,
    RoteError,
    SessionExpired,
    SessionRevoked,
    Unavailable,
)
from rote.sessions.desk import Desk
from rote.sessions.flow import StepFlow, opened_of
from rote.sessions.sittings import Sitting
from rote.values.limits import WATCH_LOOK_SECONDS, WATCH_PAUSE_SECONDS
from rote.values.session_limits import (
    LINK_COMMITS_MAX,
    LINK_REQUESTS_MAX,
    SESSION_LOOK_SECONDS,
)


class LocalLinker:
    """Implements contract.Linker on a store in this process."""

    def __init__(self, port: Port, *, randomness: IdSource) -> None:
        """randomness  the system's: ids and tokens are guessed by nobody"""
        self._port = port
        self._randomness = randomness

    def connect(self, opening: wire.OpenSession) -> "LocalLink":
        wire.check_request(opening)
        if opening.ephemeral:
            raise InvalidInput("a link is for a session that lasts; leave ephemeral out")
        space = self._port.answer("", FindSpace(opening.space)).did
        flow = StepFlow(self._port, space)
        begun, _ = flow.begin(opening.watches, opening.seen)
        sitting = Desk(self._port, space, randomness=self._randomness).open(
            session=opening.session, token=opening.token, seen=opening.seen
        )
        opened = opened_of(sitting, flow)
        flow.open(begun, opened.version)
        return LocalLink(sitting, flow, opened)


class LocalLink:
    """Implements contract.Link."""

    def __init__(self, sitting: Sitting, flow: StepFlow, opened: wire.Opened) -> None:
        self._sitting = sitting
        self._flow = flow
        self._opened = opened
        self._own = 0  # the version of the newest own commit that was made here
        self._last_id = 0
        self._changed = threading.Condition()  # of what follows
        self._requests: deque[tuple[int, LinkRequest]] = deque()
        self._commits = 0  # in the queue
        self._end: Unavailable | None = None
        self._working = threading.Lock()  # held by the receiver while it asks the store
        self._messages: deque[Message] = deque()  # made, and not taken yet
        # When it last looked for a step, looked who has the session, and sent a step.
        self._looked = self._checked = self._said = float("-inf")

    @property
    def opened(self) -> wire.Opened:
        return self._opened

    def send(self, request: LinkRequest) -> int:
        is_commit = isinstance(request, wire.Transact | wire.Abandon)
        with self._changed:
            self._check_open()
            others = len(self._requests) - self._commits
            if self._commits >= LINK_COMMITS_MAX if is_commit else others >= LINK_REQUESTS_MAX:
                raise Busy("too many requests of this session are unanswered; receive first")
            self._commits += is_commit
            self._last_id += 1
            self._requests.append((self._last_id, request))
            self._changed.notify_all()
            return self._last_id

    def receive(self, timeout: float | None = None) -> Message | None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._working:
                message = self._next()
            if message is not None:
                return message
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            with self._changed:
                if not self._requests and self._end is None:
                    pause = WATCH_LOOK_SECONDS if left is None else min(left, WATCH_LOOK_SECONDS)
                    self._changed.wait(pause)

    def close(self) -> None:
        self._finish(ended("stop", "the link was closed"))
        with self._working:
            self._flow.close()

    def _finish(self, end: Unavailable) -> None:
        with self._changed:
            if self._end is None:
                self._end = end
            self._requests.clear()
            self._commits = 0
            self._changed.notify_all()

    def _check_open(self) -> None:
        if self._end is not None:
            raise self._end

    # -- the receiver ------------------------------------------------------------------------------

    def _next(self) -> Message | None:
        """Return the next message; None when there is none now."""
        if not self._messages:
            self._check_open()
            now = time.monotonic()
            is_behind = now >= self._looked + WATCH_PAUSE_SECONDS
            if now >= self._said + WATCH_PAUSE_SECONDS and (is_behind or not self._requests):
                self._look(now)
            if not self._messages and (request := self._next_request()) is not None:
                self._answer(*request)
        return self._messages.popleft() if self._messages else None

    def _next_request(self) -> tuple[int, LinkRequest] | None:
        with self._changed:
            if not self._requests:
                return None
            id, request = self._requests.popleft()
            self._commits -= isinstance(request, wire.Transact | wire.Abandon)
            return id, request

    def _answer(self, id: int, request: LinkRequest) -> None:
        """Put the answer to a request behind what is to be said before it."""
        try:
            wire.check_request(request)
            self._sitting.confirm()
            answer = self._answered(id, request)
        except (SessionRevoked, SessionExpired) as error:
            self._messages.append(Refused(id, error))
            self._revoke(error)
        except RoteError as error:
            self._messages.append(Refused(id, error))
        else:
            self._messages.append(answer)
            if isinstance(request, wire.CloseSession):
                self._finish(ended("stop", "the session was closed"))

    def _answered(self, id: int, request: LinkRequest) -> Message:
        match request:
            case wire.Transact():
                return self._decided(id, self._sitting.transact(request))
            case wire.Abandon():
                return self._decided(id, self._sitting.abandon(request.local))
            case wire.Ack():
                if request.to is not None:
                    self._flow.acknowledge(request.to)
                self._sitting.acknowledge(verdicts=request.verdicts, basis=request.basis)
                return Done(id)
            case wire.SetWatches() | wire.AddWatches() | wire.RemoveWatches():
                return self._watch(id, request)
            case wire.CloseSession():
                self._sitting.close()
                return Done(id)
            case _:
                assert_never(request)

    def _decided(self, id: int, verdict: Verdict) -> Decided:
        if verdict.accepted:
            self._own = max(self._own, verdict.version)
        return Decided(id, verdict)

    def _watch(self, id: int, request: WatchRequest) -> Done:
        self._look(time.monotonic())  # what the other watches have to say, as far as there is room
        self._check_open()
        return Done(id, self._flow.change(request))

    def _look(self, now: float) -> None:
        """Make the next step, if one is due; end when the session is not here any more."""
        self._looked = now
        try:
            step = self._flow.ready(now, own=self._own)
            if step is None and now < self._checked + SESSION_LOOK_SECONDS:
                return
            self._checked = now
            if self._sitting.is_told() and step is not None:
                self._flow.sent(step, now)
                self._said = now
                self._messages.append(step.whole(self._sitting.told))
        except (SessionRevoked, SessionExpired) as error:
            self._revoke(error)
        except Busy:
            return  # the next look tries again
        except Unavailable as error:
            self._finish(ended("later", str(error)))

    def _revoke(self, error: RoteError) -> None:
        is_gone = isinstance(error, SessionExpired)
        self._messages.append(wire.Revoked("expired" if is_gone else "taken_over"))
        self._finish(ended("back", str(error)))
