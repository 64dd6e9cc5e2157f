"""The errors that are a part of verdicts, and how they are stored."""

from typing import Any

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
