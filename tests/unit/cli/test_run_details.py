"""`rote runs show`: what a run was, its files, and what to do next."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rote
from rote import ModelConfig, Run, Store, ToolProfile
from rote.contract.commands import ListSides, PutSide
from rote.runs.run_rows import LEASE, Lease
from rote.testing.postgres import database_url
from rote.values import decode
from tests.unit.cli.command import SECONDS_MAX, environment, error_of, run, run_json, run_ok
from tests.unit.cli.test_outcome import on_terminal

MODES = ("off", "read_only", "buffered_write", "live_read_write")
MODEL = ModelConfig("acme", "large-1", model_revision="b", temperature=0.5, max_tokens=9)


def begin(store: Store, run_id: str, mode: str = "buffered_write", **other: Any) -> Run:
    return store.space("default").run(
        **{"workflow_id": "triage", "policy_set_id": "p", "model": MODEL, "mode": mode,
           "tools": [ToolProfile("search", "1")], **other}, run_id=run_id,
    )  # fmt: skip


def work(run: Run, query: str = "keys") -> None:
    with run.event(role="planner", interceptor="before_tool", decision_type="tool_call") as event:
        event.model(lambda prompt: prompt.upper(), prompt="hello")
        event.call("search", lambda query: [query], query=query)


@pytest.fixture
def store(store_path: Path) -> Path:
    with rote.open(store_path, modes=MODES) as opened:
        with begin(opened, "first", record=True) as first:
            work(first)
            first.set("urn:a", 1)
        with pytest.raises(ZeroDivisionError), begin(opened, "second", model=None, tools=()):
            raise ZeroDivisionError
    return store_path


def pairs_of(*args: str, store: Path) -> dict[str, str]:
    """Return what people are told, by name; of several with one name the first."""
    lines = [line for line in run_ok(*args, store=store).splitlines() if line]
    return {name: value for name, _, value in (line.partition("\t") for line in reversed(lines))}


def test_a_run_is_shown_with_all_that_is_known_of_it(store: Path) -> None:
    told = pairs_of("runs", "show", "first", store=store)
    assert told["state"] == "commit_applied"
    assert told["wrote"] == "version 1"
    assert told["space"] == "default, branch main"
    assert told["model"] == (
        "acme large-1 b, temperature 0.5, max_tokens 9,"
        " not fixed: it may reply otherwise"
    )  # fmt: skip
    assert told["tools"] == "search 1"
    assert told["events"] == "1 event, 1 tool call"
    folder = store.with_name("observability") / "first"
    for kind, name in [
        ("trace", "trace.json"),
        ("retrieval", "trace.retrieval.json"),
        ("recording", "recording.jsonl"),
    ]:
        assert told[kind] == f"{folder / name} ({(folder / name).stat().st_size} bytes)"
    failed = pairs_of("runs", "show", "second", store=store)
    assert (failed["state"], failed["wrote"]) == ("buffer_open (discarded)", "nothing")
    assert (failed["model"], failed["output"]) == ("none", "error")
    assert failed["raised"] == "ZeroDivisionError"
    assert run_json("runs", "show", "second", store=store)["trace"]["raised"] == "ZeroDivisionError"
    assert "recording" not in failed


def test_programs_are_told_the_same(store: Path) -> None:
    record = run_json("runs", "list", store=store)[0]
    shown = run_json("runs", "show", "first", store=store)
    folder = store.with_name("observability") / "first"
    trace: Any = decode((folder / "trace.json").read_bytes())
    assert shown == {
        **record,
        "space": "default",
        "branch": "main",
        "memory_snapshot_id": "main:0:none",
        "policy_set_id": "p",
        "traces": str(folder),
        "files": [
            {"kind": kind, "path": str(folder / name), "size_bytes": (folder / name).stat().st_size}
            for kind, name in [
                ("trace", "trace.json"),
                ("retrieval", "trace.retrieval.json"),
                ("recording", "recording.jsonl"),
            ]
        ],
        "trace": {
            "events": 1,
            "tool_calls": 1,
            "output_type": "none",
            "model": MODEL.to_dict(),
            "tools": [ToolProfile("search", "1").to_dict()],
            "model_fixed": False,
            "replayed": False,
            "recording": trace["metadata"]["recording"],
            "truncated": False,
            "events_dropped": 0,
        },
        "next": [
            f"rote trace show first --store {store}",
            f"rote runs replay first MODULE:FUNCTION --store {store}",
            f"rote show 1 --store {store}",
        ],
    }


def test_what_to_do_next_can_be_done(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder of a store with the usual name, the commands are short."""
    store.rename(store.with_name("rote.db"))
    store.with_name(f"{store.name}.keys").rename(store.with_name("rote.db.keys"))
    monkeypatch.chdir(store.parent)
    shown: Any = decode(run("runs", "show", "first", "--json").stdout)
    assert shown["next"] == [
        "rote trace show first",
        "rote runs replay first MODULE:FUNCTION",
        "rote show 1",
    ]
    assert run("show", "1").exit_code == 0
    assert run("trace", "check", "first").exit_code == 1
    assert run("trace", "check", "sec").stdout.startswith("fit")
    compared = run("trace", "compare", "first", "second")
    assert (compared.exit_code, compared.stderr) == (2, "")


