"""Every example in README.md and docs/ runs as it stands. tests/docs/pages.py defines which blocks count."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from textwrap import dedent

import pytest

from tests.docs.pages import RUN, Block, Console, blocks, commands, matches, run_python
from tests.docs.starter import Starter

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
SETTINGS = ("ROTE_STORE", "ROTE_SPACE", "ROTE_BRANCH")
RUNNABLE = [page for page in PAGES if any(b.tag in RUN for b in blocks(page.read_text("utf-8")))]


@pytest.fixture(scope="session")
def starter() -> Iterator[Starter]:
    with closing(Starter()) as starter:
        yield starter


@pytest.fixture
def console(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, starter: Starter) -> Console:
    """Return a console that runs commands in the test's folder."""
    aside = tmp_path_factory.mktemp("aside")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(aside / "cache"),
    }
    for name in SETTINGS:
        environment.pop(name, None)
    return Console(tmp_path, environment, starter, output=aside / "output.txt")


@pytest.mark.parametrize("page", RUNNABLE, ids=[str(page.relative_to(ROOT)) for page in RUNNABLE])
def test_the_examples_of_a_page_run(
    page: Path, console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page.read_text("utf-8")):
        if block.file:
            (tmp_path / block.file).write_text(block.text, "utf-8")
        elif block.tag == "python":
            run_python(block, page=page, namespace=namespace)
        elif block.tag == "console":
            console.run(block, page=page)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_and_the_guide_have_examples() -> None:
    assert {ROOT / "README.md", ROOT / "docs" / "guide.md"} <= set(RUNNABLE)


# -- the extractor finds what it is there to find ----------------------------------------------------


def test_a_block_keeps_its_tag_its_line_its_text_and_its_file() -> None:
    page = "a\n```python\nx = 1\n\ny = 2\n```\n````text\n```python\nnot code\n```\n````\n"
    saved = "```python agent.py\nx = 3\n```\n"
    assert list(blocks(page + saved)) == [
        Block("python", 3, "x = 1\n\ny = 2\n"),
        Block("text", 8, "```python\nnot code\n```\n"),
        Block("python", 13, "x = 3\n", "agent.py"),
    ]


def test_a_false_assertion_in_an_example_fails_at_its_line_of_the_page() -> None:
    [block] = blocks("one\n\n```python\nx = 1\nassert x == 2\n```\n")
    with pytest.raises(AssertionError) as raised:
        run_python(block, page=Path("page.md"), namespace={})
    assert raised.traceback[-1].lineno + 1 == 5


def test_an_example_of_an_error_fails_when_no_error_comes() -> None:
    [block] = blocks("```python\ntry:\n    x = 1\nexcept ValueError:\n    pass\n```\n")
    with pytest.raises(AssertionError, match="no error came"):
        run_python(block, page=Path("page.md"), namespace={})


def test_a_command_has_the_lines_that_it_shows() -> None:
    text = dedent("""\
        $ first \\
            --more
        one
        two
        $ second
        """)
    shown = [(command.text, command.shown) for command in commands(Block("console", 1, text))]
    assert shown == [("first \\\n    --more", "one\ntwo\n"), ("second", "")]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\n", "a\n", True),
        ("a\n", "b\n", False),
        ("a … c\n", "a b c\n", True),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n", "a\nb\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_what_is_shown_is_compared_with_what_is_printed(
    shown: str, printed: str, same: bool
) -> None:
    assert matches(shown, printed) is same


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("$ echo one\ntwo\n", "the page shows"),
        ("$ false\n$ echo more\n", "exits with 1, not 0"),
        ("$ true\n[exit 1]\n", "exits with 0, not 1"),
        ("$ rote --version\nrote\n", "the page shows"),
        ("$ rote --nothing\n", "exits with 2, not 0"),
    ],
)
def test_a_command_that_is_not_as_shown_fails(console: Console, text: str, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        console.run(Block("console", 1, text), page=Path("page.md"))


def test_a_command_may_fail_when_the_page_says_so(console: Console) -> None:
    text = "$ echo no; false\nno\n[exit 1]\n$ true\n$ rote get nothing --json\n…\n[exit 2]\n"
    console.run(Block("console", 1, text), page=Path("page.md"))
