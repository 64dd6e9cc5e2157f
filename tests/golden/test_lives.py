"""A store that an earlier Rote wrote and left in the middle of runs is recovered and goes on, and all
that it answers on the way is what that Rote answered.

`life-1.store` is that store, `life-1.json` the answers; `lives.py` says how both were made.
"""

from pathlib import Path
from typing import Any

import apsw
import pytest

from rote.errors import InvalidInput
from rote.testing.postgres import database_url
from tests.golden import lives
from tests.golden.lives import AFTERWARDS, RECOVERY, Life

LIVES = ["life-1"]
SIZE_BYTES_MAX = 200_000


@pytest.fixture(params=LIVES)
def golden(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def opened(name: str, folder: Path) -> Life:
    return lives.open_at(lives.copy_store(name, folder), day=RECOVERY, create=False)


def check(life: Life, expected: dict[str, Any]) -> None:
    """Compare part by part, so that a failure names the one that changed."""
    told = lives.told(life)
    assert (told["runs"], told["receipts"]) == (expected["runs"], expected["receipts"])
    assert list(told["spaces"]) == list(expected["spaces"])
    for name, parts in expected["spaces"].items():
        assert list(told["spaces"][name]) == list(parts)
        for part, answer in parts.items():
            actual = told["spaces"][name][part]
            if part == "sides":
                actual, answer = ([*map(lives.without_root, rows)] for rows in (actual, answer))
            assert actual == answer, (name, part)


def test_a_golden_life_is_small_and_stands_alone(golden: str) -> None:
    assert (lives.FOLDER / f"{golden}.store").stat().st_size < SIZE_BYTES_MAX
    assert [path.name for path in lives.FOLDER.glob("life-*-*")] == []


def test_a_golden_life_is_lived_again_by_this_rote(golden: str, tmp_path: Path) -> None:
    lives.live(tmp_path / "memory.db")
    life = lives.open_at(tmp_path / "memory.db", day=RECOVERY, create=False)
    with life.store:
        check(life, lives.load(golden)["lived"])


def test_a_golden_life_has_an_index_that_waits_for_changes(golden: str, tmp_path: Path) -> None:
    database = apsw.Connection(str(lives.copy_store(golden, tmp_path)))
    version = lives.load(golden)["lived"]["spaces"]["agent"]["version"]
    below = (
        "select count(*) from derived_state where name = 'records/1' and indexed between 1 and ?"
    )
    ((count,),) = database.execute(below, (version - 1,)).fetchall()
    database.close()
    assert count == 1


def test_a_golden_life_is_recovered_and_goes_on(golden: str, tmp_path: Path) -> None:
    expected = lives.load(golden)
    path = lives.copy_store(golden, tmp_path)
    life = lives.open_at(path, day=RECOVERY, create=False)
    with life.store:
        check(life, expected["lived"])
        assert lives.recover(life) == expected["ended"]
        check(life, expected["recovered"])
    life = lives.open_at(path, day=AFTERWARDS, create=False)
    with life.store:
        lives.go_on(life)
        check(life, expected["gone_on"])


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_golden_life_goes_on_elsewhere(engine: str, golden: str, tmp_path: Path) -> None:
    expected = lives.load(golden)
    url = database_url(tmp_path) if engine == "postgres" else str(tmp_path / "copy.db")
    source, life = opened(golden, tmp_path), lives.open_at(url, day=AFTERWARDS)
    with source.store, life.store:
        lives.recover(source)
        for space in source.store.spaces():
            assert source.store.copy(space.name, life.store, with_key=True).ok
        lives.go_on(life)
        check(life, expected["gone_on"])


def test_a_golden_life_was_verified_and_its_runs_ended_as_they_must(golden: str) -> None:
    """Look into the answers, since the other tests only compare them."""
    expected = lives.load(golden)
    for stage in ("lived", "recovered", "gone_on"):
        for space in expected[stage]["spaces"].values():
            assert (space["verified"]["ok"], space["verified"]["faults"]) == (True, [])
    states = {
        stage: {
            run["run_id"]: (run["state"], run["discarded"], run["reason_code"])
            for run in expected[stage]["runs"]
        }
        for stage in ("lived", "recovered")
    }
    ended = {
        "applied": ("commit_applied", False, None),
        "empty": ("commit_applied", False, None),
        "conflict": ("commit_aborted", False, "validation_failed"),
        "rejected": ("commit_aborted", False, "policy_rejected"),
        "discarded": ("buffer_open", True, None),
    }
    assert states["lived"] == {
        **ended,
        "left-open": ("buffer_open", False, None),
        "left-pending": ("commit_pending", False, None),
        "left-late": ("commit_pending", False, None),
    }
    assert states["recovered"] == {
        **ended,
        "left-open": ("buffer_open", True, None),
        "left-pending": ("commit_applied", False, None),
        "left-late": ("commit_aborted", False, "storage_apply_failed"),
    }


def test_a_golden_life_extends_its_checkpoints(golden: str, tmp_path: Path) -> None:
    life = opened(golden, tmp_path)
    with life.store:
        for space in life.store.spaces():
            checkpoint = space.checkpoint()
            space.set("urn:end", 1)
            assert space.verify(against=checkpoint).ok


def test_the_schemas_of_a_golden_life_still_judge(golden: str, tmp_path: Path) -> None:
    life = opened(golden, tmp_path)
    with life.store, pytest.raises(InvalidInput) as refused:
        life.store.space("notes").set(lives.A, {"n": 1})
    assert (refused.value.details["schema"], refused.value.details["rule"]) == ("note", "required")
