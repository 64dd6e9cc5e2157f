"""Searches in a memory: a question as a request of retrieval, without the store."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rote.errors import InvalidInput
from rote.questions import LEXICAL
from rote.values.limits import SEARCH_EXCERPT_TOKENS, SEARCH_LIMIT_MAX
from rote.values.times import as_text


def search_request(
    text: str,
    *,
    limit: int,
    filters: Mapping[str, Any] | None,
    scoring: Mapping[str, Any],
    now: datetime | None,
) -> dict[str, Any]:
    """Return the request of a search; `now` is the time that recency is measured from."""
    if type(limit) is not int or not 1 <= limit <= SEARCH_LIMIT_MAX:
        raise InvalidInput(
            f"limit must be an integer from 1 to {SEARCH_LIMIT_MAX:,}", argument="limit"
        )
    return {
        "query": text,
        "policy": LEXICAL,
        "budget": {
            "max_excerpt_tokens": limit * SEARCH_EXCERPT_TOKENS,
            "per_item_max_excerpt_tokens": SEARCH_EXCERPT_TOKENS,
            "max_items": limit,
        },
        "scoring": dict(scoring),
        "filters": filters,
        "now_utc": as_text(now),
    }


def within(filters: Any, namespaces: Sequence[str]) -> Any:
    """Return filters that let only these namespaces through, unless they name namespaces themselves."""
    given = {} if filters is None else filters
    if type(given) is not dict or given.get("namespaces"):
        return filters
    return {**given, "namespaces": list(namespaces)}
