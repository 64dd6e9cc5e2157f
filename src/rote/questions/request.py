"""The request. Its parts are checked in a fixed order, so the same mistake gives the same error."""

import posixpath
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from rote.errors import InvalidInput
from rote.questions.instants import read_instant
from rote.questions.wording import normal_terms, normal_text, terms_of
from rote.values import micros_of
from rote.values.limits import (
    INTEGER_MAX,
    RETRIEVAL_QUERY_CHARACTERS_MAX,
    RETRIEVAL_STORES_MAX,
    RETRIEVAL_TERMS_MAX,
)

SPACE_SCHEME = "rote:"

_MAX_ITEMS_DEFAULT = 50
_HALF_LIFE_DAYS_DEFAULT = 30
_DENIED_DEFAULT = ("malicious",)


class Budget(Struct, frozen=True):
    """Bounds of the answer."""

    max_excerpt_tokens: int
    per_item_max_excerpt_tokens: int  # never more than the budget of all items
    max_items: int


class Scoring(Struct, frozen=True):
    """Parts of a score, and their weights."""

    enable_recency_weight: bool  # false also when the request has no time
    recency_half_life_days: int
    enable_tag_overlap: bool
    query_terms: tuple[str, ...]


class TrustFilter(Struct, frozen=True):
    """Classifications that exclude a memory, and the source of these classifications."""

    deny_classifications: tuple[str, ...]
    trust_snapshot_path: str | None


class Request(Struct, frozen=True):
    """A request with every default filled in."""

    query: str  # as the caller gave it
    normal_query: str
    store_paths: tuple[str, ...]  # in normal form, each once, in the order of reading
    budget: Budget
    scoring: Scoring
    trust_filter: TrustFilter
    now: int | None  # microseconds since the epoch


def parse_request(request: Any, *, has_store: bool) -> Request:
    """Return the checked request; raise InvalidInput for its first fault."""
    names = ("query", "store_paths", "budget", "scoring", "trust_filter", "now_utc")
    given = _section(request, "the request", "invalid_input", names)
    query = _query(given.get("query"))
    store_paths = _store_paths(given.get("store_paths"), has_store)
    budget = _budget(given.get("budget"))
    scoring = _scoring(given.get("scoring"), query)
    trust_filter = _trust_filter(given.get("trust_filter"))
    now = _now(given.get("now_utc"))
    if now is None and scoring.enable_recency_weight:
        scoring = Scoring(
            enable_recency_weight=False,
            recency_half_life_days=scoring.recency_half_life_days,
            enable_tag_overlap=scoring.enable_tag_overlap,
            query_terms=scoring.query_terms,
        )
    return Request(query, normal_text(query), store_paths, budget, scoring, trust_filter, now)


def _query(query: Any) -> str:
    code = "invalid_query"
    _check_text(query, "query", code)
    if not query.strip():
        raise InvalidInput("query must hold more than white space", code=code)
    if len(query) > RETRIEVAL_QUERY_CHARACTERS_MAX:
        most = f"{RETRIEVAL_QUERY_CHARACTERS_MAX:,}"
        raise InvalidInput(f"query may have at most {most} characters", code=code)
    assert type(query) is str
    return query


def _store_paths(paths: Any, has_store: bool) -> tuple[str, ...]:
    code = "invalid_store_paths"
    if type(paths) is not list or not 0 < len(paths) <= RETRIEVAL_STORES_MAX:
        raise InvalidInput(
            f"store_paths must be a list of 1 to {RETRIEVAL_STORES_MAX:,} paths", code=code
        )
    normal = set()
    for index, path in enumerate(paths):
        _check_text(path, f"store_paths[{index}]", code)
        if not path or "\0" in path:
            raise InvalidInput(
                f"store_paths[{index}] must not be empty nor hold a NUL", code=code, index=index
            )
        if path.startswith(SPACE_SCHEME):
            if not has_store:
                raise InvalidInput(
                    f"store_paths[{index}] names a space; say in which store it is: store=…",
                    code=code,
                    index=index,
                )
            normal.add(path)
        else:
            normal.add(_normal_path(path))
    return tuple(sorted(normal))


def _normal_path(path: str) -> str:
    """Return the normal form of a path, without a look at the file system.

    The normal form of a file never begins like the name of a space.
    """
    normal = posixpath.normpath(path)
    return f"./{normal}" if normal.startswith(SPACE_SCHEME) else normal


