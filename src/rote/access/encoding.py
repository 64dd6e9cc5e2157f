"""base64url without padding (RFC 4648 section 5), in its one spelling."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from rote.errors import InvalidInput

_is_base64url = re.compile(r"[A-Za-z0-9_-]*").fullmatch


def to_base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: Any) -> bytes:
    """Return the bytes of a text; InvalidInput unless it is the text that `to_base64url` makes."""
    if type(text) is str and len(text) % 4 != 1 and _is_base64url(text):
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if to_base64url(data) == text:
            return data
    raise InvalidInput("not base64url without padding")
