"""Behaviour that only a real process shows: exit codes, streams, signals, closed pipes, terminals."""

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rote.opening import open as open_store
from tests.unit.cli.command import (
    ROTE,
    SECONDS_MAX,
    environment,
    error_of,
    json_error_of,
    run,
    run_process,
)

ADA = "urn:entity:ada"
CTRL_C, CTRL_D = "\x03", "\x04"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["--nonsense"],
        ["get"],
        ["get", ADA, "--nonsense"],
        ["get", ADA, "and", "more"],
        ["log", "--limit", "x"],
        ["log", "--limit", "-1"],
        ["log", "--since", "9" * 30],
        ["set", ADA, "-5"],
        ["get", "ada\n\x1b[31m"],
        ["get", "\udcff"],
        ["get", ADA, "--store", "http://"],
        ["get", ADA, "--store", "ftp://x"],
        ["get", ADA, "--store", "."],
        ["get", ADA, "--store", ""],
    ],
)
def test_a_command_line_that_makes_no_sense_is_one_line_and_exit_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert error_of(run(*arguments)).rstrip("\n").isprintable()
    assert list(tmp_path.iterdir()) == []


def test_without_a_command_the_help_lists_the_commands() -> None:
    result = run()
    assert result.exit_code == 0
    assert "Usage: rote" in result.stdout


def test_an_error_in_a_process_is_one_line_and_exit_2(tmp_path: Path) -> None:
    ended = run_process("get", ADA, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"error: there is no store at {tmp_path / 'rote.db'}; ")
    assert ended.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_store_is_the_option_else_the_environment_else_rote_db(tmp_path: Path) -> None:
    assert run_process("set", ADA, '"default"', cwd=tmp_path).returncode == 0
    extra = {"ROTE_STORE": "environment.db"}
    assert run_process("set", ADA, '"environment"', cwd=tmp_path, **extra).returncode == 0
    option = ["--store", "sqlite:///option.db"]
    assert run_process("set", ADA, '"option"', *option, cwd=tmp_path, **extra).returncode == 0
    for path, value in (("rote", "default"), ("environment",) * 2, ("option",) * 2):
        with open_store(tmp_path / f"{path}.db", create=False) as store:
            assert store.space("default").get(ADA) == value


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_goes_away_ends_the_command_quietly(
    tmp_path: Path, options: list[str]
) -> None:
    with open_store(tmp_path / "rote.db", durability="os") as store:
        operations = [{"op": "set", "id": f"urn:entity:{n}", "value": "x" * 100} for n in range(99)]
        for _ in range(30):
            store.space("default").transact(operations)
        store.space("default").set(ADA, "x" * 1_000_000)
    for command in (["log"], ["get", ADA]):
        reader, writer = os.pipe()
        os.close(reader)
        ended = subprocess.run(
            [ROTE, *command, *options], cwd=tmp_path, env=environment(), stdout=writer,
            stderr=subprocess.PIPE, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
        os.close(writer)
        assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f"set {ADA} 2 >&-", "standard output is closed"),
        ("log --json >&-", "standard output is closed"),
        (f"set {ADA} - <&-", "standard input is closed"),
        ("blob put - <&-", "standard input is closed"),
    ],
)
def test_a_closed_stream_is_one_line_and_exit_2_and_nothing_is_done(
    tmp_path: Path, command: str, words: str
) -> None:
    """The command ended in a traceback, after it had set the value."""
    with open_store(tmp_path / "rote.db") as store:
        store.space("default").set(ADA, 1)
    ended = in_shell(command, cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert ended.stderr.startswith(f"error: {words}; ")
    with open_store(tmp_path / "rote.db") as store:
        assert store.space("default").version == 1


def test_without_a_standard_input_nobody_is_asked(tmp_path: Path) -> None:
    with open_store(tmp_path / "rote.db") as store:
        store.space("default").set(ADA, 1)
    ended = in_shell(f"erase {ADA} --reason r <&-", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("options", ["", "--json"])
def test_an_answer_that_cannot_be_written_is_told_from_a_write_that_failed(
    tmp_path: Path, options: str, unbuffered: str
) -> None:
    """The error only said that there is no space left on a device, as if the store were full."""
    command = f"set {ADA} 2 {options} > /dev/full"
    ended = in_shell(command, cwd=tmp_path, PYTHONUNBUFFERED=unbuffered)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "the answer could not be written to standard output: " in ended.stderr
    assert ended.stderr.startswith("{" if options else "error: ")
    with open_store(tmp_path / "rote.db") as store:
        assert store.space("default").get(ADA) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize(
    ("command", "unbuffered"),
    [("--help", ""), ("--help", "1"), ("get --help", "1"), ("--version", ""), ("log", "1")],
)
def test_a_full_device_is_one_line_whatever_is_written_to_it(
    tmp_path: Path, command: str, unbuffered: str
) -> None:
    """Help ended in a traceback, and the interpreter complained once more at its end."""
    with open_store(tmp_path / "rote.db") as store:
        store.space("default").set(ADA, 1)
    ended = in_shell(f"{command} > /dev/full", cwd=tmp_path, PYTHONUNBUFFERED=unbuffered)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert ended.stderr.startswith("error: the answer could not be written to standard output: ")


@pytest.mark.parametrize("command", ["--help", "get --help"])
def test_a_reader_of_help_that_goes_away_ends_it_quietly(tmp_path: Path, command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [ROTE, *command.split()], cwd=tmp_path, env=environment(), stdout=writer,
        stderr=subprocess.PIPE, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("stream", ["2>&-", "2> /dev/full"])
def test_an_error_that_nobody_can_be_told_is_an_exit_code(tmp_path: Path, stream: str) -> None:
    """With a closed standard error the words of the error went to standard output."""
    ended = in_shell(f"get {ADA} {stream}", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (["get", ADA], "not_found", "there is no store at "),
        (["get", "ada"], "invalid_input", "not an absolute URI"),
        (["get"], "invalid_input", "Missing argument"),
        (["nonsense"], "invalid_input", "No such command"),
        (
            ["search", "x"],
            "invalid_input",
            "No such command 'search', but there is rote memory search;",
        ),
        (
            ["put", "x"],
            "invalid_input",
            "No such command 'put', but there is rote blob put and rote",
        ),
        (["get", ADA, "--nonsense"], "invalid_input", "No such option"),
        (["verify", "--against", "absent"], "system", "absent: No such file"),
        (["patch", ADA, '{"a":1,"a":2}'], "invalid_value", "the key appears twice"),
    ],
)
def test_an_error_of_a_command_for_programs_is_an_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], code: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*command, "--json")
    told = json_error_of(result)
    assert (result.exit_code, result.stdout, told["code"]) == (2, "", code)
    assert words in told["message"]
    assert error_of(run(*command)).startswith("error: ")


