"""The exchange: sends the commits of a replica to their desk, and takes over what comes back.

    one thread sends      commits in local order, then what was kept: verdicts and steps
    one thread receives   verdicts and steps; it connects again when a line has ended

A commit that was refused was not decided: it is sent again with all after it, once the line has rested.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from rote.contract import Head, IdSource
from rote.contract import sync as wire
from rote.contract.commands import GetHead
from rote.contract.links import Decided, Done, Link, Linker, LinkRequest, Message, Refused, ended
from rote.errors import (
    Busy,
    Compacted,
    InternalError,
    InvalidInput,
    PayloadMismatch,
    RoteError,
    Unavailable,
)
from rote.sessions.replica import Replica
from rote.values.session_limits import (
    LINE_PAUSE_SECONDS_MAX,
    LINE_PAUSE_SECONDS_MIN,
    SESSION_ACK_VERDICTS,
)
from rote.values.sync_limits import SYNC_CLOSE_SECONDS


class Credentials(Struct):
    """The id and the token that open a session again."""

    session: str | None = None
    token: str | None = None


class Exchange:
    """The line of one session, and its two threads."""

    def __init__(
        self,
        replica: Replica,
        linker: Linker,
        *,
        name: str,
        randomness: IdSource,
        credentials: Credentials,
    ) -> None:
        """name         of the space, for those who list threads
        credentials  of a session that goes on; empty ones begin another
        """
        self._replica = replica
        self._changed = replica.changed
        self._linker = linker
        self._randomness = randomness
        self._credentials = credentials
        self._sending = threading.Lock()  # held while something is on its way into the line
        self._threads = [
            threading.Thread(
                target=self._guard, args=[work], name=f"rote-session-{name}", daemon=True
            )
            for work in (self._receive, self._send)
        ]
        # Of what follows, the owner is who holds `changed`.
        self._link: Link | None = None  # None while there is no line, or nothing may be sent
        self._taken_down: Link | None = None  # the last line that was ended here
        self._is_paused = False
        self._is_closing = False
        self._pause = LINE_PAUSE_SECONDS_MIN
        self._rests_until = 0.0  # nothing is sent before
        self._next = 1  # the local that is sent next
        self._flying: dict[int, int] = {}  # commits without an answer, by the id of their request
        self._refused: deque[Refused] = deque()
        self._is_full = False  # the line takes no more before something comes
        self._to = self._told_to = 0  # the last step, and the last that was acknowledged
        self._told_decided = self._told_basis = 0

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def pause(self) -> None:
        """Take the line down; nothing is sent once it returns."""
        with self._changed:
            self._is_paused = True
            link = self._take_down()
            self._replica.set_state("offline")
            self._changed.notify_all()
        if link is not None:
            link.close()
        with self._sending, self._changed:  # what was on its way is sent, or it has failed
            late = self._take_down()  # it has come meanwhile
            self._replica.set_state("offline")
        if late is not None:
            late.close()

    def resume(self) -> None:
        with self._changed:
            self._is_paused = False
            self._changed.notify_all()

    def close(self, *, forget: bool) -> None:
        """Take the line down for good.

        forget  nobody will go on with the session: its rows go
        """
        with self._changed:
            if self._is_closing:
                return
            self._is_closing = True
            link = self._take_down()
            self._changed.notify_all()
        if link is not None and self._sending.acquire(timeout=SYNC_CLOSE_SECONDS):
            try:
                self._end(link, forget=forget)
            finally:
                self._sending.release()
        elif link is not None:  # what is on its way does not get there
            link.close()
        here = threading.current_thread()
        for thread in self._threads:
            if thread is not here and thread.is_alive():
                thread.join(SYNC_CLOSE_SECONDS)

    def _take_down(self) -> Link | None:
        """Return the line, which is used no more; the caller closes it."""
        link, self._link = self._link, None
        self._taken_down = link or self._taken_down
        return link

    def _end(self, link: Link, *, forget: bool) -> None:
        try:
            if forget:
                link.send(wire.CloseSession())
                self._threads[0].join(SYNC_CLOSE_SECONDS)
        except RoteError:
            pass  # the line is down already; the rows go when nobody has touched them for long
        finally:
            link.close()

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except RoteError as error:
            self._fail(error)
        except Exception as error:
            self._fail(InternalError(f"{type(error).__name__}: {error}"))
            raise

    def _fail(self, error: RoteError) -> None:
        """End the session by an error that no other line mends."""
        self._replica.end(error)
        self.close(forget=False)

    # -- receiving ---------------------------------------------------------------------------------

    def _receive(self) -> None:
        while self._may_connect():
            then = self._follow_one()
            with self._changed:
                if not self._is_closing:
                    self._replica.set_state("offline")
            if then == "later":
                self._await_next()

    def _may_connect(self) -> bool:
        """Wait until a line may be had; return False when none is wanted any more."""
        with self._changed:
            while self._is_paused and not self._is_closing:
                self._changed.wait()
            return not self._is_closing

    def _await_next(self) -> None:
        """Wait before the next attempt to connect, longer each time until something comes."""
        until = time.monotonic() + self._pause * (0.5 + self._fraction())
        with self._changed:
            while not (self._is_closing or self._is_paused):
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)  # others are told by the same condition
            self._pause = min(2 * self._pause, LINE_PAUSE_SECONDS_MAX)

    def _fraction(self) -> float:
        return self._randomness.random_bytes(1)[0] / 256

    def _follow_one(self) -> str:
        """Follow a line until it ends; return what to do then. Raise what ends the session."""
        link: Link | None = None
        try:
            with self._sending:
                if self._is_paused or self._is_closing:
                    return "back"
                link = self._linker.connect(self._opening())
                self._begin(link)
            while True:
                message = link.receive()
                if message is not None:
                    self._take(message)
        except Unavailable as end:
            return self._after(link, end)
        finally:
            if link is not None:
                with self._changed:
                    if self._link is link:
                        self._link = None
                link.close()

    def _after(self, link: Link | None, end: Unavailable) -> str:
        """Return what is to be done after a line has ended, or could not be had."""
        journal = self._replica.journal
        if journal is not None and journal.failure is not None:
            raise journal.failure  # it does not have all that was taken over
        with self._changed:
            if link is not None and link is self._taken_down:
                return "back"
        self._replica.last_failure = end
        then = end.details.get("then", "later")
        if then == "stop":
            raise end
        return str(then)

    def _opening(self) -> wire.OpenSession:
        head, known = self._replica.stack.head, self._credentials
        seen = wire.Mark(head.version, head.hash) if self._replica.is_folded else None
        return wire.OpenSession(
            self._replica.space, session=known.session, token=known.token,
            watches=dict(self._replica.watches), seen=seen,
        )  # fmt: skip

    def _begin(self, link: Link) -> None:
        """Take over what the opening says; the line may be used then."""
        opened = link.opened
        self._credentials = Credentials(opened.session, opened.token)
        if self._replica.journal is not None:
            self._replica.journal.open(opened.session, opened.token)
        for verdict in opened.verdicts:
            self._replica.decide(verdict)
        if not self._replica.watches:  # with watches the first step says it
            self._replica.step(self._head(opened.version))
        with self._changed:
            if self._is_closing:
                raise ended("back", "the session was closed while it was opened")
            self._link = link
            self._flying.clear()
            self._refused.clear()
            self._is_full = False
            self._next = self._replica.stack.decided + 1
            self._to = self._told_to = 0
            self._told_decided = self._told_basis = 0
            self._rests_until = 0.0
            self._replica.set_state("online")
            self._changed.notify_all()

    def _head(self, version: int) -> Head:
        port, space = self._replica.port, self._replica.space
        try:
            return port.answer(space, GetHead(version))
        except Compacted:
            raise ended("back", f"version {version} was compacted meanwhile") from None

    def _take(self, message: Message) -> None:
        if isinstance(message, wire.Sync):
            self._replica.step(Head(message.to, message.hash, message.at), message)
        elif isinstance(message, Decided):
            self._replica.decide(message.verdict)
        with self._changed:
            self._is_full = False
            match message:
                case wire.Sync():
                    self._pause = LINE_PAUSE_SECONDS_MIN
                    self._to = message.to
                case Decided():
                    self._pause = LINE_PAUSE_SECONDS_MIN
                    self._flying.pop(message.id, None)
                case Done():
                    self._flying.pop(message.id, None)
                case Refused():
                    self._refused.append(message)
                case wire.Revoked() | wire.Closing():
                    pass  # the end of the line says what to do
            self._changed.notify_all()

    # -- sending -----------------------------------------------------------------------------------

    def _send(self) -> None:
        while self._await_work():
            with self._sending:
                self._send_one()

    def _await_work(self) -> bool:
        """Wait until there may be something to send; return False when nothing is any more."""
        with self._changed:
            while not self._is_closing and self._replica.state != "ended":
                left = self._rests_until - time.monotonic()
                if left <= 0 and self._has_work():
                    return True
                self._changed.wait(left if left > 0 else None)
            return False

    def _has_work(self) -> bool:
        if self._link is None or self._is_full:
            return False
        return bool(self._refused) or self._next <= self._replica.stack.made or self._owes_ack()

    def _send_one(self) -> None:
        with self._changed:
            link = self._link
            if link is None:
                return
            self._take_refused()
            local, request = self._request()
        if request is None:
            return
        if isinstance(request, wire.Ack) and request.verdicts and self._replica.journal:
            self._replica.journal.sync()
        try:
            id = link.send(request)
        except Busy:
            with self._changed:
                self._is_full = True
                self._send_again(local)
        except Unavailable:
            with self._changed:
                if self._link is link:
                    self._link = None  # the receiver connects again
        except InvalidInput as error:
            with self._changed:
                self._give_up(local, error)
        else:
            with self._changed:
                # Its answer may have come already, and so may the next line.
                if link is self._link and local > self._replica.stack.decided:
                    self._flying[id] = local

    def _request(self) -> tuple[int, LinkRequest | None]:
        """Return what is sent next, and its local; 0 for an acknowledgement."""
        if time.monotonic() < self._rests_until:
            return 0, None
        if self._owes_ack():  # first: the desk may have no room for a commit before it
            return 0, self._ack()
        stack = self._replica.stack
        while self._next <= stack.made:
            local = self._next
            self._next += 1
            laid = stack.waiting(local)
            if laid is None:
                continue
            if laid.layer.is_dead:
                return local, wire.Abandon(local)
            laid.layer.was_sent = True
            return local, laid.layer.sent
        return 0, None

    def _owes_ack(self) -> bool:
        untold = self._replica.stack.decided - self._told_decided
        return self._to > self._told_to or untold >= SESSION_ACK_VERDICTS

    def _ack(self) -> wire.Ack:
        """Return an acknowledgement; it gathers verdicts, because each costs the store a row."""
        decided, basis, to = None, None, None
        if self._to > self._told_to:
            self._told_to = to = self._to
        if self._replica.stack.decided - self._told_decided >= SESSION_ACK_VERDICTS:
            self._told_decided = decided = self._replica.stack.decided
            self._told_basis = basis = max(self._replica.basis(), self._told_basis)
        return wire.Ack(decided, basis, to)

    def _take_refused(self) -> None:
        """Send again what was refused. What was sent after it was refused, too, and is forgotten."""
        while self._refused:
            refused = self._refused.popleft()
            self._rest()
            self._told_to = self._told_decided = 0  # it may have been an acknowledgement
            local = self._flying.pop(refused.id, None)
            if local is None:
                continue  # something before it was refused, too
            if isinstance(refused.error, PayloadMismatch) or refused.error.code == "verdict_gone":
                raise refused.error
            if refused.error.code == "out_of_order":
                local = self._replica.stack.decided + 1
            elif isinstance(refused.error, InvalidInput):
                self._give_up(local, refused.error)
                continue
            self._send_again(local)

    def _rest(self) -> None:
        """Send nothing for a while, which is longer each time until something is decided."""
        if time.monotonic() >= self._rests_until:
            self._rests_until = time.monotonic() + self._pause * (0.5 + self._fraction())
            self._pause = min(2 * self._pause, LINE_PAUSE_SECONDS_MAX)

    def _send_again(self, local: int) -> None:
        if local == 0:
            self._told_to = self._told_decided = 0
            return
        self._next = min(self._next, local)
        self._flying = {id: each for id, each in self._flying.items() if each < local}

    def _give_up(self, local: int, error: RoteError) -> None:
        """Reject what the desk cannot even read, and have its local decided without it."""
        if local == 0:
            raise error
        laid = self._replica.stack.waiting(local)
        if laid is not None:
            self._replica.refuse(local, error)
        self._send_again(local)
