# ruff: noqa: N802 - the methods of a VFS have the names that SQLite gave them.
"""The SQLite side of `FaultDisk`: it counts, fails and records what SQLite asks of a disk.

Each operation asks the trigger first, then does the real thing, then records it; all under one
lock, so that the record and the real file never differ.
"""

import threading
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from rote.testing.faults.platter import Inode, Platter, Truncate, Write
from rote.testing.faults.trigger import FaultKind, Operation, Trigger

_RECORDED_FLAGS = (
    apsw.SQLITE_OPEN_MAIN_DB
    | apsw.SQLITE_OPEN_MAIN_JOURNAL
    | apsw.SQLITE_OPEN_SUPER_JOURNAL
    | apsw.SQLITE_OPEN_WAL
)
_ERROR_CODES = {
    "write": apsw.SQLITE_IOERR_WRITE,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "delete": apsw.SQLITE_IOERR_DELETE,
}


@dataclass(slots=True)
class Medium:
    """The state that the disk, its VFS and its files share."""

    # The directory of the recorded files, as a real path.
    directory: Path
    # Syncs report success and make nothing durable.
    sync_off: bool
    # Held during each operation. It is reentrant, because garbage collection may close a connection
    # inside one.
    lock: threading.RLock = field(default_factory=threading.RLock)
    platter: Platter = field(default_factory=Platter)
    trigger: Trigger = field(default_factory=Trigger)

    def name(self, path: str) -> str | None:
        """Return a path's name on this disk; None outside it."""
        inside = Path(path).is_relative_to(self.directory)
        return str(Path(path).relative_to(self.directory)) if inside else None

    def check_power(self, code: int) -> None:
        if self.trigger.power_is_off:
            raise _sqlite_error(code, "the power is off")

    def check(self, operation: Operation) -> None:
        """Count an operation that happens whole or not at all; raise if a fault hits it."""
        kind = self.trigger.strike(operation)
        if kind is not None:
            raise _fault_error(kind, operation)


class FaultVFS(apsw.VFS):
    """Opens and deletes files; the default VFS does everything else."""

    def __init__(self, name: str, medium: Medium) -> None:
        self._medium = medium
        super().__init__(name, base="")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None or not flags[0] & _RECORDED_FLAGS:
            return super().xOpen(name, flags)
        with self._medium.lock:
            self._medium.check_power(apsw.SQLITE_CANTOPEN)
            relative = self._medium.name(path)
            if relative is None:
                reason = f"{path} is not inside {self._medium.directory}, where faults are recorded"
                raise _sqlite_error(apsw.SQLITE_CANTOPEN, reason)
            existed = super().xAccess(path, apsw.SQLITE_ACCESS_EXISTS)
            return FaultFile(self._medium, relative, name, flags, existed=existed)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        medium = self._medium
        with medium.lock:
            name = medium.name(filename)
            if name is None or medium.platter.find(name) is None:
                super().xDelete(filename, syncdir)
                return
            medium.check(Operation("delete", name))
            super().xDelete(filename, syncdir)
            medium.platter.delete(name)
            if syncdir and not medium.sync_off:
                medium.platter.sync_directory()


class FaultFile(apsw.VFSFile):
    """One handle; all handles to a file share its inode."""

    def __init__(
        self,
        medium: Medium,
        name: str,
        filename: str | apsw.URIFilename | None,
        flags: list[int],
        *,
        existed: bool,
    ) -> None:
        super().__init__("", filename, flags)
        self._medium = medium
        self._name = name
        self._inode = self._find_inode(existed)
        # SQLite's Unix VFS syncs the directory at the first sync of a journal or WAL that it may
        # have created.
        self._directory_is_due = bool(
            flags[0] & apsw.SQLITE_OPEN_CREATE and not flags[0] & apsw.SQLITE_OPEN_MAIN_DB
        )

    def _find_inode(self, existed: bool) -> Inode:
        platter = self._medium.platter
        inode = platter.find(self._name)
        if inode is not None:
            return inode
        if existed:
            # Read through SQLite: closing a handle of our own would drop its POSIX locks.
            return platter.load(self._name, super().xRead(super().xFileSize(), 0))
        return platter.create(self._name)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._medium.check_power(apsw.SQLITE_IOERR_READ)
        return super().xRead(amount, offset)

    # The type allows any buffer, but apsw always passes bytes.
    def xWrite(self, data: bytes, offset: int) -> None:
        operation = Operation("write", self._name, offset, len(data))
        with self._medium.lock:
            kind = self._medium.trigger.strike(operation)
            if kind is None or kind == "short_write":
                arriving = data if kind is None else data[: len(data) // 2]
                super().xWrite(arriving, offset)
                self._inode.change(Write(offset, arriving))
            if kind is not None:
                raise _fault_error(kind, operation)

    def xTruncate(self, newsize: int) -> None:
        with self._medium.lock:
            self._medium.check(Operation("truncate", self._name, newsize))
            super().xTruncate(newsize)
            self._inode.change(Truncate(newsize))

    def xSync(self, flags: int) -> None:
        medium = self._medium
        with medium.lock:
            operation = Operation("sync", self._name)
            kind = medium.trigger.strike(operation)
            if kind is not None:
                # A power cut comes before the sync, so no page was lost by a failed write.
                if kind != "power_cut":
                    self._inode.fail_sync()
                raise _fault_error(kind, operation)
            if medium.sync_off:
                return
            medium.platter.sync(self._inode)
            if self._directory_is_due:
                medium.platter.sync_directory()
                self._directory_is_due = False


def _fault_error(kind: FaultKind, operation: Operation) -> Exception:
    # A sync that finds no room is an I/O error for SQLite.
    is_full = kind == "disk_full" and operation.kind != "sync"
    code = apsw.SQLITE_FULL if is_full else _ERROR_CODES[operation.kind]
    return _sqlite_error(code, f"{kind} at {operation}")


def _sqlite_error(code: int, reason: str) -> Exception:
    error = apsw.exception_for(code)
    error.args = (reason,)
    return error
