"""The hashes of a fixed history with branches and merges: formulas, golden file and stores agree.

To add a file for another history: run `python -m tests.golden.test_branches NAME`.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.testing.postgres import database_url
from tests.golden.formulas import did_of, digest, fact_hash
from tests.golden.stories import FOLDER, ToldClock, ToldSalts

SEED = bytes(range(32))
A, B, C = "urn:note:a", "urn:note:b", "urn:note:c"

# Branch, method, arguments.
CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("main", "set", {"id": A, "value": {"text": "é", "n": 1}}),
    ("main", "set", {"id": B, "value": [1, 2.5]}),
    ("main", "create_branch", {"name": "topic", "key": "branch-1"}),
    ("main", "create_branch", {"name": "past/one", "at": 1}),
    ("topic", "patch", {"id": A, "ops": [{"op": "replace", "path": "/n", "value": 2}]}),
    ("topic", "delete", {"id": B}),
    ("past/one", "set", {"id": C, "value": None}),
    ("main", "set", {"id": A, "value": {"text": "e", "n": 1}}),
    ("main", "merge", {"source": "topic", "on_conflict": "paths", "key": "merge-1"}),
    ("topic", "merge", {"source": "main"}),
    ("past/one", "merge", {"source": "topic"}),
    ("topic", "set", {"id": C, "value": 1}),
    ("past/one", "set", {"id": C, "value": 2}),
    ("topic", "merge", {"source": "past/one", "resolutions": {C: [1, 2]}}),
    ("main", "merge", {"source": "topic"}),
    ("main", "delete_branch", {"name": "topic"}),
    ("main", "merge", {"source": "topic"}),
]


def tell(url: str) -> rote.Store:
    clock = ToldClock()
    salts = ToldSalts([f"{number:032x}" for number in range(1, 4)])
    store = rote.open(url, clock=clock, ids=salts, key=SEED, author="Ada")
    space = store.space("golden")
    for number, (branch, method, arguments) in enumerate(CALLS):
        clock.moment = f"2026-05-01T10:00:{number:02d}.000000+00:00"
        getattr(space.on(branch), method)(**arguments)
    assert salts.left == 0
    return store


def load() -> list[dict[str, Any]]:
    commits: list[dict[str, Any]] = json.loads((FOLDER / "branches-1.json").read_text("utf-8"))
    return commits


def test_the_formulas_give_every_hash_of_the_golden_file() -> None:
    previous = None
    for version, commit in enumerate(load(), start=1):
        for fact in commit["facts"]:
            assert fact["hash"] == fact_hash(
                fact["id"], fact["op"], fact["body"], salt=fact["salt"], parent=fact["parent"]
            )
        assert commit["hash"] == digest(
            {
                "kind": "commit/1",
                "space": did_of(SEED),
                "version": version,
                "branch": commit["branch"],
                "previous": previous,
                "facts": [fact["hash"] for fact in commit["facts"]],
                "at": commit["at"],
                "author": "Ada",
                "key": commit["key"],
                "meta": None,
                "event": commit["event"],
            }
        )
        previous = commit["hash"]


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_the_store_reproduces_the_golden_file(engine: str, tmp_path: Path) -> None:
    url = database_url(tmp_path) if engine == "postgres" else str(tmp_path / "memory.db")
    with tell(url) as store, rote.open(str(tmp_path / "copy.db")) as target:
        space = store.space("golden")
        assert [commit.to_dict() for commit in space.log()] == load()
        assert store.copy("golden", target).ok
        assert [commit.to_dict() for commit in target.space("golden").log()] == load()


if __name__ == "__main__":
    path = FOLDER / sys.argv[1]
    assert not path.exists(), "golden files are added, never edited"
    with tell(":memory:") as told:
        commits = [commit.to_dict() for commit in told.space("golden").log()]
    path.write_text(json.dumps(commits, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
