"""The laws of merging, over random histories of a few branches that merge again and again.

Few entities, few values and many merges: so bases are often several, and often disagree. Every
answer is also compared with the model, which finds bases in another way.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rote.contract import MergeResult
from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import MemoryKeys
from rote.space import Space
from rote.testing import StoreSettings, open_on
from rote.testing.merge_model import Merging, ModelMerge
from rote.testing.model import SpaceModel
from rote.testing.postgres import Schemas
from rote.values import canonical
from tests.lanes import examples

SCHEMAS = Schemas()
IDS = ("urn:a", "urn:b", "urn:c")
VALUES: tuple[Any, ...] = (
    1,
    {"x": 1},
    {"x": 1, "y": 2},
    {"x": 2},
    {"x": 2, "y": {"z": 1}},
    {"y": 2},
)
BRANCHES_MAX = 5
AT = "2026-01-01T12:00:00.000000Z"

Step = tuple[str, int, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("write", "write", "write", "merge", "merge", "cross", "cross", "branch")),
        st.integers(0, 99),
        st.integers(0, 99),
        st.integers(0, 99),
    ),
    min_size=8,
    max_size=25,
)
STRATEGIES = ("ours", "theirs", "latest", "paths", "paths", "fail")


class History:
    """A space and its model, which get the same calls."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.model = SpaceModel()
        self.names = ["main"]
        self.oldest = 0  # the horizon: nothing is left below it

    def on(self, name: str) -> Space:
        return self.space if name == "main" else self.space.on(name)

    def run(self, steps: list[Step]) -> "History":
        # Entities to disagree about, and a branch of a branch that began before they did.
        for which in range(len(IDS)):
            self._write(0, which, which + 1)
        self._branch(0, 0, 0)
        self._write(1, 0, 4)
        self._branch(1, 1, 0)
        for kind, *numbers in steps:
            getattr(self, f"_{kind}")(*numbers)
        return self

    def name(self, number: int) -> str:
        return self.names[number % len(self.names)]

    def _write(self, where: int, which: int, what: int) -> None:
        name, id = self.name(where), IDS[which % len(IDS)]
        operation: dict[str, Any] = {"op": "set", "id": id, "value": VALUES[what % len(VALUES)]}
        if what % 7 == 0 and self.model.read(id, branch=name).exists:
            operation = {"op": "delete", "id": id}
        self.on(name).transact([operation])
        self.model.transact([operation], now=AT, branch=name)

    def _branch(self, where: int, back: int, _: int) -> None:
        if len(self.names) < BRANCHES_MAX:
            self.branch(self.name(where), max(self.oldest, self.model.version - back % 4))

    def branch(self, parent: str, at: int | None = None) -> str:
        name = f"b{self.model.version}"
        self.on(parent).create_branch(name, at=at)
        self.model.create_branch(name, parent=parent, at=at, now=AT)
        self.names.append(name)
        return name

    def _merge(self, source: int, target: int, how: int) -> None:
        self.merge(self.name(source), self.name(target), STRATEGIES[how % len(STRATEGIES)])

    def _cross(self, one: int, other: int, how: int) -> None:
        """Merge two branches into each other as they were: from then on they have two bases."""
        left, right = self.name(one), self.name(other)
        mark = self.branch(left)
        self.names.remove(mark)
        self.merge(right, left, STRATEGIES[how % len(STRATEGIES)])
        self.merge(mark, right, STRATEGIES[how // 10 % len(STRATEGIES)])

    def merge(self, source: str, target: str, on_conflict: str) -> MergeResult:
        """Merge in both, with the same outcome and event."""
        expected = Merging(self.model).merge(
            source, target, on_conflict=on_conflict, resolutions={}, now=AT
        )
        result = self.on(target).merge(source, on_conflict=on_conflict)
        assert _told(result) == _expected(expected)
        return result

    def values(self, name: str) -> dict[str, Any]:
        return {state.id: canonical(state.value) for state in self.on(name).scan()}

    def check(self) -> None:
        """Check that the state of every branch is the fold of its facts, and that the chain holds."""
        for name in self.names:
            assert self.values(name) == {
                id: canonical(self.model.read(id, branch=name).value)
                for id in self.model.scan(branch=name)
            }
        report = self.space.verify()
        assert report.ok, report.faults


def _told(result: MergeResult) -> Any:
    event = None if result.commit is None else result.commit.event
    conflicts = [
        (c.id, canonical([c.base.value, c.ours.value, c.theirs.value])) for c in result.conflicts
    ]
    return result.status, list(result.merged), conflicts, event


def _expected(merge: ModelMerge) -> Any:
    event = None if merge.commit is None else merge.commit.event
    conflicts = [
        (c.id, canonical([c.base.value, c.ours.value, c.theirs.value])) for c in merge.conflicts
    ]
    return merge.status, merge.merged, conflicts, event


@contextmanager
def in_memory() -> Iterator[History]:
    with open_on(SqliteEngine(None), StoreSettings(), keys=MemoryKeys()) as store:
        yield History(store.space("notes"))


@contextmanager
def on_postgres() -> Iterator[History]:
    with TemporaryDirectory() as folder:
        engine = SCHEMAS.engine(Path(folder))
        with open_on(engine, StoreSettings(), keys=MemoryKeys()) as store:
            yield History(store.space("notes"))
    SCHEMAS.take_back()


Open = Callable[[], Any]
ENGINES = [
    pytest.param(in_memory, examples(40, 400), id="sqlite"),
    pytest.param(on_postgres, examples(4, 30), id="postgres"),
]


def law(check: Callable[[History], None], opened: Open, count: int) -> None:
    """Check a law after any history."""

    @settings(max_examples=count)
    @given(STEPS)
    def holds(steps: list[Step]) -> None:
        with opened() as history:
            check(history.run(steps))

    holds()


def every_merge_is_what_the_model_says(history: History) -> None:
    history.check()


def merging_twice_is_nothing(history: History) -> None:
    for source, target in permutations(history.names, 2):
        history.merge(source, target, "latest")
        assert history.merge(source, target, "fail").status == "nothing"


def a_dry_run_says_what_the_merge_does(history: History) -> None:
    pairs = zip(permutations(history.names[:3], 2), STRATEGIES, strict=False)
    for (source, target), strategy in pairs:
        version = history.space.version
        tried = history.on(target).merge(source, on_conflict=strategy, dry_run=True)
        assert history.space.version == version
        done = history.merge(source, target, strategy)
        assert replace(done, commit=None) == tried


def there_and_back_never_conflicts_and_leaves_both_equal(history: History) -> None:
    for source, target in permutations(history.names[:3], 2):
        history.merge(source, target, "theirs")
        back = history.merge(target, source, "fail")
        assert back.conflicts == ()
        assert history.values(source) == history.values(target)


def what_was_settled_does_not_return_until_the_source_changes_it(history: History) -> None:
    for source, target in permutations(history.names[:3], 2):
        history.merge(source, target, "ours")
        settled = history.values(target)
        history._write(history.names.index(source), 0, 1)
        result = history.merge(source, target, "fail")
        assert {c.id for c in result.conflicts} <= {IDS[0]}
        for id in IDS[1:]:
            assert history.values(target).get(id) == settled.get(id)


def no_value_appears_that_no_side_held(history: History) -> None:
    for strategy in ("ours", "theirs", "latest"):
        source, target = history.names[0], history.names[-1]
        ours, theirs = history.values(target), history.values(source)
        history.merge(source, target, strategy)
        for id in IDS:
            assert history.values(target).get(id) in (ours.get(id), theirs.get(id))


def conflicts_are_symmetric_and_strategies_differ_in_nothing_else(history: History) -> None:
    for source, target in permutations(history.names[:3], 2):
        here = history.on(target).merge(source, dry_run=True)
        there = history.on(source).merge(target, dry_run=True)
        if "nothing" not in (here.status, there.status):
            assert [(c.id, c.ours, c.theirs) for c in here.conflicts] == [
                (c.id, c.theirs, c.ours) for c in there.conflicts
            ]
        one, other = history.branch(target), history.branch(target)
        history.merge(source, one, "ours")
        history.merge(source, other, "theirs")
        different = {
            id for id in IDS if history.values(one).get(id) != history.values(other).get(id)
        }
        assert different == {conflict.id for conflict in here.conflicts}


def an_untouched_target_gets_the_sources_state(history: History) -> None:
    for source in history.names[:3]:
        target = history.branch(source)
        history._write(history.names.index(source), 1, 2)
        history._write(history.names.index(source), 2, 7)
        assert history.merge(source, target, "fail").conflicts == ()
        assert history.values(target) == history.values(source)


def past_reads_do_not_change(history: History) -> None:
    def past(newest: int) -> list[Any]:
        return [
            [(state.id, canonical(state.value), state.hash) for state in history.on(name).at(v).scan()]
            for name in names
            for v in range(newest + 1)
        ]  # fmt: skip

    names, newest = tuple(history.names), history.model.version
    before = past(newest)
    for source, target in permutations(names[:3], 2):
        history.merge(source, target, "theirs")
    if len(names) > 1:
        history.space.delete_branch(names[-1])
    assert past(newest) == before


LAWS = [
    every_merge_is_what_the_model_says,
    merging_twice_is_nothing,
    a_dry_run_says_what_the_merge_does,
    there_and_back_never_conflicts_and_leaves_both_equal,
    what_was_settled_does_not_return_until_the_source_changes_it,
    no_value_appears_that_no_side_held,
    conflicts_are_symmetric_and_strategies_differ_in_nothing_else,
    an_untouched_target_gets_the_sources_state,
    past_reads_do_not_change,
]


@pytest.mark.parametrize(("opened", "count"), ENGINES)
@pytest.mark.parametrize("check", LAWS, ids=lambda check: check.__name__)
def test_the_law_holds(check: Callable[[History], None], opened: Open, count: int) -> None:
    law(check, opened, count)
