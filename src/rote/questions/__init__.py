"""Questions of retrievals, in their normal form. Pure. Frozen: hashes depend on the form."""

from rote.questions.filters import NO_FILTERS, Filters
from rote.questions.instants import NO_INSTANT, NormalTimes, normal_time, read_column
from rote.questions.request import (
    ENGLISH,
    HYBRID,
    LANGUAGES,
    LEXICAL,
    NO_LANGUAGE,
    PHASE6,
    POLICIES,
    SPACE_SCHEME,
    Budget,
    Request,
    Scoring,
    TrustFilter,
    parse_request,
)
from rote.questions.wording import NormalTags, normal_text

__all__ = [
    "ENGLISH",
    "HYBRID",
    "LANGUAGES",
    "LEXICAL",
    "NO_FILTERS",
    "NO_INSTANT",
    "NO_LANGUAGE",
    "PHASE6",
    "POLICIES",
    "SPACE_SCHEME",
    "Budget",
    "Filters",
    "NormalTags",
    "NormalTimes",
    "Request",
    "Scoring",
    "TrustFilter",
    "normal_text",
    "normal_time",
    "parse_request",
    "read_column",
]
