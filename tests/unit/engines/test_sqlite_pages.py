"""The cost of a page of a long history in SQLite, in steps of its machine, which are the same every time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rote.engines.rows import MAIN, Batch, FactRow, Line
from rote.engines.sqlite import SqliteEngine
from rote.engines.sqlite.reader import SqliteReader
from rote.testing.engine_suite.ground import MAIN_BRANCH, ON_MAIN, commit, fact
from rote.values.limits import INTEGER_MAX

FACTS = 2_000


@pytest.mark.parametrize(
    "line",
    [((MAIN, INTEGER_MAX),), ((MAIN + 1, INTEGER_MAX), (MAIN, INTEGER_MAX))],
    ids=["on one branch", "through a fork"],
)
def test_a_page_far_below_costs_what_one_at_the_top_does(tmp_path: Path, line: Line) -> None:
    """A page was searched for from the newest fact on, so a whole history cost the square of its length."""
    engine, space = _written(tmp_path)

    def page(before: int) -> int:
        with _steps(engine.reader()) as steps:
            found = engine.reader().history(
                space, "urn:a", line, before=(before, 0), after=0, limit=9
            )
        assert [row.version for row in found] == list(range(before - 1, before - 10, -1))
        return len(steps)

    assert page(10) <= 2 * page(FACTS + 1)
    engine.close()


def test_a_page_costs_no_more_than_the_facts_up_to_its_last_and_pins_nothing(
    tmp_path: Path,
) -> None:
    engine, space = _written(tmp_path)
    reads = engine.reader()

    def page(limit: int) -> int:
        with _steps(reads) as steps:
            found = reads.history(
                space, "urn:a", ON_MAIN, before=None, after=0, limit=limit, is_last=_is_ninth
            )
        assert len(found) == 9
        return len(steps)

    assert page(FACTS) <= 2 * page(9)
    assert reads.connection.txn_state() == 0  # a statement in the middle would hold an old state
    engine.close()


def _is_ninth(row: FactRow) -> bool:
    return row.version == FACTS - 8


def _written(place: Path) -> tuple[SqliteEngine, int]:
    """Return an engine with one entity that was written many times, and its space."""
    engine = SqliteEngine(place / "memory.db", durability="os")
    space = engine.create_space(did="did:x", name="x", seal=b"", main=MAIN_BRANCH).number
    with engine.writer(space) as writes:
        versions = range(1, FACTS + 1)
        facts = [fact("urn:a", version) for version in versions]
        writes.append(space, Batch([commit(version) for version in versions], facts, []))
    return engine, space


@contextmanager
def _steps(reads: SqliteReader) -> Iterator[list[None]]:
    """Yield a list that gets an item for each step of SQLite's machine."""
    steps: list[None] = []

    def step() -> bool:
        steps.append(None)
        return False

    reads.connection.set_progress_handler(step, 1)
    yield steps
    reads.connection.set_progress_handler(None)
