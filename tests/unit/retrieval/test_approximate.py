"""The wrapper against backends that break every rule they can."""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import permutations, repeat
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.errors import InvalidInput, InvalidValue, LimitExceeded
from rote.retrieval import Answer, ApproximateBackend, Filter
from rote.traces import check_trace
from rote.values import canonical
from rote.values.limits import APPROXIMATE_CANDIDATES_MAX, VECTOR_DIMENSIONS_MAX
from tests.lanes import examples
from tests.unit.traces.traces import good_run

IDS = {"run_id": "run-1", "event_id": "run-1/0", "retrieval_event_id": "run-1/retrieval/0"}
TIED = [("b", 0.5), ("a", 0.5), ("d", 0.9), ("c", 0.5)]


def backend(pairs: Any) -> ApproximateBackend:
    return ApproximateBackend(
        lambda query, count: pairs, policy_id="vectors", policy_version="1", record_type="note"
    )


def ask(pairs: Any, query: Any = "question", **options: Any) -> Answer:
    return backend(pairs).retrieve(query, **{"limit": 3, **options})


def ids(answer: Answer) -> list[str]:
    return [hit.record_id for hit in answer.hits]


def is_fit(answer: Answer) -> bool:
    run = good_run()
    run["retrieval"]["events"][0] = answer.event(**IDS)
    return check_trace(run["trace"], run["retrieval"]).ok


@pytest.mark.parametrize("search", [5, None, [("a", 0.5)]])
def test_a_search_that_cannot_be_called_is_refused_when_it_is_given(search: Any) -> None:
    with pytest.raises(InvalidInput, match="search must be a function"):
        ApproximateBackend(search, policy_id="vectors", policy_version="1", record_type="note")


def test_hits_are_ranked_by_score_then_id_and_the_event_says_so() -> None:
    answer = ask(TIED)
    assert [(hit.record_id, hit.score, hit.rank) for hit in answer.hits] == [
        ("d", 0.9, 1), ("a", 0.5, 2), ("b", 0.5, 3),
    ]  # fmt: skip
    event = answer.event(**IDS)
    assert event["selected_records"] == [
        {"record_id": "d", "record_type": "note", "score": 0.9, "rank": 1},
        {"record_id": "a", "record_type": "note", "score": 0.5, "rank": 2},
        {"record_id": "b", "record_type": "note", "score": 0.5, "rank": 3},
    ]
    assert (event["candidate_count"], event["retrieval_mode"]) == (4, "text_to_vector")
    assert (event["policy_id"], event["policy_version"]) == ("vectors", "1")
    assert is_fit(answer)


def test_a_shuffled_answer_gives_the_same_bytes() -> None:
    said = {canonical(ask(list(each)).event(**IDS)) for each in permutations(TIED)}
    assert len(said) == 1


def test_scores_that_differ_in_the_10th_decimal_are_a_tie() -> None:
    assert ids(ask([("b", 0.5000000001), ("a", 0.5)])) == ["a", "b"]
    assert ids(ask([("b", 0.500000001), ("a", 0.5)])) == ["b", "a"]


def test_negative_zero_is_zero() -> None:
    answer = ask([("b", 0.0), ("a", -0.0), ("c", -1e-12)])
    assert ids(answer) == ["a", "b", "c"]
    assert b"-0" not in canonical(answer.event(**IDS)["selected_records"])


def test_the_same_record_twice_is_one_and_with_two_scores_an_error() -> None:
    answer = ask([("a", 0.5), ("a", 0.5), ("a", 0.50000000001)])
    assert ids(answer) == ["a"]
    assert answer.event(**IDS)["candidate_count"] == 1
    with pytest.raises(InvalidInput, match=r"'a' with two scores, 0\.5 and 0\.6"):
        ask([("a", 0.5), ("a", 0.6)])


