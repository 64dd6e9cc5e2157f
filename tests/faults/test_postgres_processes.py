"""Several processes on one store in PostgreSQL: exact sums, one space, forks, interruptions."""

import contextlib
import signal
import sys
from pathlib import Path

import pytest

import rote
from rote.testing.faults import ChildProcess
from rote.testing.postgres import schema_of, server_url, with_options
from tests.faults.children import COUNTER, NAME, open_store
from tests.faults.persistence import place_of
from tests.faults.postgres_rig import ROOT, check_chain, child_argv
from tests.faults.test_processes import run_together
from tests.lanes import examples

COUNTING = examples(4, 8)
TIMES = examples(15, 100)
BEGINNERS = 8


def place_for(folder: Path) -> str:
    """Return a store of this test alone."""
    return place_of(server_url(), folder, schema=schema_of(folder))


@pytest.mark.parametrize("way", ["count", "count_up"])
def test_read_modify_write_by_many_processes_gives_the_exact_sum(tmp_path: Path, way: str) -> None:
    place = place_for(tmp_path)
    with open_store(place) as store:
        store.space(NAME).set(COUNTER, 0)
    # A child ends with any error but Conflict, and the test fails.
    outputs = run_together([child_argv(way, place, str(TIMES))] * COUNTING)
    with open_store(place) as store:
        space = store.space(NAME)
        assert space.get(COUNTER) == COUNTING * TIMES
        assert space.version == COUNTING * TIMES + 1
        check_chain(space)
    if way == "count":
        # Without any, the processes would not have met and nothing would have been shown.
        assert sum(map(int, outputs)) > 0


def test_processes_that_make_a_store_at_once_end_with_one_space(tmp_path: Path) -> None:
    for round_number in range(examples(1, 10)):
        place = place_for(tmp_path / f"{round_number}")
        writers = [f"writer-{number}" for number in range(BEGINNERS)]
        dids = run_together([child_argv("begin", place, writer) for writer in writers])
        assert len(set(dids)) == 1
        with open_store(place) as store:
            (space,) = store.spaces()
            assert {state.value for state in space.scan()} == set(writers)
            assert space.version == BEGINNERS
            # The one key that is kept is that of the space: it signs.
            assert space.verify(against=space.checkpoint()).ok
        keys = tmp_path / f"{round_number}" / "keys"
        assert [file.name for file in keys.iterdir()] == [dids[0]]


def test_a_reader_in_another_process_sees_each_commit(tmp_path: Path) -> None:
    commits, place = examples(100, 1_000), place_for(tmp_path)
    with open_store(place) as store:
        space = store.space(NAME)
        with ChildProcess(child_argv("follow", place, str(commits)), cwd=ROOT) as reader:
            reader.read_until(1)
            for number in range(commits):
                space.set(COUNTER, number)
            reader.read_until(2)
            assert reader.acknowledged == ["ready", f"saw {commits}"]


def test_a_store_opened_before_a_fork_is_refused_in_the_child_and_works_on_in_the_parent(
    tmp_path: Path,
) -> None:
    assert run_together([child_argv("fork", place_for(tmp_path))]) == ["worked on"]


def test_a_child_that_ends_without_a_word_leaves_the_connections_of_its_parent_alone(
    tmp_path: Path,
) -> None:
    """Both hold the same sockets, so the server takes bytes of the child for the parent's."""
    url = with_options(server_url(), application_name=schema_of(tmp_path))
    place = place_of(url, tmp_path, schema=schema_of(tmp_path))
    argv = [sys.executable, "-m", "tests.faults.postgres_children", "fork_and_end", place]
    assert run_together([argv]) == ["worked on"]


@pytest.mark.parametrize("way", ["optimistic", "locking"])
def test_an_interruption_in_the_middle_of_commits_leaves_the_store_usable(
    tmp_path: Path, way: str
) -> None:
    """The child is interrupted again and again, and checks the outcome of its commit each time."""
    place = place_for(tmp_path)
    with contextlib.ExitStack() as children:
        child = children.enter_context(
            ChildProcess(child_argv("interrupted", place, way), cwd=ROOT, timeout_seconds=300)
        )
        child.read_until(1)
        for number in range(1, examples(25, 500) + 1):
            child.read_for(0.001 * (number % 13))
            child.send(signal.SIGINT)
            while sum(line == "interrupted" for line in child.acknowledged) < number:
                child.read_until(len(child.acknowledged) + 1)
        child.read_until(len(child.acknowledged) + 10)
        lines = child.kill()
    with rote.open(
        server_url(), schema=schema_of(tmp_path), keys=tmp_path / "keys", create=False
    ) as store:
        space = store.space(NAME)
        check_chain(space)
        keys = [commit.key for commit in space.log()]
        assert len(keys) == len(set(keys)), "twice"
        acknowledged = {line.split()[1] for line in lines if line.startswith("made")}
        assert acknowledged <= set(keys), "lost"
