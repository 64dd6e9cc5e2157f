"""Sessions as users hold them: what is confirmed, own writes over it at once, and what became of them.

confirmed   the space at one version, that of the last step
pending     own commits, in their order
the view    confirmed with them laid over it
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from inspect import iscoroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from rote.contract import Fact, State
from rote.errors import Conflict, InternalError, InvalidInput, Unavailable
from rote.sessions.again import Again
from rote.sessions.events import Event
from rote.sessions.exchange import Exchange
from rote.sessions.making import Making
from rote.sessions.pending import Fate, Maker, Pending, fate_of
from rote.sessions.replica import Replica
from rote.sessions.transactions import SessionTransaction
from rote.sessions.watching import ViewWatching
from rote.space import Space
from rote.space.arguments import check_timeout
from rote.space.driving import Frames
from rote.space.sessions import Transacting
from rote.space.sources import on_branch, space_on
from rote.values import Json, check_branch_name, check_entity_id, check_key
from rote.values.limits import RECORD_ATTEMPTS_MAX

T = TypeVar("T")


class Session(Transacting):
    """One session, on one branch. Any thread may use it, a transaction one thread."""

    def __init__(
        self,
        space: Space,
        making: Making,
        exchange: Exchange,
        again: Again,
        *,
        timeout: float,
        branch: str,
        closed: "Callable[[Session], None]",
    ) -> None:
        """closed  is told when it has ended"""
        self.space = space  # the space itself, which sees nothing that is pending
        self._making = making
        self._replica = making.replica
        self._exchange = exchange
        self._again = again
        self._timeout = timeout
        self._branch = branch
        self._closed = closed

    # -- what it is --------------------------------------------------------------------------------

    @property
    def did(self) -> str:
        return self.space.did

    @property
    def name(self) -> str:
        return self.space.name

    @property
    def branch(self) -> str:
        return self._branch

    @property
    def version(self) -> int:
        """The version that is confirmed."""
        return self._replica.stack.head.version

    @property
    def head(self) -> str | None:
        """The hash of that version's commit; None when the space was empty."""
        return self._replica.stack.head.hash

    @property
    def state(self) -> str:
        """The line: connecting, online, offline or ended."""
        return self._replica.state

    @property
    def dropped(self) -> int:
        """The number of events that went before anybody took them."""
        return self._replica.events.dropped

    @property
    def confirmed(self) -> Space:
        """The space as it is confirmed, without own commits; read-only."""
        port = self._replica.confirmed
        return space_on(self.space, port, branch=self._branch, pinned=port.head)

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The own commits that are not integrated, on all branches, in their order."""
        self._replica.check_process()
        with self._replica.changed:
            return self._replica.stack.pending()

    def on(self, branch: str) -> "Session":
        """Return this session on another branch."""
        check_branch_name(branch)
        held = self._replica.confirmed.held.watches.values()
        if all(watch.branch != branch for watch in held):
            self.space.on(branch)  # raises NotFound for one that does not exist
        return Session(
            on_branch(self.space, branch), self._making, self._exchange, self._again,
            timeout=self._timeout, branch=branch, closed=lambda _: self._closed(self),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Session({self.name!r} on {self._branch} at {self.version}, {self.state})"

    # -- reading -----------------------------------------------------------------------------------

    def _view(self) -> Space:
        """Return the view as it is now, as a space that does not change."""
        return space_on(self.space, self._replica.view(self._branch), branch=self._branch)

    def get(self, id: str, default: Json = None) -> Json:
        """Return the value of an entity, or `default` when it does not exist."""
        return self._view().get(id, default)

    def read(self, id: str) -> State:
        """Return the state of an entity; what an own commit wrote has version 0."""
        return self._view().read(id)

    def read_many(self, ids: Sequence[str]) -> list[State]:
        """Return the states of many entities, in that order, all from one view."""
        return self._view().read_many(ids)

    def scan(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[State]:
        """Yield existing entities whose ids start with `prefix`, in id order, all from one view."""
        return self._view().scan(prefix, after=after, limit=limit)

    def query(self, query: Mapping[str, Any]) -> dict[str, Json]:
        """Return selected entities and those that their links lead to, all from one view."""
        return self._view().query(query)

    def values(self, query: Mapping[str, Any]) -> dict[str, Json]:
        """Return the values of selected entities, with the linked values in the places of links."""
        return self._view().values(query)

    def watch(self, query: Mapping[str, Any], *, timeout: float | None = None) -> Frames:
        """Yield frames of what a query shows in the view, own writes included.

        Folded they equal `query`. The iterator ends after `timeout` seconds without a frame.
        """
        check_timeout(timeout)
        return Frames(ViewWatching(self._replica, self._branch, query), timeout)

    def history(self, id: str, *, limit: int | None = None) -> list[Fact]:
        """Return the confirmed facts of an entity, newest first."""
        return self._view().history(id, limit=limit)

    def at(self, point: int | datetime | str) -> Space:
        """Return the space as it was at a version or a time that is confirmed; read-only."""
        return self.confirmed.at(point)

    # -- writing -----------------------------------------------------------------------------------

    def set(self, id: str, value: Json, *, key: str | None = None) -> Pending:
        """Replace an entity's value."""
        return self.transact([{"op": "set", "id": id, "value": value}], key=key)

    def patch(
        self, id: str, ops: Sequence[Mapping[str, Any]], *, key: str | None = None
    ) -> Pending:
        """Change an entity's value by RFC 6902 operations, or `splice`."""
        return self.transact([{"op": "patch", "id": id, "ops": ops}], key=key)

    def delete(self, id: str, *, key: str | None = None) -> Pending:
        """Delete an entity; its history stays."""
        return self.transact([{"op": "delete", "id": id}], key=key)

    def transact(
        self,
        operations: Sequence[Mapping[str, Any]],
        *,
        reads: Sequence[Mapping[str, Any]] | None = None,
        key: str | None = None,
        meta: Json = None,
    ) -> Pending:
        """Apply all operations together, and have them decided; raise what cannot apply here."""
        return self._making.transact(self._branch, operations, reads=reads, key=key, meta=meta)

    def transaction(self, *, key: str | None = None, meta: Json = None) -> SessionTransaction:
        """Return a transaction: it sees one view to its end, and becomes one commit, or nothing."""
        if key is not None:
            check_key(key)
        return self._begin(key=key, meta=meta)

    def _begin(
        self,
        *,
        key: str | None = None,
        meta: Json = None,
        maker: Maker | None = None,
        again: Fate | None = None,
        is_counted: bool = True,
    ) -> SessionTransaction:
        port, view = self._replica.begin(self._branch, is_counted=is_counted)
        space = space_on(self.space, port, branch=self._branch)
        return SessionTransaction(
            self._making, port, view, space, key=key, meta=meta, maker=maker, again=again
        )

    def _transact_each(self, call: Callable[[Space], T]) -> T:
        for left in reversed(range(RECORD_ATTEMPTS_MAX)):
            is_called = False
            try:
                with self._begin(is_counted=False) as tx:
                    answer = call(tx.space)
                    is_called = True
            except Conflict:
                if not is_called or left == 0:
                    raise
            else:
                return answer
        raise InternalError("there is at least one attempt")

    def apply(
        self, function: Callable[[SessionTransaction], object], *, attempts: int = 32
    ) -> Pending | None:
        """Call a function that reads and writes a transaction, and again, as a new commit, each time the
        last one was rejected by a Conflict. None when it writes nothing.

        It may use the transaction only.
        """
        if type(attempts) is not int or attempts < 1:
            raise InvalidInput("attempts must be an integer from 1 on")
        if not callable(function):
            raise InvalidInput("apply needs a function of a transaction")

        def make(maker: Maker, again: Fate | None) -> Fate | None:
            with self._begin(maker=maker, again=again) as tx:
                _plain(function(tx))
            return None if tx.pending is None else fate_of(tx.pending)

        fate = self._again.apply(make, attempts)
        return None if fate is None else fate.pending

    def update(self, id: str, function: Callable[[Json], Json], *, attempts: int = 32) -> Pending:
        """Set an entity to what `function` returns for its value (None when it does not exist).

        It is tried again when someone else wrote first.
        """
        check_entity_id(id)
        if not callable(function):
            raise InvalidInput("update needs a function from the old value to the new one")
        made = self.apply(lambda tx: tx.set(id, _plain(function(tx.get(id)))), attempts=attempts)
        assert made is not None
        return made

    # -- what becomes of it ------------------------------------------------------------------------

    def events(self, timeout: float | None = None) -> Iterator[Event]:
        """Yield events {type, local, version, error} that nobody has taken yet, as they come.

        The iterator ends after `timeout` seconds without one, and after the session has ended.
        """
        check_timeout(timeout)
        self._replica.check_process()
        while (event := self._replica.events.take(timeout)) is not None:
            yield event

    def flush(self, timeout: float | None = None) -> list[Pending]:
        """Wait until all commits made before are decided and integrated.

        Return those that were rejected, and that no flush has returned before. Unavailable with the
        code `timeout` when it takes longer.
        """
        check_timeout(timeout)
        return self._replica.flush(timeout)

    def pause(self) -> None:
        """Go offline; nothing is sent once it returns."""
        self._replica.check_process()
        self._exchange.pause()

    def resume(self) -> None:
        """Go online again."""
        self._replica.check_process()
        self._exchange.resume()

    def close(self) -> None:
        """End the session; commits that are not decided are `unknown`, and may have been applied.

        A journal keeps them, for who opens it again. In a forked process nothing ends.
        """
        if self._replica.is_forked:
            return
        journal = self._replica.journal
        self._exchange.close(forget=journal is None)
        self._replica.end(None)
        if journal is not None:
            journal.close()
        self._closed(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave(error, self._timeout)

    def _leave(self, error: BaseException | None, timeout: float) -> None:
        try:
            if error is None and (self.state != "ended" or self._replica.error is not None):
                self._finish(timeout)
        finally:
            self.close()

    def _finish(self, timeout: float) -> None:
        try:
            self.flush(timeout)
        except Unavailable as late:
            if late.code != "timeout":
                raise
            if self._replica.journal is not None:
                return
            undecided = [each.local for each in self.pending if each.status == "pending"]
            if undecided:
                raise Unavailable(
                    f"commits {undecided} of this session were not decided in time, and nobody will"
                    " know here what becomes of them; a journal would have kept them",
                    locals=undecided,
                ) from None


def _plain(answer: T) -> T:
    """Refuse what a coroutine function returns: nobody would await it, now or later."""
    if iscoroutine(answer):
        answer.close()
        raise InvalidInput(
            "a session calls this function itself, also later and on a thread; it takes a plain"
            " function, which awaits nothing"
        )
    return answer


def replica_of(session: Session) -> Replica:
    return session._replica
