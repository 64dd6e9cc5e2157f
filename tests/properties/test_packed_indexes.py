"""A packed index equals a scan, on every branch and version, whatever history two stores make in turn."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.contract import View
from rote.engines import Engine
from rote.engines.sqlite import SqliteEngine
from rote.errors import NotFound
from rote.kernel.reading import index_upkeep, segments
from rote.opening.keys import MemoryKeys
from rote.space import Space
from rote.testing import StoreSettings, open_on
from rote.testing.packed_words import BOUNDS, PackedWords, WordFinder, scanned
from rote.testing.postgres import Schemas
from rote.testing.space_suite.packed_ground import WORDS, finder_of, readable
from tests.lanes import examples

SCHEMAS = Schemas()
KINDS = (
    "set", "set", "set", "set", "set", "many", "many", "delete", "delete", "patch", "other", "fork",
    "merge", "merge", "erase", "compact", "reindex",
)  # fmt: skip
STEPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, 1),  # the store
        st.integers(0, 99),
        st.integers(0, 99),
        st.lists(st.sampled_from(WORDS), max_size=3),
    ),
    min_size=20,
    max_size=40,
)
Step = tuple[str, int, int, int, list[str]]


class Histories:
    """One space in two stores, each with a reader that keeps bodies of segments."""

    def __init__(self, spaces: list[Space]) -> None:
        self._spaces = spaces
        self._finders = [finder_of(space) for space in spaces]

    def step(self, step: Step) -> None:
        kind, store, which, where, words = step
        space = self._spaces[store]
        branches = [branch.name for branch in space.branches()]
        on, id = space.on(branches[where % len(branches)]), f"urn:{which % 7}"
        value = {"text": " ".join(words), "n": which}
        if kind == "set":
            on.set(id, value)
        elif kind == "many":
            on.transact(
                [{"op": "set", "id": f"urn:{n}", "value": value} for n in range(1 + which % 9)]
            )
        elif kind == "other":
            on.set("other:a", which)
        elif kind == "fork" and len(branches) < 5:
            back = range(max(readable(space).start, 1), space.version + 1)
            at = back[which % len(back)] if back else None
            with suppress(NotFound):
                on.create_branch(f"b{len(branches)}", at=at)
        elif kind == "merge":
            source = branches[which % len(branches)]
            if source != on.branch:
                on.merge(source, on_conflict="theirs")
        elif kind == "erase":
            with suppress(NotFound):
                space.erase(id, reason="asked to")
        elif kind == "compact" and space.version:
            space.compact(keep=1 + which % 20)
        elif kind == "reindex":
            space.reindex()
        elif on.read(id).exists:
            on.delete(id) if kind == "delete" else on.patch(id, [_text(words)])

    def check(self) -> None:
        for space, finder in zip(self._spaces, self._finders, strict=True):
            for branch in space.branches():
                found = finder.find(*WORDS, view=View(branch.name))
                assert found == scanned(space.on(branch.name), *WORDS)

    def check_the_past(self) -> None:
        for space in self._spaces:
            finder = finder_of(space)
            for version in readable(space):
                for branch in space.at(version).branches():
                    self._check_at(finder, space, View(branch.name, version))
            assert space.verify().faults == ()

    def _check_at(self, finder: WordFinder, space: Space, view: View) -> None:
        assert view.version is not None
        found = finder.find(*WORDS, view=view)
        assert found == scanned(space.on(view.branch).at(view.version), *WORDS), view


def _text(words: list[str]) -> dict[str, Any]:
    return {"op": "add", "path": "/text", "value": " ".join(words)}


def on_sqlite(place: Path) -> Engine:
    return SqliteEngine(place / "memory.db", durability="os")


def on_postgres(place: Path) -> Engine:
    return SCHEMAS.engine(place)


@pytest.fixture(autouse=True)
def _bounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, bound in zip(BOUNDS, (2, 6, 9, 3), strict=True):
        monkeypatch.setattr(segments, name, bound)
    monkeypatch.setattr(index_upkeep, "INDEX_BATCH_COMMITS", 12)
    yield
    SCHEMAS.take_back()


@pytest.mark.parametrize(
    ("engine", "count"),
    [
        pytest.param(on_sqlite, examples(25, 1_000), id="sqlite"),
        pytest.param(on_postgres, examples(2, 40), id="postgres"),
    ],
)
def test_a_packed_index_equals_a_scan(engine: Callable[[Path], Engine], count: int) -> None:
    met: dict[str, int] = dict.fromkeys(("merged", "erased"), 0)

    @settings(max_examples=count)
    @given(STEPS, st.booleans())
    def equals(steps: list[Step], is_eager: bool) -> None:
        indexes = [PackedWords(is_eager=is_eager) for _ in range(2)]
        keys = MemoryKeys()
        with TemporaryDirectory() as folder, ExitStack() as stack:
            stores = [
                stack.enter_context(
                    open_on(engine(Path(folder)), StoreSettings(indexes=(index,)), keys=keys)
                )
                for index in indexes
            ]
            history = Histories([store.space("notes") for store in stores])
            for number, step in enumerate(steps):
                history.step(step)
                if number % 3 == 0:
                    history.check()
            history.check()
            history.check_the_past()
        met["merged"] += any(index.merged for index in indexes)
        met["erased"] += any(True in index.held for index in indexes)

    equals()
    if count >= 25:
        assert min(met.values()) >= count // 5, met
