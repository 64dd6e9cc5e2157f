"""Memories that the index finds are those of a plain scan, with the same scores."""

import itertools
from random import Random
from typing import Any, cast

import pytest

from rote.contract import Packed
from rote.questions import Request, parse_request
from rote.records.envelope import read_record
from rote.retrieval.corpus import Corpus
from rote.retrieval.ranking.scoring import Telling, telling_of, terms_of
from rote.retrieval.segments import layout, scoring
from rote.retrieval.segments.asking import Answer
from rote.retrieval.segments.living import Living, are_ordered, in_order
from rote.retrieval.segments.memories import FoundMemories
from rote.retrieval.segments.segment import Segment
from rote.retrieval.segments.words import WORDS, WORDS_NONE, WordsIndex
from rote.retrieval.spaces import memories_of
from rote.space import Space
from rote.testing.ranking_draws import RankedMemories
from tests.lanes import examples
from tests.unit.retrieval.segments.changes import WORDS as DRAWN
from tests.unit.retrieval.segments.changes import History, pack

SECOND = 1_000_000


class Case:
    """A history in segments, a line of it, and a time."""

    def __init__(self, seed: int, index: WordsIndex = WORDS) -> None:
        self.random = random = Random(seed)
        count = random.choice((1, 10, 60))
        self.history = History(random, count)
        self.index = index
        cuts = sorted({0, count, *random.choices(range(count + 1), k=random.randrange(6))})
        parts = [
            part
            for start, end in itertools.pairwise(cuts)
            for part in pack(index, self.history.changes[start:end])
        ]
        self.segments = tuple(
            in_order(Segment(each.body, postings=each.postings) for each in parts)
        )
        self.move()

    def move(self) -> None:
        """Draw another line and time."""
        random, count = self.random, len(self.history.changes)
        version = random.choice((count, random.randint(0, count)))
        branches = [1, *(each for each in (2, 3) if self.history.forks[each - 2] <= version)]
        self.line = self.history.line(random.choice(branches), version)
        self.now = random.choice((0, version, version + 3, version + 10)) * SECOND

    @property
    def living(self) -> Living:
        return Living.of(self.segments, self.line)

    def scanned(self) -> Corpus:
        """Return the memories of the state as a plain scan reads them."""
        corpus = Corpus()
        for id, value in sorted(self.history.state(self.line).items()):
            found = read_record(id, value)
            if found is not None and not found[1].has_expired(self.now):
                read = memories_of(found[0])
                corpus.extend("s", [each for each, _ in read], [details for _, details in read])
        return corpus

    def found(self, living: Living, request: Request) -> FoundMemories:
        timed = living.at(self.now)
        postings = [
            {
                term: posting
                for term in terms_of(request)
                if (posting := part.segment.posting(term, {})) is not None
            }
            for part in timed.parts
        ]
        return FoundMemories(cast(Space, None), "s", Answer(timed, postings))

    def request(self) -> Request:
        draws = RankedMemories(self.random.randrange(1 << 30))
        draws.words = list(DRAWN)
        given: Any = {**draws.request(["s.jsonl"]), "policy": "lexical-1"}
        if self.random.random() < 0.3:
            given["filters"] = {
                **(given.get("filters") or {}),
                "where": self.random.choice(
                    ({"turn": 2}, {"thread": "a"}, {"turn": "5"}, {"thread": 5}, {"turn": 1e300})
                ),
            }
        given.setdefault("scoring", {})["language"] = self.index.language
        return parse_request(given, has_store=False, policies=("lexical-1",))


def ids_of(memories: Any, rows: Any) -> list[str]:
    return sorted(memories.ids[row] for row in rows)


def check_alike(case: Case, living: Living, request: Request) -> int:
    """Compare a question to the index with one to all memories; return how many have a score."""
    plain, found = case.scanned(), case.found(living, request)
    assert len(found) == len(plain)
    assert ids_of(found, found.rows()) == ids_of(plain, plain.rows())
    language = request.scoring.language
    telling = telling_of(request, [(len(plain), plain.frequencies(language))])
    assert telling_of(request, [(len(found), found.frequencies(language))]) == telling
    left, other = plain.filtered(request.filters, ()), found.filtered(request.filters, ())
    assert ids_of(found, other) == ids_of(plain, left)
    expected = plain.scores(request, telling, left)
    scores = found.scores(request, telling, other)
    assert len(scores) == len(expected)
    by_id = {plain.ids[row]: score for score, row in expected.best(len(expected))}
    assert {found.ids[row]: score for score, row in scores.best(len(scores))} == by_id
    check_best(scores, sorted(by_id.values(), reverse=True))
    raised = scores.raised(lambda row: found.instants[row] % 1_000)
    for score, row in raised.best(len(scores)):
        assert score == by_id[found.ids[row]] + found.instants[row] % 1_000
    return len(scores)


def check_best(scores: Any, expected: list[int]) -> None:
    for count in range(1, len(expected)):
        best = sorted((score for score, _ in scores.best(count)), reverse=True)
        assert len(best) >= count
        assert best == [score for score in expected if score >= best[-1]]
        assert scores.count_from(best[-1]) == len(best)


@pytest.mark.parametrize("few", [0, 10**9], ids=["offers", "lanes"])
def test_the_index_answers_as_a_scan_does(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "CELLS_OF_MANY", few)
    scored = 0
    for seed in range(examples(150, 10_000)):
        case = Case(seed, (WORDS, WORDS_NONE)[seed % 2])
        for _ in range(3):
            scored += check_alike(case, case.living, case.request()) > 1
            case.move()
    assert scored * 3 > examples(150, 10_000)


def test_what_is_extended_is_what_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "LAYOUT_EMPTY_SHARE", 1)
    monkeypatch.setattr(layout, "_room", lambda places: len(places) + 2)
    for seed in range(examples(100, 5_000)):
        case = Case(seed)
        if not are_ordered(case.segments):
            continue
        living = Living.of(case.segments[:1], case.line)
        for place in range(1, len(case.segments)):
            if case.random.random() < 0.5:
                assert living.layout.rows is not None  # the next layout follows this one
            if case.random.random() < 0.5:
                assert living.at(case.now).layout.rows is not None
            living = living.extended(case.segments[place : place + 1], case.line)
        assert [part.living for part in living.parts] == [part.living for part in case.living.parts]
        check_alike(case, living, case.request())


def test_segments_in_no_order_give_the_newest_rows() -> None:
    for seed in range(examples(60, 2_000)):
        case = Case(seed)
        segments = [Segment(each.body, postings=each.postings) for each in shuffled(case)]
        case.segments = tuple(in_order(segments))
        check_alike(case, case.living, case.request())


def shuffled(case: Case) -> list[Packed]:
    """Return segments whose ranges of versions overlap, as a compaction leaves them."""
    parts: dict[int, list[Any]] = {}
    for change in case.history.changes:
        parts.setdefault(change.branch, []).append(change)
    return [packed for branch in parts for packed in pack(case.index, parts[branch])]


def test_no_total_is_below_the_least() -> None:
    case = Case(3)
    request = case.request()
    plain = case.scanned()
    telling = telling_of(request, [(len(plain), plain.frequencies("english"))])
    tiny = Telling(telling.terms, dict.fromkeys(telling.idf, 1), 10**9)
    found = case.found(case.living, request)
    expected = plain.scores(request, tiny, ())
    assert len(found.scores(request, tiny, ())) == len(expected)
