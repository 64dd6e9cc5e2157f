from pathlib import Path
from typing import Any

import pytest

from rote.opening import open as open_store
from rote.records.memory import Memory
from rote.values import decode
from rote.values.limits import DEPTH_MAX
from tests.unit.cli.command import error_of, run, run_json, run_ok

ADA, TEA, NEVER = "urn:entity:ada", "urn:entity:tea", "urn:entity:never"


@pytest.fixture
def store(store_path: Path) -> Path:
    """Return a store with Ada, who links to tea and to a missing entity, and with a deleted entity."""
    links = {"drinks": {"/": {"link@1": {"id": TEA}}}, "has": {"/": {"link@1": {"id": NEVER}}}}
    with open_store(store_path) as opened:
        space = opened.space("default")
        space.set(ADA, links)
        space.set(TEA, {"hot": True})
        space.set("urn:entity:bob", 1)
        space.delete("urn:entity:bob")
    return store_path


def test_query_prints_a_line_for_each_entity_and_says_what_is_missing(store: Path) -> None:
    result = run("query", ADA, "--follow", store=store)
    assert result.exit_code == 0
    assert [line.split("\t")[:2] for line in result.stdout.splitlines()] == [[ADA, "1"], [TEA, "2"]]
    assert result.stderr == f"missing: {NEVER}\n"


def test_query_without_follow_prints_what_is_selected_alone(store: Path) -> None:
    lines = run_ok("query", "urn:entity:*", store=store).splitlines()
    assert [line.split("\t")[0] for line in lines] == [ADA, TEA]
    assert run_ok("query", "urn:entity:bob", store=store) == "urn:entity:bob\t4\t(deleted)\n"


def test_query_json_prints_the_result_as_the_library_gives_it(store: Path) -> None:
    asked = {"select": {ADA: {"schema": True}}, "max_entities": 1}
    with open_store(store) as opened:
        expected = opened.space("default").query(asked)
    text = '{"select":{"urn:entity:ada":{"schema":true}},"max_entities":1}'
    assert run_json("query", text, store=store) == expected
    assert decode(run("query", "-", "--json", store=store, stdin=text).stdout) == expected
    assert f"truncated by max_entities at {TEA}" in run("query", text, store=store).stderr


def test_query_values_prints_values_with_links_replaced(store: Path) -> None:
    result = run("query", ADA, "--follow", "--values", "--json", store=store)
    assert decode(result.stdout)["values"][ADA]["drinks"] == {"hot": True}
    assert '"hot": true' in run("query", ADA, "--follow", "--values", store=store).stdout


def test_query_at_a_version_prints_what_was_there_then(store: Path) -> None:
    assert run_ok("query", "*", "--at", "1", store=store).startswith(f"{ADA}\t1\t")


@pytest.mark.parametrize("query", ['{"select":{"*":{}},"limit":1}', "*"])
def test_query_tells_how_to_go_on(store: Path, query: str) -> None:
    command = ("query", query, *(("--limit", "1") if query == "*" else ()))
    result = run(*command, store=store)
    words, _, cursor = result.stderr.partition("more follow: ")
    assert words == ""
    assert run_ok(*command, *cursor.split(), store=store).startswith(TEA)


def test_query_since_a_version_shows_what_was_written_later(store: Path) -> None:
    lines = run_ok("query", "*", "--since", "1", store=store).splitlines()
    assert [line.split("\t")[0] for line in lines] == ["urn:entity:bob", TEA]


@pytest.mark.parametrize(
    ("option", "value", "member"),
    [
        ("--limit", "1", '"limit":2'),
        ("--since", "1", '"since":1'),
        ("--cursor", "x", '"cursor":"y"'),
        ("--at", "2", '"at":2'),
        ("--branch", "main", '"branch":"other"'),
    ],
)
def test_what_the_query_says_is_not_said_again_by_options(
    store: Path, option: str, value: str, member: str
) -> None:
    query = f'{{"select":{{"*":{{}}}},{member}}}'
    said = error_of(run("query", query, option, value, store=store))
    assert f"{option} and {option[2:]} in the query" in said
    assert "once" in said


def test_query_on_a_branch(store: Path) -> None:
    with open_store(store) as opened:
        opened.space("default").create_branch("draft").set(TEA, "cold")
    for command in (
        (TEA, "--branch", "draft"),
        (f'{{"select":{{"{TEA}":{{}}}},"branch":"draft"}}',),
    ):
        assert run_ok("query", *command, store=store).endswith('"cold"\n')
        assert '"cold"' in run_ok("watch", *command, "--timeout", "0", store=store)
    assert "there are main, draft" in error_of(run("query", TEA, "--branch", "none", store=store))


def test_query_values_says_what_is_missing(store: Path) -> None:
    result = run("query", NEVER, "--values", store=store)
    assert (result.exit_code, result.stderr) == (0, f"missing: {NEVER}\n")


