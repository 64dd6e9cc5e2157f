from pathlib import Path

import apsw
import pytest

from rote.engines.sqlite import connections, engine
from rote.engines.sqlite.checksums import checked
from rote.opening import open as open_store
from tests.unit.cli.command import error_of, run, run_json, run_ok
from tests.unit.cli.test_outcome import on_terminal

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
    said = "nothing to do: history begins with version {} already\n"
    assert run_ok("compact", "--keep", "99", store=store) == said.format(1)
    run_ok("compact", "--keep", "4", store=store)
    for number in ("4", "5", "99"):
        assert run_ok("compact", "--keep", number, store=store) == said.format(5)
    assert run_json("compact", "--keep", "99", store=store)["commit"] is None
    assert run_ok("compact", "--keep", "3", store=store).endswith("begins with version 6\n")


def test_a_space_without_commits_has_nothing_to_compact(store: Path) -> None:
    with open_store(store) as opened:
        opened.space("empty")
    assert "nothing to do" in run_ok("compact", "--keep", "1", "--space", "empty", store=store)


def test_on_a_terminal_it_asks_first_and_says_how_much_goes(tmp_path: Path) -> None:
    with open_store(tmp_path / "rote.db") as opened:
        for number in range(6):
            opened.space("default").set(ADA, number)
    command = ("compact", "--keep", "2")
    refused = on_terminal(*command, cwd=tmp_path, typed="n\n", expected=1)
    assert "drop 3 commits and 4 facts below version 5 of default, for good? [y/N]" in refused
    assert "nothing was dropped" in refused
    assert "3 commits and 4 facts dropped" in on_terminal(*command, cwd=tmp_path, typed="y\n")
    nothing = on_terminal(*command, cwd=tmp_path)
    assert "nothing to do" in nothing
    assert "for good?" not in nothing
    assert "for good?" not in on_terminal("compact", "--keep", "1", "--yes", cwd=tmp_path)


def test_a_key_that_was_used_says_so(store: Path) -> None:
    run_ok("compact", "--before", "5", "--key", "k", store=store)
    said = run_ok("compact", "--before", "5", "--key", "k", store=store)
    assert said == "compacted before, by version 9; nothing was dropped now\n"


def test_a_reader_in_the_way_of_a_smaller_file_is_told(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (connections, engine):
        monkeypatch.setattr(module, "BUSY_SECONDS_MAX", 1)
    with open_store(store) as opened:
        space = opened.space("default")
        connection = apsw.Connection(str(store), vfs=checked())
        connection.execute("begin; select count(*) from facts").fetchall()
        assert "run rote gc" in run_ok("compact", "--keep", "2", store=store)
        connection.close()
        report = space.gc()
        assert (report.is_shrunk, report.erasures) == (True, 0)
        assert not space.gc().is_shrunk


def test_history_shows_what_was_compacted(store: Path) -> None:
    run_ok("set", "urn:entity:bob", "{}", store=store)
    patch = '[{"op":"add","path":"/a","value":1}]'
    run_ok("patch", "urn:entity:bob", patch, store=store)
    run_ok("set", ADA, "7", store=store)
    run_ok("compact", "--keep", "1", store=store)
    left = run_ok("history", "urn:entity:bob", store=store)
    assert left.startswith("10\t")
    assert "\tpatch\t(compacted)\t" in left
    assert "\tcompact 11\t" in run_ok("log", store=store)
    assert run_ok("verify", store=store).endswith("; history begins with version 11\n")


def test_a_time_before_the_line_is_named(store: Path) -> None:
    run_ok("compact", "--keep", "2", store=store)
    words = error_of(run("get", ADA, "--at", "2020-01-01T00:00:00Z", store=store))
    assert "the state of 2020-01-01T00:00:00" in words


def test_more_than_an_earlier_compaction_has_left_can_be_kept(store: Path) -> None:
    """A nightly job may ask to keep more than another compaction has left."""
    run_ok("compact", "--keep", "2", store=store)
    assert run_ok("compact", "--keep", "99", store=store) == (
        "nothing to do: history begins with version 7 already\n"
    )
    assert run_json("compact", "--keep", "99", store=store)["commit"] is None
    assert "from 7 to" in error_of(run("compact", "--before", "1", store=store))


@pytest.mark.parametrize("arguments", ([], ["--before", "3", "--keep", "2"]))
def test_one_way_to_say_it_is_needed(store: Path, arguments: list[str]) -> None:
    assert "--keep; not both" in error_of(run("compact", *arguments, store=store))


def test_json_prints_the_compaction(store: Path) -> None:
    said = run_json("compact", "--before", "5", "--key", "k", store=store)
    assert (said["facts"], said["commits"], said["commit"]["version"]) == (4, 3, 9)
    assert said["checkpoint"]["version"] == 5
    assert run_json("compact", "--before", "5", "--key", "k", store=store)["facts"] == 0


def test_log_and_doctor_begin_where_history_does(store: Path) -> None:
    run_ok("compact", "--before", "6", store=store)
    for options, versions in (((), "9876"), (("--oldest",), "6789")):
        lines = run_ok("log", *options, store=store).splitlines()
        assert [line.split("\t")[0] for line in lines] == list(versions)
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
    assert result.stdout.startswith("cannot say: ")
    assert "not ok" not in result.stdout
