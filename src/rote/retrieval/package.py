"""The context package: what comes back, with a hash over all of it. Frozen as phase6-v1.

The hash covers every dropped memory, also when the caller only wants them counted.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import chain, islice
from typing import Any, Literal, get_args

from msgspec.structs import asdict

from rote.errors import InvalidInput
from rote.questions import Request
from rote.retrieval.corpus import Corpus
from rote.retrieval.order import Drop, encoded
from rote.retrieval.selection import Ranking, Selected
from rote.values import canonical, sha256_hex

CONTROLLER_VERSION = "phase6-v1"
INVALID_RECORD_SCHEMA = "invalid_record_schema"
TRUST_DENIED = "trust_denied"

# How the dropped are told: each of them, or how many for each reason.
Dropped = Literal["full", "counts"]


class Package(dict[str, Any]):
    """Plain data; beside it, which stores were read, so that the receipt can name empty ones."""

    __slots__ = ("store_paths",)

    def __init__(self, data: dict[str, Any], store_paths: tuple[str, ...]) -> None:
        super().__init__(data)
        self.store_paths = store_paths

    def __reduce__(self) -> tuple[Any, ...]:
        return Package, (dict(self), self.store_paths)


def build_package(
    request: Request, ranking: Ranking, selected: Sequence[Selected], reason: str, dropped: Dropped
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
    chosen = [_selected(ranking.corpus, item) for item in selected]
    hash = sha256(canonical(package)[:-1] + b',"selection":{"dropped":[')
    last: bytes | memoryview = b""
    for piece in _encoded_drops(ranking, len(selected), reason):
        hash.update(last)
        last = piece
    hash.update(last[:-1])  # no comma after the last
    hash.update(b'],"selected":' + canonical(chosen) + b"}}")
    selection: dict[str, Any] = {"selected": chosen}
    if dropped == "full":
        selection["dropped"] = [asdict(drop) for drop in _drops(ranking, len(selected), reason)]
    else:
        selection["dropped_counts"] = _counts(ranking, len(selected), reason)
    package["selection"] = selection
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


def _refused(ranking: Ranking) -> list[Drop]:
    """What is no record, then what is denied, each in the order of reading."""
    corpus = ranking.corpus
    return [
        *(Drop(id, INVALID_RECORD_SCHEMA, hash, path) for path, id, hash in corpus.invalid),
        *corpus.drops(ranking.denied, TRUST_DENIED),
    ]


def _drops(ranking: Ranking, selected: int, reason: str) -> Iterator[Drop]:
    """All that does not come back: those refused, then what ranks below the selected."""
    below = list(islice(ranking, selected, None))
    return chain(_refused(ranking), ranking.corpus.drops(below, reason))


def _encoded_drops(ranking: Ranking, selected: int, reason: str) -> Iterator[bytes | memoryview]:
    """The same as canonical JSON, without going through them one by one."""
    yield from encoded(_refused(ranking))
    yield from ranking.encoded(selected, reason)


def _counts(ranking: Ranking, selected: int, reason: str) -> dict[str, int]:
    counts = {
        INVALID_RECORD_SCHEMA: len(ranking.corpus.invalid),
        TRUST_DENIED: len(ranking.denied),
        reason: len(ranking.corpus) - len(ranking.denied) - selected,
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
