from pathlib import Path

import pytest

from rote.opening import open as open_store
from rote.values import decode
from tests.unit.cli.command import error_of, run, run_json, run_ok

ADA = "urn:entity:ada"


@pytest.fixture
def store(store_path: Path) -> Path:
    """Return a store with Ada, written three times, and with a deleted entity."""
    with open_store(store_path, author="tester") as opened:
        space = opened.space("default")
        space.set(ADA, {"name": "Ada", "drink": "tea"})
        space.patch(ADA, [{"op": "replace", "path": "/drink", "value": "coffee"}])
        space.set("urn:entity:bob", 1)
        space.delete("urn:entity:bob")
    return store_path


def test_get_prints_the_value_indented(store: Path) -> None:
    assert run_ok("get", ADA, store=store) == '{\n  "drink": "coffee",\n  "name": "Ada"\n}\n'


def test_get_json_prints_the_whole_state_as_canonical_json(store: Path) -> None:
    with open_store(store) as opened:
        state = opened.space("default").read(ADA)
    assert run_json("get", ADA, store=store) == state.to_dict()


def test_get_at_a_version_prints_the_value_of_then(store: Path) -> None:
    assert '"tea"' in run_ok("get", ADA, "--at", "1", store=store)


def test_get_at_a_time_prints_the_value_of_then(store: Path) -> None:
    with open_store(store) as opened:
        first = next(opened.space("default").log())
    result = run("get", ADA, "--at", first.at, store=store)
    assert (result.exit_code, '"tea"' in result.stdout) == (0, True)
    assert result.stderr.endswith(f" it had version 1, of {first.at}\n")
    assert run_json("get", ADA, "--at", first.at, store=store)["value"]["drink"] == "tea"


@pytest.mark.parametrize("id", ["urn:entity:bob", "urn:entity:nobody"])
def test_get_of_an_absent_entity_exits_1_and_prints_no_value(store: Path, id: str) -> None:
    result = run("get", id, store=store)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"{id} does not exist\n"


def test_get_json_of_an_absent_entity_exits_1_and_says_so_in_json(store: Path) -> None:
    result = run("get", "urn:entity:nobody", "--json", store=store)
    assert (result.exit_code, result.stderr) == (1, "")
    assert decode(result.stdout) == {
        "id": "urn:entity:nobody",
        "value": None,
        "exists": False,
        "version": 0,
        "hash": None,
        "erased": False,
    }


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ("5", "version 5 does not exist"),
        ("999999999999999999", "does not exist"),
        ("1" * 5000, "is no time"),
        ("-1", "is no time"),
        ("someday", "is no time"),
        ("2026-02-30T12:00:00", "is no time"),
    ],
)
def test_get_at_a_point_that_is_none_is_an_error(store: Path, point: str, words: str) -> None:
    assert words in error_of(run("get", ADA, "--at", point, store=store))


def test_a_value_cannot_steer_the_terminal(store: Path) -> None:
    with open_store(store) as opened:
        opened.space("default").set(ADA, "\x1b[31m\x9b\u202e[bold]")
    assert run_ok("get", ADA, store=store) == '"\\u001b[31m\\u009b\\u202e[bold]"\n'


def test_log_prints_one_line_for_each_commit_newest_first(store: Path) -> None:
    expected = [
        ("4", "tester", "delete urn:entity:bob"),
        ("3", "tester", "set urn:entity:bob"),
        ("2", "tester", f"patch {ADA}"),
        ("1", "tester", f"set {ADA}"),
    ]
    for options, rows in (((), expected), (("--oldest",), expected[::-1])):
        lines = run_ok("log", *options, store=store).splitlines()
        shown = [line.split("\t") for line in lines]
        assert [(row[0], row[2], row[3]) for row in shown] == rows


def test_log_counts_the_facts_of_a_large_commit_that_it_does_not_name(store: Path) -> None:
    with open_store(store) as opened:
        operations = [{"op": "set", "id": f"urn:entity:{n}", "value": n} for n in range(5)]
        opened.space("default").transact(operations)
    assert "set urn:entity:2, 2 more\t" in run_ok("log", "--since", "4", store=store)


def test_log_json_prints_the_commits_as_json_lines(store: Path) -> None:
    with open_store(store) as opened:
        commits = [commit.to_dict() for commit in opened.space("default").log(newest=True)]
    lines = run_ok("log", "--json", store=store).splitlines()
    assert [decode(line) for line in lines] == commits


