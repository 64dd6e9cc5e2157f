"""The policies lexical-1 and hybrid-1 written word for word from their contract (ranking.md).

No index, no cache, no shortcut: the real ones must equal it. It shares no code with rote.retrieval.
"""

import hashlib
import posixpath
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from rote.testing.naive_excerpts import naive_excerpt
from rote.testing.naive_retrieval import (
    later_first,
    naive_denied,
    naive_drop,
    naive_moment,
    naive_normal,
    naive_read,
    naive_time,
)
from rote.testing.naive_vectors import Vector, naive_product, naive_vector
from rote.testing.naive_words import naive_analyse, naive_memory_terms
from rote.values import canonical, digest

_MICROSECOND = timedelta(microseconds=1)
# The reasons in the order of the list of the dropped.
REASONS = (
    "invalid_record_schema", "trust_denied", "filtered", "no_match", "below_min_score", "duplicate",
    "budget_exhausted", "max_items_reached",
)  # fmt: skip


def naive_rank(
    request: dict[str, Any],
    root: Path,
    *,
    spaces: Mapping[str, tuple[str, bytes]] | None = None,
    embedder: Any = None,
    count_tokens: Any = None,
) -> dict[str, Any]:
    """Return the package of a valid request, with the list of all that was dropped.

    `spaces` has for each path of a space its resolved name and its memories as JSONL.
    """
    scoring = {**_SCORING, **_given(request.get("scoring"))}
    budget = _budget(request["budget"])
    stores, memories, invalid = _read(request, root, spaces or {})
    trust = request.get("trust_filter") or {}
    denied, filters = naive_denied(trust, root), _filters(request.get("filters"))
    for each in memories:
        each["denied"] = each["memory_id"] in denied[0] or each["record_hash"] in denied[1]
        each["filtered"] = not each["denied"] and not _passes(each, filters)
    terms = _query_terms(request, scoring)
    idf = _score(memories, terms, scoring)
    vector = None
    if embedder is not None:
        vector = _query_vector(embedder, request["query"])
        _mix(memories, vector, embedder, scoring["context"])
    now = request.get("now_utc") if scoring["enable_recency_weight"] else None
    if now is not None:
        _add_recency(memories, now, scoring["recency_half_life_days"], 1 if vector is None else 20)
    selected, reasons = _select(memories, scoring, budget, idf, count_tokens)
    dropped = [naive_drop(each, reason) for reason in REASONS for each in reasons.get(reason, ())]
    counts = Counter(each["reason"] for each in invalid + dropped)
    whole = budget["max_excerpt_tokens"]
    used = sum(each["excerpt_tokens"] for each in selected)
    package: dict[str, Any] = {
        "query": {
            "raw": request["query"],
            "query_hash": hashlib.sha256(naive_normal(request["query"]).encode()).hexdigest(),
            "terms": terms,
        },
        "policy": {
            "name": request["policy"],
            "analyser": "words-1",
            **{name: scoring[name] for name in _SHOWN},
            "recency": None if now is None else _recency(now, scoring),
            "filters": filters or None,
            "trust": _trust(trust),
            "tokenizer": "utf8-4" if count_tokens is None else _named(count_tokens),
            "embedder": None if vector is None else _embedder(embedder, vector),
        },
        "budget": {
            **budget,
            "used_excerpt_tokens": used,
            "remaining_excerpt_tokens": whole - used,
        },
        "stores": stores,
        "selection": {"selected": selected, "dropped_counts": dict(counts)},
        "controller_version": request["policy"],
    }
    package["package_hash"] = digest(package)
    package["selection"]["dropped"] = invalid + dropped
    return package


def _recency(now: str, scoring: dict[str, Any]) -> dict[str, Any]:
    return {"half_life_days": scoring["recency_half_life_days"], "now_utc": naive_time(now)}


def _trust(trust: dict[str, Any]) -> list[str] | None:
    if trust.get("trust_snapshot_path") is None:
        return None
    denied = trust.get("deny_classifications")
    return sorted(set(["malicious"] if denied is None else denied))


def _named(part: Any) -> str:
    return f"{part.name}@{part.version}"


def _embedder(embedder: Any, vector: Vector) -> dict[str, Any]:
    return {
        "name": embedder.name,
        "version": embedder.version,
        "dimension": embedder.dimension,
        "query_vector": hashlib.sha256(bytes(each & 255 for each in vector[0])).hexdigest(),
    }


_SHOWN = ("language", "context", "drop_duplicates", "min_score", "min_share")
_SCORING = {
    "query_terms": None, "language": "english", "context": True, "min_score": 0, "min_share": 0,
    "drop_duplicates": True, "enable_recency_weight": False, "recency_half_life_days": 30,
}  # fmt: skip


