"""Many processes append to one record: none is lost, none is doubled, every count is right."""

import sys
from pathlib import Path

import pytest

from rote import Memory
from rote.testing.postgres import schema_of, server_url
from tests.faults.children import NAME, open_store
from tests.faults.persistence import place_of
from tests.faults.record_children import KEY, TOUCHED
from tests.faults.test_processes import run_together
from tests.lanes import examples

WRITERS = [f"writer-{number}" for number in range(examples(3, 8))]
TIMES = examples(10, 125)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "memory.db")
    return place_of(server_url(), tmp_path, schema=schema_of(tmp_path))


def run_all(what: str, place: str) -> list[list[str]]:
    """Return the output of every writer, line by line."""
    command = [sys.executable, "-m", "tests.faults.record_children", what, place]
    outputs = run_together([[*command, writer, str(TIMES)] for writer in WRITERS])
    return [line.split() for output in outputs for line in output.splitlines() if line != "ready"]


def test_appends_of_many_processes_are_all_there_once(place: str) -> None:
    with open_store(place) as store:
        store.space(NAME)
    told = run_all("append", place)
    # Each append was answered with another number, and one of them made the record.
    assert sorted(int(entries) for entries, _ in told) == list(range(1, len(WRITERS) * TIMES + 1))
    assert [created for _, created in told].count("True") == 1
    with open_store(place) as store:
        space = store.space(NAME)
        entries = Memory(space).get(*KEY)["record"]["payload"]["entries"]
        for writer in WRITERS:
            numbers = [entry["number"] for entry in entries if entry["writer"] == writer]
            assert numbers == list(range(TIMES))
        assert len(entries) == len(WRITERS) * TIMES
        assert space.version == len(WRITERS) * TIMES
        assert space.verify().ok


def test_puts_and_touches_of_many_processes_all_succeed(place: str) -> None:
    """Nobody gets a conflict, however often others were faster: a put asks for none."""
    with open_store(place) as store:
        Memory(store.space(NAME)).put(*TOUCHED, {})
    told = run_all("put_and_touch", place)
    assert sorted(int(count) for count, _ in told) == list(range(1, len(WRITERS) * TIMES + 1))
    assert [created for _, created in told].count("True") == 1
    with open_store(place) as store:
        space = store.space(NAME)
        assert space.version == 1 + 2 * len(WRITERS) * TIMES
        assert Memory(space).get(*KEY)["record"]["payload"]["number"] == TIMES - 1
        assert space.verify().ok
