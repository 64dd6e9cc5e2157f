"""Questions of retrievals, in their normal form. Pure. Frozen: hashes depend on the form."""

from rote.questions.instants import NO_INSTANT, NormalTimes, read_column
from rote.questions.request import (
    SPACE_SCHEME,
    Budget,
    Request,
    Scoring,
    TrustFilter,
    parse_request,
)
from rote.questions.wording import NormalTags

__all__ = [
    "NO_INSTANT",
    "SPACE_SCHEME",
    "Budget",
    "NormalTags",
    "NormalTimes",
    "Request",
    "Scoring",
    "TrustFilter",
    "parse_request",
    "read_column",
]
