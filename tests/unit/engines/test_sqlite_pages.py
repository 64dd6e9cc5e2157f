"""The cost of a page of a long history in SQLite, in steps of its machine, which are the same every time."""

from pathlib import Path

import pytest

from rote.engines.rows import MAIN, Batch, Line
from rote.engines.sqlite import SqliteEngine
from rote.testing.engine_suite.ground import MAIN_BRANCH, commit, fact
from rote.values.limits import INTEGER_MAX

FACTS = 2_000


@pytest.mark.parametrize(
    "line",
    [((MAIN, INTEGER_MAX),), ((MAIN + 1, INTEGER_MAX), (MAIN, INTEGER_MAX))],
    ids=["on one branch", "through a fork"],
)
def test_a_page_far_below_costs_what_one_at_the_top_does(tmp_path: Path, line: Line) -> None:
    """A page was searched for from the newest fact on, so a whole history cost the square of its length."""
    engine = SqliteEngine(tmp_path / "memory.db", durability="os")
    space = engine.create_space(did="did:x", name="x", seal=b"", main=MAIN_BRANCH).number
    with engine.writer(space) as writes:
        versions = range(1, FACTS + 1)
        facts = [fact("urn:a", version) for version in versions]
        writes.append(space, Batch([commit(version) for version in versions], facts, []))
    reads = engine.reader()

    def steps(before: int) -> int:
        count = 0

        def step() -> bool:
            nonlocal count
            count += 1
            return False

        reads.connection.set_progress_handler(step, 1)
        found = reads.history(space, "urn:a", line, before=(before, 0), after=0, limit=9)
        reads.connection.set_progress_handler(None)
        assert [row.version for row in found] == list(range(before - 1, before - 10, -1))
        return count

    assert steps(10) <= 2 * steps(FACTS + 1)
    engine.close()
