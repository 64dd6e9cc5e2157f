"""Errors as answers of HTTP: the status of each, and its bytes."""

from rote.contract.wire import encode_error
from rote.errors import (
    Compacted,
    Conflict,
    Corrupt,
    Denied,
    InternalError,
    InvalidInput,
    LimitExceeded,
    NotFound,
    PatchFailed,
    PayloadMismatch,
    RecordedError,
    RoteError,
    RunAborted,
    Unavailable,
)
from rote.server.messages import Headers, Response

JSON = (b"content-type", b"application/json")
NDJSON = b"application/x-ndjson"
NOT_CACHED = (b"cache-control", b"private, no-cache")
EVERY_ANSWER: Headers = ((b"x-content-type-options", b"nosniff"),)

_CODES = {
    "unauthenticated": 401,
    "method": 405,
    "timeout": 408,
    "uri": 414,
    "media_type": 415,
    "range": 416,
    "expectation": 417,
    "host": 421,
    "too_many_requests": 429,
    "headers": 431,
}
_CLASSES: dict[type[RoteError], int] = {
    PatchFailed: 422,
    InvalidInput: 400,
    RecordedError: 400,
    Denied: 403,
    Compacted: 410,
    NotFound: 404,
    Conflict: 409,
    RunAborted: 409,
    LimitExceeded: 413,
    PayloadMismatch: 422,
    Unavailable: 503,
    Corrupt: 500,
    InternalError: 500,
    RoteError: 500,
}
_MORE_HEADERS: dict[int, Headers] = {
    401: ((b"www-authenticate", b'Bearer realm="rote"'),),
    429: ((b"retry-after", b"1"),),
    503: ((b"retry-after", b"1"),),
}


def status_of(error: RoteError) -> int:
    known = _CODES.get(error.code)
    if known is not None:
        return known
    return next(_CLASSES[kind] for kind in type(error).__mro__ if kind in _CLASSES)


def error_response(
    error: RoteError, *, status: int | None = None, headers: Headers = ()
) -> Response:
    """Return the answer that tells of an error."""
    status = status_of(error) if status is None else status
    more = _MORE_HEADERS.get(status, ())
    if status == 405:
        more = ((b"allow", ", ".join(error.details["allow"]).encode()),)
    return Response(status, (JSON, *more, *headers), encode_error(error))
