"""Every error Rote raises, in one tree, ordered by who must act.

    RoteError
    ├── InvalidInput          the caller: send something else
    │   ├── InvalidValue        a value outside the value domain; names the JSON pointer
    │   └── PatchFailed         a patch that does not apply; names the operation
    ├── NotFound              the caller: it is not there
    │   ├── VersionNotFound     a version above the log
    │   ├── Compacted           a version below the compaction line
    │   └── SessionExpired      a session that the store does not know any more
    ├── Conflict              the caller: read again and decide again
    │   └── DependencyRejected  it has seen an own commit that was rejected
    ├── PayloadMismatch       the caller: this key already stands for something else
    ├── Withdrawn             the caller: it was taken back before it was decided
    ├── RunAborted            the caller: the run did not commit
    ├── RecordedError         the caller: it failed when it was recorded
    ├── LimitExceeded         the caller: make it smaller
    ├── Denied                the caller: ask for the right
    │   └── SessionRevoked
    ├── Unavailable           the operator: the store cannot answer now
    │   └── Busy                try again, others are writing
    ├── Corrupt               the operator: stored bytes are not what was written
    │   └── Diverged            a session has seen what the store does not have
    └── InternalError         us: a bug in Rote

Codes are frozen: programs branch on them. Messages are for people and say what to do.
"""

import builtins
import errno
import re
from dataclasses import asdict, dataclass
from typing import Any, Self


class RoteError(Exception):
    """The root: catch it to catch everything Rote raises."""

    code: str = "rote_error"

    def __init__(self, message: str, *, code: str | None = None, **details: Any) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        # JSON-safe facts about the failure, for programs.
        self.details: dict[str, Any] = _sendable(details)

    def __init_subclass__(cls) -> None:
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process boundaries (multiprocessing, the server), so all fields travel.
        return _restore, (type(self), str(self), self.__dict__)

    def to_dict(self) -> dict[str, Any]:
        return {"code": self.code, "message": str(self), "details": self.details}

    @staticmethod
    def from_dict(told: dict[str, Any]) -> "RoteError":
        """Return the error that `to_dict` told of; one of an unknown code is a RoteError.

        A member `type` with the name of a class decides over the code.
        """
        code, message, details = told["code"], told["message"], told["details"]
        if code == RecordedError.code:
            return RecordedError.of(details["type"], message)
        fields: dict[str, Any] = {"code": code, "details": details}
        kind = _class_named(told.get("type")) or _class_of(code)
        if issubclass(kind, Conflict | RunAborted):
            names, listed = ReadConflict.__slots__, details["conflicts"]
            fields["conflicts"] = tuple(
                ReadConflict(**{name: conflict[name] for name in names})
                for conflict in (listed if type(listed) is list else ())  # they may be redacted
            )
        if issubclass(kind, RunAborted):
            fields["reason_code"] = details["reason_code"]
        if issubclass(kind, DependencyRejected):
            fields["local"] = details["local"]
        return _restore(kind, message, fields)


def _sendable(part: Any) -> Any:
    """Return details in a form that JSON can hold; texts from callers may hold lone surrogates.

    Only our own code nests details, so no input makes this recurse deeply.
    """
    if isinstance(part, str):
        return part.encode("utf-8", "backslashreplace").decode()
    if isinstance(part, dict):
        return {_sendable(name): _sendable(inner) for name, inner in part.items()}
    if isinstance(part, (list, tuple)):
        return [_sendable(inner) for inner in part]
    return part


def _restore(kind: type[RoteError], message: str, fields: dict[str, Any]) -> RoteError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error


class InvalidInput(RoteError):
    """The call is malformed; nothing was stored."""


class InvalidValue(InvalidInput):
    """A value outside the value domain."""

    def __init__(self, reason: str, *, pointer: str = "", is_text: bool = False) -> None:
        # Text that is no JSON has no value to point into.
        place = f"at {pointer}" if pointer else "at the top of the value"
        message = reason if is_text else f"not a storable value {place}: {reason}"
        super().__init__(message, pointer=pointer, reason=reason)

    def within(self, prefix: str) -> Self:
        """Return the same error with a longer pointer, for a value around this one."""
        return type(self)(self.details["reason"], pointer=prefix + self.details["pointer"])


class PatchFailed(InvalidInput):
    """A patch that is malformed or does not apply to the value at hand."""

    def __init__(self, reason: str, *, index: int, pointer: str = "") -> None:
        place = f" at {pointer}" if pointer else ""
        super().__init__(
            f"patch operation {index}{place} does not apply: {reason}",
            index=index,
            pointer=pointer,
            reason=reason,
        )


class NotFound(RoteError):
    """The caller named something that does not exist."""


class VersionNotFound(NotFound):
    """A version above the log."""

    def __init__(self, version: int, *, newest: int) -> None:
        super().__init__(
            f"version {version} does not exist; the newest is {newest}",
            version=version,
            newest=newest,
        )