@pytest.mark.parametrize(
    "score", [float("nan"), float("inf"), float("-inf"), True, "0.5", None, 1j, Decimal(1), 10**400]
)
def test_a_score_that_is_no_finite_number_is_refused(score: Any) -> None:
    with pytest.raises(InvalidInput, match="the score of 'a' must be a finite number"):
        ask([("b", 1.0), ("a", score)])


@pytest.mark.parametrize("score", [1, Fraction(1, 3), 0.25])
def test_any_real_number_is_a_score(score: Any) -> None:
    assert is_fit(ask([("a", score)]))


@pytest.mark.parametrize("pair", [None, "ab", ("a",), ("a", 1.0, 2), {"a": 1.0}, 5])
def test_what_is_no_pair_is_refused(pair: Any) -> None:
    with pytest.raises(InvalidInput, match="answer 1 of the backend is no pair"):
        ask([("x", 1.0), pair])


@pytest.mark.parametrize("id", ["", None, 5, b"a"])
def test_a_record_id_is_a_text(id: Any) -> None:
    with pytest.raises(InvalidInput, match="the record id of answer 0"):
        ask([(id, 1.0)])


def test_a_record_id_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(InvalidValue):
        ask([("\ud800", 1.0)])


def test_what_goes_wrong_inside_a_backend_is_its_own_error() -> None:
    def failing() -> Iterator[tuple[str, float]]:
        yield "a", 1.0
        raise TypeError("a bug of the backend")

    with pytest.raises(TypeError, match="a bug of the backend"):
        ask(failing())


@pytest.mark.parametrize("filters", [[1], "tags", {"tags": "x"}, {"other": Filter(1, bool)}])
def test_filters_are_filters(filters: Any) -> None:
    with pytest.raises(InvalidInput, match="filters are"):
        ask(TIED, filters=filters)


@pytest.mark.parametrize("pairs", [None, 5])
def test_an_answer_that_is_no_list_is_refused(pairs: Any) -> None:
    with pytest.raises(InvalidInput, match="must return pairs"):
        ask(pairs)


def test_an_endless_answer_ends() -> None:
    def endless() -> Iterator[tuple[str, float]]:
        yield from repeat(("a", 1.0))

    with pytest.raises(LimitExceeded):
        ask(endless())


def test_more_than_was_asked_for_is_ranked_and_cut() -> None:
    answer = ask([(f"{n:03}", 1.0) for n in reversed(range(500))], limit=2, candidates=3)
    assert ids(answer) == ["000", "001"]
    assert answer.event(**IDS)["candidate_count"] == 500


def test_nothing_found_is_an_answer() -> None:
    assert ask([]).hits == ()
    assert is_fit(ask([]))


def test_an_error_of_the_backend_is_its_own() -> None:
    def search(query: Any, count: int) -> Any:
        raise ConnectionError("gone")

    failing = ApproximateBackend(search, policy_id="v", policy_version="1", record_type="note")
    with pytest.raises(ConnectionError, match="gone"):
        failing.retrieve("x", limit=1)


def test_the_backend_gets_the_question_as_it_is_and_how_many_are_wanted() -> None:
    asked: list[Any] = []

    def search(query: Any, count: int) -> Any:
        asked.append((query, count))
        return []

    made = ApproximateBackend(search, policy_id="v", policy_version="1", record_type="note")
    vector = (0.5, 1)
    made.retrieve("Question", limit=3)
    made.retrieve(vector, limit=3, candidates=7)
    made.retrieve("x", limit=APPROXIMATE_CANDIDATES_MAX)
    assert asked == [("Question", 12), (vector, 7), ("x", APPROXIMATE_CANDIDATES_MAX)]


# -- filters ------------------------------------------------------------------------------------------


