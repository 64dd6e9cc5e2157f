"""Vector searches and other approximate backends, made to answer in one order.

A backend may break ties as it likes, repeat itself and shuffle its answer. Here the answer is
ranked by score (9 decimals) descending, then record_id ascending, and gets the event that a trace
keeps. Ranking cannot bring back what a backend did not return: one that finds other candidates for
the same question is not deterministic, and the traces of two runs will show it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite
from numbers import Real
from typing import Any

from msgspec import Struct

from rote.errors import InvalidInput, LimitExceeded
from rote.traces.formats import NORMALIZATION, SCORE_DECIMALS
from rote.traces.retrieval_events import identity, ranked
from rote.values import Json, canonical, fingerprint
from rote.values.limits import APPROXIMATE_CANDIDATES_MAX, VECTOR_DIMENSIONS_MAX

TEXT_TO_VECTOR, VECTOR_DIRECT = "text_to_vector", "vector_direct"
# Filters are applied in this order, in whatever order they are given.
FILTERS = ("namespace", "tags", "trust", "scope", "ttl")
# Candidates asked for each hit, so that enough are left after filters and ties.
_CANDIDATES_TIMES = 4

# Takes a question and the number of candidates wanted; returns pairs of record id and score.
Search = Callable[[Any, int], Iterable[tuple[str, float]]]


class Filter(Struct, frozen=True):
    """A rule that keeps records out."""

    value: Json  # as the trace shows it
    keeps: Callable[[str], bool]  # whether a record may come back


class Hit(Struct, frozen=True):
    """A record that came back."""

    record_id: str
    score: float
    rank: int  # from 1 on


class Answer(Struct, frozen=True):
    """The hits, and the event that a trace keeps of them."""

    hits: tuple[Hit, ...]
    body: dict[str, Json]  # the event without the ids of its run

    def event(self, *, run_id: str, event_id: str, retrieval_event_id: str) -> dict[str, Json]:
        """Return the retrieval event, for the retrieval trace of a run."""
        ids = identity(run_id=run_id, event_id=event_id, retrieval_event_id=retrieval_event_id)
        return {**ids, **self.body}


class ApproximateBackend:
    """A search whose answers obey the rule of traces.

    `policy_version` changes with anything that changes answers: the index, its parameters, the
    model that makes vectors of texts.
    """

    def __init__(
        self, search: Search, *, policy_id: str, policy_version: str, record_type: str
    ) -> None:
        if not callable(search):
            raise InvalidInput(
                "search must be a function of a question and a number of candidates, not"
                f" {type(search).__qualname__}"
            )
        self._search = search
        self._policy: dict[str, Json] = {
            "policy_id": _text(policy_id, "policy_id"),
            "policy_version": _text(policy_version, "policy_version"),
        }
        self._record_type = _text(record_type, "record_type")

    def retrieve(
        self,
        query: str | Sequence[float],
        *,
        limit: int,
        candidates: int | None = None,
        filters: Mapping[str, Filter] | None = None,
    ) -> Answer:
        """Return the best records for a text or a vector; raise InvalidInput when the backend
        answers badly."""
        count = _count(limit, candidates)
        used = _ordered(filters or {})
        asked = query if isinstance(query, str) else _vector(query)
        told: dict[str, Json] = dict.fromkeys(FILTERS)
        told |= {name: filter.value for name, filter in used}
        question: Json = {"query": asked, "limit": limit, "candidates": count, "filters": told}
        asked_as = fingerprint(question)
        scores = _scores(self._search(query, count))
        for _, filter in used:
            scores = {id: score for id, score in scores.items() if filter.keeps(id)}
        records = ranked(
            {"record_id": id, "record_type": self._record_type, "score": score}
            for id, score in scores.items()
        )[:limit]
        body = {
            **self._policy,
            "query_normalization_version": NORMALIZATION,
            "query_fingerprint": asked_as,
            "retrieval_mode": TEXT_TO_VECTOR if isinstance(query, str) else VECTOR_DIRECT,
            "candidate_count": len(scores),
            "selected_records": records,
            "applied_filters": told,
        }
        return Answer(
            tuple(Hit(each["record_id"], each["score"], each["rank"]) for each in records), body
        )


def _count(limit: Any, candidates: Any) -> int:
    """Return the number of candidates to ask the backend for."""
    if type(limit) is not int or limit < 1:
        raise InvalidInput("limit must be an integer from 1 on")
    if candidates is None:
        candidates = max(limit, min(limit * _CANDIDATES_TIMES, APPROXIMATE_CANDIDATES_MAX))
    if type(candidates) is not int or candidates < limit:
        raise InvalidInput("candidates must be an integer that is no less than limit")
    if candidates > APPROXIMATE_CANDIDATES_MAX:
        raise LimitExceeded("the candidates", size=candidates, limit=APPROXIMATE_CANDIDATES_MAX)
    return candidates


def _ordered(filters: Any) -> list[tuple[str, Filter]]:
    if not isinstance(filters, Mapping) or any(
        name not in FILTERS or not isinstance(filter, Filter) for name, filter in filters.items()
    ):
        raise InvalidInput(f"filters are Filter objects, named one of {', '.join(FILTERS)}")
    return [(name, filters[name]) for name in FILTERS if name in filters]


def _vector(query: Any) -> list[float]:
    """Return the numbers of a vector, of whatever type it is."""
    # An iterator would reach the backend empty after the first pass.
    if not isinstance(query, Iterable) or isinstance(query, Iterator):
        raise InvalidInput("the query must be a text, or a vector of numbers")
    numbers = list(islice(query, VECTOR_DIMENSIONS_MAX + 1))
    if not 0 < len(numbers) <= VECTOR_DIMENSIONS_MAX:
        raise InvalidInput(f"a vector has 1 to {VECTOR_DIMENSIONS_MAX:,} numbers")
    return [
        _number(number, f"number {place} of the vector") for place, number in enumerate(numbers)
    ]


def _scores(pairs: Iterable[Any]) -> dict[str, float]:
    """Return the score of each record, rounded as it ranks."""
    scores: dict[str, float] = {}
    if not isinstance(pairs, Iterable):
        raise InvalidInput("the backend must return pairs of record id and score")
    found = list(islice(pairs, APPROXIMATE_CANDIDATES_MAX + 1))
    if len(found) > APPROXIMATE_CANDIDATES_MAX:
        raise LimitExceeded(
            "what the backend returned",
            size=len(found),
            limit=APPROXIMATE_CANDIDATES_MAX,
            advice="let it return no more than it is asked for",
        )
    for place, pair in enumerate(found):
        if type(pair) not in (tuple, list) or len(pair) != 2:
            raise InvalidInput(f"answer {place} of the backend is no pair of record id and score")
        id = _text(pair[0], f"the record id of answer {place} of the backend")
        score = round(_number(pair[1], f"the score of {id!r:.80}"), SCORE_DECIMALS) + 0.0
        if scores.setdefault(id, score) != score:
            raise InvalidInput(
                f"the backend returned {id!r:.80} with two scores, {scores[id]} and {score}"
            )
    return scores


def _number(number: Any, name: str) -> float:
    """Return any kind of real number, such as those of array libraries; refuse NaN and infinity."""
    if isinstance(number, Real) and not isinstance(number, bool):
        try:
            value = float(number)
        except OverflowError:
            value = float("inf")
        if isfinite(value):
            return value
    raise InvalidInput(f"{name} must be a finite number")


def _text(text: Any, name: str) -> str:
    if type(text) is not str or not text:
        raise InvalidInput(f"{name} must be a text that is not empty")
    canonical(text)
    return text