class Compacted(NotFound):
    """A version whose history was compacted away."""

    def __init__(self, version: int, *, oldest: int, at: str | None = None) -> None:
        what = f"version {version}" if at is None else f"the state of {at}"
        super().__init__(
            f"{what} was compacted away; what can be read begins with version {oldest}",
            version=version,
            oldest=oldest,
        )


class SessionExpired(NotFound):
    """A session that the store does not know, or not any more; open another one."""


@dataclass(frozen=True, slots=True)
class ReadConflict:
    """One read of a commit that no longer holds; fields of the other kinds of read are None."""

    id: str | None  # the entity that was read
    prefix: str | None  # the id prefix that was read
    start: str | None  # the id range that was read, half open
    end: str | None
    branch: str  # the branch whose line was read
    expected_version: int  # the version the reader saw
    actual_version: int  # the newest overlapping write
    actual_hash: str | None  # its fact's hash

    @classmethod
    def of_entity(
        cls, id: str, *, branch: str, expected_version: int, actual: tuple[int, str | None]
    ) -> "ReadConflict":
        return cls(id, None, None, None, branch, expected_version, *actual)

    @classmethod
    def of_range(
        cls,
        start: str | None,
        end: str | None,
        *,
        branch: str,
        expected_version: int,
        actual: tuple[int, str | None],
    ) -> "ReadConflict":
        return cls(None, None, start, end, branch, expected_version, *actual)

    def __str__(self) -> str:
        if self.id is not None:
            what = self.id
        elif self.prefix is not None:
            what = f"ids that begin with {self.prefix!r}"
        elif self.end is not None:
            what = f"ids from {self.start!r} to below {self.end!r}"
        else:
            what = f"ids from {self.start!r} on"
        return f"{what} (read at {self.expected_version}, written at {self.actual_version})"


class Conflict(RoteError):
    """Data that the commit read has changed since; nothing was written."""

    def __init__(self, conflicts: tuple[ReadConflict, ...]) -> None:
        shown = ", ".join(str(conflict) for conflict in conflicts[:3])
        more = f" and {len(conflicts) - 3} more" if len(conflicts) > 3 else ""
        super().__init__(
            f"changed since it was read: {shown}{more}; read again and retry",
            conflicts=[asdict(conflict) for conflict in conflicts],
        )
        self.conflicts = conflicts


class DependencyRejected(Conflict):
    """A commit of a session has seen an earlier one of its own that was rejected; nothing was written."""

    def __init__(self, local: int) -> None:
        RoteError.__init__(
            self,
            f"it relies on commit {local} of this session, which was rejected; read again and retry",
            local=local,
            conflicts=[],
        )
        self.local = local
        self.conflicts = ()


class PayloadMismatch(RoteError):
    """A key, or an attempt, that was used before, for something else."""

    def __init__(
        self, key: str, *, version: int, kind: str = "key", message: str | None = None
    ) -> None:
        super().__init__(
            message
            or f"{kind} {key!r} already stands for other operations (version {version});"
            f" repeat exactly those, or take a new {kind} for a new write",
            version=version,
            **{kind: key},
        )


class Withdrawn(RoteError):
    """A commit of a session was taken back before it was decided; it never applies."""


class RunAborted(RoteError):
    """A run ended without applying its writes."""

    def __init__(
        self, reason_code: str, *, message: str, conflicts: tuple[ReadConflict, ...] = ()
    ) -> None:
        super().__init__(
            message,
            reason_code=reason_code,
            conflicts=[asdict(conflict) for conflict in conflicts],
        )
        self.reason_code = reason_code
        self.conflicts = conflicts


class RecordedError(RoteError):
    """A call of a run failed when it was recorded, so its replay fails too.

    A recorded built-in error is raised as an error that is that built-in too, so a program that
    caught a ValueError catches one in the replay. If the built-in needs more than a message, the
    nearest base that needs only a message takes its place. `details["type"]` has the name of the
    error that was recorded.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message, type=kind)
        self._message = message

    def __str__(self) -> str:
        # Some built-in errors show another text than their message.
        return self._message

    def __reduce__(self) -> tuple[Any, ...]:
        return RecordedError.of, (self.details["type"], self._message)

    @staticmethod
    def of(kind: str, message: str) -> "RecordedError":
        """Return the error for a recorded name and message."""
        builtin = getattr(builtins, kind, None)
        if isinstance(builtin, type) and issubclass(builtin, Exception):
            for base in builtin.__mro__[: builtin.__mro__.index(Exception)]:
                both: type[RecordedError] = type(RecordedError.__name__, (RecordedError, base), {})
                try:
                    return both(kind, message)
                except (TypeError, ValueError):  # a few built-in errors need more than a message
                    continue
        return RecordedError(kind, message)


class LimitExceeded(RoteError):
    """The input is larger than Rote accepts."""

    def __init__(
        self, what: str, *, size: int, limit: int, advice: str = "make it smaller"
    ) -> None:
        super().__init__(
            f"{what} is {size:,}, the limit is {limit:,}; {advice}",
            what=what,
            size=size,
            limit=limit,
        )


class Denied(RoteError):
    """The caller lacks the right, or no longer owns what it is writing for."""


class SessionRevoked(Denied):
    """The session was taken over or its token is stale."""


class Unavailable(RoteError):
    """The store cannot answer now; nothing is known to be wrong with the data."""


class Busy(Unavailable):
    """Others hold the store for longer than the caller is willing to wait."""


class Corrupt(RoteError):
    """Stored bytes are not what was written; `rote verify` tells more."""


class Diverged(Corrupt):
    """A session has seen a commit that the log does not have: the store was restored or rewritten."""


class InternalError(RoteError):
    """A bug in Rote."""


def disk_full(what: str, path: object) -> Unavailable:
    """Return the error for a write that found no room, and left nothing behind."""
    return Unavailable(
        f"{what}: the disk is full; free some space and try again",
        code="disk_full",
        path=str(path),
        outcome="not_written",
    )


def system_failure(what: str, error: OSError, path: object) -> Unavailable:
    """Return the error for a call of the system that failed."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(what, path)
    return Unavailable(f"{what}: {error.strerror or error}", path=str(path))


