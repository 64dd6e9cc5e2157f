"""The context package: what comes back, with a hash over all of it. Frozen as phase6-v1.

The hash covers every dropped memory, also when the caller only wants them counted, so the dropped
are hashed one by one as canonical JSON and never held together.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, Literal, get_args

from rote.errors import InvalidInput
from rote.retrieval.corpus import Corpus
from rote.retrieval.request import Request
from rote.retrieval.selection import Ranking, Selected
from rote.values import canonical, sha256_hex

CONTROLLER_VERSION = "phase6-v1"
INVALID_RECORD_SCHEMA = "invalid_record_schema"
TRUST_DENIED = "trust_denied"

# How the dropped are told: each of them, or how many for each reason.
Dropped = Literal["full", "counts"]

_HASHED_AT_ONCE = 1_000


class Package(dict[str, Any]):
    """Plain data; beside it, which stores were read, so that the receipt can name empty ones."""

    __slots__ = ("store_paths",)

    def __init__(self, data: dict[str, Any], store_paths: tuple[str, ...]) -> None:
        super().__init__(data)
        self.store_paths = store_paths

    def __reduce__(self) -> tuple[Any, ...]:
        return Package, (dict(self), self.store_paths)


class Drop:
    """A memory that does not come back."""

    __slots__ = ("id", "hash", "path", "reason")

    def __init__(self, id: str, hash: str, path: str, reason: str) -> None:
        self.id, self.hash, self.path, self.reason = id, hash, path, reason


def build_package(
    request: Request,
    corpora: Sequence[Corpus],
    denied: Sequence[Sequence[int]],
    ranking: Ranking,
    selected: Sequence[Selected],
    reason: str,
    dropped: Dropped,
) -> Package:
    """The package of a selection; `reason` is why those after it were left out."""
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
        "controller_version": CONTROLLER_VERSION,
        "query": {"raw": request.query, "query_hash": sha256_hex(request.normal_query.encode())},
    }
    chosen = [_selected(item) for item in selected]
    kept: list[dict[str, str]] = []
    counts: Counter[str] = Counter()
    hash = sha256(canonical(package)[:-1] + b',"selection":{"dropped":[')
    separator = b""
    drops = _drops(corpora, denied, ranking, len(selected), reason)
    while page := list(islice(drops, _HASHED_AT_ONCE)):
        hash.update(separator + b",".join(map(_fragment, page)))
        separator = b","
        counts.update(drop.reason for drop in page)
        if dropped == "full":
            kept += map(_dropped, page)
    hash.update(b'],"selected":' + canonical(chosen) + b"}}")
    package["selection"] = {"selected": chosen}
    if dropped == "full":
        package["selection"]["dropped"] = kept
    else:
        package["selection"]["dropped_counts"] = dict(sorted(counts.items()))
    package["package_hash"] = hash.hexdigest()
    return Package(package, request.store_paths)


def receipt(package: dict[str, Any]) -> dict[str, Any]:
    """What may be kept of a retrieval: hashes, stores and a count, nothing of what came back."""
    try:
        selection = package["selection"]
        if isinstance(package, Package):
            paths = list(package.store_paths)
        else:
            items = [*selection["selected"], *selection.get("dropped", ())]
            paths = sorted({item["store_path"] for item in items})
        data = {
            "query_hash": package["query"]["query_hash"],
            "store_paths": paths,
            "selected_count": len(selection["selected"]),
            "package_hash": package["package_hash"],
        }
    except (KeyError, TypeError, AttributeError):
        raise InvalidInput("a receipt is made of a package that `retrieve` returned") from None
    return {"kind": "memory.read", "data": data}


def check_dropped(dropped: Any) -> Dropped:
    if dropped not in get_args(Dropped):
        raise InvalidInput(f"dropped must be one of {', '.join(get_args(Dropped))}")
    return dropped  # type: ignore[no-any-return]


def _drops(
    corpora: Sequence[Corpus],
    denied: Sequence[Sequence[int]],
    ranking: Ranking,
    selected: int,
    reason: str,
) -> Iterator[Drop]:
    """What is no record, what is denied, and what ranks below the selected, in this order."""
    for corpus in corpora:
        for id, hash in corpus.invalid:
            yield Drop(id, hash, corpus.path, INVALID_RECORD_SCHEMA)
    for corpus, rows in zip(corpora, denied, strict=True):
        for row in rows:
            yield Drop(corpus.ids[row], corpus.hashes[row], corpus.path, TRUST_DENIED)
    for corpus, row, _ in islice(ranking, selected, None):
        yield Drop(corpus.ids[row], corpus.hashes[row], corpus.path, reason)


def _selected(item: Selected) -> dict[str, Any]:
    return {
        "memory_id": item.corpus.ids[item.row],
        "record_hash": item.corpus.hashes[item.row],
        "store_path": item.corpus.path,
        "score": item.score,
        "excerpt": item.excerpt,
        "excerpt_tokens": item.tokens,
    }


def _dropped(drop: Drop) -> dict[str, str]:
    return {
        "memory_id": drop.id,
        "record_hash": drop.hash,
        "store_path": drop.path,
        "reason": drop.reason,
    }


def _fragment(drop: Drop) -> bytes:
    return canonical(_dropped(drop))


