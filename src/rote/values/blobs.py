"""Blobs in values: their hashes, the entities that describe them, and references to them.

A value refers to a blob by `{"$blob": "<hash>"}`. The member `$blob` alone makes an object a
reference; other members beside it do not matter.
"""

import re
from collections.abc import Iterator
from typing import Any, TypeGuard

from rote.errors import InvalidInput, LimitExceeded
from rote.values.limits import CONTENT_TYPE_CHARACTERS_MAX, LABEL_BYTES_MAX, LABELS_MAX
from rote.values.types import Json

REFERENCE = "$blob"
META_PREFIX = "urn:blob-meta:"
CONTENT_TYPE_DEFAULT = "application/octet-stream"

_hash = re.compile(r"[0-9a-f]{64}").fullmatch
# RFC 9110, section 8.3.1: two tokens, then parameters whose values are tokens or quoted.
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z\-]+"
_PARAMETER = rf'[ \t]*;[ \t]*{_TOKEN}=(?:{_TOKEN}|"(?:[\t !#-\[\]-~]|\\[\t !-~])*")'
_content_type = re.compile(rf"{_TOKEN}/{_TOKEN}(?:{_PARAMETER})*").fullmatch


def is_blob_hash(text: object) -> TypeGuard[str]:
    return type(text) is str and _hash(text) is not None


def check_blob_hash(text: Any) -> None:
    """Check that a hash is 64 hexadecimal digits in lower case."""
    if not is_blob_hash(text):
        raise InvalidInput(
            f"{text!r:.80} is not the hash of a blob; it is the SHA-256 of its bytes, 64 digits of"
            " 0-9 a-f"
        )


def check_content_type(text: Any) -> None:
    """Check for a media type like `image/png` or `text/plain; charset=utf-8`."""
    if type(text) is not str or not _content_type(text):
        raise InvalidInput(f"{text!r:.80} is not a content type; it looks like text/plain")
    if len(text) > CONTENT_TYPE_CHARACTERS_MAX:
        raise LimitExceeded(
            "the content type in characters", size=len(text), limit=CONTENT_TYPE_CHARACTERS_MAX
        )


def check_labels(labels: Any) -> None:
    """Check that labels are a list of texts, each of 1 to 200 bytes."""
    if type(labels) not in (list, tuple):
        raise InvalidInput("labels are a list of texts")
    if len(labels) > LABELS_MAX:
        raise LimitExceeded("the number of labels", size=len(labels), limit=LABELS_MAX)
    for label in labels:
        if type(label) is not str or not label:
            raise InvalidInput("a label is text and not empty")
        try:
            size = len(label.encode())
        except UnicodeEncodeError:
            raise InvalidInput("a label must not hold lone surrogates") from None
        if size > LABEL_BYTES_MAX:
            raise LimitExceeded("a label in bytes", size=size, limit=LABEL_BYTES_MAX)


def meta_id(hash: str) -> str:
    """Return the id of the entity that describes a blob."""
    return META_PREFIX + hash


def described_by(id: str) -> str | None:
    """Return the hash of the blob that an entity describes, None if it describes none."""
    hash = id.removeprefix(META_PREFIX)
    return hash if hash != id and is_blob_hash(hash) else None


def references(value: Json) -> Iterator[str]:
    """Yield the hash of every reference in a value; a hash comes once for each reference."""
    level = [value]
    while level:
        container = level.pop()
        if type(container) is dict:
            hash = container.get(REFERENCE)
            if is_blob_hash(hash):
                yield hash
            level += container.values()
        elif type(container) is list:
            level += container


def check_expected(expected: str | None, actual: str) -> None:
    """Refuse bytes that have another hash than was said."""
    if expected not in (None, actual):
        raise InvalidInput(
            f"the bytes have the hash {actual}, not {expected}; nothing was stored",
            expected=expected,
            actual=actual,
        )
