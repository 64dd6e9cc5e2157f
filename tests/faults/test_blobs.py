"""Blobs among kills, failing disks, other processes and little memory.

After a failed put, the whole blob is there or nothing of it counts. A failed collection deletes
nothing that is described or referred to. A later collection deletes what either left behind.
"""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

import rote
from rote.engines import Engine
from rote.engines.rows import BlobRow
from rote.engines.sqlite import SqliteEngine
from rote.errors import NotFound, RoteError
from rote.kernel import Kernel
from rote.opening.keys import MemoryKeys
from rote.testing import StoreSettings, open_on
from rote.testing.faults import FAULT_KINDS, Fault, FaultDisk, FaultKind, Keep, run_until_killed
from rote.testing.postgres import database_url
from tests.faults.blob_children import Bytes, Later, data_of, in_small_pieces, meta
from tests.faults.children import NAME
from tests.faults.test_processes import ROOT, run_together
from tests.lanes import SLOW, examples

MIB = 1 << 20
PLACES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: str(folder / "memory.db"),
    "postgres": database_url,
}
KEPT = b"was there before"
TRANSACTIONS_MAX = 40
# The moment before a commit is the one after the previous commit, except for the first.
MOMENTS = ("after", "before") if SLOW else ("after",)
KILLS = examples(4, 60)
PROCESSES = examples(3, 6)
ROUNDS = examples(12, 150)
# The blob of the contract and its bound; smaller ones, where half the blob would be too much.
SIZE_BYTES, EXTRA_BYTES_MAX = (200 * MIB, 64 * MIB) if SLOW else (64 * MIB, 32 * MIB)


