"""The port of a store behind a server: one command is one request of docs/serve.md.

answer ──> Read, blobs, differences: methods of their own
   └ all else: POST /v1/spaces/<did>/<command> with the bytes of contract/wire.py
"""

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NoReturn, TypeVar, get_origin

from msgspec import structs

from rote.client.blobs import Blobs, attempted, place_of
from rote.client.calls import Calls, Request
from rote.client.kept import Kept
from rote.client.pool import Now
from rote.client.reading import Reading
from rote.client.replies import Reply, members_of
from rote.client.verbs import RemoteVerbs
from rote.client.watching import RemoteWatches
from rote.client.works import LINES, Lines, RemoteTask
from rote.contract import Caller, Change, IdSource, OpenStore, Port, SpaceInfo, Task, Tell, Watching
from rote.contract import commands as c
from rote.contract.table import Row, Table
from rote.contract.wire import Message, answer_type, decode_answer, encode_command
from rote.errors import Denied, InvalidInput, NotFound, RoteError, Unavailable
from rote.values import check_did
from rote.values.client_limits import (
    AWAIT_PAUSE_SECONDS_MAX,
    AWAIT_PAUSE_SECONDS_MIN,
    CONNECT_SECONDS_MAX,
)
from rote.values.limits import AWAIT_SECONDS_MAX

R = TypeVar("R")
_NOTHING: Mapping[str, Any] = {}
_JSON = {"content-type": "application/json"}
# Reads that say the same for good once their view is pinned.
_PINNED = (c.ReadPage, c.GlanceAt, c.Scan, c.GetHistory, c.Find, c.Query, c.Values)
# Commands that a read-only store answers though their right is more than `read`.
_READING = (
    c.GetTimes, c.ListSpaces, c.ListBlobs, c.ListVectorNames, c.VectorsOut, c.FindWritten, c.CopyOut,
    c.FoundationOut, c.SidesOut,
)  # fmt: skip


