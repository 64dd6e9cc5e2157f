"""A replay that does what the recorded run did, and what it leaves."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rote.testing.postgres import database_url
from rote.values import decode
from tests.unit.cli.command import (
    ROTE,
    SECONDS_MAX,
    environment,
    error_of,
    run,
    run_json,
    run_ok,
)
from tests.unit.cli.replays.programs import (
    PROGRAM,
    answer_of,
    changed,
    everything,
    record,
    replay,
    write,
)


def test_the_same_program_is_equal_calls_nothing_and_leaves_nothing(store: Path) -> None:
    write(PROGRAM)
    before = everything(store)
    result = replay(store)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "equal: agent:work did what the run monday did: 2 events, 2 tool calls, the same writes\n"
    )
    assert sys.modules["agent"].CALLED == []
    assert everything(store) == before


def test_adapter_calls_are_counted(store: Path) -> None:
    program = """
import rote

def work(run):
    with (
        rote.open("memory.db") as store,
        rote.Host("compute-and-store", store=store, space="team") as host,
        host.scope(run=run) as flow,
    ):
        flow.cache.set("n", "k", 1)
        flow.cache.get("n", "k")
        flow.frame.set("a", 1)
"""
    record(store, program, run_id="tuesday")
    write(program)
    said = replay(store, run_id="tuesday").stdout
    assert said.endswith("0 events, 0 tool calls, 2 adapter calls, the same writes\n")


def test_programs_are_told_the_same(store: Path) -> None:
    write(PROGRAM)
    answer = answer_of(store, expected=0)
    assert (answer["ok"], answer["status"], answer["parted"]) == (True, "equal", None)
    assert answer["report"]["status"] == "equivalent"
    assert answer["recording"] == str(store.with_name("observability") / "monday/recording.jsonl")
    trace: Any = decode(store.with_name("observability").joinpath("monday/trace.json").read_bytes())
    assert answer["payload_fingerprint"] == trace["metadata"]["commit_payload_fingerprint"]


def test_the_beginning_of_an_id_is_enough(store: Path) -> None:
    write(PROGRAM)
    assert replay(store, run_id="mon").exit_code == 0


@pytest.mark.parametrize(
    "function",
    ["package:work", "package.inner:work", "package.inner:Agent.work", "package.inner:agent.work"],
)
def test_a_function_may_be_in_a_package_a_class_or_an_object(store: Path, function: str) -> None:
    Path("package").mkdir()
    Path("package/__init__.py").write_text("from .inner import work\n")
    more = "\nclass Agent:\n    work = staticmethod(work)\n\nagent = Agent()\n"
    Path("package/inner.py").write_text(PROGRAM + more)
    assert replay(store, function).exit_code == 0


@pytest.mark.parametrize("mode", ["off", "read_only"])
def test_a_run_that_writes_nothing_can_be_replayed(store_path: Path, mode: str) -> None:
    program = "def work(run):\n    run.output({'type': 'none'})\n"
    record(store_path, program, mode=mode, model=None, tools=[])
    write(program)
    assert "0 events, 0 tool calls" in run_ok(
        "runs", "replay", "monday", "agent:work", store=store_path
    )


def test_a_run_that_failed_is_equal_when_it_fails_again(store_path: Path) -> None:
    program = changed("run.set(", "1 / 0; run.set(")
    with pytest.raises(ZeroDivisionError):
        record(store_path, program)
    write(program)
    said = run_ok("runs", "replay", "monday", "agent:work", store=store_path)
    assert said.endswith("2 tool calls, and ZeroDivisionError: division by zero, as then\n")
    write(PROGRAM, "mended")
    assert answer_of(store_path, "mended:work")["parted"]["by"] == "call"
    write(changed("1 / 0", "int('x')", program), "other")
    assert answer_of(store_path, "other:work")["status"] == "different"


def test_the_error_of_a_recorded_tool_has_its_own_name(store_path: Path) -> None:
    """A replay raises a RecordedError in its place, which is no name that a user knows."""
    program = changed('    return "sent"', '    raise OSError("no mail today")')
    with pytest.raises(OSError, match="no mail today"):
        record(store_path, program)
    write(program)
    said = run_ok("runs", "replay", "monday", "agent:work", store=store_path)
    assert said.endswith("2 tool calls, and OSError: no mail today, as then\n")


def test_a_replay_is_kept_when_it_is_wanted(store: Path) -> None:
    write(PROGRAM)
    answer = answer_of(store, "agent:work", "--keep", expected=0)
    first, kept = run_json("runs", "list", store=store)
    assert (first["run_id"], kept["run_id"]) == ("monday", answer["kept"])
    lines = run_ok("runs", "list", store=store).splitlines()
    assert [line.split("\t")[3:5] for line in lines] == [["commit_applied", "3"], ["replayed", ""]]
    trace = str(store.with_name("observability") / answer["kept"] / "trace.json")
    assert run_json("runs", "show", answer["kept"], store=store)["files"][0]["path"] == trace
    said = replay(store, "agent:work", "--keep").stdout.splitlines()
    assert said[1].startswith("kept as the run ")


def test_a_replay_is_not_kept_where_nothing_can_be_written(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(PROGRAM)
    # Root may write everything, whatever the mode of a file says.
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert replay(store).exit_code == 0
    assert "leave out --keep" in error_of(replay(store, "agent:work", "--keep"))


def test_a_copy_of_the_store_and_its_traces_will_do(store: Path, tmp_path: Path) -> None:
    write(PROGRAM)
    run_ok("backup", "copy.db", store=store)
    traces = store.with_name("observability").rename(tmp_path / "elsewhere")
    error_of(replay(tmp_path / "copy.db"))
    assert replay(tmp_path / "copy.db", "agent:work", "--traces", str(traces)).exit_code == 0


def test_a_run_of_a_server_can_be_replayed(tmp_path: Path) -> None:
    url, traces = database_url(tmp_path), tmp_path / "traces"
    record(url, traces=traces)
    write(PROGRAM)
    words = ("runs", "replay", "monday", "agent:work", "--store", url)
    assert "--traces" in error_of(run(*words))
    assert run(*words, "--traces", str(traces)).exit_code == 0
    kept = run(*words, "--traces", str(traces), "--keep", "--json")
    assert (traces / decode(kept.stdout)["kept"] / "trace.json").is_file()


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """Handle interrupts: a process that is started in the background ignores them, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded_interrupts")
@pytest.mark.parametrize("where", ["work", "import"])
def test_an_interrupted_replay_leaves_nothing(store: Path, tmp_path: Path, where: str) -> None:
    wait = "import sys\nprint('ready', flush=True)\nimport signal\nsignal.pause()\n"
    body = "".join(f"    {line}\n" for line in wait.splitlines())
    write(wait if where == "import" else f"def work(run):\n{body}")
    before = everything(store)
    with subprocess.Popen(
        [ROTE, "runs", "replay", "monday", "agent:work", "--store", str(store)],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out, error) == (130, "", "error: interrupted\n")
    assert everything(store) == before
