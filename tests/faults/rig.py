"""A store on a disk that can fail, the answers to its callers, and checks of its content afterwards.

The store is the real one: kernel, engine, normal locking, a writing and a reading connection on one
file, wired as `rote.open` does. Only the VFS below it is a `FaultDisk`. The files that a power cut
could have left are opened by plain `rote.open`.
"""

import contextlib
import itertools
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

import rote
from rote.engines.sqlite import SqliteEngine
from rote.errors import Compacted, RoteError, Unavailable
from rote.kernel import Kernel
from rote.opening.keys import MemoryKeys
from rote.opening.sources import SystemClock, SystemIds, SystemTokens
from rote.runs.answers import RunQuestions
from rote.testing.faults import FaultDisk, Keep
from rote.values import Identity
from tests.faults.pages import wrong_pages
from tests.lanes import examples

FILE = "memory.db"
NAME = "agent"
SEED = bytes(range(32))
LEFT, RIGHT, SMALL, LARGE, GONE = (f"urn:entity:{n}" for n in ("left", "right", "s", "l", "gone"))
# The number of subsets of un-synced writes that are checked after every fault.
SEEDS = examples(1, 6)

Operations = list[dict[str, Any]]
Make = Callable[[int], Operations]


# -- commits to make -------------------------------------------------------------------------------


def pair(number: int) -> Operations:
    """Return operations on two entities that must always agree."""
    return [{"op": "set", "id": id, "value": {"number": number}} for id in (LEFT, RIGHT)]


def small_patch(number: int) -> Operations:
    """Return a patch that carries its snapshot."""
    ops = [{"op": "replace", "path": "/number", "value": number}]
    return [*pair(number), {"op": "patch", "id": SMALL, "ops": ops}]


def large_patch(number: int) -> Operations:
    """Return a patch without a snapshot, and one so large that a snapshot falls due."""
    ops = [{"op": "add", "path": "/items/-", "value": number}]
    more = [{"op": "add", "path": "/more", "value": "x" * 9_000}]
    return [*pair(number), *({"op": "patch", "id": LARGE, "ops": step} for step in (ops, more))]


def deletion(number: int) -> Operations:
    """Return operations that delete one entity and bring one back."""
    gone = {"op": "set", "id": GONE, "value": number}
    return [*pair(number), {"op": "delete", "id": SMALL}, gone]


def many_pages(number: int) -> Operations:
    """Return a value that fills pages of its own."""
    return [*pair(number), {"op": "set", "id": LARGE, "value": f"{number}" * 4_000}]


def first_commits(space: rote.Space) -> None:
    """Make the commits that every store of these tests holds before its disk fails."""
    space.transact(pair(1), key="first")
    space.set(SMALL, {"number": 0})
    space.set(LARGE, {"items": ["x" * 80] * 100})
    space.set(GONE, 0)
    space.delete(GONE)


# -- the store under test --------------------------------------------------------------------------


