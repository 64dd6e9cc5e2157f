"""A disk that fails at a chosen moment, for a real SQLite in its real configuration.

`FaultDisk` is an SQLite VFS over the default one. Reads, locks and shared memory go through, so WAL
mode with normal locking and several connections works as in production (apsw passes the shared
memory methods on, so this VFS never sees the -shm file). Writes, truncations, syncs and deletions
are counted, may fail, and are recorded in a `Platter`, from which `image` writes the files that a
disk could hold after a power cut at that moment. The bytes in the live directory are only the page
cache.

What to know when using it:

- Everything that touches the directory goes through the VFS of the disk, in one process; what was
  there at the first open of a file is taken to be durable.
- No real sync is made: the image is computed, and a test makes thousands.
- apsw raises what a VFS method raised even where SQLite carries on. A commit whose automatic
  checkpoint fails raises though it is committed, and so does a close that closed: with faults, an
  error means "unknown", and only the image tells.
- Not modelled: errors of reads, locks and shared memory; wrong bytes; pages written behind SQLite's
  back (mmap is for reading only, a chunk size must not be set);
  sub-directories that are synced one by one.
"""

import atexit
import copy
import itertools
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import apsw

from rote.engines.sqlite.checksums import forget
from rote.testing.faults.platter import Keep
from rote.testing.faults.trigger import Fault, Operation
from rote.testing.faults.vfs import FaultVFS, Medium

# SQLite registers a VFS by its name, for the whole process.
_serial_numbers = itertools.count(1)
_PREFIX = "rote-fault-disk-"


@atexit.register
def _close_what_is_left() -> None:
    """Close connections that a test left open, or the interpreter crashes when it frees them.

    At its end apsw can no longer call the methods of a VFS in Python.
    """
    for connection in apsw.connections():
        with suppress(Exception):  # one that is closed, or a disk that fails
            if _PREFIX in connection.open_vfs:
                connection.close(True)


class FaultDisk:
    """A directory whose SQLite files can fail, and can be read as a power cut would leave them.

    with FaultDisk(directory) as disk:
        connection = apsw.Connection(str(directory / "store.db"), vfs=disk.vfs_name)
        ...
        disk.arm(Fault("power_cut", at=7))
        ...
        store = disk.image(elsewhere, keep="some", seed=3) / "store.db"
    """

    def __init__(self, directory: Path | str, *, sync_off: bool = False) -> None:
        # SQLite asks for files by their real path.
        self._medium = Medium(Path(directory).resolve(strict=True), sync_off)
        self.vfs_name = f"{_PREFIX}{next(_serial_numbers)}"
        self._vfs = FaultVFS(self.vfs_name, self._medium)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Unregister the name; connections that are still open keep working."""
        forget(self.vfs_name)
        self._vfs.unregister()

    @property
    def directory(self) -> Path:
        """Return the directory of the recorded files, as a real path."""
        return self._medium.directory

    @property
    def sync_off(self) -> bool:
        """Whether the disk lies: syncs report success and make nothing durable. It may be set at any time."""
        return self._medium.sync_off

    @sync_off.setter
    def sync_off(self, sync_off: bool) -> None:
        self._medium.sync_off = sync_off

    def arm(self, fault: Fault | None = None) -> None:
        """Count operations from 1 again, with a fault to come or with none."""
        with self._medium.lock:
            self._medium.trigger.arm(fault)

    def disarm(self) -> None:
        """Stop counting and failing; a power cut stays."""
        with self._medium.lock:
            self._medium.trigger.disarm()

    @property
    def operations(self) -> int:
        """Return the number of operations counted since arming."""
        return self._medium.trigger.operations

    @property
    def struck(self) -> Operation | None:
        """Return the first operation that the fault hit since arming."""
        return self._medium.trigger.struck

    @property
    def fired(self) -> bool:
        return self._medium.trigger.struck is not None

    def image(self, target: Path | str, *, keep: Keep = "none", seed: int = 0) -> Path:
        """Write the files that the disk could hold after a power cut now into a new directory."""
        with self._medium.lock:
            files = self._medium.platter.files(keep, seed)
        target = Path(target)
        target.mkdir(parents=True)
        for name, content in files.items():
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return target

    def after_kill(self, target: Path | str) -> "FaultDisk":
        """Return the disk that a restarted process finds after kill -9, in a new directory.

        The page cache outlives a process: every write can be read, and unsynced writes are still
        not durable. Arm a power cut for the moment of the kill. A store must sync a commit that it
        finds this way before it answers anyone with it.
        """
        successor = FaultDisk(self.image(target, keep="all"), sync_off=self.sync_off)
        with self._medium.lock:
            successor._medium.platter = copy.deepcopy(self._medium.platter)
        return successor
