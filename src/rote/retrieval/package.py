"""The context package: the selected memories, with a hash over all of it. Frozen as phase6-v1.

The hash covers every dropped memory, also when the caller only wants them counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, get_args

from msgspec.structs import asdict

from rote.errors import InvalidInput
from rote.questions import PHASE6, POLICIES, Request, parse_request
from rote.retrieval.corpus import Corpus
from rote.retrieval.order import ROWS_AT_ONCE, Drop, encoded
from rote.retrieval.selection import Ranking, Selected
from rote.values import canonical, sha256_hex

INVALID_RECORD_SCHEMA = "invalid_record_schema"
TRUST_DENIED = "trust_denied"

# How the package reports dropped memories: each of them, or their number for each reason.
Dropped = Literal["full", "counts"]


# Plain data, so that the caller can change and store it.
Package = dict[str, Any]


def build_package(
    request: Request,
    ranking: Ranking,
    selected: Sequence[Selected],
    reason: str,
    *,
    held: Sequence[str],
    dropped: Dropped,
) -> Package:
    """Return the package of a selection.

    `reason` tells why the memories after the selection were left out. `held` are the stores that
    held anything, which the list of dropped memories would name.
    """
    used = sum(item.tokens for item in selected)
    budget = request.budget
    package: dict[str, Any] = {
        "budget": {
            "max_excerpt_tokens": budget.max_excerpt_tokens,
            "used_excerpt_tokens": used,
            "remaining_excerpt_tokens": budget.max_excerpt_tokens - used,
            "per_item_max_excerpt_tokens": budget.per_item_max_excerpt_tokens,
            "max_items": budget.max_items,
        },
        "controller_version": PHASE6,
        "query": {"raw": request.query, "query_hash": sha256_hex(request.normal_query.encode())},
    }
    chosen = [_selected(ranking.corpus, item) for item in selected]
    rows = ranking.rows[len(selected) :]
    listed: list[dict[str, str]] | None = [] if dropped == "full" else None
    hash = sha256(canonical(package)[:-1] + b',"selection":{"dropped":[')
    last = b""
    for piece in _encoded_drops(ranking, rows, reason, listed):
        hash.update(last)
        last = piece
    hash.update(last[:-1])  # no comma after the last
    hash.update(b'],"selected":' + canonical(chosen) + b"}}")
    selection: dict[str, Any] = {"selected": chosen}
    if listed is not None:
        selection["dropped"] = listed
    else:
        selection["dropped_counts"] = _counts(ranking, len(rows), reason)
        selection["store_paths"] = list(held)
    package["selection"] = selection
    package["package_hash"] = hash.hexdigest()
    return package


def receipt(package: Package, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what may be kept of a retrieval: hashes, stores and a count, but no content.

    A package of phase6-v1 does not name stores that held nothing; with its request they are named too.
    """
    asked = None
    if request is not None:
        asked = parse_request(request, has_store=True, policies=POLICIES)
    try:
        if asked and sha256_hex(asked.normal_query.encode()) != package["query"]["query_hash"]:
            raise InvalidInput("the package answers another question; give its own request")
        if "stores" in package:
            return receipt_of(package, [store["store_path"] for store in package["stores"]])
        if asked is not None:
            return receipt_of(package, asked.store_paths)
        return receipt_of(package, _stores_in(package["selection"]))
    except (KeyError, TypeError, AttributeError):
        raise InvalidInput("a receipt is made of a package that `retrieve` returned") from None


def receipt_of(package: Package, store_paths: Sequence[str]) -> dict[str, Any]:
    """Return the receipt for a caller that knows which stores were asked."""
    data = {
        "query_hash": package["query"]["query_hash"],
        "store_paths": list(store_paths),
        "selected_count": len(package["selection"]["selected"]),
        "package_hash": package["package_hash"],
    }
    return {"kind": "memory.read", "data": data}


def _stores_in(selection: dict[str, Any]) -> list[str]:
    if "dropped" not in selection:
        named: list[str] = selection["store_paths"]
        return named
    items = [*selection["selected"], *selection["dropped"]]
    return sorted({item["store_path"] for item in items})


def check_dropped(dropped: Any) -> Dropped:
    if dropped not in get_args(Dropped):
        raise InvalidInput(f"dropped must be one of {', '.join(get_args(Dropped))}")
    return dropped  # type: ignore[no-any-return]


def _refused(ranking: Ranking) -> list[Drop]:
    """Return the texts that are no record, then the denied memories, each in the order of reading."""
    corpus = ranking.corpus
    return [
        *(Drop(id, INVALID_RECORD_SCHEMA, hash, path) for path, id, hash in corpus.invalid),
        *corpus.drops(ranking.denied, TRUST_DENIED),
    ]


def _encoded_drops(
    ranking: Ranking, rows: Sequence[int], reason: str, listed: list[dict[str, str]] | None
) -> Iterator[bytes]:
    """Yield all dropped memories as canonical JSON: the refused, then those that rank below the selected.

    Put each into the list, too, if there is one.
    """
    corpus, refused = ranking.corpus, _refused(ranking)
    yield encoded(refused)
    if listed is None:
        yield from corpus.encoded_drops.of(rows, reason, corpus)
        return
    listed += map(asdict, refused)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        drops = corpus.drops(rows[start : start + ROWS_AT_ONCE], reason)
        listed += map(asdict, drops)
        yield encoded(drops)


def _counts(ranking: Ranking, below: int, reason: str) -> dict[str, int]:
    counts = {
        INVALID_RECORD_SCHEMA: len(ranking.corpus.invalid),
        TRUST_DENIED: len(ranking.denied),
        reason: below,
    }
    return {reason: count for reason, count in sorted(counts.items()) if count}


def _selected(corpus: Corpus, item: Selected) -> dict[str, Any]:
    return {
        "memory_id": corpus.ids[item.row],
        "record_hash": corpus.hashes[item.row],
        "store_path": corpus.paths[item.row],
        "score": item.score,
        "excerpt": item.excerpt,
        "excerpt_tokens": item.tokens,
    }
