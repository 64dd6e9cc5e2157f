"""Messages of `/v1/sync`: one decoder and one encoder for both sides. Frozen: docs/formats/sync.md.

    client  ──> {"type", "id", …}          a request
    server  ──> {"id", "ok": {…}}          its answer, or {"id", "error": {"code", "message", "details"}}
    server  ──> {"type", …}                a push: nobody has asked for it

What a server gets is decoded strictly: an unknown member or a wrong shape is refused, and the error
names it. What a client gets may have more members than it knows.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from rote.contract.verdicts import Verdict
from rote.contract.wire import encode_members
from rote.errors import InvalidInput, LimitExceeded, RoteError, Unavailable
from rote.values import decode
from rote.values.limits import DEPTH_MAX, INTEGER_MAX, MESSAGE_BYTES_MAX, MESSAGE_LEVELS
from rote.values.sync_limits import SYNC_WATCH_NAME_BYTES_MAX, SYNC_WATCHES_MAX

Made = TypeVar("Made")
PROTOCOL = "rote/1"

# How a connection is closed.
CLOSED, STOPPED = 1000, 1001
BINARY, NOT_UTF8, TOO_LARGE, UNANSWERABLE = 1003, 1007, 1009, 4400
AUTH_FAILED, ACCESS_WITHDRAWN = 4401, 4403
NO_COMMON_PROTOCOL, TOO_SLOW, TAKEN_OVER, TOO_MANY = 4406, 4408, 4409, 4429
INTERNAL, TRY_LATER = 1011, 1013


class Mark(Struct, frozen=True, forbid_unknown_fields=True):
    """A version, and the hash of its commit (None at version 0)."""

    version: int
    hash: str | None


# -- requests --------------------------------------------------------------------------------------


class Request(Struct, frozen=True, forbid_unknown_fields=True):
    """A request of a client; `type` and `id` stand beside its members."""


class Hello(Request, frozen=True):
    """Begin; the first request of a connection."""

    protocol: str


class OpenSession(Request, frozen=True):
    """Open a session on a space; the second request."""

    space: str  # its name or did
    auth: Any = None  # {"token": …} or {"signed": …, "sig": …}
    session: str | None = None  # to go on with one
    token: str | None = None
    ephemeral: bool = False
    watches: dict[str, Any] = {}
    seen: Mark | None = None  # the fold of exactly these watches is held at this version


class Transact(Request, frozen=True):
    """Decide a commit of the session."""

    local: int
    basis: int
    operations: Any
    branch: str = "main"
    reads: Any = ()
    key: str | None = None
    meta: Any = None


class Abandon(Request, frozen=True):
    """Decide that a commit of the session is not made, unless it was decided before."""

    local: int


class Ack(Request, frozen=True):
    """Say what was kept: verdicts, steps, and that no later commit has a lower basis."""

    verdicts: int | None = None
    basis: int | None = None
    to: int | None = None


class SetWatches(Request, frozen=True):
    """Replace all watches."""

    watches: dict[str, Any]
    since: Mark | None = None  # as `seen`


class AddWatches(Request, frozen=True):
    """Add watches. Without any it asks how far the steps have come."""

    watches: dict[str, Any]


class RemoveWatches(Request, frozen=True):
    """Remove watches."""

    names: list[str]


class Call(Request, frozen=True):
    """Ask a command of the server's table."""

    command: str
    args: dict[str, Any] = {}


class CloseSession(Request, frozen=True):
    """End the session; its rows are gone."""


REQUESTS: dict[str, type[Request]] = {
    "hello": Hello,
    "session.open": OpenSession,
    "transact": Transact,
    "abandon": Abandon,
    "ack": Ack,
    "watch.set": SetWatches,
    "watch.add": AddWatches,
    "watch.remove": RemoveWatches,
    "call": Call,
    "session.close": CloseSession,
}
WatchRequest = SetWatches | AddWatches | RemoveWatches
_TYPES = {kind: name for name, kind in REQUESTS.items()}


