"""Compacting changes no merge: random histories, compacted somewhere, that go on and on.

The model never compacts, so its answers come from the whole history. The store must agree with it
in every merge, its bases and its conflicts, and in every state from the horizon on.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.values import canonical
from tests.lanes import examples
from tests.properties.test_merges import AT, STEPS, History, Open, Step, in_memory, on_postgres

LATER = st.lists(
    st.tuples(
        st.sampled_from(("write", "write", "merge", "merge", "cross", "fork", "fork", "compact")),
        st.integers(0, 99),
        st.integers(0, 99),
        st.integers(0, 99),
    ),
    min_size=4,
    max_size=14,
)
BRANCHES_MAX = 8
ENGINES = [
    pytest.param(in_memory, examples(25, 100), id="sqlite"),
    pytest.param(on_postgres, examples(2, 10), id="postgres"),
]


def _compact(history: History, number: int) -> None:
    """Compact somewhere at or above the horizon. The model only sees a commit without facts."""
    before = history.oldest + number % (history.model.version - history.oldest + 1)
    if max(before, 1) > history.oldest:
        history.oldest = max(before, 1)
        if history.space.compact(before=history.oldest).commit is not None:
            _count(history)


def _count(history: History) -> None:
    model = history.model
    model.append("main", (), now=AT, key=None, sent=b"", event={"type": "compact"})


def _fork(history: History, where: int, back: int) -> None:
    """Fork any branch anywhere above the horizon."""
    if len(history.names) < BRANCHES_MAX:
        span = history.model.version - history.oldest + 1
        history.branch(history.name(where), history.oldest + back % span)


def _go_on(history: History, later: list[Step]) -> None:
    for kind, *numbers in later:
        if kind == "compact":
            _compact(history, numbers[0])
        elif kind == "fork":
            _fork(history, *numbers[:2])
        else:
            getattr(history, f"_{kind}")(*numbers)


def _past(history: History) -> list[Any]:
    """Return every state from the horizon on, as the store returns it."""
    return [
        [(state.id, canonical(state.value), state.version, state.hash) for state in view.scan()]
        for version in range(history.oldest, history.model.version + 1)
        for view in [history.space.at(version).on(name) for name in history.names]
    ]  # fmt: skip


def _modelled(history: History) -> list[Any]:
    model = history.model
    return [
        [
            (id, canonical(model.read(id, version, name).value), model.read(id, version, name).version)
            for id in model.scan(version=version, branch=name)
        ]
        for version in range(history.oldest, model.version + 1)
        for name in history.names
    ]  # fmt: skip


@pytest.mark.parametrize(("opened", "count"), ENGINES)
def test_what_goes_on_after_a_compaction_is_what_would_have_gone_on(
    opened: Open, count: int
) -> None:
    @settings(max_examples=count)
    @given(STEPS, st.integers(0, 999), LATER)
    def holds(steps: list[Step], where: int, later: list[Step]) -> None:
        with opened() as history:
            history.run(steps)
            _compact(history, where)
            _go_on(history, later)
            for source in history.names[:4]:
                for target in history.names[:4]:
                    if source != target:
                        history.merge(source, target, "latest")
            history.check()
            told = [[state[:3] for state in states] for states in _past(history)]
            assert told == _modelled(history)

    holds()


@pytest.mark.parametrize(("opened", "count"), ENGINES)
def test_the_past_is_the_same_before_and_after(opened: Open, count: int) -> None:
    @settings(max_examples=count)
    @given(STEPS, st.integers(1, 999))
    def holds(steps: list[Step], where: int) -> None:
        with opened() as history:
            history.run(steps)
            history.oldest = 1 + where % history.model.version
            before = _past(history)
            history.space.compact(before=history.oldest)
            assert _past(history) == before

    holds()
