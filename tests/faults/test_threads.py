"""Threads on one store: none sees a state that never was, none hangs, none gets a false answer.

For faults between two statements of one reader, a neighbour commits before each statement, so that
the worst moment comes every time. Where threads have to meet, they wait for each other.
"""

import contextlib
import faulthandler
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import NoReturn, cast

import pytest

import rote
from rote.contract import Commit
from rote.engines import OutcomeUnknown
from rote.engines.sqlite import SqliteEngine
from rote.engines.sqlite.engine import _Transaction
from rote.engines.sqlite.reader import SqliteReader
from rote.engines.sqlite.writer import SqliteWriter
from rote.errors import NotFound, Unavailable
from rote.kernel import Kernel
from rote.kernel.committing.committer import Committer
from rote.kernel.state.open_space import OpenSpace
from rote.opening.keys import MemoryKeys
from rote.testing import FixedClock, StoreSettings, open_on
from rote.values import Json
from tests.faults.interruptions import interrupt_before
from tests.lanes import examples

ROOT = Path(__file__).parents[2]
NAME = "agent"
LIMIT_SECONDS = 60  # far beyond what anything here takes; only a hang reaches it
IDS = tuple(f"urn:entity:{number:02}" for number in range(12))


class Remainders:
    """An index whose rows begin and end with nearly every write."""

    name = "remainders"
    prefix = ""

    def terms(self, id: str, value: Json, version: int, place: int, /) -> list[str]:
        return [str(value % 5)] if type(value) is int else []


class BesidesANeighbour(SqliteEngine):
    """A reader before each of whose statements the neighbour, if there is one, acts."""

    neighbour: Callable[[], object] | None = None

    def reader(self) -> SqliteReader:
        reader = super().reader()
        reader.connection.exec_trace = self._before_statement
        return reader

    def _before_statement(self, *_: object) -> bool:
        if self.neighbour is not None:
            self.neighbour()
        return True


def open_indexed(engine: SqliteEngine) -> rote.Store:
    return open_on(engine, StoreSettings(indexes=(Remainders(),)), keys=MemoryKeys())


def toggle(space: rote.Space, id: str) -> None:
    """Delete the entity if it exists, set it otherwise."""
    state = space.read(id)
    if state.exists:
        space.delete(id)
    else:
        space.set(id, state.version)


def toggle_many(space: rote.Space, seed: int, times: int) -> None:
    random = Random(seed)
    for _ in range(times):
        # Another thread may have deleted it first.
        with contextlib.suppress(NotFound):
            toggle(space, random.choice(IDS))


@contextlib.contextmanager
def togglers(space: rote.Space, times: int) -> Iterator[Callable[[], bool]]:
    """Let three threads set and delete the same ids; yield a test whether they still do."""
    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(toggle_many, space, seed, times) for seed in range(3)]
        yield lambda: not all(future.done() for future in running)
        for future in running:
            future.result()


# -- one state -------------------------------------------------------------------------------------


@pytest.mark.parametrize("deleted_first", [False, True])
def test_a_pinned_scan_holds_what_is_deleted_and_set_again_between_its_statements(
    store_path: Path, deleted_first: bool
) -> None:
    """Live and dead ids were read by two statements. An entity that was revived between them was in
    neither, and a scan of the past left it out."""
    engine = BesidesANeighbour(store_path, durability="os")
    with open_indexed(engine) as mine, open_indexed(SqliteEngine(store_path)) as theirs:
        space, other = mine.space(NAME), theirs.space(NAME)
        for number, id in enumerate(IDS):
            space.set(id, number)
        view = space.at(space.version)
        if deleted_first:
            other.delete(IDS[3])
        engine.neighbour = lambda: toggle(other, IDS[3])
        found = [(state.id, state.value) for state in view.scan()]
        engine.neighbour = None
        assert found == [(id, number) for number, id in enumerate(IDS)]
        assert other.version > view.version, "the neighbour did nothing"