class Envelope(Struct, frozen=True):
    """A request as it came: its members are not looked at yet."""

    id: int
    members: dict[str, Any]  # with its type and id
    fault: RoteError | None = None  # a value in it is none that Rote takes

    def request(self) -> Request:
        """Return the request; InvalidInput names what is wrong with it."""
        if self.fault is not None:
            raise self.fault
        members = dict(self.members)
        name = members.pop("type", None)
        kind = REQUESTS.get(name) if type(name) is str else None
        if kind is None:
            raise InvalidInput(
                f"type: there is no request {name!r:.80}; there are {', '.join(REQUESTS)}",
                argument="type",
            )
        del members["id"]
        unknown = sorted(members.keys() - set(kind.__struct_fields__))
        if unknown:
            known = ", ".join(kind.__struct_fields__) or "none"
            raise InvalidInput(
                f"{name} has no member {unknown[0]!r:.80}; there are {known}", argument=unknown[0]
            )
        try:
            made = msgspec.convert(members, kind)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"{name}: {error}") from None
        check_request(made)
        return made


def read_envelope(data: bytes) -> Envelope | None:
    """Return the id and the members of a request; None when it is no JSON object with a usable id."""
    try:
        plain = decode(data, size_bytes_max=MESSAGE_BYTES_MAX, depth_max=DEPTH_MAX + MESSAGE_LEVELS)
    except RoteError as error:
        id = _id_alone(data)
        return None if id is None else Envelope(id, {}, error)
    if type(plain) is not dict or not _is_id(plain.get("id")):
        return None
    return Envelope(plain["id"], plain)


class _OnlyId(Struct):
    id: Any


def _id_alone(data: bytes) -> int | None:
    """Return the id of a text that the strict decoder refuses; None when it has none."""
    try:
        found = msgspec.json.decode(data, type=_OnlyId).id
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return found if _is_id(found) else None


def _is_id(id: Any) -> bool:
    return type(id) is int and 1 <= id <= INTEGER_MAX


def encode_request(request: Request, id: int) -> bytes:
    """Return a request as it is sent; InvalidInput for what JSON cannot carry."""
    members = {name: _plain(part) for name, part in msgspec.structs.asdict(request).items()}
    return encode_members({"type": _TYPES[type(request)], "id": id, **members})


def _plain(part: Any) -> Any:
    return msgspec.structs.asdict(part) if isinstance(part, Mark) else part


def check_request(request: Request) -> None:
    """Raise for what types alone do not say."""
    match request:
        case OpenSession():
            _check_watches(request.watches)
            _check_mark("seen", request.seen)
        case SetWatches():
            _check_watches(request.watches)
            _check_mark("since", request.since)
        case AddWatches():
            _check_watches(request.watches)
        case Transact():
            _check_counts(local=request.local, basis=request.basis)
        case Abandon():
            _check_counts(local=request.local)
        case Ack():
            _check_counts(verdicts=request.verdicts, basis=request.basis, to=request.to)


def _check_watches(watches: dict[str, Any]) -> None:
    if len(watches) > SYNC_WATCHES_MAX:
        raise LimitExceeded("the watches of a session", size=len(watches), limit=SYNC_WATCHES_MAX)
    for name in watches:
        if not 0 < len(name.encode()) <= SYNC_WATCH_NAME_BYTES_MAX:
            raise InvalidInput(
                f"watches: a name has 1 to {SYNC_WATCH_NAME_BYTES_MAX} bytes", argument="watches"
            )


def _check_mark(name: str, mark: Mark | None) -> None:
    if mark is not None:
        _check_counts(**{name: mark.version})


def _check_counts(**counts: int | None) -> None:
    for name, count in counts.items():
        if count is not None and count < 0:
            raise InvalidInput(f"{name}: it is 0 or more", argument=name)


# -- answers and pushes ----------------------------------------------------------------------------


class Bounds(Struct, frozen=True):
    """Bounds of what a connection may have under way."""

    message_bytes: int
    calls: int
    transacts: int
    watches: int
    window: int  # steps that are sent before one is acknowledged


