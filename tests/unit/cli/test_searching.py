"""rote memory search: a question as people ask it, and the records that answer it."""

from datetime import datetime
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
    assert ids("--min-share", "0.9") == ["a b"]
    assert ids("--after", "2026-01-01T12:00:00Z") == ["a b", "own"]  # the entry has no time
    assert ids("--before", "2026-01-01T12:00:00Z", "--after", "2025-12-31") == ["a b", "own"]
    assert ids("--before", "2026-01-05") == ["a b", "own"]
    assert ids("--language", "none") == ["a b"]
    nothing = run("memory", "search", QUESTION, "--tag", "none", store=store)
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (0, "", "nothing matches\n")


def test_neighbours_lend_no_words_without_context(store: Path) -> None:
    with open_store(store) as opened:
        memory = Memory(opened.space("default"))
        memory.append("session", "chat", "1", {"speaker": "Bob", "text": "Nobody."})
    asked = ("memory", "search", "Who deploys?", "--kind", "chat")
    assert [item["entry"] for item in run_json(*asked, store=store)["items"]] == [1, 2]
    alone = run_json(*asked, "--no-context", store=store)["items"]
    assert [item["entry"] for item in alone] == [1]


def test_times_are_days_from_their_start_to_their_end(tmp_path: Path) -> None:
    path = tmp_path / "rote.db"
    with open_store(path) as opened:
        memory = Memory(opened.space("default"))
        for day in (1, 5):
            time = datetime(2026, 3, day, 12).astimezone().isoformat()
            memory.append("session", "chat", "1", {"text": f"tea {day}", "ts_utc": time})

    def entries(*options: str) -> list[int]:
        found = run_json("memory", "search", "tea", *options, store=path)["items"]
        return sorted(item["entry"] for item in found)

    assert entries("--after", "2026-03-05") == [2]
    assert entries("--before", "2026-03-01") == [1]
    assert entries("--after", "2026-03-01", "--before", "2026-03-05") == [1, 2]
    assert entries("--after", "2026-03-01 12:00", "--before", "2026-03-01 12:00") == [1]


@pytest.mark.parametrize(
    ("question", "options", "said"),
    [
        ("Where is it?", (), "no word of the question counts; --language none counts all"),
        ("Where is it?", ("--language", "none"), ""),
        ("…?!", (), "the question has no word"),
        ("…?!", ("--language", "none"), "the question has no word"),
        ("zebra", (), ""),
    ],
)
def test_a_question_without_words_is_told(
    tmp_path: Path, question: str, options: tuple[str, ...], said: str
) -> None:
    path = tmp_path / "rote.db"
    with open_store(path) as opened:
        Memory(opened.space("default")).put("ops", "note", "1", {"text": "tea"})
    nothing = run("memory", "search", question, *options, store=path)
    words = f"nothing matches: {said}" if said else "nothing matches"
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (0, "", f"{words}\n")
    answer = run_json("memory", "search", question, *options, store=path)
    assert answer == {"items": [], "version": 1}


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
        (("who", "deploys", "it's"), """put the question in quotes: 'who deploys it'"'"'s'"""),
        (("x", "--after", "never"), "--after: 'never' is no time"),
        (("x", "--before", "never"), "--before: 'never' is no time"),
        (("x", "--language", "latin"), "english, none"),
        (("x", "--min-share", "1.5"), "min_share must be a number from 0 to 1"),
        (("x", "--min-share", "nan"), "min_share must be a number from 0 to 1"),
    ],
)
def test_what_cannot_be_searched_is_told(store: Path, options: tuple[str, ...], said: str) -> None:
    assert said in error_of(run("memory", "search", *options, store=store))


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    error_of(run("memory", "search", "x", store=tmp_path / "none.db"))
    assert list(tmp_path.iterdir()) == []
