"""Side rows over the wire: which kinds callers may read and write, and in what form.

Rows of sessions, attempts and access are the server's own. A run, a lease, a receipt or a message must
be what the layer that owns it writes: an erasure, a compaction and the recovery of runs read them all,
and none of them may stumble over what a client has sent.
"""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from msgspec import Struct, ValidationError, convert

from rote.contract import Guard, SideRow
from rote.contract.operations import parse_operations
from rote.contract.reads import parse_reads
from rote.errors import Corrupt, Denied, InvalidInput
from rote.runs.identities import payload_fingerprint
from rote.runs.run_rows import (
    BUFFER_OPEN,
    COMMIT_ABORTED,
    COMMIT_APPLIED,
    COMMIT_PENDING,
    LEASE,
    RUN,
    Lease,
    PendingCommit,
    RunBody,
    pending_in,
)
from rote.server.ledgers import check_receipt
from rote.tiers.messages import KIND as MESSAGE
from rote.tiers.messages import Tries
from rote.values import Json, check_run_id, parse_time
from rote.values.limits import KEY_PREFIX_RESERVED

HIDDEN = frozenset({"session", "verdict", "attempt", "nonce", "grant", "scrub"})
_UNWRITABLE = HIDDEN | {"key", "checkpoint", "compaction", "delegation"}
_RECEIPT = "receipt"
_is_run_key = re.compile(r"rote:run:[0-9a-f]{64}").fullmatch
_is_receipt_key = re.compile(r"[0-9]{20}\.[0-9]{6}").fullmatch
# Where a run may go from a state; one that has ended stays.
_NEXT: dict[str | None, tuple[str, ...]] = {
    None: (BUFFER_OPEN,),
    BUFFER_OPEN: (BUFFER_OPEN, COMMIT_PENDING, COMMIT_APPLIED, COMMIT_ABORTED),
    COMMIT_PENDING: (COMMIT_PENDING, COMMIT_APPLIED, COMMIT_ABORTED),
}

Find = Callable[[str, str], SideRow | None]  # a row as it is, by kind and key


def _is_one_of(kind: Any, kinds: Collection[str]) -> bool:
    return type(kind) is str and kind in kinds  # what is no text, the kernel refuses


def check_readable(kind: Any) -> None:
    if _is_one_of(kind, HIDDEN):
        raise Denied(f"side rows of kind {kind!r} are the server's own")


def check_written(kind: Any, key: Any, body: Json, find: Find, *, is_stamped: bool = False) -> None:
    """Check a row that a caller writes; InvalidInput when its owner would not write it so.

    is_stamped  the commit adds its version and its time to the row
    """
    if _is_one_of(kind, _UNWRITABLE):
        raise Denied(f"side rows of kind {kind!r} are written by Rote alone")
    if kind == RUN:
        before = find(RUN, key) if type(key) is str and key else None
        _check_run(key, body, before, is_stamped=is_stamped)
        pending = pending_of(kind, body)
        if pending is not None:
            check_guards(pending[1].guards, find)  # recovery makes its commit, and asks nobody
    elif kind == LEASE:
        _typed(body, Lease, LEASE)
    elif kind == MESSAGE:
        _typed(body, Tries, MESSAGE)
    elif kind == _RECEIPT:
        if type(key) is not str or not _is_receipt_key(key):
            raise InvalidInput("a receipt has the key that add_receipt gives it")
        check_receipt(body)


def check_dropped(kind: Any) -> None:
    if _is_one_of(kind, _UNWRITABLE | {RUN}):
        raise Denied(f"side rows of kind {kind!r} are dropped by Rote alone")


def check_guards(guards: Sequence[Guard], find: Find) -> None:
    for guard in guards:
        if guard.kind == RUN and type(guard.body) is dict and guard.body.get("payload") is not None:
            # What a run will write is judged where its row is put.
            raise InvalidInput("a run becomes pending by put_side, not by a commit")
        if guard.drop:
            check_dropped(guard.kind)
        else:
            check_written(guard.kind, guard.key, guard.body, find, is_stamped=guard.stamped)


def check_reserved_key(key: Any, guards: Sequence[Guard]) -> None:
    """Refuse a key that is Rote's own, but for that of a run which the commit ends."""
    if type(key) is not str or not key.startswith(KEY_PREFIX_RESERVED):
        return
    if not _is_run_key(key) or not any(guard.kind == RUN for guard in guards):
        raise InvalidInput(f"keys that begin with {KEY_PREFIX_RESERVED!r} are for runs alone")


def pending_of(kind: Any, body: Json) -> tuple[RunBody, PendingCommit] | None:
    """Return a run of a checked row and the commit that it waits for; None for any other row."""
    if kind != RUN:
        return None
    run = convert(body, RunBody)
    pending = pending_in(run)
    return None if pending is None else (run, pending)


def _check_run(key: Any, body: Json, before: SideRow | None, *, is_stamped: bool) -> None:
    run = _typed(body, RunBody, RUN)
    check_run_id(run.run_id)
    if run.run_id != key:
        raise InvalidInput("the key of a run is its run_id")
    old = None if before is None else _typed(before.body, RunBody, RUN)
    if old is not None and (old.has_ended or not _is_same_run(old, run)):
        raise InvalidInput("a run that has ended stays as it is, and none becomes another")
    if run.state not in _NEXT.get(None if old is None else old.state, ()):
        raise InvalidInput(f"a run does not become {run.state!r:.40} from what it is")
    for time in (run.started_at, run.at):
        if time is not None:
            parse_time(time)
    has_ended = run.has_ended or is_stamped
    if (run.state == COMMIT_PENDING) != (run.payload is not None) or has_ended != _is_end(run):
        raise InvalidInput(f"a run that is {run.state} has not this payload or this end")
    _check_pending(run)


def _check_pending(run: RunBody) -> None:
    """Check that recovery can make the commit that a run waits for, or abort it."""
    try:
        pending = pending_in(run)
    except Corrupt as error:
        raise InvalidInput(f"the payload of the run is no pending commit: {error}") from None
    if pending is None:
        return
    parse_operations(pending.operations)
    parse_reads(pending.reads, run.branch)
    if payload_fingerprint(run.branch, pending.operations) != run.payload_fingerprint:
        raise InvalidInput("the run would write something else than its fingerprint says")


def _is_end(run: RunBody) -> bool:
    return run.discarded or run.state in (COMMIT_APPLIED, COMMIT_ABORTED)


def _is_same_run(old: RunBody, new: RunBody) -> bool:
    """Whether what a run began with is the same; its owner changes when another takes it over."""
    names = (
        "workflow_id", "policy_set_id", "mode", "validate", "branch", "memory_snapshot_id",
        "commit_id", "snapshot_version", "base_version", "now", "started_at", "replayed",
    )  # fmt: skip
    return all(getattr(old, name) == getattr(new, name) for name in names)


def _typed(body: Json, kind: type[Struct], name: str) -> Any:
    known = kind.__struct_fields__
    if type(body) is not dict or not body.keys() <= set(known):
        raise InvalidInput(f"a side row of kind {name!r} is an object with {', '.join(known)}")
    try:
        return convert(body, kind, strict=True)
    except ValidationError as error:
        raise InvalidInput(
            f"a side row of kind {name!r} is not what Rote writes: {error}"
        ) from None
