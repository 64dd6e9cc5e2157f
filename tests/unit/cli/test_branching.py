from pathlib import Path

import pytest

from rote.cli.graph import LANES_MAX, Lanes
from rote.opening import open as open_store
from rote.values import decode
from tests.unit.cli.command import error_of, run, run_json, run_ok

A, B = "urn:a", "urn:b"


@pytest.fixture
def store(store_path: Path) -> Path:
    """Return a store with A on main and changed on both sides, and B only on the branch."""
    with open_store(store_path) as opened:
        space = opened.space("default")
        space.set(A, {"n": 1})
        topic = space.create_branch("topic")
        topic.set(A, {"n": 2})
        topic.set(B, [1])
        space.set(A, {"n": 3})
    return store_path


def test_commands_of_an_entity_work_on_a_branch(store: Path) -> None:
    assert run_ok("get", A, "--branch", "topic", store=store) == '{\n  "n": 2\n}\n'
    run_ok("patch", A, '[{"op":"remove","path":"/n"}]', "--branch", "topic", store=store)
    run_ok("delete", B, "--branch", "topic", store=store)
    assert len(run_ok("history", A, "--branch", "topic", store=store).splitlines()) == 3
    assert run("get", B, "--branch", "topic", store=store).exit_code == 1
    assert "nowhere" in error_of(run("get", A, "--branch", "nowhere", store=store))


def test_a_branch_that_is_not_there_makes_no_store(store_path: Path) -> None:
    words = error_of(run("set", A, "1", "--branch", "topic", store=store_path))
    assert "a new store has only the branch main, not topic" in words
    assert not store_path.exists()


def test_a_repeated_key_says_that_nothing_was_written(store: Path) -> None:
    """The command reported the first call as if it had been made now."""
    commands = (
        ("branch", "create", "other", "--key", "one"),
        ("merge", "topic", "--on-conflict", "theirs", "--key", "two"),
        ("branch", "delete", "topic", "--key", "three"),
    )
    for number, command in enumerate(commands, start=6):
        assert "was used before" not in run_ok(*command, store=store)
        assert run_ok(*command, store=store) == (
            f"key {command[-1]} was used before, at version {number}; nothing was written\n"
        )


def test_branches_are_made_listed_and_deleted(store: Path) -> None:
    made = run_json("branch", "create", "past", "--at", "1", "--branch", "topic", store=store)
    assert (made["parent"], made["fork_version"], made["created_version"]) == ("topic", 1, 6)
    assert run_ok("branch", "delete", "past", store=store).startswith("branch past deleted at")
    listed = run_json("branch", "list", store=store)
    assert [(each["name"], each["deleted"]) for each in listed] == [
        ("main", False), ("topic", False), ("past", True),
    ]  # fmt: skip
    assert "past" in error_of(run("branch", "create", "past", store=store))
    assert "main" in error_of(run("branch", "delete", "main", store=store))
    assert "Missing command" in error_of(run("branch"))


def test_a_key_makes_a_branch_once(store: Path) -> None:
    first = run_json("branch", "create", "again", "--key", "k", store=store)
    assert run_json("branch", "create", "again", "--key", "k", store=store) == first


def test_merge_shows_conflicts_side_by_side_and_exits_1(store: Path) -> None:
    result = run("merge", "topic", store=store)
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.splitlines() == [
        "1 conflict; nothing was merged",
        'urn:a\t{"n":1}\t{"n":3}\t{"n":2}',
    ]
    as_json = run("merge", "topic", "--json", store=store)
    assert as_json.exit_code == 1
    assert decode(as_json.stdout)["conflicts"][0]["base"]["value"] == {"n": 1}


def test_merge_takes_resolutions_and_strategies(store: Path) -> None:
    tried = run_ok("merge", "topic", "--on-conflict", "theirs", "--dry-run", store=store)
    assert tried.startswith("would merge topic into main: 2 changes")
    done = run_ok("merge", "topic", "--delete", A, "--key", "k", store=store)
    assert done.startswith("merged topic into main: 2 changes at version 6")
    assert run("get", A, store=store).exit_code == 1
    assert run_ok("merge", "topic", store=store).startswith("nothing to merge")
    back = run_json("merge", "main", "--branch", "topic", "--on-conflict", "ours", store=store)
    assert back["status"] == "merged"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--on-conflict", "mine"],
        ["--resolutions", "[]"],
        ["--resolutions", "{"],
        ["--delete", B],
        ["--delete", A, "--resolutions", f'{{"{A}":1}}'],
    ],
)
def test_a_bad_merge_is_one_line(store: Path, arguments: list[str]) -> None:
    error_of(run("merge", "topic", *arguments, store=store))


def test_diff_prints_changes_between_branches_and_versions(store: Path) -> None:
    assert run_ok("diff", "topic", store=store) == "~ urn:a\n    /n 2\n+ urn:b [1]\n"
    assert run_ok("diff", "main", "--branch", "topic", store=store) == (
        "~ urn:a\n    /n 3\n- urn:b [1]\n"
    )
    assert run_ok("diff", "5", "--at", "1", store=store) == "~ urn:a\n    /n 3\n"
    assert run_ok("diff", "1", "--at", "1", store=store) == ""
    lines = run_ok("diff", "topic", "--json", store=store).splitlines()
    assert [decode(line)["kind"] for line in lines] == ["changed", "added"]
    error_of(run("diff", "nowhere", store=store))


def test_a_number_that_names_a_branch_too_is_not_taken_for_the_version(store: Path) -> None:
    """The command reported no difference, because it had compared something else."""
    run_ok("branch", "create", "3", store=store)
    run_ok("set", "urn:c", "1", "--branch", "3", store=store)
    assert "rote diff main --branch 3" in error_of(run("diff", "3", store=store))
    assert run_ok("diff", "main", "--branch", "3", store=store) == "- urn:c 1\n"


def test_the_graph_draws_forks_merges_and_ends(store: Path) -> None:
    with open_store(store) as opened:
        space = opened.space("default")
        space.create_branch("side").set(B, 0)
        space.merge("topic", on_conflict="ours")
        space.delete_branch("topic")
        space.on("side").merge("main", on_conflict="ours")
        space.create_branch("new")
    lines = run_ok("log", "--graph", "--oldest", store=store).splitlines()
    assert [line.split("  ")[0].rstrip() for line in lines] == [
        "●",
        "├─╮",
        "│ ●",
        "│ ●",
        "● │",
        "├─┼─╮",
        "│ │ ●",
        "●─┤ │",
        "│ ╵ │",
        "├───●",
        "├─╮ │",
    ]
    since = run_ok("log", "--graph", "--oldest", "--since", "7", store=store).splitlines()
    assert since == lines[7:]
    newest = run_ok("log", "--graph", store=store).splitlines()
    upside_down = str.maketrans("╮╵", "╯╷")
    assert newest == [line.translate(upside_down) for line in reversed(lines)]
    few = run_ok("log", "--graph", "--limit", "4", store=store).splitlines()
    assert few == newest[:4]
    for filter in (("--author", "me"), (A,)):
        assert "--graph draws every commit" in error_of(run("log", *filter, "--graph", store=store))


def test_more_branches_than_lanes_are_drawn_without_one() -> None:
    lanes = Lanes([])
    assert [lanes._place(f"b{number}") for number in range(LANES_MAX + 2)] == [
        *range(LANES_MAX), None, None,
    ]  # fmt: skip