class RemotePort:
    """Implements contract.Port over HTTP. Any thread may ask; after a fork every call raises."""

    def __init__(
        self,
        calls: Calls,
        *,
        table: Table,
        ids: IdSource,
        now: Now,
        read_only: bool = False,
    ) -> None:
        """Answer commands of a table.

        ids        the client's own randomness: names of attempts and of uploads
        read_only  refuse every write before it is sent
        """
        self._calls = calls
        self._table = table
        self._ids = ids
        self._read_only = read_only
        self._open_store = OpenStore()
        self._watches = RemoteWatches(calls)
        self._kept = Kept(self._open_store, now=now)
        self._reading = Reading(self._kept, ask=lambda space, body: self._post(space, "read", body))
        self._blobs = Blobs(ids, call=self._call)
        self.verbs = RemoteVerbs(ids, call=self._call, read_only=read_only)
        self._rules: dict[type[c.Command[Any]], Callable[[str, Any], Any]] = {
            c.Read: self._reading.read,
            c.Diff: self._diff,
            c.EraseSpace: self._erase_space,
            c.FindSpace: self._find_space,
            c.DropSides: self._not_remote,
            c.AwaitCommit: self._await,
            **self._blobs.rules,
        }

    @property
    def open_store(self) -> OpenStore:
        return self._open_store

    def answer(self, space: str, command: c.Command[R], /) -> R:
        row = self._row(space, command)
        if isinstance(command, c.Work):
            raise InvalidInput(f"{row.name} is begun, not answered: it takes long")
        rule = self._rules.get(type(command))
        answer: R = self._answer(space, row, command) if rule is None else rule(space, command)
        return answer

    def begin(self, space: str, command: c.Work[R], /) -> Task[R]:
        row = self._row(space, command)
        if not isinstance(command, c.Work):
            raise InvalidInput("only work is begun; a command is answered")
        ready = self._attempted(row, command)
        return RemoteTask(lambda tell: self._work(space, row, ready, tell))

    def watch(self, space: str, command: c.Watch, /) -> Watching:
        self._row(space, command)
        if not isinstance(command, c.Watch):
            raise InvalidInput("only a watch is watched; a command is answered")
        return self._watches.begin(
            space, command, lambda version: self.answer(space, c.GetHead(version))
        )

    def for_caller(self, caller: Caller, /) -> Port:
        raise Denied(
            "the server says who calls, by the token or the key of rote.open", code="not_remote"
        )

    def close(self) -> None:
        self._calls.close()
        self._watches.close()
        self._blobs.close()
        self._kept.close()
        self._open_store.forget(None)

    # -- commands as JSON ------------------------------------------------------------------------------

    def _row(self, space: str, command: c.Command[Any]) -> Row:
        self._calls.pool.check_usable()
        row = self._table.row(type(command))
        if not isinstance(command, c.StoreCommand) and (type(space) is not str or not space):
            raise InvalidInput("say which space is asked, by its did")
        if self._read_only and _writes(row, command):
            raise Denied("the store was opened read only; open it without read_only to write")
        return row

    def _attempted(self, row: Row, command: Any) -> Any:
        return attempted(command, self._ids) if row.retry == "key" else command

    def _answer(self, space: str, row: Row, command: Any) -> Any:
        command = self._attempted(row, command)
        body = _sent(encode_command(command))
        is_pinned = isinstance(command, _PINNED) and command.view.version is not None
        if is_pinned:
            kept = self._kept.get(space, (space, row.name, body))
            if kept is not None:
                return _decoded(row, kept)
        reply = self._post(space, row.name, body, row, command)
        erased = reply.number(b"rote-erased")
        if is_pinned and erased is not None:
            name: Hashable = (space, row.name, body)
            size = len(body) + len(reply.body)
            self._kept.keep(space, name, reply.body, size, erased=erased)
        return _decoded(row, reply.body, reply.details)

    def _find_space(self, _: str, command: c.FindSpace) -> SpaceInfo:
        row = self._table.row(c.FindSpace)
        if not str(command.name).startswith("did:"):
            found: SpaceInfo = self._answer("", row, command)
            return found
        until = self._calls.now() + min(self._calls.seconds, CONNECT_SECONDS_MAX)
        asked = c.FindSpace(command.name)
        try:
            reply = self._post(
                "", row.name, _sent(encode_command(asked)), row, asked, deadline=until
            )
        except Unavailable as lost:
            if "server" not in lost.details:
                raise
            check_did(command.name)
            # A session with a journal goes on without its server. Everything else asks that anyhow.
            return SpaceInfo(command.name, command.name)
        found = _decoded(row, reply.body)
        return found

    def _post(
        self,
        space: str,
        name: str,
        body: bytes,
        row: Row | None = None,
        command: Any = None,
        *,
        deadline: float | None = None,
    ) -> Reply:
        place = place_of(space) if space else "/v1/"
        is_repeated = row is None or row.retry in ("always", "key")
        request = Request(
            "POST",
            place + name,
            body,
            _JSON,
            repeat="always" if is_repeated else "refused",
            attempt=getattr(command, "attempt", None),
            is_write=row is not None and _writes(row, command),
            is_long=isinstance(command, c.FindWritten),
        )
        return self._call(space, request, deadline=deadline)

    def _call(self, space: str, request: Request, *, deadline: float | None = None) -> Reply:
        self._calls.pool.check_usable()
        try:
            reply = self._calls.call(request, deadline=deadline)
        except NotFound as error:
            if space and error.code == NotFound.code:
                self._kept.forget(space)
            raise
        if space:
            self._kept.note(space, reply.number(b"rote-erased"))
        return reply

    def _work(self, space: str, row: Row, command: Any, tell: Tell) -> Any:
        lines = Lines(tell)
        request = Request(
            "POST",
            f"{place_of(space)}{row.name}",
            encode_command(command).head,
            {**_JSON, "accept": LINES},
            attempt=getattr(command, "attempt", None),
            is_write=_writes(row, command),
            is_long=True,
            take=lines.begin,
        )
        reply = self._call(space, request)
        if isinstance(command, c.Compact):
            self._kept.forget(space)
        if lines.error is not None:
            raise lines.error
        if lines.result is None:
            raise reply.unreadable("it ends before the result")
        return _decoded(row, lines.result, reply.details)

    def _diff(self, space: str, command: c.Diff) -> tuple[Change, ...]:
        """Return all changes, by pages that are all of the two states of the first."""
        changes: list[Change] = []
        page = c.ListChanges(command.before, command.after)
        while True:
            found = self.answer(space, page)
            changes += found.changes
            if found.next is None:
                return tuple(changes)
            page = c.ListChanges(
                structs.replace(page.before, version=found.before),
                structs.replace(page.after, version=found.after),
                beyond=found.next,
            )

    def _erase_space(self, _: str, command: c.EraseSpace) -> Any:
        try:
            erasure = self._answer("", self._table.row(c.EraseSpace), command)
        finally:
            self._forget_all()
        return erasure

    def _forget_all(self) -> None:
        """Drop all that is kept: a space was erased, which is rare."""
        self._kept.close()
        self._open_store.forget(None)

    def _await(self, space: str, command: c.AwaitCommit) -> int:
        """Ask for the head until it has moved; less and less often, because each look is a request."""
        after, seconds = command.after, command.seconds
        if type(after) is not int or after < 0:
            raise InvalidInput("after: it is a version")
        if type(seconds) not in (int, float) or not 0 <= seconds <= AWAIT_SECONDS_MAX:
            raise InvalidInput(f"seconds: it is a number from 0 to {AWAIT_SECONDS_MAX}")
        row = self._table.row(c.GetVersions)
        until, pause = self._calls.now() + seconds, AWAIT_PAUSE_SECONDS_MIN
        while True:
            newest: int = self._answer(space, row, c.GetVersions()).version
            left = until - self._calls.now()
            if newest > after or left <= 0:
                return newest
            self._calls.pause(min(pause, left))
            pause = min(2 * pause, AWAIT_PAUSE_SECONDS_MAX)

    def _not_remote(self, _: str, command: c.Command[Any]) -> NoReturn:
        name = self._table.row(type(command)).name
        raise Denied(f"{name} is a server's own; no client asks for it", code="not_remote")