def test_a_run_that_goes_on_is_shown_with_what_it_did_so_far(store: Path) -> None:
    with rote.open(store, modes=MODES) as opened, begin(opened, "third", record=True) as third:
        work(third)
        work(third, "more")
        told = pairs_of("runs", "show", "third", store=store)
        shown = run_json("runs", "show", "third", store=store)
    assert (told["state"], told["wrote"]) == ("buffer_open", "nothing yet")
    assert told["ended"] == "not yet, or its process was killed"
    assert told["events"] == "2 events, 2 tool calls, and more that the trace does not have"
    assert [file["kind"] for file in shown["files"]] == ["partial trace", "partial recording"]
    assert shown["trace"]["model"] == MODEL.to_dict()
    assert shown["next"] == [
        f"rote trace show third --store {store}",
        f"rote recover --store {store}",
    ]


def test_a_run_that_was_killed_is_shown_before_and_after_it_is_recovered(store: Path) -> None:
    killed = f"""
import os, rote, signal
from tests.unit.cli.test_run_details import MODES, begin, work
with rote.open({str(store)!r}, modes=MODES) as opened, begin(opened, "third", record=True) as run:
    work(run)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    child = subprocess.run(
        [sys.executable, "-c", killed], env=environment(), timeout=SECONDS_MAX, check=False
    )
    assert child.returncode < 0
    folder = store.with_name("observability") / "third"
    with (folder / "trace.partial.jsonl").open("ab") as partial:
        partial.write(b'{"event":{"role":')  # a line that was not written to its end
    before = run_json("runs", "show", "third", store=store)
    assert (before["ended_at"], before["trace"]["events"]) == (None, 1)
    with rote.open(store, recover=False) as opened:
        let_go(opened)
    told = pairs_of("runs", "show", "third", store=store)
    after = run_json("runs", "show", "third", store=store)
    assert told["state"] == "buffer_open (discarded)"
    # Otherwise it would read like a run that raised.
    assert told["ended"].endswith(", without a whole trace: its process was killed or gone")
    assert "killed" not in pairs_of("runs", "show", "second", store=store)["ended"]
    assert [file["kind"] for file in after["files"]] == ["partial trace", "partial recording"]
    assert after["trace"] == before["trace"]
    assert after["next"] == [f"rote trace show third --store {store}"]


def let_go(opened: Store) -> None:
    """Let the leases of all owners run out."""
    port, did = opened._port, opened.space("default").did
    for row in port.answer(did, ListSides(LEASE, after="", limit=9)).rows:
        port.answer(did, PutSide(LEASE, row.key, Lease(0).body(), fence=row.fence))


def test_read_live_and_aborted_runs_say_what_they_were(store: Path) -> None:
    with rote.open(store, modes=MODES) as opened:
        for run_id, mode in (("off", "off"), ("read", "read_only"), ("live", "live_read_write")):
            with begin(opened, run_id, mode) as one:
                if mode == "live_read_write":
                    one.set("urn:b", 1)
        with pytest.raises(ZeroDivisionError), begin(opened, "raised", "read_only"):
            raise ZeroDivisionError
        with pytest.raises(rote.errors.RunAborted), begin(opened, "late") as late:
            late.set("urn:a", late.get("urn:a"))
            opened.space("default").set("urn:a", 2)
    lines = [line.split("\t") for line in run_ok("runs", "list", store=store).splitlines()[2:]]
    assert [(line[0], line[3], line[4]) for line in lines] == [
        ("off", "read", ""),
        ("read", "read", ""),
        ("live", "live", ""),
        ("raised", "read (discarded)", ""),
        ("late", "commit_aborted (validation_failed)", ""),
    ]
    assert "wrote" not in pairs_of("runs", "show", "live", store=store)
    assert '"id":"urn:a"' in pairs_of("runs", "show", "late", store=store)["conflicts"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "cannot be read: not JSON"),
        (b'{"metadata":[],"events":5,"output":null}', "0 events, 0 tool calls"),
        (b'{"metadata":{"model":[],"tools":[1]},"events":[{"tool_calls":7}]}', "1 event, 0 tool calls"),
        (b"[1]", "0 events, 0 tool calls"),
        (b'{"metadata":5}', "0 events, 0 tool calls"),
    ],
)  # fmt: skip
def test_a_trace_of_any_content_is_no_crash(store: Path, content: bytes, words: str) -> None:
    (store.with_name("observability") / "first/trace.json").write_bytes(content)
    assert words in run_ok("runs", "show", "first", store=store)
    assert run("runs", "show", "first", "--json", store=store).exit_code == 0


def test_a_trace_that_is_no_plain_file_is_not_waited_for(store: Path) -> None:
    path = store.with_name("observability") / "first/trace.json"
    path.unlink()
    os.mkfifo(path)
    assert "no plain file" in pairs_of("runs", "show", "first", store=store)["trace"]


def test_a_run_without_files_is_shown_without_them(store: Path) -> None:
    store.with_name("observability").rename(store.with_name("elsewhere"))
    shown = run_json("runs", "show", "first", store=store)
    assert shown.keys().isdisjoint({"traces", "files", "trace"})
    assert shown["next"] == [f"rote show 1 --store {store}"]
    elsewhere = str(store.with_name("elsewhere"))
    found = run_json("runs", "show", "first", "--traces", elsewhere, store=store)
    assert found["next"][:2] == [
        f"rote trace show {elsewhere}/first",
        f"rote runs replay first MODULE:FUNCTION --traces {elsewhere} --store {store}",
    ]


def test_a_run_of_a_server_is_shown(tmp_path: Path) -> None:
    url, traces = database_url(tmp_path), tmp_path / "traces"
    with rote.open(url, modes=MODES, traces=traces) as opened, begin(opened, "first") as first:
        work(first)
    assert "traces" not in decode(run("runs", "show", "first", "--store", url, "--json").stdout)
    words = ("runs", "show", "first", "--store", url, "--traces", str(traces), "--json")
    assert decode(run(*words).stdout)["trace"]["events"] == 1


def test_a_terminal_shows_paths_whole(store: Path) -> None:
    shown = on_terminal("runs", "show", "first", "--store", str(store), cwd=store.parent)
    assert f"{store.with_name('observability')}/first/trace.retrieval.json" in shown


def test_runs_that_are_not_there_are_no_answer(store: Path) -> None:
    missing = run("runs", "show", "third", store=store)
    assert (missing.exit_code, missing.stderr) == (
        1,
        "there is no run third; rote runs list names all\n",
    )
    said = error_of(run("trace", "check", "third", store=store))
    assert said.startswith("error: there is no file third, and no run in ")


def test_a_folder_that_cannot_be_read_costs_only_the_files(store: Path) -> None:
    traces = store.with_name("observability")
    (traces / "first").rename(traces / "kept")
    (traces / "first").symlink_to("first")  # leads to itself, and root too cannot read it
    told = pairs_of("runs", "show", "first", store=store)
    assert told["state"] == "commit_applied"
    assert "observability/first cannot be read: " in told["trace"]
    assert "trace show" not in told["next"]
