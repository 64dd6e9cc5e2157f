"""`rote memory list, show, history, touch`: what was known then, who wrote it and why."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rote import Memory
from rote.opening import open as open_store
from rote.testing.clocks import FixedClock
from tests.unit.cli.command import error_of, run, run_json, run_ok
from tests.unit.cli.test_outcome import on_terminal

KEY = ("long_term", "fact", "drink")
MONDAY = "2026-01-05T12:00:00.000000Z"
TUESDAY = "2026-01-06T12:00:00.000000Z"
DAY_SECONDS = 86_400


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store in which Ada drank tea on Monday and coffee from Tuesday on."""
    path, clock = tmp_path / "rote.db", FixedClock(datetime(2026, 1, 5, 12, tzinfo=UTC))
    with open_store(path, author="importer", clock=clock) as opened:
        memory = Memory(opened.space("default"))
        memory.put(*KEY, {"text": "Ada drinks tea"}, metadata={"tags": ["ada"]})
        memory.put("session", "turn", "1", {"said": "hello"}, 60)
    clock.move(seconds=DAY_SECONDS)
    with open_store(path, author="planner", clock=clock) as opened:
        space = opened.space("default")
        memory = Memory(space)
        patch = [{"op": "replace", "path": "/payload/text", "value": "Ada drinks coffee"}]
        operation = {"op": "patch", "id": memory.entity_id(*KEY), "ops": patch}
        space.transact([operation], meta={"why": "chat 17"})
        memory.touch(*KEY)
    return path


def test_a_list_is_of_all_namespaces_unless_one_is_named(store: Path) -> None:
    run_ok("memory", "put", "ops", "note", "1", '{"text":"two\\nlines"}', store=store)

    def rows(*options: str) -> list[list[str]]:
        lines = run_ok("memory", "list", *options, store=store).splitlines()
        return [line.split("\t") for line in lines]

    assert [(row[0], row[1], row[2], row[6]) for row in rows()] == [
        ("long_term", "fact", "drink", "Ada drinks coffee"),
        ("ops", "note", "1", "two\\nlines"),
    ]
    assert rows("--tag", "ada") == rows()[:1]
    assert rows("ops") == rows()[1:]
    assert rows("--offset", "1") == rows()[1:]
    first = run("memory", "list", "--limit", "1", store=store)
    assert first.stderr == "more follow: --offset 1\n"
    listed = run_json("memory", "list", store=store)
    assert [item["namespace"] for item in listed["items"]] == ["long_term", "ops"]
    assert run_json("memory", "list", "--limit", "1", store=store)["next_offset"] == 1
    assert run_json("memory", "list", "--limit", "0", store=store) == {"items": []}
    assert run_json("memory", "list", "--limit", "2", store=store).keys() == {"items"}
    far = ("--limit", "10000", "--offset", "1")
    assert run_json("memory", "list", *far, store=store)["items"] == listed["items"][1:]
    for wrong in ('{"limit":"x"}', '{"offset":-1}', '{"limit":10001}'):
        error_of(run("memory", "list", "--filters", wrong, store=store))


def test_the_last_changed_come_first(store: Path) -> None:
    for id in ("b", "c", "a"):
        run_ok("memory", "put", "ops", "note", id, "{}", store=store)
    for options in (("ops",), ()):
        items = run_json("memory", "list", *options, "--newest", "--limit", "3", store=store)
        assert [item["record_id"] for item in items["items"]] == ["a", "c", "b"]


def test_a_list_takes_times_as_people_type_them(store: Path) -> None:
    then = run("memory", "list", "--at", "2026-01-05 23:00", store=store)
    assert [line.split("\t")[6] for line in then.stdout.splitlines()] == [
        "Ada drinks tea", '{"said":"hello"}',
    ]  # fmt: skip
    assert then.stderr.endswith(f"it had version 2, of {MONDAY}\n")
    assert "Ada drinks coffee" in run("memory", "list", "--at", "now", store=store).stdout
    early = run("memory", "list", "--at", "2020-01-01", store=store)
    assert (early.exit_code, early.stdout) == (0, "")
    assert "the first version is later" in early.stderr
    assert run_ok("memory", "list", "--since", "2026-01-06", store=store) == ""
    assert "tea" in run_ok("memory", "list", "--since", "2026-01-05", store=store).replace(
        "coffee", "tea"
    )


def test_show_tells_who_wrote_a_record_when_and_why(store: Path) -> None:
    lines = run_ok("memory", "show", *KEY, store=store).splitlines()
    pairs = dict(line.split("\t") for line in lines[: lines.index("{")])
    assert pairs == {
        "record": "long_term fact drink",
        "version": "3",
        "if-version": "4 (its use was noted then)",
        "at": TUESDAY,
        "author": "planner",
        "why": '{"why":"chat 17"}',
        "created": MONDAY,
        "metadata": f'{{"access_count":1,"last_accessed":"{TUESDAY}","tags":["ada"]}}',
    }
    assert "Ada drinks coffee" in lines[-2]
    shown = run_json("memory", "show", *KEY, "--at", "2026-01-05", store=store)
    assert (shown["found"], shown["version"], shown["author"]) == (True, 1, "importer")
    assert (shown["at"], shown["meta"]) == (MONDAY, None)
    assert shown["record"]["payload"] == {"text": "Ada drinks tea"}
    expiring = run("memory", "show", "session", "turn", "1", "--at", "2", store=store).stdout
    assert "expires\t2026-01-05T12:01:00.000000Z\n" in expiring


