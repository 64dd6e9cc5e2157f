from pathlib import Path

import pytest

from rote.opening import open as open_store
from rote.values import Json
from tests.unit.cli.command import error_of, run, run_json, run_ok

ADA = "urn:entity:ada"


def value_of(store: Path, id: str = ADA, *, space: str = "default") -> Json:
    with open_store(store, create=False) as opened:
        return opened.space(space).get(id)


def test_set_makes_the_store_and_the_space_and_says_what_it_did(store_path: Path) -> None:
    said = run_ok("set", ADA, '{"name":"Ada"}', "--space", "people", store=store_path)
    assert said.startswith(f"set {ADA} at version 1 (")
    assert value_of(store_path, space="people") == {"name": "Ada"}


def test_set_json_prints_the_commit(store_path: Path) -> None:
    printed = run_json("set", ADA, "1", store=store_path)
    with open_store(store_path) as opened:
        [commit] = opened.space("default").log()
    assert printed == commit.to_dict()


def test_set_takes_a_value_from_a_file(store_path: Path, tmp_path: Path) -> None:
    (tmp_path / "ada.json").write_text('["Ada"]')
    run_ok("set", ADA, f"@{tmp_path / 'ada.json'}", store=store_path)
    assert value_of(store_path) == ["Ada"]


def test_set_takes_a_value_from_standard_input(store_path: Path) -> None:
    run_ok("set", ADA, "-", store=store_path, stdin='["Ada"]')
    assert value_of(store_path) == ["Ada"]


def test_a_negative_number_is_a_value_after_two_dashes(store_path: Path) -> None:
    result = run("set", "--store", str(store_path), ADA, "--", "-5")
    assert result.exit_code == 0
    assert value_of(store_path) == -5


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("hello", "'\"hello\"'"),
        ("", "'\"\"'"),
        ("it's", "'\"like this\"'"),
        ("\x1b[31m", "'\"like this\"'"),
        ("{name:Ada}", '\'{"name":"Ada"}\''),
        ('{"a":1,"a":2}', "at /a: the key appears twice"),
        ("NaN", "not JSON"),
        ("1e999", "not a storable value"),
        ("[" * 65 + "]" * 65, "nested deeper"),
        ("\udcff", "not JSON"),
    ],
)
def test_a_value_that_is_not_json_is_an_error_that_says_how_to_write_it(
    store_path: Path, value: str, words: str
) -> None:
    assert words in error_of(run("set", ADA, value, store=store_path))
    assert not store_path.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["ada", "1"],
        [ADA, "1", "--key", ""],
        [ADA, "1", "--key", "rote:x"],
        [ADA, "1", "--space", "no spaces"],
        [ADA, "@missing.json"],
    ],
)
def test_bad_input_to_set_creates_no_store(store_path: Path, arguments: list[str]) -> None:
    error_of(run("set", *arguments, store=store_path))
    assert not store_path.exists()


def test_a_file_or_input_that_is_not_json_is_named(store_path: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(b"\xff")
    assert "bad.json: " in error_of(run("set", ADA, f"@{tmp_path / 'bad.json'}", store=store_path))
    assert "standard input: " in error_of(run("set", ADA, "-", store=store_path, stdin="{"))


def test_patch_changes_the_value(store_path: Path) -> None:
    run_ok("set", ADA, "[1]", store=store_path)
    said = run_ok("patch", ADA, '[{"op":"add","path":"/-","value":2}]', store=store_path)
    assert said.startswith(f"patch {ADA} at version 2 (")
    assert value_of(store_path) == [1, 2]


@pytest.mark.parametrize(
    ("operations", "words"),
    [
        ('{"op":"remove","path":"/0"}', "put [ ] around it"),
        ('[{"op":"remove","path":"/9"}]', "patch operation 0 at /9"),
        ("[1]", "patch operation 0"),
    ],
)
def test_a_patch_that_does_not_apply_is_an_error_and_writes_nothing(
    store_path: Path, operations: str, words: str
) -> None:
    run_ok("set", ADA, "[1]", store=store_path)
    assert words in error_of(run("patch", ADA, operations, store=store_path))
    assert len(run_ok("log", store=store_path).splitlines()) == 1


def test_delete_deletes_and_says_no_when_there_is_nothing(store_path: Path) -> None:
    run_ok("set", ADA, "1", store=store_path)
    assert run_ok("delete", ADA, store=store_path).startswith(f"delete {ADA} at version 2 (")
    for options in ((), ("--json",)):
        again = run("delete", ADA, *options, store=store_path)
        assert (again.exit_code, again.stdout) == (1, "")
        assert f"{ADA} does not exist" in again.stderr
        assert again.stderr.startswith('{"code":"not_found",') is bool(options)
    # A missing branch or store is still an error.
    error_of(run("delete", ADA, "--branch", "nowhere", store=store_path))
    error_of(run("delete", ADA, store=store_path.with_name("nowhere.db")))


def test_a_write_with_the_same_key_happens_once(store_path: Path) -> None:
    once = ("set", ADA, "1", "--key", "k")
    assert "at version 1 " in run_ok(*once, store=store_path)
    said = "key k was used before, at version 1; nothing was written\n"
    assert run_ok(*once, store=store_path) == said
    assert "a new key" in error_of(run("set", ADA, "2", "--key", "k", store=store_path))
    assert value_of(store_path) == 1


def test_a_negative_number_that_is_taken_for_an_option_is_told_from_a_wrong_one(
    store_path: Path,
) -> None:
    assert "comes after --" in error_of(run("set", ADA, "-5", store=store_path))
    assert "comes after --" not in error_of(run("set", ADA, "--five", store=store_path))
    assert run("set", ADA, "--store", str(store_path), "--", "-5").exit_code == 0
    assert value_of(store_path) == -5
