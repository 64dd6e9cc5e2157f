"""Clients that are killed while they write by a session with a journal: what was kept is made once."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

import pytest

import rote
from rote.testing.faults import ChildProcess
from rote.testing.serving import serving
from tests.faults.journal_children import COUNTER, NAME, WATCH, open_place
from tests.lanes import examples

ROOT = Path(__file__).parents[2]
KILLS = examples(2, 200)
LINES = 60


@contextmanager
def place(tmp_path: Path, kind: str) -> Iterator[tuple[str, str]]:
    """Give the URL and the token of a store: a file, or one that is served from here."""
    file = str(tmp_path / "memory.db")
    if kind == "here":
        yield file, ""
        return
    with ExitStack() as ending:
        store = ending.enter_context(rote.open(file, durability="os"))
        server = ending.enter_context(serving(store, threads=2))
        yield server.url, server.token or ""


@pytest.mark.parametrize("kind", ["here", "served"])
def test_what_a_killed_client_has_kept_is_made_once(tmp_path: Path, kind: str) -> None:
    random = Random(kind)
    journal = str(tmp_path / "session.journal")
    kept: list[str] = []
    told: dict[int, str] = {}
    with place(tmp_path, kind) as (url, token):
        for kill in range(KILLS):
            argv = [sys.executable, "-m", "tests.faults.journal_children"]
            argv += [url, token, journal, str(kill)]
            with ChildProcess(argv, cwd=ROOT, timeout_seconds=120) as child:
                child.read_until(random.randint(2, LINES))
                child.read_for(random.random() * 0.05)
                lines = child.kill()
            kept += [line.split()[1] for line in lines if line.startswith("kept")]
            told |= {
                int(version): hash
                for line in lines
                if line.startswith("told")
                for version, hash in [line.split()[1:]]
            }
        judge(url, token, journal, kept, told)


def judge(url: str, token: str, journal: str, kept: list[str], told: dict[int, str]) -> None:
    with open_place(url, token) as store:
        space = store.space(NAME)
        with space.session(watch=WATCH, journal=journal, timeout=60) as session:
            rejected = {pending.local for pending in session.flush(60)}
            assert session.pending == ()
            shown = {state.id for state in session.scan("urn:m:")}
        log = list(space.log())
    made = Counter(
        fact.id for commit in log for fact in commit.facts if fact.id.startswith("urn:m:")
    )
    assert set(made.values()) <= {1}, "a commit was made twice"
    assert shown == set(made), "the view is not the space"
    lost = {f"urn:m:{name}" for name in kept} - set(made)
    assert not lost, f"lost, of them rejected here {rejected}"
    by_version = {commit.version: commit.hash for commit in log}
    assert {version: by_version.get(version) for version in told} == told
    counts = [commit for commit in log if any(fact.id == COUNTER for fact in commit.facts)]
    values = [fact.body for commit in counts for fact in commit.facts if fact.id == COUNTER]
    assert values == list(range(1, len(values) + 1)), "an update was lost"
