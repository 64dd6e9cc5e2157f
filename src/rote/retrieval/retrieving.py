"""Retrieval: read, filter, score, order, cut, package. The same question, the same answer."""

import os
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from rote.errors import InvalidInput, NotFound
from rote.questions import HYBRID, LEXICAL, PHASE6, POLICIES, SPACE_SCHEME, parse_request
from rote.retrieval.asked import Answered, Asked, NamedCorpus, Reading
from rote.retrieval.cache import CORPORA
from rote.retrieval.corpus import Corpus, join
from rote.retrieval.embedders import Embedder, Embedding
from rote.retrieval.files import check_file, read_file
from rote.retrieval.package import Dropped, Package, build_package, check_dropped, receipt_of
from rote.retrieval.ranking.answering import answer
from rote.retrieval.ranking.excerpts import TokenCounter, tokenizer_of
from rote.retrieval.ranking.spaces import read_memories
from rote.retrieval.scoring import Reasons, reasons_of
from rote.retrieval.segments.memories import MovedError
from rote.retrieval.selection import rank, select
from rote.retrieval.sidecars import Sidecars
from rote.retrieval.spaces import Named, open_state
from rote.retrieval.states import read_state
from rote.retrieval.trust import NO_DENIALS, read_denials
from rote.retrieval.vector_files import VectorFiles
from rote.retrieval.vector_homes import Embedded, FileHome, Home, ProcessHome, SpaceHome
from rote.space import Space, Store
from rote.space.arguments import check_path
from rote.space.sources import home_of
from rote.values import canonical

# The space for the receipt of a retrieval from files alone, if the store has no space at all.
_LEDGER = "default"


class Examined(Struct, frozen=True):
    """A retrieval, and details about how it was made."""

    answered: Answered
    names: Mapping[str, str]  # the paths that were asked, each with the name that the package has
    spaces: list[Space]  # those that were read
    since: int | None  # the version of the first of them before it was read
    receipt: dict[str, Any]  # with all stores that were asked, also those that held nothing

    @property
    def package(self) -> Package:
        return self.answered.package


class Policy(Struct, frozen=True):
    """A way to answer."""

    read_space: Callable[[Named, Reading], NamedCorpus[Any]]
    answer: Callable[[Asked[Any]], Answered]
    dropped: Dropped  # how the dropped are told unless the caller says it
    counts_tokens: bool  # whether the caller may bring what counts them
    embeds: bool = False  # whether the caller brings an embedder


def retrieve(
    request: Mapping[str, Any],
    *,
    root: str | os.PathLike[str] = ".",
    store: Store | None = None,
    dropped: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    embedder: Embedder | None = None,
    count_tokens: TokenCounter | None = None,
) -> Package:
    """Return the memories that answer a question, within its budget, with a hash over all of it.

    cache         names a directory that keeps the content of files, texts included, and their vectors
                  for the next process
    embedder      makes the vectors of hybrid-1
    count_tokens  counts the tokens of excerpts for the policies of ranking
    """
    is_plain = cache is None and embedder is None and count_tokens is None
    if isinstance(store, Store) and is_plain and isinstance(dropped, str | None):
        verbs = None if store.read_only else home_of(store).verbs
        if verbs is not None and _is_of_spaces(request):
            return verbs.call("", "retrieve", {"request": request, "dropped": dropped})
    return _examine_and_note(
        request,
        store=store,
        root=root,
        dropped=dropped,
        cache=cache,
        embedder=embedder,
        count_tokens=count_tokens,
    ).package


def _is_of_spaces(request: Mapping[str, Any]) -> bool:
    """Whether a question can be sent, and asks for spaces alone."""
    try:
        canonical(request)
    except InvalidInput:
        return False
    if type(request) is not dict:
        return False
    paths, trust = request.get("store_paths"), request.get("trust_filter")
    return (
        type(paths) is list
        and all(type(path) is str and path.startswith(SPACE_SCHEME) for path in paths)
        and not (type(trust) is dict and trust.get("trust_snapshot_path") is not None)
    )


def explain(
    request: Mapping[str, Any],
    *,
    root: str | os.PathLike[str] = ".",
    store: Store | None = None,
    dropped: str | None = "full",
    cache: str | os.PathLike[str] | None = None,
    embedder: Embedder | None = None,
    count_tokens: TokenCounter | None = None,
) -> tuple[Package, list[Reasons]]:
    """Return the package, and for each of its memories the reasons for its score."""
    found = _examine_and_note(
        request,
        store=store,
        root=root,
        dropped=dropped,
        cache=cache,
        embedder=embedder,
        count_tokens=count_tokens,
    )
    return found.package, found.answered.reasons()


def _examine_and_note(
    request: Mapping[str, Any], *, store: Store | None, **options: Any
) -> "Examined":
    """Answer a question, and add its receipt to the ledger of the store."""
    if store is not None and not isinstance(store, Store):
        raise InvalidInput("store must be one that rote.open returned")
    open_space = None if store is None else partial(open_state, store)
    found = examine(request, open_space=open_space, **options)
    if store is not None and not store.read_only:
        ledgers = found.spaces or store.spaces()
        ledger = ledgers[0].did if ledgers else _LEDGER
        store.add_receipt(ledger, found.receipt, since=found.since)
    return found


