"""Erasing many, records by what they were, and whole spaces, from the command line."""

from pathlib import Path

import pytest

from rote.opening import open as open_store
from rote.records.memory import Memory
from tests.unit.cli.command import error_of, run, run_json, run_ok
from tests.unit.cli.test_outcome import on_terminal

IDS = ("urn:person:1", "urn:person:2")
BECAUSE = ("--reason", "request 17")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with open_store(tmp_path / "rote.db") as opened:
        space = opened.space("default")
        for id in (*IDS, "urn:other"):
            space.set(id, {"drink": "peppermint"})
        space.delete(IDS[1])
        memory = Memory(space)
        for id, tag in (("1", "ada"), ("2", "ada"), ("3", "bob")):
            memory.put("ops", "fact", id, {"text": "spearmint"}, metadata={"tags": [tag]})
        memory.delete("ops", "fact", "2")
    return tmp_path / "rote.db"


# -- entities --------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [IDS, ("--prefix", "urn:person:")], ids=str)
def test_several_entities_are_erased_by_one_commit(store: Path, named: tuple[str, ...]) -> None:
    printed = run_json("erase", *named, *BECAUSE, store=store)
    assert printed["commit"]["event"]["ids"] == list(IDS)
    assert printed["facts"] == 3
    assert b"peppermint" in store.read_bytes()  # of the other entity
    said = run_ok("erase", *named, *BECAUSE, store=store)
    assert said.startswith("2 entities were erased before, at version 9 ")
    assert "erase 2 entities, urn:person:1 … (request 17)" in run_ok("log", store=store)
    assert "request 17" in run_ok("history", IDS[1], store=store)


@pytest.mark.parametrize("named", [IDS, ("--prefix", "urn:person:")], ids=str)
def test_a_dry_run_says_which_and_erases_nothing(store: Path, named: tuple[str, ...]) -> None:
    before = store.read_bytes()
    assert run_ok("erase", *named, *BECAUSE, "--dry-run", store=store).split() == list(IDS)
    assert run_json("erase", *named, *BECAUSE, "--dry-run", store=store) == {"ids": list(IDS)}
    assert run("erase", "--prefix", "urn:none", *BECAUSE, "--dry-run", store=store).exit_code == 1
    assert store.read_bytes() == before


def test_a_dry_run_says_what_the_erasure_will(store: Path) -> None:
    """The dry run named entities beside one that the erasure refuses, and some that were erased before."""
    refused = (*IDS, "urn:none", *BECAUSE)
    told = error_of(run("erase", *refused, "--dry-run", store=store))
    assert told == error_of(run("erase", *refused, store=store))
    run_ok("erase", IDS[0], *BECAUSE, store=store)
    assert run_ok("erase", *IDS, *BECAUSE, "--dry-run", store=store).split() == [IDS[1]]
    assert run_json("erase", *IDS, *BECAUSE, store=store)["commit"]["event"]["id"] == IDS[1]
    assert run("erase", *IDS, *BECAUSE, "--dry-run", store=store).exit_code == 1


def test_words_say_what_stays_in_clear(store: Path) -> None:
    assert "kept in clear: ids" in run_ok("erase", *IDS, *BECAUSE, store=store)
    told = run("memory", "erase", "--tag", "ada", *BECAUSE, store=store).stderr
    assert "kept in clear: ids" in told


def test_the_history_of_an_erased_record_says_so(store: Path) -> None:
    run("memory", "erase", "--tag", "bob", *BECAUSE, store=store)
    (line,) = run_ok("memory", "history", "ops", "fact", "3", store=store).splitlines()
    assert line.split("\t")[4] == "(erased)"


def test_words_say_how_many(store: Path) -> None:
    said = run_ok("erase", *IDS, *BECAUSE, store=store)
    assert said.startswith("erase 2 entities at version 9 ")
    assert "3 facts without content now" in said
    assert "older backups and copies" in said


