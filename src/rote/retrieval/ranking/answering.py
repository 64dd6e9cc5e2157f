"""The answer by lexical-1 and hybrid-1: read, filter, score, order, cut, package."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import asdict

from rote.questions import HYBRID, NO_INSTANT, Request, normal_time
from rote.retrieval.asked import Answered, Asked, NamedCorpus
from rote.retrieval.corpus import Corpus
from rote.retrieval.order import Drop
from rote.retrieval.package import INVALID_RECORD_SCHEMA, TRUST_DENIED, Package
from rote.retrieval.ranking.excerpts import Excerpts, tokenizer_of
from rote.retrieval.ranking.hybrid import RECENCY_PART, Half, score_by_both
from rote.retrieval.ranking.memories import Memories
from rote.retrieval.ranking.scores import RowScores, Scores
from rote.retrieval.ranking.scoring import Telling, recency_of, telling_of
from rote.retrieval.ranking.selection import Candidate, Ranking, Selected, Selection, select
from rote.retrieval.scoring import Reasons
from rote.retrieval.words.analyser import ANALYSER, memory_terms
from rote.values import digest, sha256_hex

FILTERED = "filtered"
NO_MATCH = "no_match"
_MILLION = 1_000_000


class Outcome(Struct, frozen=True):
    """The memories of one store after scoring."""

    store: NamedCorpus[Memories]
    denied: list[int]  # rows, in the order of reading
    filtered: list[int]
    scores: Scores  # of the others

    def unmatched(self) -> list[int]:
        """Return the rows without a score, in the order of reading."""
        scored = (row for _, row in self.scores.best(len(self.scores)))
        known = {*self.denied, *self.filtered, *scored}
        return [row for row in self.store.corpus.rows() if row not in known]

    @property
    def counts(self) -> dict[str, int]:
        memories = len(self.store.corpus)
        known = len(self.denied) + len(self.filtered)
        return {
            INVALID_RECORD_SCHEMA: len(self.store.corpus.invalid),
            TRUST_DENIED: len(self.denied),
            FILTERED: len(self.filtered),
            NO_MATCH: memories - known - len(self.scores),
        }


def answer(asked: Asked[Memories]) -> Answered:
    """Return the package, and more about each of its memories."""
    request = asked.request
    scoring, budget = request.scoring, request.budget
    language = scoring.language
    corpora = [store.corpus for store in asked.stores]
    telling = telling_of(request, [(len(each), each.frequencies(language)) for each in corpora])
    outcomes = [_outcome(asked, store, telling) for store in asked.stores]
    query_vector = b""
    if asked.embedded is not None:
        outcomes, query_vector = _with_vectors(asked, outcomes)
    if scoring.enable_recency_weight:
        outcomes = [_with_recency(request, outcome) for outcome in outcomes]
    ranking = Ranking([(each.store.corpus, each.scores) for each in outcomes])
    excerpts = Excerpts(
        telling.idf,
        language=language,
        tokens=budget.per_item_max_excerpt_tokens,
        counter=asked.counter,
    )
    selection = select(ranking, scoring, budget, excerpts)
    package = _package(asked, telling, selection, outcomes, query_vector)
    if asked.dropped == "full":
        package["selection"]["dropped"] = [
            asdict(drop) for drop in _dropped(outcomes, selection, ranking)
        ]
    selected = [each.candidate for each in selection.selected]
    return Answered(
        package,
        lambda: [_reasons(request, telling, each) for each in selected],
        [each.corpus.tags[each.row] for each in selected],
        frozenset(telling.idf),
        query_vector,
    )


def _outcome(asked: Asked[Memories], store: NamedCorpus[Memories], telling: Telling) -> Outcome:
    corpus = store.corpus
    denied = list(asked.denials.rows(corpus))
    filtered = corpus.filtered(asked.request.filters, frozenset(denied))
    scores = corpus.scores(asked.request, telling, [*denied, *filtered])
    return Outcome(store, denied, filtered, scores)


def _with_vectors(asked: Asked[Memories], outcomes: list[Outcome]) -> tuple[list[Outcome], bytes]:
    """Return the same with the scores of hybrid-1, and the vector of the question."""
    assert asked.embedded is not None
    halves = [
        Half(
            _read_whole(each.store),
            {row: score for score, row in each.scores.best(len(each.scores))},
            frozenset((*each.denied, *each.filtered)),
        )
        for each in outcomes
    ]
    scores, query_vector = score_by_both(asked.request, asked.embedded, halves)
    mixed = [
        structs.replace(outcome, scores=RowScores(found))
        for outcome, found in zip(outcomes, scores, strict=True)
    ]
    return mixed, query_vector


def _read_whole(store: NamedCorpus[Memories]) -> NamedCorpus[Corpus]:
    """Return a store whose texts are all there; for vectors each is read so."""
    assert isinstance(store.corpus, Corpus)
    return NamedCorpus(store.name, store.corpus)


def _with_recency(request: Request, outcome: Outcome) -> Outcome:
    instants = outcome.store.corpus.instants
    scores = outcome.scores.raised(lambda row: _recency(request, instants[row]))
    return structs.replace(outcome, scores=scores)


def _recency(request: Request, instant: int) -> int:
    points = recency_of(request, instant)
    return points // RECENCY_PART if request.policy == HYBRID else points


def _package(
    asked: Asked[Memories],
    telling: Telling,
    selection: Selection,
    outcomes: list[Outcome],
    query_vector: bytes,
) -> Package:
    """Return the package without the list of the dropped, which its hash does not cover."""
    request, budget = asked.request, asked.request.budget
    used = sum(each.excerpt.tokens for each in selection.selected)
    counts = selection.counts()
    for outcome in outcomes:
        for reason, count in outcome.counts.items():
            counts[reason] = counts.get(reason, 0) + count
    package: dict[str, Any] = {
        "query": {
            "raw": request.query,
            "query_hash": sha256_hex(request.normal_query.encode()),
            "terms": list(telling.terms),
        },
        "policy": _policy(asked, query_vector),
        "budget": {
            "max_excerpt_tokens": budget.max_excerpt_tokens,
            "used_excerpt_tokens": used,
            "remaining_excerpt_tokens": budget.max_excerpt_tokens - used,
            "per_item_max_excerpt_tokens": budget.per_item_max_excerpt_tokens,
            "max_items": budget.max_items,
        },
        "stores": [
            {"store_path": store.name, "memories": len(store.corpus)} for store in asked.stores
        ],
        "selection": {
            "selected": [_shown(each) for each in selection.selected],
            "dropped_counts": {reason: count for reason, count in sorted(counts.items()) if count},
        },
        "controller_version": request.policy,
    }
    package["package_hash"] = digest(package)
    return package


def _policy(asked: Asked[Memories], query_vector: bytes) -> dict[str, Any]:
    request, scoring, trust = asked.request, asked.request.scoring, asked.request.trust_filter
    has_trust = trust.trust_snapshot_path is not None
    recency = None
    if scoring.enable_recency_weight and request.now is not None:
        recency = {
            "half_life_days": scoring.recency_half_life_days,
            "now_utc": normal_time(request.now),
        }
    return {
        "name": request.policy,
        "analyser": ANALYSER,
        "language": scoring.language,
        "context": scoring.context,
        "drop_duplicates": scoring.drop_duplicates,
        "min_score": scoring.min_score / _MILLION,
        "min_share": scoring.min_share / 1_000,
        "recency": recency,
        "filters": request.filters.shown(),
        "trust": sorted(trust.deny_classifications) if has_trust else None,
        "tokenizer": tokenizer_of(asked.counter),
        "embedder": None if asked.embedded is None else asked.embedded.shown(query_vector),
    }


def _shown(item: Selected) -> dict[str, Any]:
    corpus, row = item.candidate.corpus, item.candidate.row
    instant = corpus.instants[row]
    return {
        "memory_id": corpus.ids[row],
        "record_hash": corpus.hashes[row],
        "store_path": corpus.paths[row],
        "ts_utc": None if instant == NO_INSTANT else normal_time(instant),
        "score": item.candidate.score / _MILLION,
        "excerpt": item.excerpt.text,
        "excerpt_start": item.excerpt.start,
        "excerpt_tokens": item.excerpt.tokens,
    }


def _dropped(outcomes: list[Outcome], selection: Selection, ranking: Ranking) -> Iterator[Drop]:
    """Yield all that is not selected: by reason, up to no_match as it was read, then by rank."""
    for outcome in outcomes:
        for path, id, hash in outcome.store.corpus.invalid:
            yield Drop(id, INVALID_RECORD_SCHEMA, hash, path)
    for outcome in outcomes:
        yield from outcome.store.corpus.drops(outcome.denied, TRUST_DENIED)
    for outcome in outcomes:
        yield from outcome.store.corpus.drops(outcome.filtered, FILTERED)
    for outcome in outcomes:
        yield from outcome.store.corpus.drops(outcome.unmatched(), NO_MATCH)
    for reason, each in selection.dropped(ranking):
        yield from each.corpus.drops([each.row], reason)


def _reasons(request: Request, telling: Telling, candidate: Candidate) -> Reasons:
    corpus, row = candidate.corpus, candidate.row
    own = frozenset(_terms(corpus, row, request.scoring.language))
    return Reasons(
        terms=tuple(term for term in telling.terms if term in own),
        tags=(),
        recency=_recency(request, corpus.instants[row]) / _MILLION,
    )


def _terms(corpus: Memories, row: int, language: str) -> Iterator[str]:
    return memory_terms(corpus.texts[row], corpus.tags[row], corpus.instants[row], language)
