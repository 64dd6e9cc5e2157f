"""The corpora kept of a space never answer otherwise than the space itself.

Here the limits may be small, with little drift before everything is read anew. The suites do the
same with both engines and the real limits.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import MemoryKeys
from rote.retrieval import states
from rote.retrieval.cache import CorpusCache
from rote.space import Space
from rote.testing import StoreSettings, open_on
from rote.testing.clocks import FixedClock
from rote.testing.retrieval_histories import RetrievalHistory
from tests.lanes import examples

STEPS = 60
# This many histories find a planted bug.
SEARCHED = 25


def play(folder: Path, seed: int) -> None:
    clock = FixedClock()
    settings = StoreSettings(clock=clock, content_rules=())
    with open_on(SqliteEngine(None), settings, keys=MemoryKeys()) as store:
        RetrievalHistory(store, clock, folder, seed).run(STEPS)


@pytest.fixture(params=[1_000, 6], ids=["large", "drift"])
def _sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "RETRIEVAL_DRIFT_MIN", request.param)


@pytest.mark.usefixtures("_sizes")
def test_a_followed_corpus_answers_as_a_plain_scan_does(tmp_path: Path) -> None:
    for seed in range(examples(4, 200)):
        play(tmp_path, seed)


# -- the same has teeth ----------------------------------------------------------------------------


def miss_deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states._Register, "take", lambda self, entities: set())


def miss_expiries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states._Register, "take_expired", lambda self, now, entities: set())


def keep_a_branch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    written = states._written

    def on_main(last: states.StateCorpus, view: Space) -> frozenset[str] | None:
        return written(last, view.on("main"))

    monkeypatch.setattr(states, "_written", on_main)


def follow_an_erasure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "_has_erased_record", lambda commit: False)
    monkeypatch.setattr(CorpusCache, "forget_space", lambda *_: None)


def keep_every_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the corpus of every version, not only that of the head."""

    def newest_of(self: states.StateCorpus, view: Space, now: int) -> bool:
        return self.version >= view.version

    monkeypatch.setattr(states.StateCorpus, "is_of", newest_of)


PLANTS = (
    miss_deletes, miss_expiries, keep_a_branch_as_it_was, follow_an_erasure, keep_every_version
)  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(SEARCHED):
        try:
            play(tmp_path, seed)
        except AssertionError:
            return
    raise AssertionError(f"{SEARCHED} histories did not show it")
