from pathlib import Path

import pytest

import rote
from rote.contract.commands import ListSides, PutSide
from rote.runs.run_rows import LEASE, Lease
from tests.unit.cli.command import error_of, run, run_json, run_ok

A = "urn:entity:a"
MODES = ("read_only", "buffered_write")


def begin(store: rote.Store, run_id: str, mode: str = "buffered_write") -> rote.Run:
    return store.space("default").run(
        workflow_id="triage", model=None, policy_set_id="p", mode=mode, run_id=run_id
    )


@pytest.fixture
def store(store_path: Path) -> Path:
    with rote.open(store_path, modes=MODES) as opened:
        with begin(opened, "first") as first:
            first.set(A, 1)
        with pytest.raises(ZeroDivisionError), begin(opened, "second"):
            raise ZeroDivisionError
    return store_path


@pytest.fixture
def left(store: Path) -> Path:
    """Return a store with an open run whose owner is gone."""
    with rote.open(store, modes=MODES) as opened:
        third = begin(opened, "third")
        third.__enter__()
        third._told().discard()  # the end of the owner would have closed its files
        port = opened._port
        did = opened.space("default").did
        (row,) = port.answer(did, ListSides(LEASE, after="", limit=9)).rows
        port.answer(did, PutSide(LEASE, row.key, Lease(0).body(), fence=row.fence))
    return store


def test_runs_are_listed_with_what_became_of_them(store: Path) -> None:
    lines = [line.split("\t") for line in run_ok("runs", "list", store=store).splitlines()]
    assert [line[:5] for line in lines] == [
        ["first", "triage", "buffered_write", "commit_applied", "1"],
        ["second", "triage", "buffered_write", "buffer_open (discarded)", ""],
    ]
    assert [each["run_id"] for each in run_json("runs", "list", store=store)] == ["first", "second"]
    assert run_ok("runs", "list", "--limit", "1", store=store).startswith("second\t")
    assert run_ok("runs", "list", "--limit", "0", store=store) == ""
    assert run_ok("runs", "list", "--open", store=store) == ""


def test_what_is_listed_of_a_drawn_id_is_enough_to_show_the_run(store_path: Path) -> None:
    with rote.open(store_path) as opened:
        space = opened.space("default")
        with space.run(workflow_id="triage", model=None, policy_set_id="p") as drawn:
            pass
    id, *_, started = run_ok("runs", "list", store=store_path).rstrip("\n").split("\t")
    assert (id, len(id)) == (drawn.run_id[:12], 12)
    shown = run_json("runs", "show", id, store=store_path)
    assert shown["run_id"] == drawn.run_id
    assert started == f"{shown['started_at'][:19]}Z"


def test_a_run_is_shown_by_its_id_or_how_that_begins(store: Path) -> None:
    shown = run_json("runs", "show", "first", store=store)
    assert (shown["state"], shown["version"], shown["validate"]) == ("commit_applied", 1, "answers")
    assert run_json("runs", "show", "fi", store=store) == shown


def test_runs_that_begin_alike_are_named(store: Path) -> None:
    with rote.open(store, modes=MODES) as opened, begin(opened, "fire"):
        pass
    several = run("runs", "show", "fi", store=store)
    assert (several.exit_code, several.stderr) == (
        1,
        "2 runs begin with fi; there are first, fire\n",
    )


def test_programs_are_told_of_a_run_what_people_are(store: Path) -> None:
    """The JSON lacked what an aborted run conflicted with, and where it began."""
    with (
        rote.open(store, modes=MODES) as opened,
        pytest.raises(rote.errors.RunAborted),
        begin(opened, "third") as third,
    ):
        third.set(A, third.get(A))
        opened.space("default").set(A, 2)
    shown = run_json("runs", "show", "third", store=store)
    assert (shown["space"], [each["id"] for each in shown["conflicts"]]) == ("default", [A])


def test_a_run_is_shown_with_its_own_space(store: Path) -> None:
    with rote.open(store, modes=MODES) as opened:
        other = opened.space("other")
        other.create_branch("idea")
        with other.on("idea").run(workflow_id="w", model=None, policy_set_id="q", run_id="third"):
            pass
    shown = run_json("runs", "show", "third", store=store)
    assert (shown["space"], shown["branch"], shown["policy_set_id"]) == ("other", "idea", "q")
    assert shown["memory_snapshot_id"].startswith("idea:")


def test_what_is_recovered_is_told(left: Path) -> None:
    said = run_ok("recover", store=left)
    assert said == "third\ttriage\tbuffer_open (discarded)\t\n1 run ended, 0 going on\n"
    assert run_ok("recover", store=left) == "0 runs ended, 0 going on\n"


def test_what_is_recovered_is_told_to_programs(left: Path) -> None:
    said = run_json("recover", store=left)
    assert ([each["run_id"] for each in said["ended"]], said["going_on"]) == (["third"], [])


def test_other_commands_recover_too(left: Path) -> None:
    run_ok("get", A, store=left)
    assert run_ok("recover", store=left) == "0 runs ended, 0 going on\n"


def test_a_living_run_goes_on(store: Path) -> None:
    with rote.open(store, modes=MODES) as opened, begin(opened, "third") as third:
        # After a kill people wait for this, and nothing said for how long.
        first, second = run_ok("recover", store=store).splitlines()
        assert first == "0 runs ended, 1 going on"
        assert "when its lease is over: at the latest 30 seconds later" in second
        assert run_ok("runs", "list", "--open", store=store).startswith("third\ttriage")
        third.set(A, 2)
    assert run_json("runs", "show", "third", store=store)["version"] == 2


def test_the_modes_of_an_environment_come_from_the_settings(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_ok("runs", "modes", store=store) == "off, read_only\n"
    settings = store.with_name("rote.toml")
    assert str(settings) in error_of(run("runs", "modes", "--environment", "x", store=store))
    settings.write_text("[environments.x]\nmodes = ['buffered_write', 'read_only']\n")
    said = run_ok("runs", "modes", "--environment", "x", store=store)
    assert said == "read_only, buffered_write\n"
    monkeypatch.setenv("ROTE_ENVIRONMENT", "x")
    assert run_ok("runs", "modes", store=store) == said
    assert run_json("runs", "modes", store=store) == {
        "environment": "x", "modes": ["read_only", "buffered_write"],
    }  # fmt: skip
    other = store.with_name("other.toml")
    other.write_text("[environments.x]\nmodes = ['write']\n")
    assert "no mode" in error_of(run("runs", "modes", "--config", str(other), store=store))


def test_a_store_that_is_missing_is_not_made(tmp_path: Path) -> None:
    for command in (("runs", "list"), ("runs", "show", "x"), ("recover",)):
        error_of(run(*command, store=tmp_path / "none.db"))
    assert list(tmp_path.iterdir()) == []
