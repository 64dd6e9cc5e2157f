from pathlib import Path

import pytest

from rote.opening import open as open_store
from tests.unit.cli.command import error_of, run, run_json, run_ok

ADA = "urn:entity:ada"


@pytest.fixture
def store(store_path: Path) -> Path:
    with open_store(store_path) as opened:
        space = opened.space("default")
        for number in range(6):
            space.set(ADA, number)
        space.create_branch("topic").set(ADA, "topic")
    return store_path


def test_history_before_a_version_goes(store: Path) -> None:
    said = run_ok("compact", "--before", "5", store=store)
    assert said == "3 commits and 4 facts dropped; history begins with version 5\n"
    assert "begins with version 5" in error_of(run("get", ADA, "--at", "4", store=store))
    assert run_ok("get", ADA, "--at", "5", store=store) == "4\n"


def test_all_but_the_last_commits_go(store: Path) -> None:
    assert "begins with version 7" in run_ok("compact", "--keep", "2", store=store)
    assert "begins with version 7 already" in run_ok("compact", "--before", "7", store=store)


def test_more_than_there_are_can_be_kept(store: Path) -> None:
    assert "begins with version 1" in run_ok("compact", "--keep", "99", store=store)


def test_more_than_an_earlier_compaction_has_left_can_be_kept(store: Path) -> None:
    """As when someone runs it every night, and someone else has kept less."""
    run_ok("compact", "--keep", "2", store=store)
    assert run_ok("compact", "--keep", "99", store=store) == (
        "nothing to do: history begins with version 7 already\n"
    )
    assert run_json("compact", "--keep", "99", store=store)["commit"] is None
    assert "from 7 to" in error_of(run("compact", "--before", "1", store=store))


@pytest.mark.parametrize("arguments", ([], ["--before", "3", "--keep", "2"]))
def test_one_way_to_say_it_is_needed(store: Path, arguments: list[str]) -> None:
    assert "--before" in error_of(run("compact", *arguments, store=store))


def test_json_prints_the_compaction(store: Path) -> None:
    said = run_json("compact", "--before", "5", "--key", "k", store=store)
    assert (said["facts"], said["commits"], said["commit"]["version"]) == (4, 3, 9)
    assert said["checkpoint"]["version"] == 5
    assert run_json("compact", "--before", "5", "--key", "k", store=store)["facts"] == 0


def test_log_and_doctor_begin_where_history_does(store: Path) -> None:
    run_ok("compact", "--before", "6", store=store)
    assert [line.split("\t")[0] for line in run_ok("log", store=store).splitlines()] == [
        "6", "7", "8", "9",
    ]  # fmt: skip
    assert "compact" in run_ok("log", "--graph", store=store)
    assert "begins with version 6" in error_of(run("log", "--since", "2", store=store))
    assert "ok: no problem found" in run_ok("doctor", store=store)


def test_a_checkpoint_from_below_the_line_is_neither_yes_nor_no(
    store: Path, tmp_path: Path
) -> None:
    run_ok("checkpoint", "-o", str(tmp_path / "old"), store=store)
    run_ok("set", ADA, "1", store=store)
    run_ok("set", ADA, "2", store=store)
    run_ok("compact", "--keep", "1", store=store)
    result = run("verify", "--against", str(tmp_path / "old"), store=store)
    assert result.exit_code == 2
    assert "cannot say" in result.stdout
