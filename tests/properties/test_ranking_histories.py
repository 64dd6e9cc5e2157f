"""lexical-1 on a space answers as the plain reference does: on both engines and in any process.

The index of words is kept by commits, packed, merged and rewritten by erasures. Nothing of that may
show in an answer.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from rote.engines import Engine
from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import MemoryKeys
from rote.testing import StoreSettings, naive_ranking, open_on, ranking_questions
from rote.testing.clocks import FixedClock
from rote.testing.naive_ranking import REASONS
from rote.testing.postgres import postgres_engine, schema_of, server_url
from rote.testing.ranking_histories import RankingHistory
from rote.testing.retrieval_histories import plain_records
from tests.faults.test_retrieval import child
from tests.lanes import SLOW, examples
from tests.lowering import SMALL_SEGMENTS, TINY_SEGMENTS, lower_limits

STEPS = 30
# All questions of the slow lane would keep one process busy for too long.
PARTS = examples(1, 8)
QUESTIONS = examples(250, 2_500)  # of each part, on each engine
FIRST, SEEDS = 1_000_000 if SLOW else 0, 1_000  # seeds differ from lane to lane, and by part
# Histories whose last state is asked again by other processes, and the questions to each.
KEPT, LAST = examples(2, 10), 10
# Of a hundred questions at least so many must have met each of these.
MET_MIN = {
    **dict.fromkeys(REASONS, 2), "package": 20, "search": 10, "entry": 15, "lent": 4, "branch": 6,
    "merged": 5, "old version": 4, "expired": 4, "erased": 4, "cut": 12, "tie": 1, "none": 1,
    "recency": 3, "filters": 3, "query_terms": 3, "two names": 6, "transaction": 2,
    "index": 60, "segments": 30,
}  # fmt: skip
# Of one history after the other.
LIMITS: tuple[dict[str, int], ...] = (TINY_SEGMENTS, SMALL_SEGMENTS, {})
ENVIRONMENTS = (
    {"PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu", "LC_ALL": "tr_TR.UTF-8"},
    {"PYTHONHASHSEED": "4294967295", "TZ": "America/St_Johns", "LC_ALL": "C"},
)
ENGINES: dict[str, Callable[[Path], Engine]] = {
    "sqlite": lambda place: SqliteEngine(place / "memory.db", durability="os"),
    "postgres": postgres_engine,
}


def play(engine: Engine, folder: Path, seed: int) -> tuple[RankingHistory, list[Any], str]:
    """Play a history; return it, its last questions with their answers, and its last moment."""
    clock = FixedClock()
    settings = StoreSettings(clock=clock, content_rules=())
    with open_on(engine, settings, keys=MemoryKeys()) as store:
        history = RankingHistory(store, clock, folder, seed)
        history.run(STEPS)
        return history, history.last_questions(LAST), clock.now().isoformat()


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_state_answers_as_the_plain_reference_does(
    name: str, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: Counter[str] = Counter()
    kept: list[dict[str, Any]] = []
    expected: list[list[str]] = []
    seed = FIRST + part * SEEDS
    while met["asked"] < QUESTIONS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        with monkeypatch.context() as patch:
            lower_limits(patch, LIMITS[seed % len(LIMITS)])
            history, asked, now = play(ENGINES[name](folder), folder, seed)
        met += history.met
        if len(kept) < KEPT:
            place = {"url": server_url(), "schema": schema_of(folder)} if name == "postgres" else {}
            questions = [msgspec.to_builtins(question) for question, _ in asked]
            kept.append({"folder": str(folder), "now": now, "questions": questions, **place})
            expected.append([orjson.dumps(answer).decode() for _, answer in asked])
        seed += 1
    for what, least in MET_MIN.items():
        assert met[what] * 100 >= least * met["asked"], (what, met)
    (tmp_path / "kept.json").write_bytes(orjson.dumps(kept))
    for environment in ENVIRONMENTS[: examples(1, 2)]:
        told = child("ask", tmp_path / "kept.json", environment=environment)
        assert told == expected, environment


# -- the same has teeth ----------------------------------------------------------------------------


def no_neighbour_lends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(naive_ranking, "_lender", lambda thread, place: None)


def nothing_expires(patch: pytest.MonkeyPatch) -> None:
    real = plain_records

    def all_of(view: Any, *, living: bool = True) -> Any:
        both = [*real(view), *real(view, living=False)]
        return sorted(both, key=lambda each: each["record_id"])

    patch.setattr(ranking_questions, "plain_records", all_of)


def filters_pass_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(naive_ranking, "_passes", lambda each, filters: True)


def lengths_do_not_count(patch: pytest.MonkeyPatch) -> None:
    real = naive_ranking._weight
    patch.setattr(naive_ranking, "_weight", lambda each, *more: real({**each, "length": 5}, *more))


def equals_keep_their_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(naive_ranking, "later_first", lambda at: 0)


PLANTS = (
    no_neighbour_lends, nothing_expires, filters_pass_all, lengths_do_not_count,
    equals_keep_their_order,
)  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_difference_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(20):
        try:
            play(SqliteEngine(None), tmp_path, seed)
        except AssertionError:
            return
    raise AssertionError("20 histories did not show it")