def _given(section: dict[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (section or {}).items() if value is not None}


def _budget(budget: dict[str, Any]) -> dict[str, Any]:
    given = {"per_item_max_excerpt_tokens": 256, "max_items": 50, **_given(budget)}
    whole = given["max_excerpt_tokens"]
    item = min(given["per_item_max_excerpt_tokens"], whole)
    return {**given, "per_item_max_excerpt_tokens": item}


def _query_terms(request: dict[str, Any], scoring: dict[str, Any]) -> list[str]:
    texts = [request["query"]] if scoring["query_terms"] is None else scoring["query_terms"]
    found = [term for text in texts for term in naive_analyse(text, scoring["language"])]
    return list(dict.fromkeys(found))


# -- memories --------------------------------------------------------------------------------------


def _read(
    request: dict[str, Any], root: Path, spaces: Mapping[str, tuple[str, bytes]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the stores in order, all memories, and what is none."""
    data: dict[str, bytes] = {}
    for path in request["store_paths"]:
        if path in spaces:
            data[spaces[path][0]] = spaces[path][1]
        else:
            data[posixpath.normpath(path)] = (root / path).read_bytes()
    stores, memories, invalid = [], [], []
    for path in sorted(data):
        found, bad = naive_read(data[path], path)
        stores.append({"store_path": path, "memories": len(found)})
        memories += [{**each, **_fields(each["line"])} for each in found]
        invalid += bad
    return stores, memories, invalid


def _fields(line: dict[str, Any]) -> dict[str, Any]:
    metadata = line.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    turn = metadata.get("turn")
    is_whole = type(turn) is int or (type(turn) is float and turn.is_integer())
    return {
        "namespace": _name(line.get("namespace")),
        "kind": _name(line.get("kind")),
        "metadata": metadata,
        "thread": _name(metadata.get("thread")),
        "source": _name(metadata.get("source")),
        "turn": turn if is_whole else 0,
    }


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _threads(memories: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the memories of each thread, in its order; who is in no thread is alone."""
    threads: dict[Any, list[dict[str, Any]]] = {}
    for place, each in enumerate(memories):
        name = place if each["thread"] is None else (each["store_path"], each["thread"])
        threads.setdefault(name, []).append(each)
    for thread in threads.values():
        # The order of reading is the order in which they stand, and the sort keeps it.
        thread.sort(key=lambda each: (each["turn"], each["ts_utc"] is not None, _micros(each)))
    return list(threads.values())


def _micros(each: dict[str, Any]) -> Any:
    return 0 if each["at"] is None else -later_first(each["at"])


# -- filters ---------------------------------------------------------------------------------------


def _filters(filters: dict[str, Any] | None) -> dict[str, Any]:
    """Return the filters that are used, in normal form."""
    used: dict[str, Any] = {}
    for name, value in _given(filters).items():
        if value in ([], {}):
            continue
        if name in ("after", "before"):
            used[name] = naive_time(value)
        elif name == "where":
            used[name] = value
        else:
            is_tags = name.startswith("tags")
            used[name] = sorted({each.lower() if is_tags else each for each in value})
    return used


def _passes(each: dict[str, Any], filters: dict[str, Any]) -> bool:
    for name, field in (
        ("namespaces", "namespace"), ("kinds", "kind"), ("sources", "source"), ("threads", "thread")
    ):  # fmt: skip
        if name in filters and each[field] not in filters[name]:
            return False
    if "tags_any" in filters and not set(filters["tags_any"]) & set(each["tags"]):
        return False
    if "tags_all" in filters and not set(filters["tags_all"]) <= set(each["tags"]):
        return False
    for name in ("after", "before"):
        if name in filters:
            bound = naive_moment(filters[name])
            assert bound is not None
            if each["at"] is None or (
                each["at"] < bound if name == "after" else each["at"] > bound
            ):
                return False
    metadata = each["metadata"]
    return all(
        key in metadata and canonical(metadata[key]) == canonical(value)
        for key, value in filters.get("where", {}).items()
    )


# -- scores ----------------------------------------------------------------------------------------


def _score(
    memories: list[dict[str, Any]], terms: list[str], scoring: dict[str, Any]
) -> dict[str, int]:
    """Give each memory its score, in millionths; return the idf of the terms that count."""
    for each in memories:
        found = naive_memory_terms(each, scoring["language"])
        each["counts"], each["length"] = Counter(found), len(found)
    number = len(memories)
    average = max(1, sum(each["length"] for each in memories) // number) if number else 1
    having = {term: sum(term in each["counts"] for each in memories) for term in terms}
    idf = {
        term: naive_log2_16(2 * number + 2, 2 * count + 1)
        for term, count in having.items()
        if count
    }
    for thread in _threads(memories):
        for place, each in enumerate(thread):
            total = 0
            for term, telling in idf.items():
                best = 10 * _weight(each, term, average)
                if scoring["context"]:
                    for step, share in ((-1, 6), (-2, 4), (-3, 2), (1, 5), (2, 3), (3, 1)):
                        other = _lender(thread, place + step)
                        if other is not None:
                            best = max(best, share * _weight(other, term, average))
                total += telling * best
            each["score"] = total * 100000 >> 32
    return idf


def _lender(thread: list[dict[str, Any]], place: int) -> dict[str, Any] | None:
    if not 0 <= place < len(thread) or thread[place]["denied"] or thread[place]["filtered"]:
        return None
    return thread[place]


def _weight(each: dict[str, Any], term: str, average: int) -> int:
    found = min(255, each["counts"][term])
    if found == 0:
        return 0
    below = 25 * found * average + 18 * average + 12 * each["length"]
    weight: int = (55 * found * average << 16) // below
    return weight


def naive_log2_16(p: int, q: int) -> int:
    """Return the logarithm of p / q to base 2, times 2^16."""
    k = 0
    while q << (k + 1) <= p:
        k += 1
    m = (p << 32) // (q << k)
    for _ in range(16):
        m = m * m >> 32
        bit = m >> 33
        k = 2 * k + bit
        m = m >> bit
    return k


def _add_recency(memories: list[dict[str, Any]], now: str, days: int, divisor: int) -> None:
    moment = naive_moment(now)
    assert moment is not None
    half_life = days * 86_400_000_000
    for each in memories:
        if each["score"] > 0 and each["at"] is not None:
            age = max(0, (moment - each["at"]) // _MICROSECOND)
            k = age // half_life
            p = (age % half_life << 16) // half_life
            if k < 17:
                each["score"] += ((((131072 - p) >> (k + 1)) * 1000000) >> 16) // divisor


# -- hybrid-1 --------------------------------------------------------------------------------------


def _query_vector(embedder: Any, query: str) -> Vector:
    if hasattr(embedder, "embed_query"):
        return naive_vector(embedder.embed_query(query))
    return naive_vector(embedder.embed([query])[0])


def _mix(memories: list[dict[str, Any]], query: Vector, embedder: Any, context: bool) -> None:
    """Put the scores of hybrid-1 in place of those of lexical-1."""
    for each in memories:
        numbers, scale = naive_vector(embedder.embed([each["text"]])[0])
        each["own"] = max(0, naive_product(query[0], numbers)) * scale
    for thread in _threads(memories):
        for place, each in enumerate(thread):
            each["similarity"] = 10 * each["own"]
            for step, share in ((-1, 2), (1, 2), (-2, 1), (2, 1)) if context else ():
                other = _lender(thread, place + step)
                if other is not None:
                    each["similarity"] += share * other["own"]
    free = [each for each in memories if not each["denied"] and not each["filtered"]]
    best = {name: max((each[name] for each in free), default=0) for name in ("score", "similarity")}
    for each in memories:
        each["score"] = sum(each[name] * 500000 // best[name] for name in best if best[name])


# -- selection -------------------------------------------------------------------------------------


def _select(
    memories: list[dict[str, Any]],
    scoring: dict[str, Any],
    budget: dict[str, Any],
    idf: dict[str, int],
    count_tokens: Any,
) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """Return the selected, and the dropped by reason."""
    dropped: dict[str, list[dict[str, Any]]] = {reason: [] for reason in REASONS}
    ranked = []
    for each in memories:
        if each["denied"]:
            dropped["trust_denied"].append(each)
        elif each["filtered"]:
            dropped["filtered"].append(each)
        elif each["score"] == 0:
            dropped["no_match"].append(each)
        else:
            ranked.append(each)
    ranked.sort(key=lambda each: (each["store_path"], each["memory_id"], each["record_hash"]))
    ranked.sort(key=lambda each: (each["at"] is None, later_first(each["at"])))
    ranked.sort(key=lambda each: -each["score"])
    min_score = round(scoring["min_score"] * 1_000_000)
    min_share = round(scoring["min_share"] * 1_000)
    selected: list[dict[str, Any]] = []
    texts: set[str] = set()
    used = misfits = 0
    for each in ranked:
        text = naive_normal(each["text"])
        if each["score"] < min_score or each["score"] * 1000 < min_share * ranked[0]["score"]:
            dropped["below_min_score"].append(each)
        elif len(selected) == budget["max_items"]:
            dropped["max_items_reached"].append(each)
        elif misfits == 16:
            dropped["budget_exhausted"].append(each)
        elif scoring["drop_duplicates"] and text in texts:
            dropped["duplicate"].append(each)
        else:
            excerpt, start, tokens = naive_excerpt(
                each["text"],
                budget["per_item_max_excerpt_tokens"],
                idf,
                lambda piece: naive_analyse(piece, scoring["language"]),
                count_tokens,
            )
            if used + tokens > budget["max_excerpt_tokens"]:
                misfits += 1
                dropped["budget_exhausted"].append(each)
                continue
            used += tokens
            texts.add(text)
            shown = {
                name: each[name] for name in ("memory_id", "record_hash", "store_path", "ts_utc")
            }
            shown |= {"score": each["score"] / 10**6, "excerpt": excerpt}
            selected.append({**shown, "excerpt_start": start, "excerpt_tokens": tokens})
    return selected, dropped
