"""Decisions: the commits of a session on its connection, one after the other.

    messages ──> queue ──> a thread of the pool: the desk decides ──> its verdict ──> the next

Verdicts are sent before the next commit is decided, and a step waits until none is on its way: so what
a step shows has its verdict before it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rote.access.refusals import unauthenticated
from rote.contract import Port
from rote.contract import sync as wire
from rote.contract.verdicts import Verdict, encode_verdict
from rote.errors import Denied, InternalError, NotFound, RoteError, SessionRevoked
from rote.server.admission import AdmittedPort
from rote.server.authentication import Opener
from rote.server.statuses import status_of
from rote.server.table import TABLE
from rote.sessions.desk import Desk
from rote.sessions.sittings import Sitting
from rote.values.sync_limits import SYNC_TRANSACTS_MAX

if TYPE_CHECKING:
    from rote.server.application import Application

COMMIT = TABLE["commit"]
Asked = wire.Transact | wire.Abandon | wire.Ack | wire.CloseSession


class Barred(Exception):
    """Nobody may go on with the session; `error` answers the request."""

    def __init__(self, error: RoteError) -> None:
        super().__init__(error.code)
        self.error = error


class Finished(Exception):
    """The client has closed its session."""


class Waiting(Struct, frozen=True):
    """A request that waits for its turn."""

    id: int
    request: Asked
    size_bytes: int  # as it came


class Decisions:
    """A session of a principal at the desk. All but its look at the store happens on the event loop."""

    def __init__(
        self, app: "Application", opener: Opener, port: AdmittedPort, sitting: Sitting
    ) -> None:
        self.sitting = sitting
        self.own = 0  # the version of the newest commit that was made here
        self._app = app
        self._opener = opener
        self._port = port
        self.ids: set[int] = set()  # of requests that are not answered
        self._is_confirmed = False
        self._room = asyncio.Semaphore(SYNC_TRANSACTS_MAX)
        self._queue: asyncio.Queue[Waiting] = asyncio.Queue()
        self._turn = asyncio.Lock()  # held while a decision, or its answer, is on its way

    async def confirm(self) -> None:
        """Make the token of this opening the only good one, with the first message after it."""
        if not self._is_confirmed:
            await self._app.pool_of_sessions.run(self.sitting.confirm, is_begun=True)
            self._is_confirmed = True

    async def put(self, id: int, request: Asked, size_bytes: int) -> None:
        """Let a request wait for its turn; first wait for room. Unavailable when the server holds too
        much."""
        await self._room.acquire()
        try:
            self._app.buffered.hold(size_bytes)
        except RoteError:
            self._room.release()
            raise
        self.ids.add(id)
        self._queue.put_nowait(Waiting(id, request, size_bytes))

    async def drain(self) -> None:
        """Wait until all that came is answered."""
        await self._queue.join()

    async def decide_on(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Answer what comes until the session ends; raise what ends it."""
        while True:
            waiting = await self._queue.get()
            try:
                async with self._turn:
                    ends = await self._decide(waiting, send)
            finally:
                self._leave(waiting)
            if ends is not None:
                raise ends

    def _leave(self, waiting: Waiting) -> None:
        self.ids.discard(waiting.id)
        self._app.buffered.release(waiting.size_bytes)
        self._room.release()
        self._queue.task_done()

    def close(self) -> None:
        """Forget what waits."""
        while not self._queue.empty():
            self._leave(self._queue.get_nowait())

    async def told(self) -> int | None:
        """Return the last local whose verdict was sent; None when a later one is decided.

        SessionRevoked or SessionExpired when the session has ended.
        """
        async with self._turn:
            is_told = await self._app.pool_of_sessions.run(self.sitting.is_told, is_begun=True)
            return self.sitting.told if is_told else None

    # -- one request -----------------------------------------------------------------------------------

    async def _decide(
        self, waiting: Waiting, send: Callable[[bytes], Awaitable[None]]
    ) -> Exception | None:
        """Answer a request; return what ends the session, if anything does."""
        app, request, begun = self._app, waiting.request, self._app.monotonic()
        answer: Any = {}
        error: RoteError | None = None
        ends: Exception | None = Finished() if isinstance(request, wire.CloseSession) else None
        try:
            answer = await self._asked(request)
        except Barred as barred:
            ends = error = barred.error
        except RoteError as raised:
            error, ends = raised, raised if isinstance(raised, SessionRevoked) else None
        except Exception as raised:
            error, ends = (
                InternalError("a bug in Rote; its stack is on the server's stderr"),
                raised,
            )
        seconds = app.monotonic() - begun
        if isinstance(answer, Verdict):
            self._note(answer, seconds)
            answer = encode_verdict(answer)
        id = waiting.id
        data = wire.encode_failure(id, error) if error else wire.encode_ok(id, answer)
        if isinstance(request, wire.Transact):
            status, code = (200, None) if error is None else (status_of(error), error.code)
            app.metrics.answered(
                COMMIT.name, status, seconds, code=code,
                bytes_in=waiting.size_bytes, bytes_out=len(data),
            )  # fmt: skip
        await send(data)
        return ends

    async def _asked(self, request: Asked) -> Any:
        principal = self._opener.principal
        self._app.accounts.begin(principal)
        try:
            return await self._app.pool_of(COMMIT).run(self._answer, request)
        finally:
            self._app.accounts.end(principal)

    def _answer(self, request: Asked) -> Any:
        """Runs on the pool."""
        self._check_access()
        match request:
            case wire.Transact():
                return self.sitting.transact(request)
            case wire.Abandon():
                return self.sitting.abandon(request.local)
            case wire.Ack():
                self.sitting.acknowledge(verdicts=request.verdicts, basis=request.basis)
            case wire.CloseSession():
                self.sitting.close()
        return {}

    def _check_access(self) -> None:
        """Raise Barred when nobody may read by this session any more.

        The right to write is looked up with the commit: without it the verdict is Denied.
        """
        if not self._app.authentication.is_good(self._opener):
            raise Barred(unauthenticated("token"))
        try:
            check_may_read(self._port)
        except (NotFound, Denied) as error:
            raise Barred(error) from None

    def _note(self, verdict: Verdict, seconds: float) -> None:
        """Take note of a verdict that is sent now."""
        if verdict.commit is None and verdict.accepted:
            outcome = "replayed"
        elif verdict.accepted:
            outcome = "committed"
        else:
            codes = ("conflict", "dependency_rejected")
            outcome = "conflict" if (verdict.error or {}).get("code") in codes else "refused"
        self._app.metrics.committed(outcome, seconds)
        if verdict.accepted:
            self.own = max(self.own, verdict.version)


def check_may_read(port: AdmittedPort) -> None:
    """Raise NotFound or Denied when the principal of a session holds no right to read its space."""
    port.look(port.space).held_for("watch", "read")


def desk_of(app: "Application", opener: Opener, port: AdmittedPort) -> Desk:
    """Return the desk for the sessions of a principal on a space; its commits are judged each."""
    gates, principal = port.gates, opener.principal

    def admit(guarding: Port) -> Port:
        return AdmittedPort(
            gates, principal, COMMIT, space=port.space, asked=port.asked, port=guarding
        )

    return Desk(
        gates.port_of(principal.author),
        port.space,
        randomness=app.ids,
        principal=principal.name,
        admit=admit,
    )
