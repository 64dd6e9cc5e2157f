"""Every check of `make check` that is Rote's own finds the fault it is meant to find."""

import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tools import foreign_places, language, size_caps

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


def test_a_file_of_600_lines_passes_and_one_of_601_does_not(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text("x = 1\n" * 600)
    assert list(size_caps.faults_in(path)) == []
    path.write_text("x = 1\n" * 601)
    [fault] = size_caps.faults_in(path)
    assert fault.startswith(f"{path}:1: 601 lines")


@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_a_function_of_70_lines_passes_and_one_of_71_does_not(tmp_path: Path, keyword: str) -> None:
    path = tmp_path / "long.py"
    path.write_text(f"\n{keyword} f():\n" + "    x = 1\n" * 69)
    assert list(size_caps.faults_in(path)) == []
    path.write_text(f"\n{keyword} f():\n" + "    x = 1\n" * 70)
    [fault] = size_caps.faults_in(path)
    assert fault.startswith(f"{path}:2: f has 71 lines")


def test_a_file_that_is_not_python_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("x = 1\ny = )\n")
    [fault] = size_caps.faults_in(path)
    assert fault.startswith(f"{path}:2: cannot be read")


@pytest.mark.parametrize(
    "line",
    [
        "--extra-index" + "-url something",
        "path = '/ro" + "ot/x'",
        "see /wo" + "rk/main",
    ],
)
def test_a_foreign_place_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "notes.md").write_text(f"first\n{line}\n")
    assert foreign_places.main(str(tmp_path)) == 1


@pytest.mark.parametrize("line", ["./work/x", "src/root/x", "https://www.rfc-editor.org/rfc/x"])
def test_a_relative_path_or_a_link_is_no_foreign_place(tmp_path: Path, line: str) -> None:
    (tmp_path / "notes.md").write_text(f"{line}\n")
    assert foreign_places.main(str(tmp_path)) == 0


def test_an_address_in_the_lock_is_found(tmp_path: Path) -> None:
    (tmp_path / "requirements.lock").write_text("# from https://example.org\n")
    assert foreign_places.main(str(tmp_path)) == 1


@pytest.mark.parametrize("word", sorted(language.OPENINGS))
@pytest.mark.parametrize(
    ("code", "line"),
    [
        ('"""{} it is."""\n', 1),
        ('class A:\n    """{} it is."""\n', 2),
        ('def f() -> bool:\n    """{} it is."""\n', 2),
        (
            'class A:\n    async def f(self) -> int:\n        """\n        {}\n        it is."""\n',
            3,
        ),
        ('class A:\n    x: int\n    """{} it is."""\n', 3),
    ],
)
def test_a_docstring_with_a_wrong_first_word_is_found(
    tmp_path: Path, code: str, line: int, word: str
) -> None:
    path = tmp_path / "planted.py"
    path.write_text(code.format(word))
    [fault] = language.docstring_faults_in(path)
    assert fault.startswith(f"{path}:{line}: a docstring begins with '{word}'")


@pytest.mark.parametrize(
    "code",
    [
        '"""Names of entities."""\n',
        'def f() -> int:\n    """Return the sum."""\n',
        'def f() -> int:\n    """Item that is next; what follows it is not read."""\n',
        'def f() -> int:\n    """Italic text."""\n',
        'def f() -> int:\n    x = "What is it?"\n    return len(x)\n',
        "def f() -> int:\n    # What it is.\n    return 1\n",
    ],
)
def test_a_docstring_may_begin_with_any_other_word(tmp_path: Path, code: str) -> None:
    path = tmp_path / "fine.py"
    path.write_text(code)
    assert list(language.docstring_faults_in(path)) == []


