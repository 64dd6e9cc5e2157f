"""Copies of random histories, made at random moments, between all kinds of stores."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.contract.commands import GetSide, ListSides, PutSide
from rote.errors import RoteError
from rote.kernel.log import page_sizes
from rote.space import Space
from rote.testing import FixedClock, SeededIds, StoreSettings
from rote.testing.strategies import operations
from tests.lanes import examples
from tests.properties.test_model import SCHEMAS, open_file, open_memory, open_postgres

# Another kind of store joins with an entry here.
OPENERS = {"file": open_file, "memory": open_memory, "postgres": open_postgres}

IDS = ("urn:a", "urn:b", "urn:c")
KEYS = ("one", "two", "three")

# The steps: a commit (its operations, its key, its meta), a copy, or a side row that moves.
Commit = tuple[list[dict[str, Any]], str | None, Any]
Step = Commit | str


@st.composite
def stories(draw: st.DrawFn) -> list[Step]:
    commit: st.SearchStrategy[Commit] = st.tuples(
        operations(IDS),
        st.sampled_from([None, None, *KEYS]),
        st.sampled_from([None, {"why": 1}, []]),
    )
    step: st.SearchStrategy[Step] = st.one_of(commit, commit, st.sampled_from(["copy", "side"]))
    return draw(st.lists(step, min_size=3, max_size=12))


@pytest.mark.parametrize("target_kind", OPENERS)
@pytest.mark.parametrize("source_kind", OPENERS)
@settings(max_examples=examples(12, 150))
@given(story=stories(), page_size=st.integers(1, 4))
def test_a_copy_is_the_source_whenever_it_is_made(
    source_kind: str, target_kind: str, story: list[Step], page_size: int
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as monkeypatch,
    ):
        monkeypatch.setattr(page_sizes, "PAGE_MAX", page_size)
        settings = StoreSettings(clock=FixedClock(), ids=SeededIds())
        stores = []
        for name, kind in (("source", source_kind), ("target", target_kind)):
            (Path(folder) / name).mkdir()
            stores.append(OPENERS[kind](Path(folder) / name, settings))
        source, target = stores
        with source, target:
            space = source.space("notes")
            for number, step in enumerate(story):
                if step == "copy":
                    assert source.copy("notes", target).ok
                elif step == "side":
                    _move_side(space, number)
                else:
                    _commit(space, step)
            assert source.copy("notes", target).ok
            _compare(space, target.space("notes"))
        SCHEMAS.take_back()


def _move_side(space: Space, number: int) -> None:
    row = space._port.answer(space.did, GetSide("run", "r"))
    fence = 0 if row is None else row.fence
    space._port.answer(space.did, PutSide("run", "r", number, fence=fence))
    if number % 3 == 0:
        space._port.answer(space.did, PutSide("run", f"r {number}", number, fence=0))


def _commit(space: Space, step: Any) -> None:
    sent, key, meta = step
    try:
        space.transact(sent, key=key, meta=meta)
    except RoteError:
        pass  # not every commit that is drawn can be made


def _compare(space: Space, copy: Space) -> None:
    assert (copy.version, copy.head) == (space.version, space.head)
    assert list(copy.log()) == list(space.log())
    for version in range(space.version + 1):
        assert list(copy.at(version).scan()) == list(space.at(version).scan())
    ours, theirs = space._port, copy._port
    for kind in ("key", "run"):
        assert (
            theirs.answer(copy.did, ListSides(kind, after="", limit=99)).rows
            == ours.answer(space.did, ListSides(kind, after="", limit=99)).rows
        )