def test_a_watch_marks_what_was_deleted(store: Path) -> None:
    shown = run_ok("watch", "urn:entity:bob", "--timeout", "0", store=store)
    assert shown == "version 4: 1 change\n- urn:entity:bob (deleted)\n"


def test_a_missing_space_is_told_with_those_there_are(store: Path) -> None:
    with open_store(store) as opened:
        for number in range(12):
            opened.space(f"s{number:02}").set(ADA, 1)
    said = error_of(run("query", "*", "--space", "other", store=store))
    assert "there is no space 'other' in this store; there are default, s00, " in said
    assert said.endswith(", s08 and 3 more: name one with --space or ROTE_SPACE\n")


def test_watch_prints_what_comes_and_what_goes(store: Path) -> None:
    assert run_ok("watch", TEA, "--timeout", "0", store=store) == (
        f'version 4: 1 change\n+ {TEA} {{"hot":true}}\n'
    )
    with open_store(store) as opened:
        opened.space("default").set(ADA, {})
    shown = run_ok("watch", ADA, "--follow", "--since", "4", "--timeout", "0", store=store)
    assert shown == f"version 5: 2 changes\n+ {ADA} {{}}\n- {TEA}\n"


def test_watch_tells_that_it_starts_over_after_an_erasure(store: Path) -> None:
    with open_store(store) as opened:
        opened.space("default").erase(ADA, reason="asked to")
    result = run("watch", "*", "--since", "4", "--timeout", "0", store=store)
    assert result.stdout == f'version 5: 1 change\n+ {TEA} {{"hot":true}}\n'
    assert result.stderr == "from the start: what was shown at 4 may have been erased\n"
    assert run("watch", TEA, "--since", "4", "--timeout", "0", store=store).stderr == ""


def test_watch_tells_that_its_result_is_cut(store: Path) -> None:
    query = f'{{"select":{{"{TEA}":{{}},"{ADA}":{{}}}},"max_entities":1}}'
    result = run("watch", query, "--timeout", "0", store=store)
    assert result.stdout.startswith(f"version 4: 1 change\n+ {ADA} ")
    assert result.stderr == f"truncated by max_entities at {TEA}\n"
    assert run("watch", TEA, "--timeout", "0", store=store).stderr == ""
    assert "up to max_entities" in error_of(run("watch", '{"select":{},"limit":1}', store=store))


def test_watch_json_prints_frames_as_json_lines(store: Path) -> None:
    with open_store(store) as opened:
        frames = list(opened.space("default").watch({"select": {"*": {}}}, timeout=0))
    lines = run_ok("watch", "*", "--timeout", "0", "--json", store=store).splitlines()
    assert [decode(line) for line in lines] == frames


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["query", "ada"], "urn:entity:ada"),
        (["query", "{}"], "select"),
        (["query", '["urn:book:1"]'], "a query is an object"),
        (["query", '"urn:book:1"'], "a query is an object"),
        (["query", "*", "--limit", "0"], "limit: it is an integer"),
        (["query", "*", "--at", "someday"], "'someday' is no time"),
        (["query", '{"select":{}}', "--follow"], "--follow"),
        (["query", "@nothing.json"], "nothing.json"),
        (["query", "*", "--at", "9"], "version 9 does not exist"),
        (["watch", '{"select":{},"limit":1}'], "limit"),
        (["watch", "*", "--since", "9"], "version 9 does not exist"),
        (["watch", "*", "--timeout", "-1"], "timeout"),
    ],
)
def test_a_bad_query_is_an_error(store: Path, command: list[str], words: str) -> None:
    assert words in error_of(run(*command, store=store))


def test_what_is_nested_as_deep_as_can_be_is_printed(store: Path) -> None:
    deepest: Any = []
    for _ in range(DEPTH_MAX - 1):
        deepest = [deepest]
    record: Any = {}
    for _ in range(DEPTH_MAX - 2):
        record = {"a": record}
    with open_store(store) as opened:
        space = opened.space("default")
        space.set(TEA, deepest)
        Memory(space).put("ops", "k", "1", record)
    text = "[" * DEPTH_MAX + "]" * DEPTH_MAX
    for command in (
        ["query", TEA], ["query", TEA, "--values"], ["watch", TEA, "--timeout", "0"],
        ["history", TEA, "--limit", "1"], ["log", "--limit", "9"],
    ):  # fmt: skip
        assert text in run_ok(*command, "--json", store=store)
    assert run_ok("query", TEA, "--values", store=store).count("[") == DEPTH_MAX
    text = '{"a":' * (DEPTH_MAX - 2)
    for command in (
        ["memory", "get", "ops", "k", "1"], ["memory", "list", "ops", "--include", "payload"],
    ):  # fmt: skip
        assert text in run_ok(*command, "--json", store=store)