def test_an_error_as_json_has_its_details(tmp_path: Path) -> None:
    with open_store(tmp_path / "rote.db") as store:
        store.space("default").set(ADA, 1)
    result = run("get", ADA, "--at", "9", "--json", store=tmp_path / "rote.db")
    assert json_error_of(result) == {
        "code": "version_not_found",
        "message": "version 9 does not exist; the newest is 1",
        "details": {"version": 9, "newest": 1},
    }
    refused = run("blob", "get", "0" * 64, "--json", store=tmp_path / "rote.db")
    assert (refused.exit_code, json_error_of(refused)["code"]) == (1, "not_found")


def in_shell(command: str, *, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run `rote COMMAND` in a shell, which can close streams."""
    return subprocess.run(
        ["sh", "-c", f"exec {shlex.quote(str(ROTE))} {command}"],
        cwd=cwd,
        env=environment(**extra),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """Handle interrupts: a process that is started in the background ignores them, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded_interrupts")
@pytest.mark.parametrize("moment", ["Rote is memory", "Another process commits"])
def test_ctrl_c_is_one_line_and_exit_130_and_leaves_nothing(tmp_path: Path, moment: str) -> None:
    with subprocess.Popen(
        [ROTE, "demo"], cwd=tmp_path, env=environment(TMPDIR=str(tmp_path)),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert any(line.startswith(moment) for line in process.stdout)
        process.send_signal(signal.SIGINT)
        # The writer has the same stderr, so this would not end while the writer lives.
        _, said = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, said) == (130, "error: interrupted\n")
    assert list(tmp_path.iterdir()) == []


# Interrupts the process when it begins to import a module, or when it is about to end.
INTERRUPTING = """
import atexit, os, signal, sys
moment = sys.argv.pop(1)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
if moment == "the end":
    atexit.register(os.kill, os.getpid(), signal.SIGINT)
from rote.cli import main
main()
"""


@pytest.mark.usefixtures("heeded_interrupts")
@pytest.mark.parametrize(
    "moment",
    ["rote.cli.app", "rich.console", "rote.records.memory", "rote.kernel.reading.history"],
)
def test_ctrl_c_while_parts_are_imported_is_one_line_and_exit_130(
    tmp_path: Path, moment: str
) -> None:
    """Pressing Ctrl-C in the first 0.3 seconds showed a traceback of imports."""
    with open_store(tmp_path / "rote.db") as store:
        store.space("default").set(ADA, 1)
    ended = interrupted(moment, "log", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "error: interrupted\n"


@pytest.mark.usefixtures("heeded_interrupts")
def test_ctrl_c_after_a_command_has_ended_changes_nothing(tmp_path: Path) -> None:
    ended = interrupted("the end", "set", ADA, "1", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"set {ADA} at version 1")


def interrupted(moment: str, *args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", INTERRUPTING, moment, *args], cwd=cwd, env=environment(),
        capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip


def test_a_stream_that_cannot_show_a_character_gets_its_escape(tmp_path: Path) -> None:
    with open_store(tmp_path / "rote.db") as store:
        store.space("default").set(ADA, "茶")
    ended = run_process("get", ADA, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stdout) == (0, '"\\u8336"\n')


def on_terminal(
    *args: str, cwd: Path, typed: str = "", answer: str = "", expected: int = 0, **extra: str
) -> str:
    """Return the output of `rote ARGS` on a terminal, which must end as expected.

    Text is typed at once, or as the answer to a question.
    """
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [ROTE, *args], cwd=cwd, env=environment(TERM="xterm", **extra),
        stdin=follower, stdout=follower, stderr=follower,
    ) as process:  # fmt: skip
        os.close(follower)
        os.write(leader, typed.encode())
        shown = b""
        try:
            while data := os.read(leader, 65_536):
                shown += data
                if answer and shown.endswith(b"[y/N]: "):
                    if answer == CTRL_C:
                        process.send_signal(signal.SIGINT)
                        # For an interrupt that came just before the terminal was read.
                        answer = "\n"
                    os.write(leader, answer.encode())
                    answer = ""
        except OSError:
            pass  # on Linux the last writer is gone then
        os.close(leader)
        assert process.wait(SECONDS_MAX) == expected
    return shown.decode()


@pytest.mark.usefixtures("heeded_interrupts")
@pytest.mark.parametrize("typed", [CTRL_C, CTRL_D], ids=["Ctrl-C", "Ctrl-D"])
@pytest.mark.parametrize("command", ["erase", "compact", "prune"])
def test_who_is_asked_can_leave_with_one_line_and_exit_130(
    tmp_path: Path, command: str, typed: str
) -> None:
    """The command ended in a traceback and exit 2."""
    with open_store(tmp_path / "rote.db") as store:
        for number in range(3):
            store.space("default").set(ADA, number)
    (tmp_path / "observability" / "run").mkdir(parents=True)
    (tmp_path / "observability" / "run" / "trace.json").write_text("{}")
    os.utime(tmp_path / "observability" / "run" / "trace.json", (0, 0))
    arguments = {
        "erase": ["erase", ADA, "--reason", "r"],
        "compact": ["compact", "--keep", "1"],
        "prune": ["trace", "prune"],
    }
    shown = on_terminal(*arguments[command], cwd=tmp_path, answer=typed, expected=130)
    question, *said = shown.rpartition("for good?")[2].splitlines()
    assert question.startswith(" [y/N]: ")
    assert [line for line in said if line] == ["error: interrupted"]


def test_tables_colour_and_progress_are_for_terminals_only(tmp_path: Path) -> None:
    with open_store(tmp_path / "rote.db") as store:
        store.space("default").set(ADA, {"name": "Ada"})
    for command in ("log", "verify"):
        assert "\x1b[" in on_terminal(command, cwd=tmp_path)
        ended = run_process(command, cwd=tmp_path)
        assert "\x1b" not in ended.stdout
        assert ended.stderr == ""
    assert "verifying commits" in on_terminal("verify", cwd=tmp_path)
    shown = on_terminal("copy", "rote.db", "moved.db", cwd=tmp_path)
    assert "copying commits" in shown
    assert "verifying commits" in shown
    assert "\x1b[3" not in on_terminal("get", ADA, cwd=tmp_path, NO_COLOR="1")
    assert "\x1b" not in on_terminal("get", ADA, "--json", cwd=tmp_path)


def test_numbers_are_digits_alone_off_a_terminal(tmp_path: Path) -> None:
    """Sizes had separators in lines of words, which a program has to remove again."""
    with open_store(tmp_path / "rote.db") as store:
        store.space("default").set(ADA, "x" * 5_000)
    for command in (["doctor"], ["backup", "first.db"]):
        ended = run_process(*command, cwd=tmp_path)
        assert re.search(r"\d{4,} bytes", ended.stdout)
        assert not re.search(r"\d,\d", ended.stdout)
    for command in (["doctor"], ["backup", "second.db"]):
        assert re.search(r"\d,\d{3} bytes", on_terminal(*command, cwd=tmp_path))


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "rote", "--version"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    assert ended.stdout.startswith("rote ")