def test_a_pinned_scan_equals_reading_every_id_while_threads_delete_and_set_again(
    store_path: Path,
) -> None:
    """9 of 29,344 scans lacked an entity that existed at their version."""
    with rote.open(store_path, durability="os") as store:
        space = store.space(NAME)
        for id in IDS:
            space.set(id, 0)
        random = Random(1)
        with togglers(space, examples(600, 6_000)) as toggling:
            while toggling():
                view = space.at(space.version - random.randrange(3))
                states = [view.read(id) for id in IDS]
                assert list(view.scan()) == [state for state in states if state.exists]


@pytest.mark.parametrize("indexed", [False, True])
def test_verify_finds_nothing_when_a_neighbour_commits_before_each_of_its_statements(
    store_path: Path, indexed: bool
) -> None:
    """verify looked for pointers in two statements, and compared present index rows with the facts
    of a past version. A neighbour made it report faults that were not there."""
    engine = BesidesANeighbour(store_path, durability="os")
    open_one = open_indexed if indexed else _open_plain
    with open_one(engine) as mine, open_one(SqliteEngine(store_path, durability="os")) as theirs:
        space, other = mine.space(NAME), theirs.space(NAME)
        toggle_many(space, 0, 60)
        engine.neighbour = partial(toggle, other, IDS[0])
        for _ in range(2):
            before = other.version
            report = space.verify()
            assert report.ok, report.faults
            assert other.version > before, "the neighbour did nothing"
            # The second time the entity lives whenever it was deleted the first time.
            toggle(other, IDS[0])


def _open_plain(engine: SqliteEngine) -> rote.Store:
    return open_on(engine, StoreSettings(), keys=MemoryKeys())


@pytest.mark.parametrize("indexed", [False, True])
def test_verify_stays_ok_while_threads_set_and_delete_the_same_ids(
    store_path: Path, indexed: bool
) -> None:
    """About half of the runs reported 'no pointer leads to it', or an index that did not match."""
    engine = SqliteEngine(store_path, durability="os")
    with open_indexed(engine) if indexed else _open_plain(engine) as store:
        space = store.space(NAME)
        with togglers(space, examples(250, 2_000)) as toggling:
            while toggling():
                report = space.verify()
                assert report.ok, report.faults
        assert space.verify().ok