def test_show_tells_the_version_that_a_condition_takes(store: Path) -> None:
    """A use that was noted is a write, too: the version of the last change was refused for ever."""
    shown = run_json("memory", "show", *KEY, store=store)
    assert (shown["version"], shown["if_version"]) == (3, 4)
    assert "if-version\t4 " in run_ok("memory", "show", *KEY, store=store)
    update = ("memory", "update", *KEY, "--ttl", "60", "--if-version")
    assert "written at 4" in error_of(run(*update, "3", store=store))
    run_ok(*update, "4", store=store)
    assert "if-version" not in run_ok("memory", "show", *KEY, store=store)


def test_show_tells_no_version_that_it_does_not_show(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process wrote the record in between. Whoever wrote with the version that was told took
    that write back without having seen it."""
    get = Memory.get

    def write_then(memory: Memory, *key: str, **more: Any) -> Any:
        found = get(memory, *key, **more)
        with open_store(store, author="somebody") as other:
            Memory(other.space("default")).put(*KEY, {"text": "Ada drinks water"})
        return found

    monkeypatch.setattr(Memory, "get", write_then)
    shown = run_json("memory", "show", *KEY, store=store)
    assert (shown["record"]["payload"], shown["author"]) == (
        {"text": "Ada drinks coffee"},
        "planner",
    )
    assert (shown["version"], shown["if_version"]) == (3, 4)


def test_show_tells_that_a_deleted_record_must_not_be_there(store: Path) -> None:
    run_ok("memory", "delete", *KEY, store=store)
    gone = run("memory", "show", *KEY, "--json", store=store)
    assert (gone.exit_code, json.loads(gone.stdout)["if_version"]) == (1, 0)
    run_ok("memory", "put", *KEY, "{}", "--if-version", "0", store=store)


def test_a_command_writes_as_the_author_of_the_environment(store: Path) -> None:
    put = ("memory", "put", "ops", "note", "1", "{}")
    assert run(*put, store=store, ROTE_AUTHOR="clerk").exit_code == 0
    assert run_json("memory", "show", "ops", "note", "1", store=store)["author"] == "clerk"
    run_ok("memory", "delete", "ops", "note", "1", store=store)
    assert run_json("history", "ops", "note", "1", "--limit", "1", store=store)["author"] is None


def test_show_tells_why_there_is_none(store: Path) -> None:
    absent = run("memory", "show", "ops", "k", "i", store=store)
    assert (absent.exit_code, absent.stdout) == (1, "")
    assert absent.stderr == "there is no record ops k i\n"
    early = run("memory", "show", *KEY, "--at", "0", store=store)
    assert early.stderr == "there is no record long_term fact drink at 0\n"
    expired = run("memory", "show", "session", "turn", "1", store=store)
    assert expired.stderr.endswith("session turn 1: it has expired, or holds no record\n")
    with open_store(store, author="cleaner") as opened:
        commit = opened.space("default").transact(
            [{"op": "delete", "id": Memory.entity_id(*KEY)}], meta="tidy"
        )
    deleted = run("memory", "show", *KEY, store=store)
    assert deleted.stderr == (
        "there is no record long_term fact drink: it was deleted in version 5,"
        f" at {commit.at} by cleaner (tidy)\n"
    )
    result = run("memory", "show", *KEY, "--json", store=store)
    assert (result.exit_code, result.stderr) == (1, "")
    assert '"found":false' in result.stdout
    assert '"author":"cleaner"' in result.stdout
    run_ok("erase", *KEY, "--reason", "r", store=store)
    assert "it was erased" in run("memory", "show", *KEY, store=store).stderr


def test_a_history_tells_what_a_record_said(store: Path) -> None:
    run_ok("memory", "delete", *KEY, store=store)
    lines = run_ok("memory", "history", *KEY, store=store).splitlines()
    assert [line.split("\t")[:1] + line.split("\t")[2:] for line in lines] == [
        ["5", "", "delete", "", ""],
        ["4", "planner", "patch", "Ada drinks coffee", ""],
        ["3", "planner", "patch", "Ada drinks coffee", '{"why":"chat 17"}'],
        ["1", "importer", "set", "Ada drinks tea", ""],
    ]
    items = run_json("memory", "history", *KEY, "--limit", "3", store=store)["items"]
    assert [item["version"] for item in items] == [5, 4, 3]
    assert items[2].keys() == {"version", "at", "author", "op", "record", "meta", "erased"}
    then: Any = run_json("memory", "history", *KEY, "--at", "2026-01-05", store=store)
    assert [item["version"] for item in then["items"]] == [1]
    assert run_ok("memory", "history", "ops", "k", "i", store=store) == ""
    shown = on_terminal("memory", "history", *KEY, cwd=store.parent, NO_COLOR="1")
    assert "    Ada drinks tea\r\n" in shown
    assert "    why " in shown


def test_touch_notes_that_a_record_was_used(store: Path) -> None:
    assert run_ok("memory", "touch", *KEY, store=store) == "used 2 times at version 5\n"
    assert run_json("memory", "touch", *KEY, store=store)["access_count"] == 3
    absent = run("memory", "touch", "ops", "k", "i", store=store)
    assert (absent.exit_code, absent.stderr) == (1, "there is no record ops k i\n")
    absent = run("memory", "touch", "ops", "k", "i", "--json", store=store)
    assert absent.exit_code == 1
    assert '"found":false' in absent.stdout


def test_counts_are_of_then_too(store: Path) -> None:
    assert run_json("memory", "stats", "--at", "1", store=store)["records"] == 1
    assert run_json("memory", "report", "--at", "1", store=store)["totals"]["with_ttl"] == 0
    assert run_json("memory", "report", "--at", "2", store=store)["totals"]["with_ttl"] == 1


def test_an_export_is_of_then_too(store: Path) -> None:
    then = run("memory", "export", "--at", "2026-01-05", store=store)
    assert "Ada drinks tea" in then.stdout
    assert "is no time" in error_of(run("memory", "export", "--at", "x", store=store))