def examine(
    request: Mapping[str, Any],
    *,
    root: str | os.PathLike[str],
    open_space: Callable[[str], Named] | None,
    dropped: str | None,
    cache: str | os.PathLike[str] | None = None,
    embedder: Embedder | None = None,
    count_tokens: TokenCounter | None = None,
    policies: Collection[str] = POLICIES,
) -> Examined:
    """Return the same for a caller that knows the state behind a path to a space; leave no receipt."""
    told, folder = None if dropped is None else check_dropped(dropped), _root(root)
    sidecars = None if cache is None else Sidecars(cache)
    possible = possible_policies(embedder, policies)
    parsed = parse_request(request, has_store=open_space is not None, policies=possible)
    policy = _POLICIES[parsed.policy]
    if count_tokens is not None:
        if not policy.counts_tokens:
            raise InvalidInput(f"{parsed.policy} estimates tokens; leave count_tokens out")
        tokenizer_of(count_tokens)
    if embedder is not None and not policy.embeds:
        raise InvalidInput(f"{parsed.policy} compares no vectors; leave embedder out")
    embedding = None if embedder is None else Embedding(embedder)
    places = [_open(path, folder, open_space) for path in parsed.store_paths]
    spaces = [place.space for place in places if isinstance(place, Named)]
    since = spaces[0].version if spaces else None
    denials = read_denials(parsed.trust_filter, folder)
    told = told or policy.dropped

    def read_and_answer(is_plain: bool) -> Examined:
        stores: dict[str, NamedCorpus[Any]] = {}
        names: dict[str, str] = {}
        homes: dict[str, Home] = {}
        for place, path in zip(places, parsed.store_paths, strict=True):
            # Before it is read.
            home = None if embedding is None else _home(place, embedding, cache)
            found = (
                policy.read_space(place, Reading(parsed, is_plain))
                if isinstance(place, Named)
                else NamedCorpus(path, read_file(place, path, CORPORA, sidecars))
            )
            stores.setdefault(found.name, found)
            names[path] = found.name
            if home is not None:
                homes[found.name] = home
        ordered = [stores[name] for name in sorted(stores)]
        embedded = None if embedding is None else Embedded(embedding, homes)
        asked = Asked(parsed, ordered, denials, told, count_tokens, embedded)
        answered = policy.answer(asked)
        receipt = receipt_of(answered.package, [each.name for each in ordered])
        return Examined(answered, names, spaces, since, receipt)

    # These concern the texts of all memories.
    is_plain = told == "full" or denials != NO_DENIALS or embedding is not None
    try:
        return read_and_answer(is_plain)
    except MovedError:
        return read_and_answer(is_plain=True)


def _read_state(named: Named, _: Reading) -> NamedCorpus[Corpus]:
    return NamedCorpus(named.path, read_state(named, CORPORA))


def _answer_by_seed(asked: Asked[Corpus]) -> Answered:
    request = asked.request
    corpora = [each.corpus for each in asked.stores]
    held = [each.name for each in asked.stores if len(each.corpus) or each.corpus.invalid]
    corpus = join(corpora)
    ranking = rank(request, corpus, asked.denials.rows(corpus))
    selected, reason = select(ranking, request.budget)
    package = build_package(request, ranking, selected, reason, held=held, dropped=asked.dropped)
    rows = [item.row for item in selected]
    return Answered(
        package,
        lambda: [reasons_of(request, corpus, row) for row in rows],
        [corpus.tags[row] for row in rows],
    )


_POLICIES = {
    PHASE6: Policy(_read_state, _answer_by_seed, dropped="full", counts_tokens=False),
    LEXICAL: Policy(read_memories, answer, dropped="counts", counts_tokens=True),
    HYBRID: Policy(read_memories, answer, dropped="counts", counts_tokens=True, embeds=True),
}


def possible_policies(embedder: Embedder | None, policies: Collection[str] = POLICIES) -> list[str]:
    """Return the policies that a question can be answered by."""
    return [each for each in policies if embedder is not None or not _POLICIES[each].embeds]


def _home(place: Path | Named, embedding: Embedding, cache: str | os.PathLike[str] | None) -> Home:
    """Return the home of the vectors of a file or a state."""
    if isinstance(place, Named):
        return SpaceHome(place.space, embedding)
    path = str(place.absolute())
    if cache is None:
        return ProcessHome((path, embedding.vectors_name), embedding)
    return FileHome(path, embedding, VectorFiles(cache))


def _root(root: Any) -> Path:
    try:
        return check_path(root)
    except InvalidInput as error:
        raise InvalidInput(f"root must be the path of a directory: {error}") from None


def _open(path: str, root: Path, open_space: Callable[[str], Named] | None) -> Path | Named:
    """Return the file or state that a store path names; all paths are looked up before any is read."""
    if open_space is not None and path.startswith(SPACE_SCHEME):
        return open_space(path)
    try:
        check_file(root / path, path)
    except NotFound as error:
        space = f"{SPACE_SCHEME}{path}"
        if open_space is None or not _is_there(space, open_space):
            raise
        raise NotFound(
            f"{error}; the space is {space}", code=error.code, **error.details, space=space
        ) from None
    return root / path


def _is_there(path: str, open_space: Callable[[str], Named]) -> bool:
    try:
        open_space(path)
    except NotFound:
        return False
    return True
