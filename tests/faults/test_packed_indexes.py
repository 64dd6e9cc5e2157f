"""Packed indexes when a process is killed in the middle, and when several write at once."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rote.kernel.reading import segments
from rote.space import Space
from rote.testing.faults import run_until_killed
from rote.testing.packed_words import BOUNDS, scanned
from rote.testing.postgres import schema_of, server_url
from rote.testing.space_suite.packed_ground import finder_of, stored
from tests.faults.packed_children import open_space
from tests.faults.test_processes import ROOT, run_together
from tests.lanes import examples

WRITERS, COMMITS = examples(2, 4), examples(60, 600)


@pytest.fixture(params=["sqlite", "postgres"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    for name, bound in BOUNDS.items():
        monkeypatch.setattr(segments, name, bound)
    folder = str(tmp_path)
    is_remote = request.param == "postgres"
    yield f"{server_url()} {schema_of(tmp_path)} {folder}" if is_remote else folder


def argv(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.faults.packed_children", *arguments]


def check(space: Space) -> None:
    """Check the index against a scan and the log."""
    assert finder_of(space).find("red", "blue") == scanned(space, "red", "blue")
    assert space.verify().faults == ()


@pytest.mark.parametrize("what", ["flush", "merge", "erase"])
def test_a_process_that_is_killed_leaves_the_index_whole(what: str, place: str) -> None:
    assert run_until_killed(argv(what, place), acknowledgements=1, cwd=ROOT) == ("now",)
    with open_space(place) as space:
        assert space.version == 60 if what == "erase" else space.version < 60
        check(space)
        for number in range(70):
            space.set(f"urn:{number}", {"text": f"blue secret{number}x"})
        check(space)
        space.erase(ids=["urn:1", "urn:40"], reason="asked to")
        left = stored(space)
        assert b"secret1x" not in left
        assert b"secret40x" not in left
        check(space)


def test_processes_that_write_at_once_double_and_lose_no_row(place: str) -> None:
    with open_space(place) as space:
        run_together([argv("many", place, f"w{each}", str(COMMITS)) for each in range(WRITERS)])
        assert space.version == WRITERS * COMMITS
        check(space)
