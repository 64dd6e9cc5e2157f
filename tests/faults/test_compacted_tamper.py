"""Every change of what a compaction has left is found too: the same tests, on a compacted store,
for the tables that a compaction changes."""

from pathlib import Path
from typing import Any

import pytest

from tests.faults import test_tamper
from tests.faults.tampering import Row, Sample, make_sample
from tests.faults.test_tamper import Verdicts, rows, verdicts

__all__ = ["rows", "verdicts"]

TABLES = ("commits", "facts", "sides")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return make_sample(tmp_path_factory.mktemp("sample") / "memory.db", compacted=True)


def test_the_sample_holds_every_kind_of_what_is_left(
    sample: Sample, rows: dict[str, list[Row]]
) -> None:
    facts = [row.cells for row in rows["facts"] if row.cells["space"] == 1]
    whole = [fact for fact in facts if fact["salt"] is not None]
    left = [fact for fact in whole if fact["body"] is None and fact["value"] is not None]
    assert {fact["op"] for fact in left} == {2}
    assert len(whole) < len(facts)  # something was erased
    assert {fact["op"] for fact in facts} == {1, 2, 3}
    commits = [row.cells for row in rows["commits"] if row.cells["space"] == 1]
    assert len(commits) < sample.version
    assert any(commit["key"] for commit in commits[:3])
    assert "compaction" in {row.cells["kind"] for row in rows["sides"]}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "check",
    [
        test_tamper.test_every_changed_byte_is_found,
        test_tamper.test_every_missing_row_is_found,
        test_tamper.test_two_rows_that_changed_places_are_found,
        test_tamper.test_every_forged_row_is_found,
    ],
    ids=lambda check: check.__name__,
)
def test_what_is_left_is_proven(
    check: Any,
    *,
    sample: Sample,
    rows: dict[str, list[Row]],
    store_path: Path,
    verdicts: Verdicts,
    table: str,
) -> None:
    check(sample, rows, store_path, verdicts, table)
