"""Scores: plain arithmetic on doubles in a fixed order, rounded so that it prints as it ranks."""

from collections.abc import Collection
from itertools import compress, count

from rote.retrieval.corpus import Corpus
from rote.retrieval.request import Request

_TAG_BONUS = 0.5
_SCORE_DECIMALS = 9
_DAY = 86_400_000_000  # microseconds


def score(request: Request, corpus: Corpus, denied: Collection[int]) -> dict[int, float]:
    """The scores of all rows that have one above zero."""
    scoring = request.scoring
    base: dict[int, float] = {}
    for term in scoring.query_terms:
        for row in compress(count(), [term in text for text in corpus.normals]):
            base[row] = base.get(row, 0.0) + 1.0
    overlaps = _overlaps(corpus, scoring.query_terms) if scoring.enable_tag_overlap else {}
    if not scoring.enable_recency_weight or request.now is None:
        scores = base
        for row, overlap in overlaps.items():
            scores[row] = scores.get(row, 0.0) + overlap * _TAG_BONUS
    else:
        half_life = scoring.recency_half_life_days
        scores = {}
        for row, instant in enumerate(corpus.instants):
            value = base.get(row, 0.0) + overlaps.get(row, 0) * _TAG_BONUS
            if instant is not None:
                age_days = max(0, request.now - instant) / _DAY
                value += 0.5 ** (age_days / half_life)
            value = round(value, _SCORE_DECIMALS)
            if value > 0:
                scores[row] = value
    for row in denied:
        scores.pop(row, None)
    return scores


def _overlaps(corpus: Corpus, terms: tuple[str, ...]) -> dict[int, int]:
    """How many of the terms are tags of a row, for those that have one."""
    wanted = frozenset(terms)
    overlaps = {}
    for row, tags in enumerate(corpus.tags):
        if tags and not wanted.isdisjoint(tags):
            overlaps[row] = len(wanted.intersection(tags))
    return overlaps