@pytest.mark.parametrize(
    ("code", "is_fine"),
    [
        ('def f() -> bool:\n    """Whether it is."""\n', True),
        ('def f(x: object) -> TypeGuard[int]:\n    """Whether it is."""\n', True),
        ('class A:\n    x: bool\n    """Whether it is."""\n', True),
        ('class A:\n    x: bool = True\n    """Whether it is."""\n', True),
        ('def f() -> int:\n    """Whether it is."""\n', False),
        ('def f() -> list[bool]:\n    """Whether it is."""\n', False),
        ('def f():\n    """Whether it is."""\n', False),
        ('class A:\n    """Whether it is."""\n', False),
        ('class A:\n    x: int\n    """Whether it is."""\n', False),
        ('"""Whether it is."""\n', False),
    ],
)
def test_whether_begins_only_the_docstring_of_a_bool(
    tmp_path: Path, code: str, is_fine: bool
) -> None:
    path = tmp_path / "planted.py"
    path.write_text(code)
    assert (list(language.docstring_faults_in(path)) == []) is is_fine


@pytest.mark.parametrize(
    "line",
    [
        "It is one. It is two.",
        "Is it one? It is.",
        "It is one! `two` is another.",
        'It is "one." It is two.',
        "It is (one.) It is two.",
        "It is one. **It** is two.",
        "It is one. [It](two.md) is two.",
        "It is one. [two.py](two.py) is two.",
        "It is one, two, … The third is three.",
        "- It is one. It is two.",
        "1. It is one. It is two.",
        "**One.** It is one. It is two.",
    ],
)
def test_a_line_with_two_sentences_is_found(tmp_path: Path, line: str) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"# Page\n\n{line}\n")
    [fault] = language.page_faults_in(path)
    assert fault.startswith(f"{path}:3: holds more than one sentence")


@pytest.mark.parametrize(
    "text",
    [
        "It is one\nand two.",
        "It is one,\nand two.",
        "It is `one.`\nIt is two.",
        "- It is one\n  and two.",
        "1. It is one\n   and two.",
    ],
)
def test_a_sentence_on_two_lines_is_found(tmp_path: Path, text: str) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"# Page\n\nIt is none.\n{text}\n")
    [fault] = language.page_faults_in(path)
    assert fault.startswith(f"{path}:5: goes on with the sentence")


@pytest.mark.parametrize(
    "text",
    [
        "It is one.\nIt is two.",
        "It is one:\n- one\n- two",
        "Look at\n\n| a | b |\n|---|---|\n| One. Two. | It is\n",
        "1. First one.\n   It is the first.\n2. Second one.\n",
        "See e.g. Rote, i.e. This one, or rote.toml and version 1.2.",
        "The file `a. B` is one.\nThe other is [two](a. B).",
        "**Pace.** It is one.",
        "Kept: `one`, `two`.",
        "Kept: JSON.",
        "```text\nIt is one. It is two. It is\nthree\n```\nIt is four.",
        "````text\n```\nIt is one. It is two.\n````",
        "<!-- It is one. It is two. -->\n<!--\nIt is one. It is\n-->\nIt is three.",
        "Look:\n\n    It is one. It is two. It is\n    three\n",
        "## It is one. It is two",
    ],
)
def test_a_page_of_whole_sentences_passes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"# Page\n\n{text}\n")
    assert list(language.page_faults_in(path)) == []


def test_only_pages_that_git_knows_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ["README.md", "notes.md", "docs/formats/one.md", "tests/golden/log.md"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("It is one. It is two.\n")
    subprocess.run(["git", "init", "--quiet"], check=True)
    subprocess.run(["git", "add", "README.md", "docs", "tests"], check=True)
    assert language.main([]) == 1
    found = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert found == ["README.md", "docs/formats/one.md"]


def lint(folder: Path, where: str, code: str) -> str:
    """Return the output of lint for a file of this project at `where` that holds `code`."""
    path = folder / where
    path.parent.mkdir(parents=True)
    path.write_text(f'"""A file."""\n\n{code}\n')
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "tests").mkdir(exist_ok=True)
    shutil.copy(ROOT / "tests" / "ruff.toml", folder / "tests")
    command = [str(BIN / "ruff"), "check", "--no-cache", "--output-format=concise", where]
    return subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False
    ).stdout


@pytest.mark.parametrize(
    "code",
    [
        "import time\n\nnow = time.time()",
        "from time import time_ns\n\nnow = time_ns()",
        "from datetime import UTC, datetime\n\nnow = datetime.now(UTC)",
        "import uuid\n\nname = uuid.uuid4()",
        "import random\n\nnumber = random.random()",
        "import secrets\n\nnumber = secrets.token_bytes(8)",
        "import os\n\nseed = os.urandom(8)",
        "import json\n\ntext = json.dumps({})",
        "import os\n\nhome = os.environ['HOME']",
        "import sqlite3\n\nconnection = sqlite3.connect('x')",
    ],
)
def test_lint_finds_a_banned_call_in_the_kernel(tmp_path: Path, code: str) -> None:
    assert "TID251" in lint(tmp_path, "src/rote/kernel/planted.py", code)


