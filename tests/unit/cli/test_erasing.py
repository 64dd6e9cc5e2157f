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
    assert f"\terase {ADA}\t" in shown
    assert run_ok("verify", store=store).endswith("2 facts checked, 2 of them erased\n")


@pytest.mark.parametrize("reason", ["", "x" * 1_025])
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
    assert "of what it was then" in said
    assert run_ok("get", ADA, store=store) == "2\n"


def test_on_a_terminal_it_asks_first(store: Path) -> None:
    command, place = ("erase", ADA, "--reason", "r"), store.parent
    assert "for good? [y/N]" in on_terminal(*command, cwd=place, typed="n\n", expected=1)
    assert run_json("get", ADA, "--at", "1", store=store)["exists"]
    assert "without content" in on_terminal(*command, cwd=place, typed="y\n")
    assert "for good?" not in on_terminal(*command, "--yes", cwd=place)
