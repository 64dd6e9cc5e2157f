"""The programs in examples/ run, and say what they are there to say."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_a_shuffled_vector_search_has_one_answer() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "vector_search.py"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "20 shuffled searches, 1 answer"
    ids = [line.split()[-1] for line in done.stdout.splitlines()[:-1]]
    assert ids.index("keys") + 1 == ids.index("keys-copy")  # they tie, and ids decide
    assert "old" not in ids
