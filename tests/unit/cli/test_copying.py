from pathlib import Path

import pytest

from rote.cli.demo.tampering import change_byte, places_of
from rote.opening import open as open_store
from rote.values import decode
from tests.unit.cli.command import error_of, run, run_ok

ADA = "urn:entity:ada"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.db"
    run_ok("set", ADA, '{"drink":"peppermint"}', "--key", "first", store=path)
    run_ok("set", "urn:entity:bob", "1", store=path)
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target.db"


def copy(source: Path, target: Path, *options: str) -> str:
    result = run("copy", str(source), str(target), *options)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_a_copy_says_what_it_did_and_what_was_verified(source: Path, target: Path) -> None:
    first, second = copy(source, target).splitlines()
    assert first == "2 commits copied"
    assert second.startswith("ok: space default, version 2, head ")
    assert run_ok("log", "--json", store=target) == run_ok("log", "--json", store=source)


def test_a_second_run_brings_what_is_new(source: Path, target: Path) -> None:
    copy(source, target)
    run_ok("set", ADA, "2", store=source)
    assert copy(source, target).startswith("1 commit copied, on top of version 2\n")
    assert copy(source, target).startswith("0 commits copied, on top of version 3\n")


def test_of_a_compacted_space_nothing_was_there_before(source: Path, target: Path) -> None:
    for number in range(5):
        run_ok("set", ADA, str(number), store=source)
    run_ok("compact", "--keep", "2", store=source)
    assert copy(source, target).splitlines()[0] == "5 commits copied"
    run_ok("set", ADA, "9", store=source)
    assert copy(source, target).startswith("1 commit copied, on top of version 8\n")


def test_json_prints_the_report(source: Path, target: Path) -> None:
    printed = decode(copy(source, target, "--json"))
    assert isinstance(printed, dict)
    with open_store(target) as opened:
        space = opened.space("default")
        assert (printed["did"], printed["head"]) == (space.did, space.head)
    assert (printed["ok"], printed["version"], printed["commits"]) == (True, 2, 2)


def test_the_private_key_goes_along_on_demand(source: Path, target: Path) -> None:
    copy(source, target)
    assert "put its file there" in error_of(run("checkpoint", store=target))
    assert copy(source, target, "--with-key").startswith(
        "0 commits copied, on top of version 2, with the private key\n"
    )
    run_ok("checkpoint", store=target)


def test_another_space_is_copied_by_its_name(source: Path, target: Path) -> None:
    run_ok("set", ADA, "3", "--space", "other", store=source)
    copy(source, target, "--space", "other")
    with open_store(target) as opened:
        assert [space.name for space in opened.spaces()] == ["other"]


def test_a_source_that_is_not_there_leaves_no_target(source: Path, target: Path) -> None:
    error_of(run("copy", str(target), str(source.with_name("new.db"))))
    error_of(run("copy", str(source), str(target), "--space", "missing"))
    assert not target.exists()
    assert not source.with_name("new.db").exists()


def test_a_target_of_another_history_is_an_error_that_says_what_to_do(
    source: Path, target: Path
) -> None:
    copy(source, target)
    run_ok("set", ADA, "4", store=target)
    said = error_of(run("copy", str(source), str(target)))
    assert "the target is ahead" in said
    assert "copy the other way, or to another store" in said
    assert "file" in error_of(run("copy", str(source), ":memory:"))


def test_a_damaged_source_is_named_and_not_copied(source: Path, target: Path) -> None:
    [place] = places_of(source, b"peppermint")
    change_byte(source, place, b"P")
    said = error_of(run("copy", str(source), str(target)))
    assert "commit 1 of the source is not what was written" in said
    assert "`rote verify`" in said
    with open_store(target) as opened:
        assert opened.space("default").version == 0


def test_faults_of_the_target_are_an_answer_of_no(source: Path, target: Path) -> None:
    copy(source, target)
    [place] = places_of(target, b"peppermint")
    change_byte(target, place, b"P")
    result = run("copy", str(source), str(target))
    assert (result.exit_code, result.stderr) == (1, "")
    assert f"fact\t1\t{ADA}\tits content does not match its hash\n" in result.stdout