def test_filters_are_applied_in_one_order_and_told() -> None:
    looked: list[tuple[str, str]] = []

    def filter_of(name: str, refused: str) -> Filter:
        def keeps(id: str) -> bool:
            looked.append((name, id))
            return id != refused

        return Filter({"not": refused}, keeps)

    given_order = {"ttl": filter_of("ttl", "a"), "namespace": filter_of("namespace", "d")}
    answer = ask(TIED, filters=given_order)
    assert ids(answer) == ["b", "c"]
    assert [name for name, _ in looked] == ["namespace"] * 4 + ["ttl"] * 3
    assert answer.event(**IDS)["applied_filters"] == {
        "namespace": {"not": "d"}, "tags": None, "trust": None, "scope": None, "ttl": {"not": "a"},
    }  # fmt: skip
    assert answer.event(**IDS)["candidate_count"] == 2
    assert is_fit(answer)


@pytest.mark.parametrize("filters", [{"other": Filter(1, bool)}, {"tags": ["x"]}])
def test_a_filter_of_another_kind_is_refused(filters: Any) -> None:
    with pytest.raises(InvalidInput, match="named one of namespace, tags, trust, scope, ttl"):
        ask(TIED, filters=filters)


# -- the question -------------------------------------------------------------------------------------


def test_the_fingerprint_is_of_all_that_was_asked() -> None:
    def asked(query: Any = "question", **options: Any) -> Any:
        return ask(TIED, query, **options).event(**IDS)["query_fingerprint"]

    tags = {"tags": Filter(["x"], lambda id: True)}
    different = [
        asked(), asked("Question"), asked(limit=2), asked(candidates=9), asked(filters=tags),
        asked([1.0, 2.0]), asked([2.0, 1.0]),
    ]  # fmt: skip
    assert len(set(different)) == len(different)
    assert asked([0.1, 0.2]) == asked((0.1, 0.20000000001))
    assert asked("cafe\u0301") == asked("caf\u00e9")


def test_a_vector_is_asked_directly() -> None:
    answer = ask(TIED, [0.25, 1])
    assert answer.event(**IDS)["retrieval_mode"] == "vector_direct"
    assert is_fit(answer)


@pytest.mark.parametrize(
    "query", [[], [float("nan")], ["1"], [True], None, 5, iter([1.0]), [1.0] * (VECTOR_DIMENSIONS_MAX + 1)],
    ids=["empty", "nan", "text", "true", "none", "number", "once", "long"],
)  # fmt: skip
def test_a_vector_is_of_finite_numbers(query: Any) -> None:
    with pytest.raises(InvalidInput):
        ask(TIED, query)


@pytest.mark.parametrize(
    "options",
    [{"limit": 0}, {"limit": True}, {"limit": 1.5}, {"limit": "3"}, {"limit": None},
     {"candidates": 2}, {"candidates": "9"}],
)  # fmt: skip
def test_a_limit_is_an_integer_from_1_on(options: Any) -> None:
    with pytest.raises(InvalidInput, match="must be an integer"):
        ask(TIED, **options)
    with pytest.raises(LimitExceeded):
        ask(TIED, limit=1, candidates=APPROXIMATE_CANDIDATES_MAX + 1)


# -- generated ----------------------------------------------------------------------------------------

PAIRS = st.dictionaries(
    st.text("abé", min_size=1, max_size=3),
    st.floats(-2, 2) | st.sampled_from([0.5, 0.5000000001, -0.0, 1e-12]),
    max_size=8,
)


@settings(max_examples=examples(80, 5_000))
@given(PAIRS, st.randoms(use_true_random=False), st.integers(1, 5))
def test_whatever_order_and_repeats_a_backend_has_the_answer_is_one_and_fit(
    scores: dict[str, float], random: Any, limit: int
) -> None:
    pairs = [*scores.items(), *list(scores.items())[:2]]
    random.shuffle(pairs)
    answer = ask(pairs, limit=limit)
    expected = sorted(scores, key=lambda id: (-round(scores[id], 9), id))[:limit]
    assert ids(answer) == expected
    assert is_fit(answer)