@pytest.fixture(params=PLACES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return PLACES[request.param](tmp_path)


def argv_of(what: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.faults.blob_children", what, *map(str, arguments)]


def run_child(what: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv_of(what, *arguments),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def hash_of(data: bytes) -> str:
    return sha256(data).hexdigest()


def is_there(space: rote.Space, data: bytes) -> bool:
    """Whether the blob is there, whole and described; otherwise nothing of it may be."""
    hash = hash_of(data)
    try:
        assert space.blob(hash) == data
    except NotFound:
        assert not space.read(meta(hash)).exists
        return False
    assert space.get(meta(hash))["size"] == len(data)
    return True


def check_nothing_is_left_behind(url: str) -> None:
    """Check that a collection two hours later drops every unfinished upload, and all is whole."""
    with rote.open(url, clock=Later()) as store:
        space = store.space(NAME)
        engine, number = engine_of(store, space)
        before = {row.hash for row in _blobs(engine, number)}
        assert space.verify().ok
        space.gc()
        assert space.verify().ok
        left = _blobs(engine, number)
        assert {row.hash for row in left} <= before
        reads = engine.reader()
        assert reads.uploads(number, after=b"", limit=9) == []
        assert reads.blob_bytes(number) == sum(row.size for row in left)


def _blobs(engine: Engine, number: int) -> list[BlobRow]:
    """Return every blob: a fast disk takes thousands before a kill comes."""
    return engine.reader().blobs(number, after=b"", limit=1_000_000)


def engine_of(store: rote.Store, space: rote.Space) -> tuple[Engine, int]:
    kernel = store._port
    assert isinstance(kernel, Kernel)
    return kernel.spaces.wiring.engine, kernel.spaces.open(space.did).number


# -- kill -9 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", MOMENTS)
def test_a_put_that_is_killed_at_any_transaction_is_whole_or_nothing(url: str, when: str) -> None:
    with rote.open(url) as store:
        space = store.space(NAME)
        kept = space.put_blob(KEPT)
        there = []
        for number in range(1, TRANSACTIONS_MAX):
            done = run_child("put_and_die", url, number, when)
            if done.returncode == 0:
                break
            assert done.returncode == -signal.SIGKILL, done.stderr
            there.append(is_there(space, data_of(number)))
            assert space.verify().ok
            assert space.blob(kept) == KEPT
        # Three chunks, and the commit that makes them count.
        assert there == [False, False, False, when == "after"]
    check_nothing_is_left_behind(url)


@pytest.mark.parametrize("when", MOMENTS)
def test_a_collection_that_is_killed_at_any_transaction_is_finished_by_the_next(
    url: str, when: str
) -> None:
    with rote.open(url) as store:
        space = store.space(NAME)
        kept = space.put_blob(KEPT)
        with pytest.MonkeyPatch.context() as patches:
            in_small_pieces(patches.setattr)
            for number in (1, 2):
                space.put_blob(data_of(number))
        space.set("urn:entity:file", {"$blob": hash_of(data_of(1))})
        for number in (1, 2):
            space.delete(meta(hash_of(data_of(number))))
        assert run_child("put_and_die", url, 3, "after").returncode == -signal.SIGKILL
        # Each finds what the ones before it left.
        for number in range(1, TRANSACTIONS_MAX):
            done = run_child("collect_and_die", url, number, when)
            if done.returncode == 0:
                break
            assert done.returncode == -signal.SIGKILL, done.stderr
            assert space.verify().ok
            assert space.blob(kept) == KEPT
            assert space.blob(hash_of(data_of(1))) == data_of(1)
        assert number > 3
    check_nothing_is_left_behind(url)
    with rote.open(url) as store, pytest.raises(NotFound):
        store.space(NAME).blob(hash_of(data_of(2)))


def test_puts_that_are_killed_at_any_moment_are_whole_or_nothing(url: str) -> None:
    with rote.open(url) as store:
        space = store.space(NAME)
        for seed in range(KILLS):
            lines = run_until_killed(
                argv_of("put_for_ever", url, seed),
                acknowledgements=2, delay_seconds_max=0.05, seed=seed, cwd=ROOT,
            )  # fmt: skip
            for line in lines:
                assert is_there(space, data_of(int(line))), f"lost: {line}"
            is_there(space, data_of(int(lines[-1]) + 1))
            assert space.verify().ok
    check_nothing_is_left_behind(url)


# -- failing disks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_a_put_onto_a_failing_disk_is_whole_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: FaultKind
) -> None:
    in_small_pieces(monkeypatch.setattr)
    struck, acknowledged = 0, 0
    for at in range(1, 200, examples(6, 1)):
        told = _put_onto(tmp_path / str(at), Fault(kind, at))
        if told is None:
            break  # the put ended before the fault was due
        struck += 1
        acknowledged += told
    assert struck > 3


def _put_onto(folder: Path, fault: Fault) -> bool | None:
    """Put onto a disk that fails, and check what a power cut then leaves.

    Return whether the put was acknowledged, or None when nothing failed.
    """
    live, data = folder / "live", data_of(1)
    live.mkdir(parents=True)
    with FaultDisk(live) as disk:
        engine = SqliteEngine(live / "memory.db", vfs=disk.vfs_name)
        store = open_on(engine, StoreSettings(), keys=MemoryKeys())
        space = store.space(NAME)
        space.put_blob(KEPT)
        disk.arm(fault)
        acknowledged = False
        with contextlib.suppress(RoteError):
            space.put_blob(Bytes(data))
            acknowledged = True
        fired = disk.fired
        for number, keep in enumerate(_keeps(fault)):
            image = disk.image(folder / f"after-{number}", keep=keep, seed=fault.at)
            with rote.open(image / "memory.db", durability="os") as after:
                found = after.space(NAME)
                report = found.verify()
                assert report.ok, report.faults
                assert is_there(found, KEPT)
                assert is_there(found, data) or not acknowledged, "lost"
        disk.disarm()
        with contextlib.suppress(RoteError):
            store.close()
    return acknowledged if fired else None


def _keeps(fault: Fault) -> tuple[Keep, ...]:
    return ("none", "some", "all") if SLOW else (("none", "some", "all")[fault.at % 3],)


# -- other processes -------------------------------------------------------------------------------


def test_processes_that_put_and_collect_at_once_lose_nothing(url: str) -> None:
    with rote.open(url) as store:
        space = store.space(NAME)
        kept = run_racers(url)
        report = space.verify()
        assert report.ok, report.faults
        assert kept, "nobody referred to anything"
        for hash in kept:
            assert hash_of(space.blob(hash)) == hash
        assert space.gc(grace_seconds=0).kept == len(set(kept))
    check_nothing_is_left_behind(url)


def run_racers(url: str) -> list[str]:
    """Return the hashes that the processes referred to."""
    racers = [argv_of("race", url, f"racer-{number}", ROUNDS) for number in range(PROCESSES)]
    return [hash for output in run_together(racers) for hash in output.split()]


# -- little memory ---------------------------------------------------------------------------------


def test_a_large_blob_goes_in_and_out_in_little_memory(url: str) -> None:
    done = run_child("measure", url, SIZE_BYTES)
    assert done.returncode == 0, done.stderr
    put, read = (int(line) for line in done.stdout.split())
    assert max(put, read) < EXTRA_BYTES_MAX


def test_a_collection_looks_at_a_blob_of_many_pieces_piece_by_piece(tmp_path: Path) -> None:
    """A control of the fault tests: the small chunks really take many transactions."""
    with pytest.MonkeyPatch.context() as patches, rote.open(tmp_path / "memory.db") as store:
        in_small_pieces(patches.setattr)
        space = store.space(NAME)
        hash = space.put_blob(data_of(7))
        engine, number = engine_of(store, space)
        row = engine.reader().blob(number, bytes.fromhex(hash))
        assert row is not None
        assert len(engine.reader().chunks(number, row.upload, after=0, limit=99)) > 6
        assert Random(7).randbytes(8) == space.blob(hash)[:8]
