"""Retrieval: read, filter, score, order, cut, package. The same question, the same answer."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from rote.errors import InvalidInput
from rote.questions import SPACE_SCHEME, parse_request
from rote.retrieval.cache import CORPORA
from rote.retrieval.corpus import Corpus, join
from rote.retrieval.files import check_file, read_file
from rote.retrieval.package import Package, build_package, check_dropped, receipt_of
from rote.retrieval.scoring import Reasons, reasons_of
from rote.retrieval.selection import rank, select
from rote.retrieval.sidecars import Sidecars
from rote.retrieval.spaces import Named, open_state
from rote.retrieval.states import read_state
from rote.retrieval.trust import read_denials
from rote.space import Space, Store
from rote.space.arguments import check_path

# The space for the receipt of a retrieval from files alone, if the store has no space at all.
_LEDGER = "default"


class Examined(Struct, frozen=True):
    """A retrieval, and details about how it was made."""

    package: Package
    reasons: list[Reasons]  # the reasons for the score of each selected memory
    spaces: list[Space]  # those that were read
    since: int | None  # the version of the first of them before it was read
    receipt: dict[str, Any]  # with all stores that were asked, also those that held nothing


def retrieve(
    request: Mapping[str, Any],
    *,
    root: str | os.PathLike[str] = ".",
    store: Store | None = None,
    dropped: str = "full",
    cache: str | os.PathLike[str] | None = None,
) -> Package:
    """Return the memories that answer a question, within its budget, with a hash over all of it.

    `cache` names a directory that keeps the content of files, texts included, for the next process.
    """
    return explain(request, root=root, store=store, dropped=dropped, cache=cache)[0]


def explain(
    request: Mapping[str, Any],
    *,
    root: str | os.PathLike[str] = ".",
    store: Store | None = None,
    dropped: str = "full",
    cache: str | os.PathLike[str] | None = None,
) -> tuple[Package, list[Reasons]]:
    """Return the package, and for each of its memories the reasons for its score."""
    if store is not None and not isinstance(store, Store):
        raise InvalidInput("store must be one that rote.open returned")
    open_space = None if store is None else partial(open_state, store)
    found = examine(request, root=root, open_space=open_space, dropped=dropped, cache=cache)
    if store is not None and not store.read_only:
        ledgers = found.spaces or store.spaces()
        ledger = ledgers[0].did if ledgers else _LEDGER
        store.add_receipt(ledger, found.receipt, since=found.since)
    return found.package, found.reasons


def examine(
    request: Mapping[str, Any],
    *,
    root: str | os.PathLike[str],
    open_space: Callable[[str], Named] | None,
    dropped: str,
    cache: str | os.PathLike[str] | None = None,
) -> Examined:
    """Return the same for a caller that knows the state behind a path to a space; leave no receipt."""
    told, folder = check_dropped(dropped), _root(root)
    sidecars = None if cache is None else Sidecars(cache)
    parsed = parse_request(request, has_store=open_space is not None)
    places = [_open(path, folder, open_space) for path in parsed.store_paths]
    spaces = [place.space for place in places if isinstance(place, Named)]
    since = spaces[0].version if spaces else None
    denials = read_denials(parsed.trust_filter, folder)
    paths = parsed.store_paths
    stores = [_read(*place, sidecars) for place in zip(places, paths, strict=True)]
    held = [path for path, each in zip(paths, stores, strict=True) if len(each) or each.invalid]
    corpus = join(stores)
    denied = denials.rows(corpus)
    ranking = rank(parsed, corpus, denied)
    selected, reason = select(ranking, parsed.budget)
    reasons = [reasons_of(parsed, corpus, item.row) for item in selected]
    package = build_package(parsed, ranking, selected, reason, held=held, dropped=told)
    return Examined(package, reasons, spaces, since, receipt_of(package, paths))


def _root(root: Any) -> Path:
    try:
        return check_path(root)
    except InvalidInput as error:
        raise InvalidInput(f"root must be the path of a directory: {error}") from None


def _open(path: str, root: Path, open_space: Callable[[str], Named] | None) -> Path | Named:
    """Return the file or state that a store path names; all paths are looked up before any is read."""
    if open_space is not None and path.startswith(SPACE_SCHEME):
        return open_space(path)
    check_file(root / path, path)
    return root / path


def _read(place: Path | Named, path: str, sidecars: Sidecars | None) -> Corpus:
    if isinstance(place, Named):
        return read_state(place, CORPORA)
    return read_file(place, path, CORPORA, sidecars)
