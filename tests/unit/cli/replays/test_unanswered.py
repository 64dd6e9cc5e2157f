"""A replay of which nothing can be said."""

from collections.abc import Callable
from pathlib import Path

import pytest

import rote
from tests.unit.cli.command import error_of, json_error_of, run, run_ok
from tests.unit.cli.replays.programs import (
    MODES,
    PROGRAM,
    TERMS,
    answer_of,
    changed,
    record,
    replay,
    write,
)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("agent", "'agent' is no function; name a function as MODULE:FUNCTION"),
        ("agent:", "'agent:' is no function; name"),
        (":work", "':work' is no function; name"),
        ("", "'' is no function; name"),
        ("agent:work:more", "'agent:work:more' is no function; name"),
        ("a b:work", "'a b:work' is no function; name"),
        ("agent:work()", "'agent:work()' is no function; name"),
        (".agent:work", "'.agent:work' is no function; name"),
        ("../agent:work", "'../agent:work' is no function; name"),
        ("agent.py:work", "agent.py:work names a file; name a function as MODULE:FUNCTION"),
        (
            "nowhere:work",
            "cannot import nowhere: ModuleNotFoundError: No module named 'nowhere'; it is"
            " looked for in the working folder, ",
        ),
        ("agent.inner:work", "cannot import agent.inner: ModuleNotFoundError"),
        ("broken:work", "cannot import broken: SyntaxError: "),
        ("failing:work", "cannot import failing: ZeroDivisionError: division by zero ("),
        ("leaving:work", "cannot import leaving: SystemExit: 4 ("),
        ("agent:play", "agent:play: there is no play; there are CALLED, mail, search, think, work"),
        ("agent:work.on", "agent:work.on: there is no on; there "),
        ("agent:CALLED.on", "agent:CALLED.on: there is no on; there are append, clear, copy, "),
        ("lazy:work", "cannot import lazy: OSError: not now ("),
        ("agent:CALLED", "agent:CALLED is a list and cannot be called; name"),
        ("odd:later", "odd:later does nothing when it is called alone; name a function"),
        ("odd:yielding", "odd:yielding does nothing when it is called alone; name a function"),
        ("odd:none", "odd:none is called with the run alone, and that does not fit it: too many"),
        ("odd:two", "odd:two is called with the run alone, and that does not fit it: missing"),
    ],
)
def test_a_function_that_cannot_be_called_is_told(store: Path, function: str, said: str) -> None:
    write(PROGRAM)
    write("def work(run)\n", "broken")
    write("1 / 0\n", "failing")
    write("import sys\nsys.exit(4)\n", "leaving")
    write("def __getattr__(name): raise OSError('not now')\n", "lazy")
    write("async def later(run): pass\ndef yielding(run): yield\ndef none(): pass\n"
          "def two(run, other): pass\n", "odd")  # fmt: skip
    assert error_of(replay(store, function)).startswith(f"error: {said}")


def test_the_place_of_a_syntax_error_is_told(store: Path) -> None:
    write("\n\ndef work(run)\n", "broken")
    assert "(broken.py, line 3)" in error_of(replay(store, "broken:work"))


def damaged(store: Path, path: str, change: Callable[[Path], object]) -> None:
    change(store.with_name("observability") / "monday" / path)


@pytest.mark.parametrize(
    ("path", "change", "said"),
    [
        ("trace.json", Path.unlink, "or it was killed, and then it cannot be replayed"),
        ("trace.json", lambda path: path.write_bytes(b"{"), "trace.json: not JSON at"),
        (
            "trace.json",
            lambda path: path.write_bytes(b"[]"),
            "does not say its model and its tools",
        ),
        ("recording.jsonl", Path.unlink, "name that of monday with --recording"),
        ("recording.jsonl", lambda path: path.write_bytes(b""), "is not the recording of monday"),
    ],
    ids=["no trace", "torn trace", "another trace", "no recording", "another recording"],
)
def test_without_its_files_nothing_can_be_said(
    store: Path, path: str, change: Callable[[Path], object], said: str
) -> None:
    write(PROGRAM)
    damaged(store, path, change)
    assert said in error_of(replay(store))


