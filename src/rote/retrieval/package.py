"""The context package: what comes back, with a hash over all of it. Frozen as phase6-v1.

The hash covers every dropped memory, also when the caller only wants them counted.
"""

from collections import OrderedDict
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
from rote.values.limits import RECEIPTS_REMEMBERED

CONTROLLER_VERSION = "phase6-v1"
INVALID_RECORD_SCHEMA = "invalid_record_schema"
TRUST_DENIED = "trust_denied"

# How the dropped are told: each of them, or how many for each reason.
Dropped = Literal["full", "counts"]


# Plain data, as the caller may change and store it.
Package = dict[str, Any]

# Which stores were read, by the hash of the package: it says so only of stores that held something.
_stores_read: OrderedDict[str, tuple[str, ...]] = OrderedDict()


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
    _remember(package["package_hash"], request.store_paths)
    return package


def _remember(package_hash: str, store_paths: tuple[str, ...]) -> None:
    _stores_read.pop(package_hash, None)
    _stores_read[package_hash] = store_paths
    while len(_stores_read) > RECEIPTS_REMEMBERED:
        _stores_read.popitem(last=False)


def receipt(package: Package) -> dict[str, Any]:
    """What may be kept of a retrieval: hashes, stores and a count, nothing of what came back.

    Of a package that another process has made, stores that held nothing cannot be named; and without
    the list of the dropped no store can.
    """
    try:
        selection = package["selection"]
        data = {
            "query_hash": package["query"]["query_hash"],
            "store_paths": _stores_of(package["package_hash"], selection),
            "selected_count": len(selection["selected"]),
            "package_hash": package["package_hash"],
        }
    except (KeyError, TypeError, AttributeError):
        raise InvalidInput("a receipt is made of a package that `retrieve` returned") from None
    return {"kind": "memory.read", "data": data}


def _stores_of(package_hash: str, selection: dict[str, Any]) -> list[str]:
    known = _stores_read.get(package_hash)
    if known is not None:
        return list(known)
    if "dropped" not in selection:
        raise InvalidInput(
            "this package does not say which stores were read; make its receipt in the process that"
            " retrieved it, or retrieve with dropped='full'"
        )
    items = [*selection["selected"], *selection["dropped"]]
    return sorted({item["store_path"] for item in items})


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
