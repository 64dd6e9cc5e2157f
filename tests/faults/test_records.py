"""Many processes append to one record: none is lost, none is doubled, everyone counts right."""

import sys
from pathlib import Path

import pytest

from rote import Memory
from rote.testing.postgres import schema_of, server_url
from tests.faults.children import NAME, open_store
from tests.faults.persistence import place_of
from tests.faults.record_children import KEY
from tests.faults.test_processes import run_together
from tests.lanes import examples

WRITERS = examples(3, 8)
TIMES = examples(20, 125)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_appends_of_many_processes_are_all_there_once(tmp_path: Path, engine: str) -> None:
    place = str(tmp_path / "memory.db")
    if engine == "postgres":
        place = place_of(server_url(), tmp_path, schema=schema_of(tmp_path))
    with open_store(place) as store:
        store.space(NAME)
    writers = [f"writer-{number}" for number in range(WRITERS)]
    command = [sys.executable, "-m", "tests.faults.record_children", "append", place]
    outputs = run_together([[*command, writer, str(TIMES)] for writer in writers])
    told = [line.split() for output in outputs for line in output.splitlines() if line != "ready"]
    # Each was told another number, and one of them made the record.
    assert sorted(int(entries) for entries, _ in told) == list(range(1, WRITERS * TIMES + 1))
    assert [created for _, created in told].count("True") == 1
    with open_store(place) as store:
        space = store.space(NAME)
        entries = Memory(space).get(*KEY)["record"]["payload"]["entries"]
        for writer in writers:
            numbers = [entry["number"] for entry in entries if entry["writer"] == writer]
            assert numbers == list(range(TIMES))
        assert len(entries) == WRITERS * TIMES
        assert space.version == WRITERS * TIMES
        assert space.verify().ok
