"""Verdicts: what became of a commit, as a client is told it, and the errors that are a part of one."""

from typing import Any

from msgspec import Struct

from rote.contract import Commit
from rote.errors import (
    Conflict,
    Denied,
    InvalidInput,
    LimitExceeded,
    NotFound,
    PatchFailed,
    PayloadMismatch,
    RoteError,
    SessionRevoked,
    Withdrawn,
)
from rote.values import canonical
from rote.values.session_limits import VERDICT_ERROR_BYTES_MAX, VERDICT_TEXT_MAX

# Errors about the commit itself. All others decide nothing.
_FINAL = (
    Conflict,
    NotFound,
    PatchFailed,
    InvalidInput,
    LimitExceeded,
    PayloadMismatch,
    Denied,
    Withdrawn,
)


class Verdict(Struct, frozen=True):
    """The answer to one commit of a session: final, and durable before it is told."""

    local: int
    version: int  # of the commit; of a rejected one the head when it was decided
    error: dict[str, Any] | None = None  # as RoteError.to_dict tells it; None: accepted
    hash: str | None = None  # of the commit, with its time
    at: str | None = None
    commit: Commit | None = None  # None in the answer to an opening

    @property
    def is_accepted(self) -> bool:
        return self.error is None


def is_final(error: RoteError) -> bool:
    """Whether an error is the verdict on a commit; otherwise nothing was decided."""
    return isinstance(error, _FINAL) and not isinstance(error, SessionRevoked)


def stored_error(error: RoteError) -> dict[str, Any]:
    """Return an error as it is stored: in a bounded size, with the conflicts that do not fit counted."""
    told = error.to_dict()
    details = told["details"]
    conflicts = details.get("conflicts")
    if len(canonical(told)) <= VERDICT_ERROR_BYTES_MAX:
        return told
    if type(conflicts) is not list:
        return {**told, "message": told["message"][:VERDICT_TEXT_MAX], "details": {"more": 1}}
    room = VERDICT_ERROR_BYTES_MAX // 2  # the message names conflicts too
    kept = 0
    for conflict in conflicts:
        room -= len(canonical(conflict)) + 1
        if room < 0:
            break
        kept += 1
    shown = {**details, "conflicts": conflicts[:kept], "more": len(conflicts) - kept}
    return {**told, "message": told["message"][:VERDICT_TEXT_MAX], "details": shown}
