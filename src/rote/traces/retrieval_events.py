"""Retrievals in a trace: the question, and the records in order. Pure. Frozen.

A trace ranks by score descending, then record_id ascending, also when the answer has another order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rote.errors import InvalidInput
from rote.questions import HYBRID, PHASE6, POLICIES, SPACE_SCHEME, Request, parse_request
from rote.traces.conformance import is_finite
from rote.traces.formats import QUERY_NORMALIZATION, SCORE_DECIMALS
from rote.values import Json, fingerprint, sha256_hex

LEXICAL_POLICY = "rote.lexical"
LEXICAL_MODE = "lexical"
HYBRID_POLICY = "rote.hybrid"
HYBRID_MODE = "hybrid"

# Reasons why a memory was no candidate.
_REFUSED = ("invalid_record_schema", "trust_denied", "filtered")
# Filters that applied_filters has members of its own for; the others are its scope.
_NAMED_FILTERS = ("namespaces", "tags_any", "tags_all")
_NOT_A_PACKAGE = "a retrieval event is made of a package that `retrieve` returned"


def retrieval_event(
    request: Mapping[str, Any],
    package: Mapping[str, Any],
    *,
    run_id: str,
    event_id: str,
    retrieval_event_id: str,
) -> dict[str, Json]:
    """Return the event of a retrieval, from a request and the package that answered it."""
    parsed = parse_request(request, has_store=True, policies=POLICIES)
    is_hybrid = parsed.policy == HYBRID
    try:
        _check_question(parsed, package)
        policy = (_seed_policy if parsed.policy == PHASE6 else _ranking_policy)(parsed, package)
        candidates = _candidates(package["selection"])
        records = _records(package["selection"]["selected"])
    except (KeyError, TypeError, AttributeError, IndexError):
        raise InvalidInput(_NOT_A_PACKAGE) from None
    return {
        **identity(run_id=run_id, event_id=event_id, retrieval_event_id=retrieval_event_id),
        "policy_id": HYBRID_POLICY if is_hybrid else LEXICAL_POLICY,
        "query_normalization_version": QUERY_NORMALIZATION,
        "retrieval_mode": HYBRID_MODE if is_hybrid else LEXICAL_MODE,
        **policy,
        "candidate_count": candidates,
        "selected_records": ranked(records),
    }


def identity(*, run_id: str, event_id: str, retrieval_event_id: str) -> dict[str, Json]:
    """Return the members that say to which run and event a retrieval event belongs."""
    ids = {"run_id": run_id, "event_id": event_id, "retrieval_event_id": retrieval_event_id}
    for name, id in ids.items():
        if type(id) is not str or not id:
            raise InvalidInput(f"{name} must be a text that is not empty")
    return dict(ids)


def ranked(records: Iterable[dict[str, Json]]) -> list[dict[str, Json]]:
    """Return records in the order of traces, each with its rank."""
    ordered = sorted(records, key=lambda record: (-record["score"], record["record_id"]))
    return [{**record, "rank": rank} for rank, record in enumerate(ordered, 1)]


def _check_question(request: Request, package: Mapping[str, Any]) -> None:
    if package["query"]["query_hash"] != sha256_hex(request.normal_query.encode()):
        raise InvalidInput("the package answers another query than the request asks")
    if package["controller_version"] != request.policy:
        raise InvalidInput("the package is by another policy than the request asks for")


def _seed_policy(request: Request, package: Mapping[str, Any]) -> dict[str, Json]:
    trust = request.trust_filter
    denied = None if trust.trust_snapshot_path is None else list(trust.deny_classifications)
    return {
        "policy_version": package["controller_version"],
        "query_fingerprint": _query_fingerprint(request),
        "applied_filters": _applied({}, denied),
    }


def _ranking_policy(request: Request, package: Mapping[str, Any]) -> dict[str, Json]:
    policy = package["policy"]
    question = {
        "query": request.normal_query,
        "terms": package["query"]["terms"],
        "budget": _budget(request),
        "policy": policy,
    }
    return {
        "policy_version": "/".join([policy["name"], policy["analyser"], *_embedder(policy)]),
        "query_fingerprint": fingerprint(question),
        "applied_filters": _applied(policy["filters"] or {}, policy["trust"]),
    }


def _embedder(policy: Mapping[str, Any]) -> list[str]:
    embedder = policy["embedder"]
    return [] if embedder is None else [f"{embedder['name']}@{embedder['version']}"]


def _applied(filters: Mapping[str, Json], denied: list[str] | None) -> dict[str, Json]:
    """Return the filters as a trace has them; null for those that were not used."""
    tags = {"any": filters.get("tags_any"), "all": filters.get("tags_all")}
    others = {name: value for name, value in filters.items() if name not in _NAMED_FILTERS}
    return {
        "namespace": filters.get("namespaces"),
        "tags": tags if any(tags.values()) else None,
        "trust": denied,
        "scope": others or None,
        "ttl": None,
    }


def _budget(request: Request) -> dict[str, int]:
    budget = request.budget
    return {
        "max_excerpt_tokens": budget.max_excerpt_tokens,
        "per_item_max_excerpt_tokens": budget.per_item_max_excerpt_tokens,
        "max_items": budget.max_items,
    }


def _query_fingerprint(request: Request) -> str:
    """Return the fingerprint of a request with all defaults filled in and normal texts."""
    scoring, trust = request.scoring, request.trust_filter
    return fingerprint(
        {
            "query": request.normal_query,
            "terms": list(scoring.query_terms),
            "budget": _budget(request),
            "scoring": {
                "enable_recency_weight": scoring.enable_recency_weight,
                "recency_half_life_days": scoring.recency_half_life_days,
                "enable_tag_overlap": scoring.enable_tag_overlap,
            },
            "trust_filter": {
                "deny_classifications": list(trust.deny_classifications),
                "trust_snapshot_path": trust.trust_snapshot_path,
            },
        }
    )


def _candidates(selection: Mapping[str, Any]) -> int:
    """Return the number of valid records after trust filtering, returned or not."""
    counts = selection.get("dropped_counts")
    if counts is None:
        counts = Counter(drop["reason"] for drop in selection["dropped"])
    dropped: int = sum(count for reason, count in counts.items() if reason not in _REFUSED)
    return len(selection["selected"]) + dropped


def _records(selected: list[dict[str, Any]]) -> list[dict[str, Json]]:
    ids = _own_ids([item["memory_id"] for item in selected])
    return [
        {
            "record_id": id,
            "record_type": _record_type(item["store_path"], item["memory_id"]),
            "score": _score(item["score"]),
            "position": position,
        }
        for position, (id, item) in enumerate(zip(ids, selected, strict=True), 1)
    ]


def _score(score: Any) -> float:
    if not is_finite(score):
        raise InvalidInput(_NOT_A_PACKAGE)
    return round(float(score), SCORE_DECIMALS) + 0.0


def _own_ids(memory_ids: list[str]) -> list[str]:
    """Return distinct ids: a repeated id gets the next free suffix ~2, ~3 and so on."""
    taken = set(memory_ids)
    counts: Counter[str] = Counter()
    ids: list[str] = []
    for memory_id in memory_ids:
        counts[memory_id] += 1
        id = memory_id
        while counts[memory_id] > 1 and id in taken:
            id = f"{memory_id}~{counts[memory_id]}"
            counts[memory_id] += id in taken
        taken.add(id)
        ids.append(id)
    return ids


def _record_type(store_path: str, memory_id: str) -> str:
    """Return the kind of a record, the second part of its memory id; files have no kinds."""
    if not store_path.startswith(SPACE_SCHEME):
        return "jsonl"
    kind = memory_id.split("/")[1]
    return kind.replace("%2F", "/").replace("%23", "#").replace("%25", "%")
