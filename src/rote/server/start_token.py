"""The start token: made anew at each start, or kept in a file that only its owner reads."""

import os
import re
from base64 import urlsafe_b64encode
from pathlib import Path

from rote.contract import IdSource
from rote.errors import InvalidInput, system_failure
from rote.server.settings import Settings

_SECRET_BYTES = 32
_ID_BYTES = 6
_is_token = re.compile(r"rote_[0-9a-f]{12}_[A-Za-z0-9_-]{43}").fullmatch
# A file with more is no file of a token.
_FILE_BYTES_MAX = 1_024
# The bits of a file's mode that let others than its owner at it.
_OF_OTHERS = 0o077


def start_token(settings: Settings, ids: IdSource) -> str | None:
    """Return the start token of a server; None where it has none."""
    if not settings.start_token or "token" not in settings.auth:
        return None
    if settings.token_file is None:
        return new_token(ids)
    try:
        return _in_file(settings.token_file, ids)
    except OSError as error:
        raise system_failure("the file of the token", error, settings.token_file) from None


def new_token(ids: IdSource) -> str:
    """Return a token: `rote_`, an id of 12 digits, and 32 random bytes."""
    secret = urlsafe_b64encode(ids.random_bytes(_SECRET_BYTES)).rstrip(b"=").decode()
    return f"rote_{ids.random_bytes(_ID_BYTES).hex()}_{secret}"


def _in_file(path: Path, ids: IdSource) -> str:
    """Return the token in a file; write a new one to a new file, or to one that is empty."""
    there = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(there, "r+b") as file:
        text = file.read(_FILE_BYTES_MAX).decode("ascii", "replace").strip()
        if text and os.fstat(there).st_mode & _OF_OTHERS:
            raise InvalidInput(f"others may use the token in {path}; run chmod 600 {path}")
        if not text:
            os.fchmod(there, 0o600)
            text = new_token(ids)
            file.write(text.encode() + b"\n")
    if not _is_token(text):
        raise InvalidInput(f"there is no token in {path}; name another file")
    return text
