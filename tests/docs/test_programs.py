"""The programs in examples/ run, and say what they are there to say."""

import subprocess
import sys
from pathlib import Path

from rote.values import decode
from tests.unit.cli.command import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def printed_by(*command: str) -> list[str]:
    """The lines that a program prints."""
    name, *arguments = command
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_a_shuffled_vector_search_has_one_answer() -> None:
    lines = printed_by("vector_search.py")
    assert lines[-1] == "20 shuffled searches, 1 answer"
    ids = [line.split()[-1] for line in lines[:-1]]
    assert ids.index("keys") + 1 == ids.index("keys-copy")  # they tie, and ids decide
    assert "old" not in ids


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

    # Who has only the files sees the same.
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
        "tool_args_mismatch:3:0",  # what is added up
        "tool_result_fingerprint_mismatch:3:0",
        "output_mismatch:output_shape_hash",  # and so the verdict
    ]