def _budget(budget: Any) -> Budget:
    code = "invalid_budget"
    names = ("max_excerpt_tokens", "per_item_max_excerpt_tokens", "max_items")
    given = _section(budget, "budget", code, names)
    whole = _positive(given, "budget.max_excerpt_tokens", code, None)
    item = _positive(given, "budget.per_item_max_excerpt_tokens", code, whole)
    items = _positive(given, "budget.max_items", code, _MAX_ITEMS_DEFAULT)
    return Budget(whole, min(item, whole), items)


def _scoring(scoring: Any, query: str) -> Scoring:
    code = "invalid_scoring"
    names = ("enable_recency_weight", "recency_half_life_days", "enable_tag_overlap", "query_terms")
    given = _section({} if scoring is None else scoring, "scoring", code, names)
    recency = _switch(given, "scoring.enable_recency_weight", False)
    half_life = _positive(given, "scoring.recency_half_life_days", code, _HALF_LIFE_DAYS_DEFAULT)
    tags = _switch(given, "scoring.enable_tag_overlap", True)
    terms = given.get("query_terms")
    if terms is None:
        return Scoring(recency, half_life, tags, terms_of(query))
    if type(terms) is not list or len(terms) > RETRIEVAL_TERMS_MAX:
        raise InvalidInput(
            f"scoring.query_terms must be a list of at most {RETRIEVAL_TERMS_MAX:,} terms",
            code=code,
        )
    for index, term in enumerate(terms):
        _check_text(term, f"scoring.query_terms[{index}]", code)
    return Scoring(recency, half_life, tags, normal_terms(terms))


def _trust_filter(trust_filter: Any) -> TrustFilter:
    code = "invalid_trust_filter"
    names = ("deny_classifications", "trust_snapshot_path")
    given = _section({} if trust_filter is None else trust_filter, "trust_filter", code, names)
    denied = given.get("deny_classifications")
    if denied is None:
        denied = list(_DENIED_DEFAULT)
    if type(denied) is not list or len(denied) > RETRIEVAL_TERMS_MAX:
        raise InvalidInput(
            "trust_filter.deny_classifications must be a list of at most"
            f" {RETRIEVAL_TERMS_MAX:,} texts",
            code=code,
        )
    for index, classification in enumerate(denied):
        _check_text(classification, f"trust_filter.deny_classifications[{index}]", code)
    path = given.get("trust_snapshot_path")
    if path is not None:
        _check_text(path, "trust_filter.trust_snapshot_path", code)
        if not path or "\0" in path:
            raise InvalidInput(
                "trust_filter.trust_snapshot_path must not be empty nor hold a NUL", code=code
            )
    return TrustFilter(tuple(dict.fromkeys(denied)), path)


def _now(now: Any) -> int | None:
    if now is None:
        return None
    if isinstance(now, datetime):
        return micros_of(now)
    instant = read_instant(now) if type(now) is str else None
    if instant is None:
        raise InvalidInput(
            "now_utc must be a time such as 2026-01-31T12:00:00Z", code="invalid_now_utc"
        )
    return instant


def _section(given: Any, name: str, code: str, keys: tuple[str, ...]) -> Mapping[str, Any]:
    """Return a section of the request; refuse unknown keys."""
    if type(given) is not dict:
        raise InvalidInput(f"{name} must be an object", code=code)
    for key in given:
        if key not in keys:
            raise InvalidInput(
                f"{name} has no {key!r:.80}; there are {', '.join(keys)}",
                code="invalid_input",
                key=str(key),
            )
    return given


def _positive(given: Mapping[str, Any], name: str, code: str, default: int | None) -> int:
    number = given.get(name.rpartition(".")[2])
    if number is None:
        number = default
    if type(number) is not int or not 0 < number <= INTEGER_MAX:
        raise InvalidInput(f"{name} must be an integer from 1 on", code=code, key=name)
    return number


def _switch(given: Mapping[str, Any], name: str, default: bool) -> bool:
    value = given.get(name.rpartition(".")[2])
    if value is None:
        return default
    if type(value) is not bool:
        raise InvalidInput(f"{name} must be true or false", code="invalid_scoring", key=name)
    return value


def _check_text(text: Any, name: str, code: str) -> None:
    if type(text) is not str:
        raise InvalidInput(f"{name} must be text", code=code)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{name} holds a lone surrogate", code=code) from None