class Rig:
    """A store, its disk, and the answer to each key."""

    def __init__(
        self, disk: FaultDisk, work: Path, *, numbers: Iterator[int] | None = None
    ) -> None:
        self.disk = disk
        self.work = work
        self.sent: dict[str, Operations] = {}
        self.acknowledged: dict[str, rote.Commit] = {}
        # Keys whose answer was that nobody knows, and keys whose answer was that nothing was written.
        self.unknown: set[str] = set()
        self.refused: set[str] = set()
        self.engine: SqliteEngine | None = None
        self.numbers = numbers or itertools.count(1_000)
        self._notes = threading.Lock()
        self._keys = MemoryKeys()
        self._keys.save(Identity.from_seed(SEED).did, SEED)

    def open(self, durability: str = "fsync") -> None:
        """Open the store as rote.open does, with the disk's VFS below."""
        path = self.disk.directory / FILE
        self.engine = SqliteEngine(path, durability=durability, vfs=self.disk.vfs_name)
        kernel = Kernel(
            self.engine,
            clock=SystemClock(),
            ids=SystemIds(),
            tokens=SystemTokens(),
            keys=self._keys,
            questions=RunQuestions(),
            seed=SEED,
        )
        store = rote.Store(kernel, url=FILE, local=kernel)
        # A pooled reader finds the space, so from here on two connections are open.
        self.space = store.space(NAME)

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()

    def connections(self) -> list[apsw.Connection]:
        """Return the connections that are open on this disk."""
        place = str(self.disk.directory)
        return [c for c in apsw.connections() if c.filename.startswith(place)]

    def abandon(self) -> None:
        """Close everything that is still open, as the end of a process would."""
        with contextlib.suppress(RoteError):
            self.close()
        for connection in self.connections():
            with contextlib.suppress(apsw.Error):
                connection.close(True)

    def empty_log(self) -> None:
        assert self.engine is not None
        self.engine.empty_log()

    def commit(self, make: Make = pair, key: str | None = None) -> None:
        """Commit, and record the answer."""
        number = next(self.numbers)
        key = key or f"key-{number}"
        operations = self.sent.setdefault(key, make(number))
        try:
            commit = self.space.transact(operations, key=key)
        except RoteError as error:
            self._note_refusal(key, error)
            raise
        with self._notes:
            self.refused.discard(key)
            self.unknown.discard(key)
            known = self.acknowledged.setdefault(key, commit)
        assert (known.version, known.hash) == (commit.version, commit.hash)

    def _note_refusal(self, key: str, error: RoteError) -> None:
        """Record an error, which means that nothing was written unless it says that nobody knows."""
        with self._notes:
            if error.details.get("outcome") == "unknown":
                self.unknown.add(key)
                self.refused.discard(key)
            elif key not in self.unknown and key not in self.acknowledged:
                self.refused.add(key)

    def work_on(self, key: str | None = None) -> None:
        """Commit with the same store; if it asks to be opened again, open it, and then it works."""
        try:
            self.commit(key=key)
        except Unavailable as error:
            assert "open" in str(error), error
            with contextlib.suppress(RoteError):
                self.close()
            self.open()
            self.commit(key=key)

    # -- what is there -----------------------------------------------------------------------------

    def check_images(self) -> set[int]:
        """Check everything that a power cut could leave now; return the lengths of the logs."""
        found: dict[tuple[bytes, ...], int] = {}
        chosen: list[tuple[Keep, int]] = [("none", 0), ("all", 0)]
        chosen += [("some", seed) for seed in range(SEEDS)]
        for keep, seed in chosen:
            folder = self._image(keep, seed)
            files = tuple(part for file in sorted(folder.iterdir())
                          for part in (file.name.encode(), file.read_bytes()))  # fmt: skip
            if files not in found:  # often nothing waits for a sync, and all images are one
                found[files] = self._check_files(folder / FILE)
        return set(found.values())

    def check_image(self, keep: Keep, seed: int = 0) -> int:
        return self._check_files(self._image(keep, seed) / FILE)

    def _image(self, keep: Keep, seed: int) -> Path:
        target = self.work / "image"
        shutil.rmtree(target, ignore_errors=True)
        return self.disk.image(target, keep=keep, seed=seed)

    def _check_files(self, path: Path) -> int:
        with rote.open(path, durability="os") as store:
            if not store.spaces():
                assert not self.acknowledged, "lost: the space"
                return 0
            commits = self.check_space(store.space(NAME))
        assert wrong_pages(path) == [], "pages without their checksums"
        return commits

    def check_space(self, space: rote.Space) -> int:
        """Check that no commit is there in part, all acknowledged ones are, and no refused one is."""
        log = readable_log(space)
        report = space.verify()
        assert report.ok, f"broken: {report.faults}"
        by_key = {commit.key: commit for commit in log if commit.key is not None}
        assert len(by_key) == sum(commit.key is not None for commit in log), "a key made two"
        for key, commit in by_key.items():
            if key in self.sent:
                assert facts_of(commit) == facts_sent(self.sent[key]), "in part"
        for key, commit in self.acknowledged.items():
            assert key in by_key and by_key[key].hash == commit.hash, f"lost: {key}"
        assert not self.refused & by_key.keys(), f"refused, and yet written: {self.refused}"
        assert space.get(LEFT) == space.get(RIGHT), "in part"
        return len(log)


def readable_log(space: rote.Space) -> list[rote.Commit]:
    """Return the whole log, or what a compaction has left of it."""
    try:
        return list(space.log())
    except Compacted as error:
        return list(space.log(since=error.details["oldest"] - 1))


def facts_of(commit: rote.Commit) -> list[tuple[Any, ...]]:
    return [(fact.id, fact.op, fact.body) for fact in commit.facts]


def facts_sent(operations: Operations) -> list[tuple[Any, ...]]:
    return [
        (operation["id"], operation["op"], operation.get("value", operation.get("ops")))
        for operation in operations
    ]
