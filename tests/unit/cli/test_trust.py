from pathlib import Path
from typing import Any

import pytest

from rote.cli.demo.tampering import change_byte, places_of
from rote.opening import open as open_store
from rote.space.store import own_space
from rote.values import canonical, decode
from tests.unit.cli.command import error_of, run, run_json, run_ok

ADA = "urn:entity:ada"


@pytest.fixture
def store(store_path: Path) -> Path:
    with open_store(store_path) as opened:
        opened.space("default").set(ADA, {"drink": "peppermint"})
        opened.space("default").set("urn:entity:bob", 1)
    return store_path


@pytest.fixture
def damaged(store: Path) -> Path:
    """Return the store with one byte of Ada's value changed."""
    [place] = places_of(store, b"peppermint")
    change_byte(store, place, b"P")
    return store


def test_verify_of_a_whole_store_exits_0_and_tells_what_was_checked(store: Path) -> None:
    said = run_ok("verify", store=store)
    assert said.startswith("ok: space default, version 2, head ")
    assert said.endswith("; 2 commits and 2 facts checked\n")


def test_verify_of_a_damaged_store_exits_1_and_names_entity_and_version(damaged: Path) -> None:
    result = run("verify", store=damaged)
    assert (result.exit_code, result.stderr) == (1, "")
    first, *faults = result.stdout.splitlines()
    assert first.startswith("not ok: space default, version 2; 1 fault; ")
    assert faults == [f"fact\t1\t{ADA}\tits content does not match its hash"]


def test_verify_looks_at_the_spaces_with_reserved_names_too(store: Path) -> None:
    with open_store(store) as opened:
        own_space(opened, "rote.server", create=True).set(ADA, "spearmint")
    assert "ok: space rote.server, version 1" in run_ok("verify", store=store)
    assert "space rote.server" in run_ok("doctor", store=store)
    assert "rote.server" not in run_ok("spaces", store=store)
    [place] = places_of(store, b"spearmint")
    change_byte(store, place, b"S")
    assert run("verify", store=store).exit_code == 1
    assert run("doctor", store=store).exit_code == 1


def test_verify_json_prints_the_report(damaged: Path) -> None:
    result = run("verify", "--json", store=damaged)
    with open_store(damaged) as opened:
        report = opened.space("default").verify()
    assert result.exit_code == 1
    assert result.stdout == canonical({"space": "default", **report.to_dict()}).decode() + "\n"


def test_a_checkpoint_verifies_and_one_of_another_store_does_not(
    store: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    run_ok("set", ADA, "1", store=other)
    run_ok("checkpoint", "-o", str(tmp_path / "own"), store=store)
    run_ok("checkpoint", "-o", str(tmp_path / "foreign"), store=other)
    run_ok("set", ADA, "2", store=store)
    assert run("verify", "--against", str(tmp_path / "own"), store=store).exit_code == 0
    result = run("verify", "--against", str(tmp_path / "foreign"), store=store)
    assert result.exit_code == 1
    assert "\ncheckpoint\t1\t" in result.stdout


@pytest.mark.parametrize("text", ["[]", "{}", "{", '"x"'])
def test_verify_against_what_is_no_checkpoint_cannot_say(
    store: Path, tmp_path: Path, text: str
) -> None:
    (tmp_path / "file").write_text(text)
    error_of(run("verify", "--against", str(tmp_path / "file"), store=store))


def test_verify_against_a_missing_file_cannot_say(store: Path, tmp_path: Path) -> None:
    result = run("verify", "--against", str(tmp_path / "missing"), store=store)
    assert "missing: No such file" in error_of(result)


def test_checkpoint_prints_the_same_to_a_person_a_program_and_a_file(
    store: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    printed = run_json("checkpoint", "-o", str(file), store=store)
    assert printed["version"] == 2
    assert decode(file.read_bytes()) == printed
    shown = decode(run_ok("checkpoint", store=store))
    assert isinstance(shown, dict)
    assert (shown["head"], shown.keys()) == (printed["head"], printed.keys())


def test_checkpoint_does_not_overwrite_an_older_one(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("older")
    assert "File exists" in error_of(run("checkpoint", "-o", str(file), store=store))
    assert file.read_text() == "older"


def test_a_backup_holds_what_the_store_holds(store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    printed = run_json("backup", str(copy), store=store)
    assert printed == {"path": str(copy), "size_bytes": copy.stat().st_size}
    assert run_ok("log", "--json", store=copy) == run_ok("log", "--json", store=store)


def test_backup_does_not_overwrite_a_file(store: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("older")
    assert "name a new file" in error_of(run("backup", str(tmp_path / "copy.db"), store=store))
    assert (tmp_path / "copy.db").read_text() == "older"


def test_verify_is_of_all_spaces_unless_one_is_named(store: Path, tmp_path: Path) -> None:
    with open_store(store) as opened:
        opened.space("another").set(ADA, 1)
        opened.space("empty")
    said = run_ok("verify", store=store).splitlines()
    assert [line.split(",")[0] for line in said] == [
        "ok: space another", "ok: space default", "ok: space empty",
    ]  # fmt: skip
    lines = run_ok("verify", "--json", store=store).splitlines()
    reports: list[Any] = [decode(line) for line in lines]
    assert [(report["space"], report["version"]) for report in reports] == [
        ("another", 1), ("default", 2), ("empty", 0),
    ]  # fmt: skip
    one = run_ok("verify", "--space", "another", store=store)
    assert one.startswith("ok: space another, version 1, ")
    assert run("verify", store=store, ROTE_SPACE="another").stdout == one
    # A checkpoint is of one space, and names it.
    file = str(tmp_path / "file")
    run_ok("checkpoint", "-o", file, "--space", "another", store=store)
    assert run_ok("verify", "--against", file, store=store) == one


def test_a_fault_in_one_space_is_a_no_and_the_others_are_verified(damaged: Path) -> None:
    with open_store(damaged) as opened:
        opened.space("another").set(ADA, 1)
    result = run("verify", store=damaged)
    assert result.exit_code == 1
    assert [line.split(",")[0] for line in result.stdout.splitlines()[:2]] == [
        "ok: space another", "not ok: space default",
    ]  # fmt: skip
    assert run("verify", "--space", "another", store=damaged).exit_code == 0


def test_where_there_is_no_space_there_is_nothing_to_verify(store_path: Path) -> None:
    open_store(store_path).close()
    assert "nothing to verify" in run_ok("verify", store=store_path)