@pytest.mark.parametrize(
    ("options", "versions"),
    [
        ("--since 1 --limit 2", "43"),
        ("--since 1 --limit 2 --oldest", "23"),
        ("--until 3 --limit 2", "32"),
        ("--since 1 --until 3", "32"),
        ("--until 0", ""),
        ("--limit 0", ""),
        (f"{ADA}", "21"),
        (f"{ADA} --limit 1", "2"),
        ("urn:entity:nobody", ""),
        ("--author tester --limit 3", "432"),
        ("--author nobody", ""),
    ],
)
def test_log_shows_what_was_asked_for(store: Path, options: str, versions: str) -> None:
    lines = run_ok("log", *options.split(), store=store).splitlines()
    assert [line.split("\t")[0] for line in lines] == list(versions)


def test_history_prints_the_facts_newest_first(store: Path) -> None:
    rows = [line.split("\t") for line in run_ok("history", ADA, store=store).splitlines()]
    assert [(row[0], *row[2:5]) for row in rows] == [
        ("2", "tester", "patch", '[{"op":"replace","path":"/drink","value":"coffee"}]'),
        ("1", "tester", "set", '{"drink":"tea","name":"Ada"}'),
    ]


def test_history_json_prints_the_facts_as_json_lines(store: Path) -> None:
    with open_store(store) as opened:
        facts = [fact.to_dict() for fact in opened.space("default").history("urn:entity:bob")]
    lines = run_ok("history", "urn:entity:bob", "--json", store=store).splitlines()
    assert [decode(line) for line in lines] == facts


def test_history_ends_at_limit(store: Path) -> None:
    assert [*run_ok("history", ADA, "--limit", "1", store=store).split("\t")][3] == "patch"
    assert run_ok("history", ADA, "--limit", "0", store=store) == ""


@pytest.mark.parametrize(
    "command", [["get", ADA], ["log"], ["history", ADA], ["verify"], ["checkpoint"], ["patch", ADA, "[]"],
                ["delete", ADA], ["backup", "copy.db"], ["query", ADA], ["watch", ADA], ["list"],
                ["show", "1"], ["blob", "list"], ["memory", "list"], ["memory", "show", "ops", "k", "i"],
                ["memory", "history", "ops", "k", "i"], ["memory", "touch", "ops", "k", "i"]]
)  # fmt: skip
def test_a_command_on_a_missing_store_or_space_is_an_error_and_creates_nothing(
    store: Path, tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert "there is no store" in error_of(run(*command, store=tmp_path / "missing.db"))
    if command[0] != "backup":
        assert "no space" in error_of(run(*command, "--space", "missing", store=store))
    assert sorted(tmp_path.iterdir()) == before


def test_a_store_in_memory_is_refused(store: Path) -> None:
    assert "name a file" in error_of(run("log", "--store", ":memory:"))


@pytest.mark.parametrize("at", ["-1", "someday"])
def test_what_is_no_point_is_told_that_versions_are(tmp_path: Path, at: str) -> None:
    """The error for --at -1 explained how a time is written, but not versions."""
    words = error_of(run("get", ADA, "--at", at, store=tmp_path / "rote.db"))
    assert "is no time; write it like 2026-01-31T12:00:00Z" in words
    assert "or name a version, an integer from 0 on" in words


def test_the_spaces_of_a_store_are_listed_with_their_last_commits(store: Path) -> None:
    with open_store(store) as opened:
        opened.space("another")
        spaces = {space.name: space for space in opened.spaces()}
        [newest] = spaces["default"].log(newest=True, limit=1)
    assert run_ok("spaces", store=store).splitlines() == [
        f"another\t0\t\t{spaces['another'].did}",
        f"default\t4\t{newest.at}\t{spaces['default'].did}",
    ]
    assert run_json("spaces", store=store)[1] == {
        "name": "default", "did": spaces["default"].did, "version": 4, "head": newest.hash,
        "at": newest.at,
    }  # fmt: skip
    assert "there is no store" in error_of(run("spaces", store=store.with_name("missing.db")))


def test_space_and_branch_are_options_else_of_the_environment_else_the_defaults(
    store: Path,
) -> None:
    with open_store(store) as opened:
        notes = opened.space("notes")
        notes.set(ADA, "notes")
        notes.create_branch("topic").set(ADA, "topic")

    def seen(*options: str, **environment: str) -> object:
        result = run("get", ADA, "--json", *options, store=store, **environment)
        value = decode(result.stdout)
        assert isinstance(value, dict)
        return value["value"]

    both = {"ROTE_SPACE": "notes", "ROTE_BRANCH": "topic"}
    assert seen() == {"drink": "coffee", "name": "Ada"}
    assert seen(ROTE_SPACE="notes") == "notes"
    assert seen(**both) == "topic"
    assert seen("--branch", "main", **both) == "notes"
    assert seen("--space", "default", "--branch", "main", **both) == seen()
    for command in (["query", ADA], ["watch", ADA, "--timeout", "0"], ["list"]):
        assert '"topic"' in run(*command, store=store, **both).stdout
    whole = '{"select":{"urn:entity:ada":{}},"branch":"main"}'
    assert '"notes"' in run("query", whole, store=store, **both).stdout
