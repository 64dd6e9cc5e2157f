"""`rote log` and `rote show`: when, who, what and why."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rote import Memory
from rote.opening import open as open_store
from rote.testing.clocks import FixedClock
from rote.values import decode
from tests.unit.cli.command import error_of, run, run_json, run_ok
from tests.unit.cli.test_outcome import on_terminal

ADA = "urn:person:ada-lovelace-of-a-long-name"
WHY = {"why": "Ada said so in chat 17"}
MONDAY, TUESDAY = "2026-01-05T12:00:00.000000Z", "2026-01-06T12:00:00.000000Z"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store whose second commit was made a day later, by another, and says why."""
    path = tmp_path / "rote.db"
    clock = FixedClock(datetime(2026, 1, 5, 12, tzinfo=UTC))
    with open_store(path, author="importer", clock=clock) as opened:
        opened.space("default").set(ADA, {"drink": "tea", "tags": ["x"]})
    clock.move(seconds=86_400)
    with open_store(path, author="planner", clock=clock) as opened:
        space = opened.space("default")
        patch: list[dict[str, Any]] = [
            {"op": "test", "path": "/drink", "value": "tea"},
            {"op": "replace", "path": "/drink", "value": "coffee"},
            {"op": "remove", "path": "/tags/0"},
            {"op": "move", "from": "/tags", "path": "/labels"},
            {"op": "splice", "path": "/labels", "index": 0, "remove": 0, "add": ["y"]},
        ]
        operations: list[dict[str, Any]] = [
            {"op": "patch", "id": ADA, "ops": patch},
            {"op": "set", "id": "urn:other", "value": [1]},
            {"op": "delete", "id": "urn:other"},
        ]
        space.transact(operations, meta=WHY, key="k")
        Memory(space).put("long_term", "fact", "drink", {"text": "Ada drinks coffee"})
    return path


def test_log_tells_who_and_why(store: Path) -> None:
    newest, _, oldest = (line.split("\t") for line in run_ok("log", store=store).splitlines())
    assert newest[3] == "set long_term fact drink"
    assert oldest[:3] == ["1", MONDAY, "importer"]
    row = run_ok("log", "--author", "planner", "--since", "1", store=store).splitlines()[-1]
    assert row.split("\t")[1:5] == [
        TUESDAY, "planner", f"patch {ADA}, set urn:other, delete urn:other",
        '{"why":"Ada said so in chat 17"}',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "versions"),
    [
        (["--until", "2026-01-05"], ["1"]),
        (["--since", "2026-01-06"], ["3", "2"]),
        (["--since", "2026-01-05T12:00:00Z"], ["3", "2"]),
        (["--since", "2026-01-07"], []),
        (["--until", "2026-01-04"], []),
    ],
)
def test_log_takes_times(store: Path, options: list[str], versions: list[str]) -> None:
    result = run("log", *options, store=store)
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == versions
    assert result.exit_code == 0


@pytest.mark.parametrize("columns", ["24", "90"])
def test_times_ids_and_reasons_are_whole_on_any_terminal(store: Path, columns: str) -> None:
    """Columns of a narrow table broke times and ids into pieces."""
    for command in (["log"], ["history", ADA], ["show", "2"]):
        shown = on_terminal(*command, cwd=store.parent, COLUMNS=columns, NO_COLOR="1")
        lines = [line.strip() for line in shown.splitlines()]
        assert any(TUESDAY in line for line in lines)
        assert any("planner" in line for line in lines)
        assert any('{"why":"Ada said so in chat 17"}' in line for line in lines)
        if command[0] != "history":
            assert any(ADA in line for line in lines)
    shown = on_terminal("memory", "list", cwd=store.parent, COLUMNS=columns, NO_COLOR="1")
    assert any(TUESDAY in line for line in shown.splitlines())
    assert any("long_term fact drink" in line for line in shown.splitlines())


def test_show_tells_a_commit_with_each_fact(store: Path) -> None:
    lines = run_ok("show", "2", store=store).splitlines()
    pairs = dict(line.split("\t") for line in lines[: lines.index("")])
    assert (pairs["version"], pairs["at"], pairs["author"]) == ("2", TUESDAY, "planner")
    assert (pairs["why"], pairs["key"]) == ('{"why":"Ada said so in chat 17"}', "k")
    assert len(pairs["hash"]) == len(pairs["previous"]) == 64
    assert lines[lines.index("") + 1 :] == [
        f"patch {ADA}",
        '    /drink must be "tea"',
        '    /drink "coffee"',
        "    /tags/0 removed",
        "    /labels move from /tags",
        '    /labels at 0: 0 out, ["y"] in',
        "",
        "set urn:other",
        "[",
        "  1",
        "]",
        "",
        "delete urn:other",
    ]


def test_show_takes_a_version_or_a_time_and_prints_json(store: Path) -> None:
    with open_store(store) as opened:
        commits = [commit.to_dict() for commit in opened.space("default").log()]
    assert [run_json("show", version, store=store) for version in "123"] == commits
    assert run_json("show", "2026-01-05 23:00", store=store)["version"] == 1
    assert "2026-01-05 it had version 1" not in run("show", "2026-01-05", store=store).stdout


@pytest.mark.parametrize("version", ["0", "4", "2020-01-01", "someday", "-1"])
def test_show_of_no_commit_is_an_error(store: Path, version: str) -> None:
    result = run("show", "--json", "--", version, store=store)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_show_tells_what_was_erased_and_compacted(store: Path) -> None:
    run_ok("erase", "urn:other", "--reason", "request 1", store=store)
    shown = run_ok("show", "2", store=store)
    assert "set urn:other\n    (erased)\n" in shown
    event = '{"id":"urn:other","reason":"request 1","type":"erase"}'
    assert f"event\t{event}\n" in run_ok("show", "4", store=store)
    assert run_ok("log", "urn:other", store=store).startswith("4\t")
    run_ok("compact", "--before", "3", store=store)
    assert "begins with version 3" in error_of(run("show", "2", store=store))


def test_history_tells_when_who_and_why(store: Path) -> None:
    newest, oldest = (line.split("\t") for line in run_ok("history", ADA, store=store).splitlines())
    assert newest[:4] == ["2", TUESDAY, "planner", "patch"]
    assert newest[5] == '{"why":"Ada said so in chat 17"}'
    assert oldest[:4] == ["1", MONDAY, "importer", "set"]
    told: Any = decode(run_ok("history", ADA, "--limit", "1", "--json", store=store))
    assert (told["at"], told["author"], told["meta"]) == (TUESDAY, "planner", WHY)


def test_diff_tells_what_changed_since_a_time(store: Path) -> None:
    result = run("diff", "--at", "2026-01-05", store=store)
    assert result.exit_code == 0
    assert result.stdout.startswith('+ long_term fact drink {"created_at":')
    assert f"~ {ADA}\n" in result.stdout
    assert '    /drink "coffee"\n' in result.stdout
    back = run("diff", "2026-01-05", store=store)
    assert '    /drink "tea"\n' in back.stdout
    assert "since when" in error_of(run("diff", store=store))
    assert "no branch" in error_of(run("diff", "nowhere", store=store))
