"""Rules for the names of entities, spaces, branches, writes and writers.

Each check returns nothing or raises InvalidInput, which says what to do. Entity ids are checked on
every operation, so a plain ASCII id costs one match.
"""

import re
from collections.abc import Iterable
from typing import Any

from rote.errors import InvalidInput
from rote.values.limits import (
    ATTEMPT_BYTES,
    AUTHOR_BYTES_MAX,
    BRANCH_NAME_CHARACTERS_MAX,
    ENTITY_ID_BYTES_MAX,
    KEY_BYTES_MAX,
    KEY_PREFIX_RESERVED,
    REASON_BYTES_MAX,
    RUN_ID_CHARACTERS_MAX,
    SPACE_NAME_CHARACTERS_MAX,
    TRACE_NAME_BYTES_MAX,
)

# RFC 3986 section 3.1, then at least one character, the last of which is not `*`.
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*:"
_id_ascii = re.compile(_SCHEME + r"[!-~]*[!-)+-~]").fullmatch
_id_any = re.compile(_SCHEME + r"[^\s\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f*]").fullmatch
_space_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]*").fullmatch
_branch_name = re.compile(r"[A-Za-z0-9_\-](?:[A-Za-z0-9._/\-]*[A-Za-z0-9_\-])?").fullmatch
_attempt = re.compile(rf"[0-9a-f]{{{2 * ATTEMPT_BYTES}}}").fullmatch
_run_id = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9._\-]*").fullmatch

# Names that an error lists.
_NAMES_TOLD = 10


def check_entity_id(text: Any) -> None:
    """Check for an absolute URI of at most 1,024 bytes, without spaces and control characters."""
    if type(text) is str and len(text) <= ENTITY_ID_BYTES_MAX and _id_ascii(text):
        return
    _check_bytes(text, "an entity id", ENTITY_ID_BYTES_MAX)
    if not _id_any(text):
        raise InvalidInput(_entity_advice(text), id=text)


def check_space_name(text: Any) -> None:
    """Check for 1 to 100 letters, digits, `.`, `_` and `-`, starting with a letter or digit."""
    _check_text(text, "a space name")
    if len(text) > SPACE_NAME_CHARACTERS_MAX or not _space_name(text):
        raise InvalidInput(
            f"{text!r:.120} is not a space name; use 1 to {SPACE_NAME_CHARACTERS_MAX} characters "
            "of A-Z a-z 0-9 . _ - and start with a letter or digit",
        )


def check_branch_name(text: Any) -> None:
    """Check for 1 to 200 letters, digits, `.`, `_`, `/` and `-`, with no `/` or `.` at an end."""
    _check_text(text, "a branch name")
    if len(text) > BRANCH_NAME_CHARACTERS_MAX or not _branch_name(text):
        raise InvalidInput(
            f"{text!r:.220} is not a branch name; use 1 to {BRANCH_NAME_CHARACTERS_MAX} characters "
            "of A-Z a-z 0-9 . _ / - and neither start nor end with / or .",
        )


def check_key(text: Any, *, reserved_allowed: bool = False) -> None:
    """Check for an idempotency key of 1 to 200 bytes; the prefix `rote:` is for Rote itself."""
    _check_bytes(text, "a key", KEY_BYTES_MAX)
    _check_no_nul(text, "a key")
    if text.startswith(KEY_PREFIX_RESERVED) and not reserved_allowed:
        raise InvalidInput(
            f"the key {text!r} starts with {KEY_PREFIX_RESERVED!r}, which is reserved; "
            "use another prefix",
        )


def check_attempt(text: Any) -> None:
    """Check for the name of one try to write: 16 random bytes as 32 hex digits."""
    if type(text) is not str or not _attempt(text):
        raise InvalidInput("an attempt is 16 random bytes, as 32 of 0-9 a-f", argument="attempt")


def check_prefix(prefix: Any, what: str = "prefix") -> None:
    """Check for a prefix of ids. `*` is for queries; here it would be a part of the ids."""
    check_text(prefix, what)
    if prefix.endswith("*"):
        raise InvalidInput(
            f"{what}: a prefix is plain text here; leave out the * at the end of {prefix!r:.80}"
        )


def check_author(text: Any) -> None:
    """Check for the name of a writer: 1 to 1,024 bytes of text."""
    _check_bytes(text, "an author", AUTHOR_BYTES_MAX)
    _check_no_nul(text, "an author")


def check_reason(text: Any) -> None:
    """Check for the reason of an erasure: 1 to 1,024 bytes of text that is not blank."""
    _check_bytes(text, "a reason", REASON_BYTES_MAX)
    if text.isspace():
        raise InvalidInput("a reason must not be blank")
    _check_no_nul(text, "a reason")


def check_run_id(text: Any) -> None:
    """Check for 1 to 100 letters, digits, `.`, `_` and `-`, not starting with `.`.

    A run id is also the name of a folder.
    """
    _check_text(text, "a run id")
    if len(text) > RUN_ID_CHARACTERS_MAX or not _run_id(text):
        raise InvalidInput(
            f"{text!r:.120} is not a run id; use 1 to {RUN_ID_CHARACTERS_MAX} characters "
            "of A-Z a-z 0-9 . _ - and do not start with .",
        )


def check_trace_name(text: Any, what: str) -> None:
    """Check for a name in a trace: 1 to 1,024 bytes of text."""
    _check_bytes(text, what, TRACE_NAME_BYTES_MAX)


def told(names: Iterable[str]) -> str:
    """Return a text that lists names, for an error about a name that is not among them."""
    every = list(names)
    shown = ", ".join(every[:_NAMES_TOLD])
    more = f" and {len(every) - _NAMES_TOLD:,} more" if len(every) > _NAMES_TOLD else ""
    return f"there {'is' if len(every) == 1 else 'are'} {shown or 'none'}{more}"


def _check_text(text: Any, what: str) -> None:
    if type(text) is not str:
        raise InvalidInput(f"{what} must be str, not {type(text).__qualname__}")


def _check_bytes(text: Any, what: str, size_bytes_max: int) -> None:
    _check_text(text, what)
    if not text:
        raise InvalidInput(f"{what} must not be empty")
    try:
        size = len(text) if len(text) > size_bytes_max else len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} must not hold lone surrogates") from None
    if size > size_bytes_max:
        raise InvalidInput(
            f"{what} may have {size_bytes_max} bytes of UTF-8; shorten {text[:40]!r}…"
        )


def _check_no_nul(text: str, what: str) -> None:
    # PostgreSQL cannot hold NUL in text.
    if "\0" in text:
        raise InvalidInput(f"{what} must not hold NUL characters")


def _entity_advice(text: str) -> str:
    if text.endswith("*"):
        return f"the entity id {text!r} ends in '*', which means a prefix; drop the '*'"
    if re.match(_SCHEME, text):
        return (
            f"the entity id {text!r} has a space, a control character or nothing after the colon; "
            "percent-encode them"
        )
    suggestion = re.sub(r"[^A-Za-z0-9._~-]+", "-", text).strip("-") or "name"
    return f"{text!r} is not an absolute URI; try 'urn:entity:{suggestion}'"


# A digest as lowercase hex.
is_sha256 = re.compile(r"[0-9a-f]{64}").fullmatch


def check_text(text: object, what: str) -> None:
    if type(text) is not str:
        raise InvalidInput(f"{what} must be text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} holds a lone surrogate") from None
