"""The programs in examples/ run, and print what they are meant to show."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rote.values import decode
from tests.unit.cli.command import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run_program(name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def printed_by(name: str, *arguments: str) -> list[str]:
    """Return the lines that a successful program prints."""
    done = run_program(name, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def refusal_of(name: str, *arguments: str) -> str:
    """Return the message of a program that refuses to go on."""
    done = run_program(name, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def test_a_shuffled_vector_search_has_one_answer() -> None:
    lines = printed_by("vector_search.py")
    assert lines[-1] == "20 shuffled searches, 1 answer"
    ids = [line.split()[-1] for line in lines[:-1]]
    assert ids.index("keys") + 1 == ids.index("keys-copy")  # the scores tie, and ids decide
    assert "old" not in ids


def test_an_embedder_of_word_pieces_finds_what_words_alone_do_not() -> None:
    embedded, by_words, by_both = printed_by("hashing_embedder.py")
    assert embedded == "{'texts': 3, 'embedded': 3}"
    assert by_words == "lexical-1: []"
    assert by_both.startswith("hybrid-1: ['long_term/note/keys'")


def test_a_replayed_run_is_equivalent_and_one_with_another_answer_is_not(tmp_path: Path) -> None:
    lines = printed_by("replayed_run.py", str(tmp_path))
    assert lines[:5] == [
        "recorded: 'approve' after 3 tool calls; commit_applied",
        "replayed: 'approve' after 0 tool calls",
        "recorded and replayed are equivalent",
        "changed:  'ask the manager' after 3 tool calls; policy_rejected",
        "recorded and changed are different:",
    ]
    assert "tool_result_fingerprint_mismatch:1:0" in lines[5]
    assert "read_receipt" in lines[5]

    # A reader that has only the files gets the same.
    recorded, replayed, changed = (
        str(tmp_path / "observability" / name / "trace.json")
        for name in ("recorded", "replayed", "changed")
    )
    assert run("trace", "check", recorded).exit_code == 0
    assert run("trace", "compare", recorded, replayed).exit_code == 0
    different = run("trace", "compare", recorded, changed, "--json")
    assert different.exit_code == 1
    codes = [failure["code"] for failure in decode(different.stdout)["failures"]]
    assert codes == [
        "tool_result_fingerprint_mismatch:1:0",  # the dearer hotel
        "tool_args_mismatch:3:0",  # the sum
        "tool_result_fingerprint_mismatch:3:0",
        "output_mismatch:output_shape_hash",  # and so the verdict
    ]


def test_a_replayed_run_makes_its_folder_and_leaves_one_that_is_in_use_alone(
    tmp_path: Path,
) -> None:
    """The program once ended in a traceback when there was no folder, and on a second run in the same one."""
    folder = tmp_path / "new" / "folder"
    assert printed_by("replayed_run.py", str(folder))[2] == "recorded and replayed are equivalent"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    said = refusal_of("replayed_run.py", str(folder))
    assert said == f"{folder} is not empty; name a new folder, or remove what is in it\n"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    file = tmp_path / "file"
    file.write_text("")
    said = refusal_of("replayed_run.py", str(file))
    assert said == f"cannot make the folder {file}: File exists\n"


def test_a_support_agent_says_which_tool_made_its_answer_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed_by("support_agent.py", str(tmp_path / "new" / "folder"))
    assert lines[:6] == [
        "monday:  Your teapot arrives on Tuesday.",
        "tuesday: Your teapot is lost. We refund it today.",
        "ineligible, but this differs:",
        "event 1, tool call 1 (track_parcel): the tool answered otherwise",
        '  monday:  {"arrives":"Tuesday","state":"on its way"}',
        '  tuesday: {"state":"lost"}',
    ]

    # The commands that it prints work in its folder.
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    said = [run(*shlex.split(line)[1:]) for line in lines if line.startswith("rote ")]
    show, compare, replay = said
    assert [each.exit_code for each in said] == [0, 2, 0]
    assert '{"text":"Your teapot arrives on Tuesday.","tool_calls":[]}' in show.stdout
    for code in (
        "tool_result_fingerprint_mismatch:1:1",
        "model_reply_mismatch:1",
        "writes_mismatch",
    ):
        assert code in compare.stdout
    assert replay.stdout.startswith("equal: support_agent:answer did what the run monday did")


def test_a_support_agent_needs_no_folder_and_leaves_one_that_is_there_alone(tmp_path: Path) -> None:
    assert printed_by("support_agent.py")[-1].endswith('{"state":"lost"}')
    said = refusal_of("support_agent.py", str(tmp_path))
    assert said == f"cannot make the folder {tmp_path}: File exists; name a new one\n"
    assert list(tmp_path.iterdir()) == []


def test_a_monitor_is_run_again_without_anything_that_it_used(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    lines = printed_by("monitor.py", str(folder))
    assert lines[:6] == [
        "first:    db-1, web-1: reported, queued and handed over",
        "again:    looked a moment ago; nothing to do",
        "alerts:   2 answered",
        "task:     555-0103",
        "recorded: the phone number is not in it",
        "replayed: db-1, web-1: reported, queued and handed over",
    ]
    assert lines[6].startswith("changed:  ")
    assert '"params":[0.5]' in lines[6]
    assert (folder / "out" / "reports" / "2026-03-02.md").read_text() == (
        "# Load on 2026-03-02\n- db-1: 0.99\n- web-1: 0.97\n"
    )

    # The commands that it prints work.
    said = [run(*shlex.split(line)[1:]) for line in lines if line.startswith("rote ")]
    depth, tasks, task = said
    assert [each.exit_code for each in said] == [0, 0, 0]
    assert depth.stdout == "ready\t0\nleased\t0\ndead\t0\n"
    assert tasks.stdout == "load-2026-03-02\tmonitor\toncall\tcall the owners\topen\t\n"
    assert '"phone": "555-0103"' in task.stdout

    # It leaves a folder that is in use alone.
    assert "name a new one" in refusal_of("monitor.py", str(folder))


def test_two_agents_share_a_space_and_one_of_them_only_reads(tmp_path: Path) -> None:
    lines = printed_by("two_agents.py", str(tmp_path))
    assert lines == [
        "listener: wrote sizes in version 2",
        "listener: wrote delivery in version 3",
        "advisor: found 'Ada wears shoes of size 38 and prefers red ones'",
        "advisor: may not delete it: 403 denied",
        "the log names who wrote: None, token:listener",
    ]


def test_two_agents_edit_one_plan_and_one_of_them_goes_offline() -> None:
    lines = printed_by("shared_plan.py")
    assert "Bob sees: book the hall" in lines
    assert "Bob's plan:  ['[x] book the hall', '[ ] find a band']" in lines
    assert "Bob is back; rejected: ['urn:plan:hall']" in lines
    agreed = "['[ ] order a cake', '[ ] book the garden', '[ ] find a band']"
    assert lines[-2:] == [f"Ada's plan:  {agreed}", f"Bob's plan:  {agreed}"]