@pytest.mark.parametrize("where", ["src/rote/opening/owner.py", "src/rote/cli/owner.py"])
def test_lint_lets_the_owners_read_the_clock(tmp_path: Path, where: str) -> None:
    said = lint(tmp_path, where, "import time\n\nnow = time.time()")
    assert said.strip() == "All checks passed!"


def test_lint_finds_a_sleep_in_a_test_and_allows_a_seeded_random(tmp_path: Path) -> None:
    code = "import random\nimport time\n\nchance = random.Random(1)\nnow = time.time()"
    assert "TID251" not in lint(tmp_path, "tests/unit/test_planted.py", code)
    assert "TID251" in lint(
        tmp_path / "other", "tests/unit/test_planted.py", code + "\ntime.sleep(1)"
    )


LAYERS = [
    "testing",
    "cli",
    "opening",
    "space",
    "kernel",
    "engines",
    "query",
    "contract",
    "patch",
    "values",
]
ROOMS = [
    "kernel",
    "proving",
    "copying",
    "keeping",
    "branching",
    "blobs",
    "watching",
    "committing",
    "reading",
    "state",
    "log",
]


@pytest.mark.parametrize(
    ("importer", "line", "contract"),
    [
        ("values", "from rote import kernel", "Imports go down only"),
        ("kernel", "from rote import testing", "Imports go down only"),
        ("query", "from rote import kernel", "Imports go down only"),
        ("utils", "", "Imports go down only"),  # a folder without a layer
        ("opening", "import rote", "Nothing inside imports bare rote"),
        ("space", "from rote import engines", "Only the kernel sees the engines"),
        ("kernel", "import apsw", "Only the engines see the database driver"),
        ("opening", "import rich", "Only the command line sees the terminal"),
        ("kernel/log", "from rote.kernel import state", "Rooms of the kernel"),
        ("kernel/committing", "from rote.kernel import keeping", "Rooms of the kernel"),
        ("kernel/blobs", "from rote.kernel import branching", "Rooms of the kernel"),
        ("kernel/utils", "", "Rooms of the kernel"),  # a room without a place
    ],
)
def test_import_contracts_find_a_planted_import(
    tmp_path: Path, importer: str, line: str, contract: str
) -> None:
    said = broken_contracts(tmp_path, {importer: line})
    assert [name.startswith(contract) for name in said] == [True]


def test_import_contracts_keep_quiet_about_imports_that_go_down(tmp_path: Path) -> None:
    down = {above: f"from rote import {below}" for above, below in pairwise(LAYERS)}
    down["space"] = "from rote import contract"
    down |= {
        f"kernel/{above}": f"from rote.kernel import {below}"
        for above, below in pairwise(ROOMS)
        if (above, below)
        not in {("proving", "copying"), ("branching", "blobs"), ("blobs", "watching")}
    }
    assert broken_contracts(tmp_path, down) == []


def broken_contracts(folder: Path, planted: dict[str, str]) -> list[str]:
    """Return the names of the contracts that a package with only these lines breaks."""
    package = folder / "rote"
    rooms = [f"kernel/{room}" for room in ROOMS]
    for name in [*LAYERS, *rooms, *planted]:
        (package / name).mkdir(parents=True, exist_ok=True)
        (package / name / "__init__.py").write_text(planted.get(name, "") + "\n")
    (package / "__init__.py").write_text("from rote import opening\n")
    (package / "errors.py").write_text("\n")
    shutil.copy(ROOT / "pyproject.toml", folder)
    # With -c the current folder comes before the installed package.
    code = "from importlinter.cli import lint_imports_command as lint; lint(['--no-cache'])"
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True, check=False
    ).stdout
    assert "Contracts: " in output, output
    return re.findall(r"^(.+) BROKEN", output, re.MULTILINE)
