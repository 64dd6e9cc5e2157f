import json
from pathlib import Path

import pytest

from rote.opening import open as open_store
from tests.unit.cli.command import error_of, run, run_json, run_ok
from tests.unit.cli.test_outcome import on_terminal

ADA = "urn:entity:ada"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with open_store(tmp_path / "rote.db") as opened:
        opened.space("default").set(ADA, {"drink": "peppermint"})
        opened.space("default").delete(ADA)
    return tmp_path / "rote.db"


def test_erase_json_prints_the_erasure(store: Path) -> None:
    printed = run_json("erase", ADA, "--reason", "asked to", "--key", "k", store=store)
    assert (printed["facts"], printed["remaining"]) == (2, [])
    assert printed["commit"]["event"] == {"type": "erase", "id": ADA, "reason": "asked to"}
    again = run_json("erase", ADA, "--reason", "asked to", "--key", "k", store=store)
    assert (again["facts"], again["commit"]) == (0, printed["commit"])
    assert b"peppermint" not in store.read_bytes()


def test_get_history_log_and_verify_show_that_it_was_erased(store: Path) -> None:
    assert "2 facts without content now" in run_ok("erase", ADA, "--reason", "r", store=store)
    for at in ((), ("--at", "1")):
        result = run("get", ADA, *at, store=store)
        assert (result.exit_code, result.stderr) == (1, f"{ADA} was erased\n")
    assert run("get", ADA, "--json", store=store).stdout.startswith('{"erased":true,')
    assert run_ok("history", ADA, store=store).count("(erased)") == 2
    shown = run_ok("log", store=store)
    assert shown.count(f"{ADA} (erased)") == 2
    assert f"\terase {ADA} (r)\t" in shown
    newest = run_ok("history", ADA, store=store).splitlines()[0].split("\t")
    assert (newest[0], newest[3:6]) == ("3", ["erase", "r", ""])
    run_ok("set", ADA, "1", store=store)
    history = run_ok("history", ADA, store=store).splitlines()
    assert [(line.split("\t")[0], *line.split("\t")[3:5]) for line in history] == [
        ("4", "set", "1"), ("3", "erase", "r"), ("2", "delete", "(erased)"),
        ("1", "set", "(erased)"),
    ]  # fmt: skip
    assert run_ok("verify", store=store).endswith("3 facts checked, 2 of them erased\n")


def test_history_shows_the_erasure_in_both_forms_and_the_limit_counts_it(store: Path) -> None:
    """--limit 1 printed two rows, and --json had no row of the erasure."""
    run_ok("erase", ADA, "--reason", "r", store=store)
    run_ok("set", ADA, "1", store=store)
    expected = [("4", "set"), ("3", "erase"), ("2", "delete"), ("1", "set")]
    for limit in range(5):
        command = ("history", ADA, "--limit", str(limit))
        rows = [line.split("\t") for line in run_ok(*command, store=store).splitlines()]
        assert [(row[0], row[3]) for row in rows] == expected[:limit]
        lines = run_ok(*command, "--json", store=store).splitlines()
        printed = [json.loads(line) for line in lines]
        assert [(str(each["version"]), each["op"]) for each in printed] == expected[:limit]
    fact, erasure = printed[0], printed[1]
    assert erasure["reason"] == "r"
    assert erasure.keys() == fact.keys() | {"reason"}


@pytest.mark.parametrize("reason", ["", " \t ", "x" * 1_025])
def test_a_bad_reason_is_refused_before_anything_is_opened(tmp_path: Path, reason: str) -> None:
    assert "reason" in error_of(run("erase", ADA, "--reason", reason, store=tmp_path / "no.db"))
    assert "--reason" in error_of(run("erase", ADA, store=tmp_path / "no.db"))
    assert not (tmp_path / "no.db").exists()


def test_what_was_never_written_cannot_be_erased(store: Path) -> None:
    words = error_of(run("erase", "urn:entity:eve", "--reason", "r", store=store))
    assert "never written" in words


def test_a_key_that_is_repeated_says_nothing_of_what_came_later(store: Path) -> None:
    run_ok("erase", ADA, "--reason", "asked to", "--key", "k", store=store)
    run_ok("set", ADA, "2", store=store)
    said = run_ok("erase", ADA, "--reason", "asked to", "--key", "k", store=store)
    assert "was erased before" in said
    assert "nothing was erased now" in said
    assert run_ok("get", ADA, store=store) == "2\n"


def test_on_a_terminal_it_asks_first(store: Path) -> None:
    command, place = ("erase", ADA, "--reason", "r"), store.parent
    refused = on_terminal(*command, cwd=place, typed="n\n", expected=1)
    assert "for good? [y/N]" in refused
    assert "nothing was erased" in refused
    assert run_json("get", ADA, "--at", "1", store=store)["exists"]
    assert "without content" in on_terminal(*command, cwd=place, typed="y\n")
    assert "for good?" not in on_terminal(*command, "--yes", cwd=place)


def test_what_was_never_written_is_not_asked_about(store: Path) -> None:
    command = ("erase", "urn:entity:eve", "--reason", "r")
    shown = on_terminal(*command, cwd=store.parent, expected=2)
    assert "never written" in shown
    assert "for good?" not in shown


def test_what_is_on_another_branch_is_asked_about(store: Path) -> None:
    run_ok("branch", "create", "promo", store=store)
    run_ok("set", "urn:entity:eve", "1", "--branch", "promo", store=store)
    command = ("erase", "urn:entity:eve", "--reason", "r")
    assert "for good?" in on_terminal(*command, cwd=store.parent, typed="n\n", expected=1)


def test_there_is_no_erasing_on_one_branch(store: Path) -> None:
    command = ("erase", ADA, "--reason", "r", "--branch", "promo")
    assert "covers all branches" in error_of(run(*command, store=store))


def test_what_is_not_reached_is_told(store: Path) -> None:
    assert "older backups and copies" in run_ok("erase", ADA, "--reason", "r", store=store)


def test_payloads_that_are_still_stored_are_told_until_they_are_collected(store: Path) -> None:
    hash = run_ok("blob", "put", "-", store=store, stdin=b"a photo of ada").strip()
    run_ok("set", ADA, f'{{"photo":{{"$blob":"{hash}"}}}}', store=store)
    described = f"urn:blob-meta:{hash}"
    said = run_ok("erase", ADA, "--reason", "r", store=store)
    assert f"still stored: the blob {hash}; erase {described}, then rote gc --grace 0" in said
    for _ in range(2):
        said = run_ok("erase", described, "--reason", "r", store=store)
        assert f"still stored: the blob {hash}; run rote gc --grace 0" in said
    said = run_ok("gc", "--grace", "0", store=store)
    assert said.startswith("1 blob and 0 unfinished uploads collected (14 bytes); 0 blobs kept")
    assert "written anew" in said
    assert "still stored" not in run_ok("erase", described, "--reason", "r", store=store)
    assert b"a photo of ada" not in store.read_bytes()