class NotHere:
    """Implements contract.Local where files and keys are the server's."""

    def backup(self, path: object) -> NoReturn:
        raise _not_here("a backup is written")

    def seed(self, space: str) -> NoReturn:
        raise _not_here("the private key of a space is kept")

    def adopt(self, did: str, name: str, seed: bytes) -> SpaceInfo:
        raise _not_here("the private key of a space is kept")


def _not_here(what: str) -> Denied:
    return Denied(f"{what} where the store is; do it on the server's machine", code="not_remote")


def _writes(row: Row, command: Any) -> bool:
    if isinstance(command, c.FindSpace):
        return command.create is True
    if isinstance(command, c.Merge):
        return command.dry_run is not True
    writes = row.right not in ("open", "authenticated", "read") or isinstance(
        command, c.MakeCheckpoint
    )
    return writes and not isinstance(command, _READING)


def _sent(message: Message) -> bytes:
    """Return a command as one JSON object, with its bytes, if it has some, as a text in base64."""
    if message.body is None:
        return message.head
    comma = b"," if len(message.head) > len(b"{}") else b""
    return b'%b%b"data":"%b"}' % (message.head[:-1], comma, b2a_base64(message.body, newline=False))


def _decoded(row: Row, body: bytes, details: Mapping[str, Any] = _NOTHING) -> Any:
    """Return the answer to a command.

    details  of the error when it cannot be read
    """
    try:
        if answer_type(row.command) is bytes:
            return a2b_base64(members_of(body)["data"], strict_mode=True)
        answer = decode_answer(row, Message(body))
        if get_origin(answer_type(row.command)) is dict and type(answer) is not dict:
            raise TypeError("it is no JSON object")
        return answer
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        RecursionError,
        RoteError,
    ) as error:
        message = f"the server's answer to {row.name} cannot be read: {error}"
        raise Unavailable(message, **details) from None
