"""pyproject.toml, the lock and docs/dependencies.md name the same dependencies."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=!~\[; ]", line, maxsplit=1)[0].lower() for line in requirements}


RUN_TIME = names(PROJECT["project"]["dependencies"])
EXTRAS = {
    name
    for requirements in PROJECT["project"]["optional-dependencies"].values()
    for name in names(requirements)
}
DEVELOPMENT = names(PROJECT["dependency-groups"]["dev"])


@pytest.mark.parametrize("name", sorted(RUN_TIME | EXTRAS | DEVELOPMENT))
def test_a_dependency_has_its_line_and_its_pin(name: str) -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text().lower()
    assert f"| {name} |" in page, "say in docs/dependencies.md what it does and what was compared"
    lock = (ROOT / "requirements.lock").read_text()
    assert re.search(rf"^{re.escape(name)}==", lock, re.MULTILINE), "run make lock"


def test_the_page_names_no_dependency_that_is_gone() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text().lower()
    used = set(re.findall(r"^\| ([a-z0-9-]+) \|", page.split("## not used")[0], re.MULTILINE))
    assert used - {"name"} == RUN_TIME | EXTRAS | DEVELOPMENT


def test_the_lock_has_a_hash_for_every_pin() -> None:
    blocks = re.split(
        r"^(?=[a-z0-9][a-z0-9-]*==)", (ROOT / "requirements.lock").read_text(), flags=re.M
    )
    assert len(blocks) > len(RUN_TIME)
    assert all("--hash=sha256:" in block for block in blocks[1:])
