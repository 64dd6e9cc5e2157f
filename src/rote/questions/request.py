"""The request. Its parts are checked in a fixed order, so the same mistake gives the same error."""

import posixpath
from collections.abc import Collection, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rote.errors import InvalidInput
from rote.questions.filters import Filters, parse_filters
from rote.questions.members import check_text, decimal, moment, positive, section, switch, texts
from rote.questions.wording import normal_terms, normal_text, terms_of
from rote.values.limits import RETRIEVAL_QUERY_CHARACTERS_MAX, RETRIEVAL_STORES_MAX

SPACE_SCHEME = "rote:"

PHASE6: Final = "phase6-v1"
LEXICAL: Final = "lexical-1"
HYBRID: Final = "hybrid-1"
POLICIES: Final = (PHASE6, LEXICAL, HYBRID)
ENGLISH: Final = "english"
NO_LANGUAGE: Final = "none"
LANGUAGES: Final = (ENGLISH, NO_LANGUAGE)

_MAX_ITEMS_DEFAULT = 50
# Of the policies of ranking; the seed's allows the whole budget.
_ITEM_TOKENS_DEFAULT = 256
_HALF_LIFE_DAYS_DEFAULT = 30
_DENIED_DEFAULT = ("malicious",)
_SCORING_CODE = "invalid_scoring"


class Budget(Struct, frozen=True):
    """Bounds of the answer."""

    max_excerpt_tokens: int
    per_item_max_excerpt_tokens: int  # never more than the budget of all items
    max_items: int


class Scoring(Struct, frozen=True):
    """Parts of a score, and their weights."""

    enable_recency_weight: bool  # false also when the request has no time
    recency_half_life_days: int
    query_terms: tuple[str, ...]  # of the seed: terms; of ranking: texts that are analysed
    enable_tag_overlap: bool = True  # of the seed alone, what follows of ranking alone
    language: str = ENGLISH
    context: bool = True
    min_score: int = 0  # millionths
    min_share: int = 0  # of the best score, thousandths
    drop_duplicates: bool = True


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
    policy: str = PHASE6
    filters: Filters = Filters()


def parse_request(
    request: Any, *, has_store: bool, policies: Collection[str] = (PHASE6,)
) -> Request:
    """Return the checked request; raise InvalidInput for its first fault.

    `policies` are those that the caller can answer by.
    """
    policy = _policy(request, policies)
    names = ("query", "store_paths", "budget", "scoring", "trust_filter", "now_utc")
    more = ("policy",) if policy == PHASE6 else ("policy", "filters")
    given = section(request, "the request", "invalid_input", (*names, *more))
    query = _query(given.get("query"))
    store_paths = _store_paths(given.get("store_paths"), has_store)
    budget = _budget(given.get("budget"), None if policy == PHASE6 else _ITEM_TOKENS_DEFAULT)
    scoring = (_scoring if policy == PHASE6 else _ranking)(given.get("scoring"), query)
    filters = parse_filters(given.get("filters"))
    trust_filter = _trust_filter(given.get("trust_filter"))
    now = moment(given, "now_utc", "invalid_now_utc")
    if now is None and scoring.enable_recency_weight:
        scoring = replace(scoring, enable_recency_weight=False)
    return Request(
        query, normal_text(query), store_paths, budget, scoring, trust_filter, now, policy, filters
    )


def _policy(request: Any, policies: Collection[str]) -> str:
    policy = request.get("policy") if type(request) is dict else None
    if policy is None:
        return PHASE6
    if policy == HYBRID and HYBRID not in policies:
        raise InvalidInput(
            f"{HYBRID} compares vectors; say who makes them: embedder=…", code="invalid_policy"
        )
    if type(policy) is not str or policy not in policies:
        raise InvalidInput(
            f"there is no policy {policy!r:.80}; there are {', '.join(POLICIES)}",
            code="invalid_policy",
        )
    return policy


def _query(query: Any) -> str:
    code = "invalid_query"
    check_text(query, "query", code)
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
        check_text(path, f"store_paths[{index}]", code)
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


def _budget(budget: Any, item_default: int | None) -> Budget:
    code = "invalid_budget"
    names = ("max_excerpt_tokens", "per_item_max_excerpt_tokens", "max_items")
    given = section(budget, "budget", code, names)
    whole = positive(given, "budget.max_excerpt_tokens", code, None)
    item = positive(given, "budget.per_item_max_excerpt_tokens", code, item_default or whole)
    items = positive(given, "budget.max_items", code, _MAX_ITEMS_DEFAULT)
    return Budget(whole, min(item, whole), items)


def _scoring(scoring: Any, query: str) -> Scoring:
    names = ("enable_recency_weight", "recency_half_life_days", "enable_tag_overlap", "query_terms")
    given, recency, half_life = _recency(scoring, names)
    tags = switch(given, "scoring.enable_tag_overlap", True)
    terms = texts(given, "scoring.query_terms", _SCORING_CODE)
    return Scoring(
        recency, half_life, terms_of(query) if terms is None else normal_terms(terms), tags
    )


def _ranking(scoring: Any, query: str) -> Scoring:
    """Return the scoring of a policy of ranking."""
    names = (
        "query_terms", "language", "context", "min_score", "min_share", "drop_duplicates",
        "enable_recency_weight", "recency_half_life_days",
    )  # fmt: skip
    code = _SCORING_CODE
    given, recency, half_life = _recency(scoring, names)
    terms = texts(given, "scoring.query_terms", code)
    language = given.get("language")
    if language is not None and (type(language) is not str or language not in LANGUAGES):
        raise InvalidInput(f"scoring.language must be one of {', '.join(LANGUAGES)}", code=code)
    return Scoring(
        recency,
        half_life,
        (query,) if terms is None else tuple(terms),
        language=language or ENGLISH,
        context=switch(given, "scoring.context", True),
        min_score=decimal(given, "scoring.min_score", code, most=1_000_000, decimals=6),
        min_share=decimal(given, "scoring.min_share", code, most=1, decimals=3),
        drop_duplicates=switch(given, "scoring.drop_duplicates", True),
    )


def _recency(scoring: Any, names: tuple[str, ...]) -> tuple[Mapping[str, Any], bool, int]:
    """Return the section, whether recency counts, and its half life."""
    given = section({} if scoring is None else scoring, "scoring", _SCORING_CODE, names)
    return (
        given,
        switch(given, "scoring.enable_recency_weight", False),
        positive(given, "scoring.recency_half_life_days", _SCORING_CODE, _HALF_LIFE_DAYS_DEFAULT),
    )


def _trust_filter(trust_filter: Any) -> TrustFilter:
    code = "invalid_trust_filter"
    names = ("deny_classifications", "trust_snapshot_path")
    given = section({} if trust_filter is None else trust_filter, "trust_filter", code, names)
    denied = texts(given, "trust_filter.deny_classifications", code)
    path = given.get("trust_snapshot_path")
    if path is not None:
        check_text(path, "trust_filter.trust_snapshot_path", code)
        if not path or "\0" in path:
            raise InvalidInput(
                "trust_filter.trust_snapshot_path must not be empty nor hold a NUL", code=code
            )
    return TrustFilter(tuple(dict.fromkeys(_DENIED_DEFAULT if denied is None else denied)), path)
