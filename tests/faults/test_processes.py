"""Several processes on one file: exact sums, typed conflicts, one space, no stale reads."""

import contextlib
import subprocess
import sys
from pathlib import Path

import rote
from rote.testing.faults import ChildProcess
from tests.faults.children import COUNTER, NAME
from tests.lanes import examples

ROOT = Path(__file__).parents[2]
COUNTING = examples(4, 8)
TIMES = examples(40, 250)
BEGINNERS = examples(4, 8)


def child_argv(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.faults.children", *arguments]


def run_together(argvs: list[list[str]]) -> list[str]:
    """Let processes begin together and wait; return their output, once all have ended well."""
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True,
                )
            )
            for argv in argvs
        ]  # fmt: skip
        try:
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n", process.communicate()
            for process in processes:
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()
            outputs = [process.communicate(timeout=300) for process in processes]
        finally:
            for process in processes:
                process.kill()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors
    return [output.strip() for output, _ in outputs]


def test_read_modify_write_by_many_processes_gives_the_exact_sum(store_path: Path) -> None:
    with rote.open(store_path) as store:
        store.space(NAME).set(COUNTER, 0)
    # A child ends with any error but Conflict, and the test fails.
    argv = child_argv("count", str(store_path), str(TIMES))
    conflicts = [int(output) for output in run_together([argv] * COUNTING)]
    with rote.open(store_path) as store:
        space = store.space(NAME)
        assert space.get(COUNTER) == COUNTING * TIMES
        assert space.version == COUNTING * TIMES + 1
        assert space.verify().ok
    # Without any, the processes would not have met and nothing would have been shown.
    assert sum(conflicts) > 0


def test_a_reader_in_another_process_sees_each_commit(store_path: Path) -> None:
    commits = examples(200, 2_000)
    with rote.open(store_path) as store:
        space = store.space(NAME)
        with ChildProcess(child_argv("follow", str(store_path), str(commits)), cwd=ROOT) as reader:
            reader.read_until(1)
            for number in range(commits):
                space.set(COUNTER, number)
            reader.read_until(2)
            assert reader.acknowledged == ["ready", f"saw {commits}"]


def test_a_commit_is_seen_at_once_by_a_store_that_has_cached_the_value(store_path: Path) -> None:
    with rote.open(store_path) as mine, rote.open(store_path) as theirs:
        writing, reading = mine.space(NAME), theirs.space(NAME)
        for number in range(examples(100, 1_000)):
            commit = writing.set(COUNTER, number)
            assert reading.get(COUNTER) == number
            assert (reading.version, reading.head) == (commit.version, commit.hash)


def test_processes_that_make_a_store_at_once_end_with_one_space(tmp_path: Path) -> None:
    for round_number in range(examples(3, 30)):
        path = tmp_path / f"{round_number}.db"
        writers = [f"writer-{number}" for number in range(BEGINNERS)]
        dids = run_together([child_argv("begin", str(path), writer) for writer in writers])
        assert len(set(dids)) == 1
        with rote.open(path) as store:
            (space,) = store.spaces()
            assert space.did == dids[0]
            assert {state.value for state in space.scan()} == set(writers)
            assert space.version == BEGINNERS
            # The one key that is kept is that of the space: it signs.
            assert space.verify(against=space.checkpoint()).ok
        keys = path.with_name(f"{path.name}.keys")
        assert [file.name for file in keys.iterdir()] == [dids[0]]


def test_a_store_opened_before_a_fork_is_refused_in_the_child_and_works_on_in_the_parent(
    store_path: Path,
) -> None:
    """A connection that crosses a fork even answers reads, and closing it in the child drops the
    locks of the parent. Nobody notices until writes are lost."""
    assert run_together([child_argv("fork", str(store_path))]) == ["worked on"]