@pytest.mark.parametrize(
    "named",
    [
        (), (IDS[0], "--prefix", "urn:"), ("--prefix", ""), ("--prefix", "urn:*"), ("no uri",),
        ("--prefix", "urn:none:"), (IDS[0], "urn:none"), (IDS[0], "--confirm", "default"),
        ("--whole-space", "default", "--prefix", "urn:"), (IDS[0], "--whole-space", "default"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_names_erase_nothing(store: Path, named: tuple[str, ...]) -> None:
    before = run_ok("log", store=store)
    result = run("erase", *named, *BECAUSE, store=store)
    assert result.exit_code == 2
    error_of(result)
    assert run_ok("log", store=store) == before


def test_on_a_terminal_it_asks_for_all_of_them(store: Path) -> None:
    command = ("erase", "--prefix", "urn:person:", *BECAUSE)
    refused = on_terminal(*command, cwd=store.parent, typed="n\n", expected=1)
    assert "erase all values of 2 entities in default" in refused
    assert run_ok("get", IDS[0], store=store)


# -- records ---------------------------------------------------------------------------------------


def test_records_that_ever_had_a_tag_are_erased(store: Path) -> None:
    command = ("memory", "erase", "--tag", "ada", *BECAUSE)
    told = run(*command, "--dry-run", store=store)
    assert told.stdout == "ops\tfact\t1\nops\tfact\t2\n"
    assert "2 records would be erased" in told.stderr
    printed = run_json(*command, store=store)
    assert [key["record_id"] for key in printed["erased"]] == ["1", "2"]
    assert printed["version"] == 9
    again = run(*command, store=store)
    assert (again.exit_code, again.stdout) == (1, "")
    assert "nothing that was ever written matches" in again.stderr
    kept = run_json("memory", "list", "ops", store=store)["items"]
    assert [item["record_id"] for item in kept] == ["3"]


@pytest.mark.parametrize(
    ("named", "ids"),
    [
        (("ops",), ["1", "2", "3"]), (("ops", "fact", "3"), ["3"]), (("ops", "other"), []),
        (("--prefix", "1"), ["1"]), (("--filters", '{"tags_any":["bob"]}'), ["3"]),
        (("--source", "nobody"), []),
    ],
    ids=str,
)  # fmt: skip
def test_keys_and_filters_select_records(
    store: Path, named: tuple[str, ...], ids: list[str]
) -> None:
    result = run("memory", "erase", *named, *BECAUSE, "--dry-run", store=store)
    assert [line.split("\t")[2] for line in result.stdout.splitlines()] == ids
    assert result.exit_code == (0 if ids else 1)


@pytest.mark.parametrize(
    "named",
    [
        (), ("unknown",), ("--filters", "{}"), ("--filters", '{"limit":1}'), ("--prefix", ""),
        ("--filters", "[]"), ("ops", "--branch", "other"), ("ops", ""),
    ],
    ids=str,
)  # fmt: skip
def test_bad_criteria_erase_nothing(store: Path, named: tuple[str, ...]) -> None:
    assert error_of(run("memory", "erase", *named, *BECAUSE, store=store))
    assert len(run_json("memory", "list", "ops", store=store)["items"]) == 2


def test_on_a_terminal_it_asks_for_the_records(store: Path) -> None:
    command = ("memory", "erase", "ops", *BECAUSE)
    refused = on_terminal(*command, cwd=store.parent, typed="n\n", expected=1)
    assert "erase 3 records in default" in refused
    assert "3 records erased" in on_terminal(*command, "--yes", cwd=store.parent)


# -- whole spaces ----------------------------------------------------------------------------------


def test_a_whole_space_is_erased_with_its_name_typed_twice(store: Path) -> None:
    run_ok("set", "urn:a", "1", "--space", "beside", store=store)
    command = ("erase", "--whole-space", "default", *BECAUSE)
    for confirmed in ((), ("--confirm", "Default")):
        assert "--confirm default" in error_of(run(*command, *confirmed, store=store))
    printed = run_json(*command, "--confirm", "default", store=store)
    assert printed["version"] == 8
    assert b"peppermint" not in store.read_bytes()
    assert "no space 'default'" in error_of(run("get", IDS[0], store=store))
    words = error_of(run("get", IDS[0], "--space", printed["did"], store=store))
    assert "was erased" in words
    assert "request 17" in words
    assert run_ok("get", "urn:a", "--space", "beside", store=store) == "1\n"
    said = run_ok("erase", "--whole-space", "beside", "--confirm", "beside", *BECAUSE, store=store)
    assert said.startswith("erased the space beside at version 1 (last commit ")


def test_a_key_means_nothing_to_a_whole_space(store: Path) -> None:
    command = ("erase", "--whole-space", "default", "--confirm", "default", *BECAUSE)
    assert "takes no key" in error_of(run(*command, "--key", "k", store=store))
