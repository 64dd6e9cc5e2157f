"""rote memory search: a question as people ask it, and the records that answer it."""

from pathlib import Path

import pytest

from rote import Memory
from rote.opening import open as open_store
from rote.testing.clocks import FixedClock
from tests.unit.cli.command import error_of, run, run_json, run_ok
from tests.unit.cli.test_outcome import on_terminal

QUESTION = "Where are the deploying machines?"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "rote.db"
    with open_store(path, clock=FixedClock()) as opened:
        memory = Memory(opened.space("default"), namespaces=["mine", "ops", "session"])
        text = "Machines that \x1b[31m deploy\nare in the cellar."
        memory.put("ops", "note", "a b", {"text": text}, metadata={"tags": ["It", "x"]})
        memory.append("session", "chat", "1", {"speaker": "Ada", "text": "Who deploys?"})
        memory.put("mine", "note", "own", {"text": "my machine"})
    return path


def rows(store: Path, *options: str) -> list[list[str]]:
    printed = run_ok("memory", "search", QUESTION, *options, store=store)
    return [line.split("\t") for line in printed.splitlines()]


def test_the_best_come_first_one_on_a_line(store: Path) -> None:
    found = run_json("memory", "search", QUESTION, store=store)
    assert found["version"] == 3
    scores = [str(item["score"]) for item in found["items"]]
    assert rows(store) == [
        [scores[0], "ops", "note", "a b", "", "2026-01-01T12:00:00Z",
         "Machines that \\u001b[31m deploy\\nare in the cellar."],
        [scores[1], "session", "chat", "1", "1", "", "Ada: Who deploys?"],
        [scores[2], "mine", "note", "own", "", "2026-01-01T12:00:00Z", "my machine"],
    ]  # fmt: skip


def test_options_say_where_is_looked(store: Path) -> None:
    def ids(*options: str) -> list[str]:
        return [row[3] for row in rows(store, *options)]

    assert ids("--namespace", "mine") == ["own"]
    assert ids("--namespace", "mine", "--namespace", "session") == ["1", "own"]
    assert ids("--kind", "chat") == ["1"]
    assert ids("--tag", "it", "--tag", "X") == ["a b"]
    assert ids("--limit", "1") == ["a b"]
    assert ids("--at", "2") == ["a b", "1"]
    nothing = run("memory", "search", QUESTION, "--tag", "none", store=store)
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (0, "", "nothing matches\n")


def test_words_that_matched_are_marked_on_a_terminal(store: Path) -> None:
    shown = on_terminal("memory", "search", QUESTION, cwd=store.parent)
    marked = "\x1b[1;33m{}\x1b[0m".format
    line = f"{marked('Machines')} that \\u001b[31m {marked('deploy')} are in the cellar."
    assert f"    {line}\r\n" in shown
    assert "ops note 'a b'  2026-01-01T12:00:00Z" in shown
    assert "session chat 1  entry 1" in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("",), "query must hold more than white space"),
        (("x", "--limit", "0"), "--limit"),
        (("x", "--limit", "1001"), "--limit"),
        (("x", "--namespace", "nothing"), "there is no namespace 'nothing'"),
        (("x", "--at", "9"), "9"),
        ((), "TEXT"),
    ],
)
def test_what_cannot_be_searched_is_told(store: Path, options: tuple[str, ...], said: str) -> None:
    assert said in error_of(run("memory", "search", *options, store=store))


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    error_of(run("memory", "search", "x", store=tmp_path / "none.db"))
    assert list(tmp_path.iterdir()) == []