def invariant(condition: object, message: str) -> None:
    """Raise InternalError unless `condition` holds; stays on in production."""
    if not condition:
        raise InternalError(f"{message}; this is a bug in Rote, please report it")


# Every code that is finer than its class: an error that came as bytes gets its class by its code. Some
# are of servers and of sessions.
FINER_CODES: dict[str, type[RoteError]] = {
    "adapter_denied": Denied,
    "adapter_not_configured": Denied,
    "bad_arguments": InvalidInput,
    "bad_envelope": InvalidInput,
    "bad_path": InvalidInput,
    "cancelled": Unavailable,
    "disk_full": Unavailable,
    "expectation": InvalidInput,
    "extension_denied": Denied,
    "file_in_the_way": InvalidInput,
    "grant_denied": Denied,
    "headers": InvalidInput,
    "host": InvalidInput,
    "invalid_budget": InvalidInput,
    "invalid_embedding": InvalidInput,
    "invalid_filters": InvalidInput,
    "invalid_now_utc": InvalidInput,
    "invalid_policy": InvalidInput,
    "invalid_query": InvalidInput,
    "invalid_scoring": InvalidInput,
    "invalid_store_paths": InvalidInput,
    "invalid_trust_filter": InvalidInput,
    "lease_lost": Denied,
    "media_type": InvalidInput,
    "method": InvalidInput,
    "no_file_name": InvalidInput,
    "no_result": NotFound,
    "no_task": NotFound,
    "not_a_file": InvalidInput,
    "not_a_folder": InvalidInput,
    "not_dead": Denied,
    "not_plain": Denied,
    "not_remote": Denied,
    "not_text": InvalidInput,
    "one_statement": InvalidInput,
    "origin": Denied,
    "out_of_order": InvalidInput,
    "out_of_turn": InvalidInput,
    "outside_sandbox": Denied,
    "overloaded": Unavailable,
    "range": InvalidInput,
    "record_is_newer": InvalidInput,
    "replay_differs": InvalidInput,
    "reserved_id": Denied,
    "reserved_name": Denied,
    "returns_rows": InvalidInput,
    "settled": Denied,
    "sql_denied": Denied,
    "sql_failed": InvalidInput,
    "stopping": Unavailable,
    "store_not_a_file": InvalidInput,
    "store_not_found": NotFound,
    "timeout": Unavailable,
    "too_many_requests": Unavailable,
    "trust_snapshot_invalid": InvalidInput,
    "trust_snapshot_not_found": NotFound,
    "unauthenticated": Denied,
    "unknown_adapter": InvalidInput,
    "unknown_profile": InvalidInput,
    "unknown_verb": InvalidInput,
    "unsupported_protocol": InvalidInput,
    "uri": InvalidInput,
    "verb_denied": Denied,
    "verdict_gone": InvalidInput,
}


def public_class(error: RoteError) -> type[RoteError]:
    """Return the class of an error; of one that a part of Rote made for itself, the class above."""
    return next(kind for kind in type(error).__mro__ if kind.__module__ == __name__)


def _class_named(name: object) -> type[RoteError] | None:
    kind = globals().get(name) if type(name) is str else None
    return kind if isinstance(kind, type) and issubclass(kind, RoteError) else None


def _class_of(code: str) -> type[RoteError]:
    if code in FINER_CODES:
        return FINER_CODES[code]
    waiting = [RoteError]
    while waiting:
        kind = waiting.pop()
        # Subclasses elsewhere have the codes of these: driver errors and turns of the kernel.
        if kind.__module__ == __name__ and kind.code == code:
            return kind
        waiting += kind.__subclasses__()
    return RoteError