def test_a_recording_elsewhere_is_named(store_path: Path) -> None:
    record(store_path, record="first.jsonl")
    write(PROGRAM)
    assert "--recording" in error_of(replay(store_path))
    assert replay(store_path, "agent:work", "--recording", "first.jsonl").exit_code == 0
    Path("other.jsonl").write_bytes(Path("first.jsonl").read_bytes() + b"\n")
    said = error_of(replay(store_path, "agent:work", "--recording", "other.jsonl"))
    assert "other.jsonl is not the recording of monday: " in said


def test_a_whole_recording_without_its_name_is_taken(store: Path) -> None:
    """A kill between the trace and the last name of the recording leaves one under its first name."""
    write(PROGRAM)
    place = store.with_name("observability") / "monday" / "recording.jsonl"
    left = place.rename(f"{place}.partial")
    assert answer_of(store, expected=0)["recording"].endswith("recording.jsonl.partial")
    shown = run_ok("runs", "show", "monday", store=store)
    assert "rote runs replay monday MODULE:FUNCTION" in shown
    left.write_bytes(left.read_bytes()[:-5])
    assert f"there is no recording {place}" in error_of(replay(store))


def test_runs_that_cannot_be_replayed_are_told(store: Path) -> None:
    write(PROGRAM)
    record(store, run_id="plain", record=None)
    record(store, "def work(run): pass\n", run_id="living", mode="live_read_write", record=None)
    assert "plain was not recorded; start runs with record=True" in error_of(
        replay(store, run_id="plain")
    )
    assert "live runs are not recorded" in error_of(replay(store, run_id="living"))
    assert "there is no run x" in error_of(replay(store, run_id="x"))
    record(store, run_id="monday-2")
    assert "2 runs begin with mo" in error_of(replay(store, run_id="mo"))
    error_of(run("runs", "replay", "x", "agent:work", store=store.with_name("none.db")))
    assert not store.with_name("none.db").exists()


def test_a_run_is_replayed_where_its_snapshot_is(store: Path) -> None:
    write(PROGRAM)
    run_ok("set", "urn:x", "1", store=store)
    said = error_of(replay(store, "agent:work", "--space", "default"))
    assert "which 'default' does not have; replay it in the space where it was recorded" in said
    said = error_of(replay(store, "agent:work", "--space", "nowhere"))
    assert "name one with --space" in said


def test_what_another_space_holds_is_not_taken_for_what_was_written(store_path: Path) -> None:
    """A run that began in an empty space can be replayed in every space."""
    program = "def work(run):\n    run.set('urn:a', 1)\n"
    with rote.open(store_path, modes=MODES) as opened:
        opened.space("other").set("urn:b", 2)
        with opened.space("team").run(**TERMS, record=True, run_id="monday") as first:
            first.set("urn:a", 1)
    write(program)
    assert replay(store_path, "agent:work", "--space", "other").exit_code == 0
    write(program.replace("1)", "3)"), "changed")
    [entity] = answer_of(store_path, "changed:work", "--space", "other")["parted"]["entities"]
    assert (entity["id"], entity["recorded"], entity["made"]) == ("urn:a", None, ["set 3"])


def test_what_was_compacted_away_cannot_be_said(store: Path) -> None:
    write(PROGRAM)
    run_ok("compact", "--before", "3", "--space", "team", "--yes", store=store)
    assert "error: " in error_of(replay(store))


def test_what_was_erased_since_cannot_be_said(store: Path) -> None:
    """The function is the recorded one; only what it retrieved is gone."""
    write(PROGRAM)
    words = ("erase", "long_term", "fact", "keys", "--reason", "asked", "--space", "team", "--yes")
    run_ok(*words, store=store)
    answer = answer_of(store, expected=2)
    assert (answer["status"], answer["erased"]["version"]) == ("cannot_say", 4)
    result = replay(store)
    assert result.exit_code == 2
    assert result.stdout.splitlines()[-1].startswith(
        "cannot say: long_term fact keys was erased since, in version 4; "
    )


def test_what_a_run_never_saw_may_be_erased(store: Path) -> None:
    run_ok("set", "urn:late", "1", "--space", "team", store=store)
    run_ok("erase", "urn:late", "--reason", "asked", "--space", "team", "--yes", store=store)
    write(PROGRAM)
    assert replay(store).exit_code == 0
    write(changed('query="keys"', 'query="key"'), "other")
    assert replay(store, "other:work").exit_code == 1


def test_errors_are_told_to_programs(store: Path) -> None:
    told = json_error_of(replay(store, "nowhere:work", "--json"))
    assert told["code"] == "invalid_input"
