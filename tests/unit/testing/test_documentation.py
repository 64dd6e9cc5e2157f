"""The examples of docs/testing.md do what the page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
SCRIPTS = [
    example for example in EXAMPLES if "class Test" not in example and "TestMine" not in example
]
TEST_FILES = [example for example in EXAMPLES if example not in SCRIPTS]


@pytest.mark.parametrize("script", SCRIPTS, ids=range(len(SCRIPTS)))
def test_an_example_runs(script: str, tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text(script)
    run = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("test_file", TEST_FILES, ids=range(len(TEST_FILES)))
def test_an_example_is_a_test_file_that_pytest_runs(test_file: str, tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(test_file)
    # One word of each suite: all of them run in tests/suites.
    selected = "head or runTest"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", selected, "-p", "no:cacheprovider", "."],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout
    assert " passed" in run.stdout


def test_the_page_has_examples_of_both_kinds() -> None:
    assert SCRIPTS
    assert TEST_FILES