class Welcome(Struct, frozen=True):
    """The answer to hello."""

    protocol: str
    server: str  # its did: the audience of what is signed
    challenge: str
    expires: str  # when the challenge ends
    limits: Bounds


class Opened(Struct, frozen=True):
    """The answer to session.open."""

    space: str  # the did
    session: str | None
    token: str | None
    version: int  # the head
    resumed: bool = False
    decided: int = 0  # the last local that has a verdict
    verdicts: tuple[Verdict, ...] = ()  # that the client has not acknowledged, in local order


class Reached(Struct, frozen=True):
    """The answer to watch.*: all that the other watches had to say up to a version was sent."""

    version: int


class WatchPart(Struct, frozen=True, rename={"start": "from"}, omit_defaults=True):
    """The share of one watch in a part of a step."""

    start: int | None
    upserts: list[Annotated[int, Meta(ge=0)]]  # positions in the states of the part
    removes: list[str]
    truncated: Any = None


class Sync(Struct, frozen=True, tag="sync", tag_field="type"):
    """A part of a step: all watches go on to one version. It counts when its last part has come."""

    to: int
    hash: str | None
    at: int | None
    decided: int
    erased: int
    states: list[Raw]  # {branch, id, version, hash, value | deleted}
    watches: dict[str, WatchPart]
    more: bool


class Revoked(Struct, frozen=True, tag="revoked", tag_field="type"):
    """The session has ended; nothing comes after it."""

    reason: Literal["taken_over", "access", "expired"]


class Closing(Struct, frozen=True, tag="closing", tag_field="type"):
    """The server goes down, answers what it has read, and closes."""


class Answer(Struct, frozen=True):
    """The answer to a request: one of the two is there."""

    id: int
    ok: Raw = Raw(b"")
    error: Any = None


Push = Sync | Revoked | Closing
_encode = msgspec.json.Encoder().encode
_decode_push = msgspec.json.Decoder(Push).decode
_decode_answer = msgspec.json.Decoder(Answer).decode


class _Kind(Struct):
    type: str | None = None
    id: int | None = None


_decode_kind = msgspec.json.Decoder(_Kind).decode


def encode_ok(id: int, ok: Any) -> bytes:
    """Return the answer to a request; `ok` is plain data, a struct, or Raw bytes of JSON."""
    return _encode({"id": id, "ok": ok})


def encode_failure(id: int, error: RoteError) -> bytes:
    return _encode({"id": id, "error": error.to_dict()})


def encode_push(push: Push) -> bytes:
    return _encode(push)


def joined(parts: Sequence[Sync]) -> Sync:
    """Return the step that came in these parts as one."""
    last = parts[-1]
    if len(parts) == 1:
        return last
    states: list[Raw] = []
    watches: dict[str, WatchPart] = {}
    for part in parts:
        for name, told in part.watches.items():
            before = watches.get(name) or WatchPart(told.start, [], told.removes)
            shown = [*before.upserts, *(len(states) + place for place in told.upserts)]
            watches[name] = WatchPart(before.start, shown, before.removes, told.truncated)
        states += part.states
    return msgspec.structs.replace(last, states=states, watches=watches)


def decode_from_server(data: str | bytes) -> Answer | Push | None:
    """Return an answer or a push; None for a push that this client does not know.

    Unavailable for what is none of this protocol: the client can only try again.
    """
    try:
        kind = _decode_kind(data)
        if kind.id is not None:
            return _decode_answer(data)
        return _decode_push(data) if kind.type in ("sync", "revoked", "closing") else None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise unreadable(error) from None


def decode_ok(ok: Raw | bytes, kind: type[Made]) -> Made:
    """Return what the answer to a request says."""
    try:
        return msgspec.json.decode(ok, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise unreadable(error) from None


def failure_of(answer: Answer) -> RoteError:
    """Return the error that is the answer to a request."""
    try:
        return RoteError.from_dict(answer.error)
    except (KeyError, TypeError, AttributeError) as error:
        raise unreadable(error) from None


def unreadable(why: object) -> Unavailable:
    return Unavailable(f"the server's message is none of this protocol: {why}")