# -- an interrupted leader -------------------------------------------------------------------------


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that has no event of its own."""
    pause = threading.Event()
    for _ in range(LIMIT_SECONDS * 1_000):
        if condition():
            return
        pause.wait(0.001)
    raise AssertionError("it never happened")


class Assembly(FixedClock):
    """A clock that holds the leader until so many jobs are in the queue; it may fail at a later reading."""

    def __init__(self) -> None:
        super().__init__()
        self.in_line: Callable[[], int] = lambda: 0
        self.expected = 0
        self.readings_left: int | None = None

    def now(self) -> datetime:
        wait_until(lambda: self.in_line() >= self.expected)
        self.expected = 0  # once: a job that the leader did not take commits on its own
        if self.readings_left == 0:
            self.readings_left = None
            raise ValueError("the clock broke")
        if self.readings_left is not None:
            self.readings_left -= 1
        return super().now()


class Line:
    """One space whose writers are made to commit together."""

    def __init__(self, store: rote.Store, clock: Assembly) -> None:
        self.space = store.space(NAME)
        self.space.set(IDS[0], 0)
        self._clock = clock
        kernel = cast(Kernel, store._port)
        self.queue = kernel.spaces.open(self.space.did).part(Committer).queue
        clock.in_line = lambda: len(self.queue.waiting)

    def run(self, *calls: Callable[[], Commit]) -> list[Future[Commit]]:
        """Run the calls, the first as the leader of the others; return their futures, which are done."""
        self._clock.expected = len(calls)
        with ThreadPoolExecutor(len(calls)) as pool:
            futures = []
            for number, call in enumerate(calls):
                # The last call is not waited for: all go with it, and the queue may be empty at once.
                wait_until(partial(self._has, number))
                futures.append(pool.submit(call))
        self._clock.expected = 0
        return futures

    def _has(self, size: int) -> bool:
        return self._clock.in_line() >= size


@contextlib.contextmanager
def line_on(path: Path) -> Iterator[tuple[Line, Assembly]]:
    clock = Assembly()
    with rote.open(path, clock=clock) as store:
        yield Line(store, clock), clock


def interrupt_commit(
    patch: pytest.MonkeyPatch, error: BaseException, *, is_committed: bool
) -> None:
    """Let the next COMMIT raise, as a signal does that came while it ran."""
    original = SqliteWriter.commit

    def commit(writer: SqliteWriter) -> None:
        patch.undo()
        if is_committed:
            original(writer)
        raise error

    patch.setattr(SqliteWriter, "commit", commit)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), ValueError("a bug")])
def test_followers_of_a_leader_interrupted_after_its_commit_get_their_commits(
    store_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """They were told to try again although their writes were durable, and wrote them twice."""
    with line_on(store_path) as (line, _):
        interrupt_commit(monkeypatch, error, is_committed=True)
        leader, *followers = line.run(*[partial(line.space.set, id, 1) for id in IDS[:4]])
        told = leader.exception()
        assert told is not None
        assert error in (told, told.__cause__)  # an error of Python is told as Corrupt
        assert [future.result() for future in followers] == list(line.space.log())[2:]
        assert [line.space.get(id) for id in IDS[:4]] == [1] * 4
        assert line.space.set(IDS[0], 2).version == 6
        assert line.space.verify().ok


def test_followers_of_a_leader_interrupted_while_it_answers_get_their_commits(
    store_path: Path,
) -> None:
    """They were told that the outcome was unknown although their writes were durable."""
    with line_on(store_path) as (line, _):

        def leader() -> Commit:
            interrupt_before(OpenSpace.committed.__code__, KeyboardInterrupt())
            return line.space.set(IDS[0], 1)

        lead, *followers = line.run(leader, *[partial(line.space.set, id, 1) for id in IDS[1:4]])
        assert isinstance(lead.exception(), KeyboardInterrupt)
        assert [future.result() for future in followers] == list(line.space.log())[2:]
        assert [line.space.get(id) for id in IDS[:4]] == [1] * 4
        assert line.space.verify().ok


def test_followers_of_a_leader_interrupted_before_anything_was_planned_are_told_so(
    store_path: Path,
) -> None:
    """The leader is refused, takes the others along, and fails before the first of them."""
    with line_on(store_path) as (line, clock):
        clock.readings_left = 1
        lead, *followers = line.run(
            partial(line.space.delete, IDS[1]), *[partial(line.space.set, id, 1) for id in IDS[1:4]]
        )
        assert isinstance(lead.exception(), ValueError)
        # The leader may not have taken along those that joined while it waited; they commit on their own.
        told = [future.exception() for future in followers if future.exception() is not None]
        assert told
        for error in told:
            assert isinstance(error, Unavailable)
            assert error.details == {"outcome": "not_written"}
        assert line.space.version == 1 + len(followers) - len(told)


def test_those_whom_an_interrupted_leader_has_not_taken_along_go_without_it(
    store_path: Path,
) -> None:
    with line_on(store_path) as (line, clock):
        clock.readings_left = 0
        calls = [partial(line.space.set, id, 1) for id in IDS[:4]]
        lead, *followers = line.run(*calls)
        assert isinstance(lead.exception(), ValueError)
        # The leader took along those that came before its first look; they are told that it failed.
        gone = [future for future in followers if future.exception() is None]
        assert [future.result() for future in gone] == list(line.space.log())[1:]
        for future in followers:
            assert future in gone or isinstance(future.exception(), Unavailable)
        assert line.space.get(IDS[0]) == 0


def test_those_behind_a_task_are_told_that_nothing_was_written_when_it_is_interrupted(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with line_on(store_path) as (line, _):
        line.space.create_branch("other")
        interrupt_commit(monkeypatch, KeyboardInterrupt(), is_committed=True)
        lead, task, behind = line.run(
            partial(line.space.delete, IDS[1]),
            partial(line.space.delete_branch, "other"),
            partial(line.space.set, IDS[1], 1),
        )
        assert isinstance(lead.exception(), KeyboardInterrupt)
        assert task.result().version == 3
        told = behind.exception()
        if told is None:  # the leader did not take it along, see above
            assert behind.result().version == line.space.version == 4
        else:
            assert isinstance(told, Unavailable)
            assert told.details == {"outcome": "not_written"}
            assert line.space.version == 3


@pytest.mark.parametrize("where", ["the clock", "COMMIT", "the end of the block"])
def test_no_answer_stands_on_commits_that_an_interruption_undid(
    store_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """An answer said that a key stood for a write, or that a write outdated a read. That write was
    rolled back because the leading thread was interrupted."""
    with line_on(store_path) as (line, clock):
        space = line.space
        write = {"op": "set", "id": IDS[0], "value": 2}
        followers: list[Callable[[], Commit]] = [
            partial(space.transact, [write], reads=[{"id": IDS[0], "version": 1}]),
            partial(space.set, IDS[1], 2, key="k"),
            partial(space.set, IDS[2], 2),
        ]

        def leader() -> Commit:
            if where == "COMMIT":
                interrupt_commit(monkeypatch, KeyboardInterrupt(), is_committed=False)
            elif where == "the clock":
                clock.readings_left = 3
            else:
                interrupt_before(_Transaction.__exit__.__code__, KeyboardInterrupt())
            return space.set(IDS[0], 1, key="k")

        lead, *others = line.run(leader, *followers)
        expected = ValueError if where == "the clock" else KeyboardInterrupt
        assert isinstance(lead.exception(), expected)
        assert [type(future.exception()) for future in others] == [Unavailable] * 3
        assert [str(future.exception()).endswith("try again") for future in others] == [True] * 3
        assert space.version == 1
        # They are undone: each of them can be made now.
        assert [call().version for call in followers] == [2, 3, 4]
        assert space.verify().ok


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OutcomeUnknown()])
def test_a_space_that_was_made_by_an_unanswered_commit_has_its_key(
    store_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """The key was thrown away with the error. The space existed, and could never sign again."""
    with rote.open(store_path) as store:
        interrupt_commit(monkeypatch, error, is_committed=True)
        with pytest.raises(type(error)):
            store.space(NAME)
    with rote.open(store_path, create=False) as store:
        space = store.space(NAME)
        assert space.verify(against=space.checkpoint()).ok


@pytest.mark.parametrize("path", [None, "store.db"])
def test_an_interruption_before_the_end_of_a_commit_holds_nobody_up(
    tmp_path: Path, path: str | None
) -> None:
    """Its transaction stayed open and the lock held, until the same thread committed again."""
    with rote.open(":memory:" if path is None else tmp_path / path) as store:
        space = store.space(NAME)
        space.set(IDS[0], 0)
        interrupt_before(_Transaction.__exit__.__code__, KeyboardInterrupt())
        try:
            with pytest.raises(KeyboardInterrupt):
                space.set(IDS[0], 1)
        finally:
            sys.settrace(None)
        assert space.get(IDS[0]) == 0
        other = threading.Thread(target=space.set, args=(IDS[0], 2))
        other.start()
        other.join(LIMIT_SECONDS / 4)
        assert space.get(IDS[0]) == 2
        assert space.verify().ok


# -- processes of their own, which may hang --------------------------------------------------------


def run_child(function: Callable[[str], object], path: Path) -> None:
    """Run a function in a process that ends itself, with its stacks, when it hangs."""
    code = f"from tests.faults import test_threads; test_threads.{function.__name__}({str(path)!r})"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, capture_output=True, text=True, timeout=2 * LIMIT_SECONDS, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr


def test_a_fork_while_threads_commit_leaves_the_child_with_unavailable_at_once(
    store_path: Path,
) -> None:
    """The child queued behind a thread that only its parent has, and waited for ever."""
    run_child(fork_while_threads_commit, store_path)


def fork_while_threads_commit(path: str) -> None:
    faulthandler.dump_traceback_later(LIMIT_SECONDS, exit=True)
    stop, busy = threading.Event(), threading.Semaphore(0)
    with rote.open(path, durability="os") as store, ThreadPoolExecutor(4) as pool:
        space = store.space(NAME)
        writers = [pool.submit(_write_until, stop, busy, space, id) for id in IDS[:4]]
        try:
            for _ in range(examples(8, 60)):
                for _ in range(8):  # all are at work, none has just begun
                    busy.acquire()
                child = os.fork()
                if child == 0:
                    _be_the_child(store, space)
                _, status = os.waitpid(child, 0)
                assert status == 0, f"the child ended with {status}; {signal.SIGALRM} is a hang"
        finally:
            stop.set()
        for writer in writers:
            writer.result()
        assert space.verify().ok


def _write_until(
    stop: threading.Event, busy: threading.Semaphore, space: rote.Space, id: str
) -> None:
    while not stop.is_set():
        space.set(id, 0)
        busy.release()


def _be_the_child(store: rote.Store, space: rote.Space) -> NoReturn:
    signal.alarm(10)
    uses: list[Callable[[], object]] = [
        lambda: space.set(IDS[0], 1),
        lambda: space.get(IDS[0]),
        lambda: list(space.scan()),
        lambda: store.space("another"),
        space.verify,
        space.checkpoint,
    ]
    code = 1
    try:
        for use in uses:
            with pytest.raises(Unavailable, match="fork"):
                use()
        store.close()
        code = 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def test_threads_that_have_read_leave_nothing_open(tmp_path: Path) -> None:
    with rote.open(tmp_path / "memory.db") as store:
        space = store.space(NAME)
        space.set("urn:1", 1)

        def files_after(threads: int) -> int:
            for _ in range(threads):
                reader = threading.Thread(target=space.get, args=("urn:1",))
                reader.start()
                reader.join()
            return len(list(Path("/dev/fd").iterdir()))

        # SQLite keeps the file of a closed connection open, for the next one.
        assert files_after(8) == files_after(8)


def test_closing_does_not_hang_while_the_log_is_copied_and_threads_commit(
    store_path: Path,
) -> None:
    """close waits for the thread that copies the log, which must never wait for close."""
    run_child(close_at_work, store_path)


def close_at_work(path: str) -> None:
    big = "x" * 400_000  # a hundred pages of the log
    for round_number in range(examples(4, 20)):
        faulthandler.dump_traceback_later(LIMIT_SECONDS, exit=True)
        # A new file for each round: verifying a log that grows takes ever longer.
        store = rote.open(f"{path}.{round_number}", durability="os")
        space = store.space(NAME)
        with ThreadPoolExecutor(3) as pool:
            writers = [pool.submit(_write_until_closed, space, id, big) for id in IDS[:3]]
            for number in range(12 + round_number):
                space.set(IDS[3], [number, big])
            store.close()
        for writer in writers:
            assert writer.result() == "the store is closed; open it again"
        with rote.open(f"{path}.{round_number}") as store:
            assert store.space(NAME).verify().ok


def _write_until_closed(space: rote.Space, id: str, value: Json) -> str:
    try:
        while True:
            space.set(id, value)
    except Unavailable as error:
        return str(error)


def test_threads_that_make_a_store_at_once_end_with_one_space(tmp_path: Path) -> None:
    """Each thread opens the file for itself: one of them makes the tables, one the space, and the
    keys of the others are gone."""
    for round_number in range(examples(5, 100)):
        path = tmp_path / f"{round_number}.db"
        start = threading.Barrier(4)
        with ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(_begin, path, start, id) for id in IDS[:4]]
            dids = {future.result(LIMIT_SECONDS) for future in futures}
        with rote.open(path) as store:
            (space,) = store.spaces()
            assert dids == {space.did}
            assert [state.id for state in space.scan()] == list(IDS[:4])
            assert space.verify(against=space.checkpoint()).ok
        keys = path.with_name(f"{path.name}.keys")
        assert [file.name for file in keys.iterdir()] == [space.did]


def _begin(path: Path, start: threading.Barrier, id: str) -> str:
    start.wait(LIMIT_SECONDS)
    with rote.open(path) as store:
        space = store.space(NAME)
        space.set(id, 0)
        return space.did


# -- what surrounds a store ------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["memory.db", "sqlite:///memory.db"])
def test_a_store_named_by_a_relative_path_keeps_its_keys_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """The file stayed in its place, but the keys were looked for in the new folder."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    with rote.open(url) as store:
        monkeypatch.chdir(there)
        space = store.space(NAME)
        monkeypatch.chdir(tmp_path)
        assert space.verify(against=space.checkpoint()).ok
        assert [file.name for file in (here / "memory.db.keys").iterdir()] == [space.did]
    assert list(there.iterdir()) == []
