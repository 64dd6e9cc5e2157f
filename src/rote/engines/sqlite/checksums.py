"""Checksums of pages. Frozen: the last 8 bytes of each page are those of SQLite's cksumvfs.

cksumvfs is a shim: a file system for SQLite that passes everything on to the one below it. It
computes the checksum of each page that is written to a database with 8 reserved bytes, and checks
each page that is read; a page that fails is an I/O error of the kind IOERR_DATA. The shim looks at
the first page to learn whether there are reserved bytes. Two rules follow:

    a file is made     its first page is on the disk before any other connection is opened, so that
                       every connection has seen it
    a file is copied   `VACUUM INTO` writes most pages before the first, without checksums. So copies
                       are written without the shim, and `seal` then writes all checksums

apsw brings the shim as an extension, which puts itself above the default file system. `checked`
puts a copy of it above any other: that is the description of a file system (sqlite3_vfs in
sqlite3.h) with another name and another one below.
"""

import ctypes
import os
import threading
from pathlib import Path

import apsw

from rote.errors import Corrupt, Unavailable, invariant

CHECKSUM_BYTES = 8
_PAGE_BYTES = 4_096
_HEADER_BYTES = 100
_SHIM = "cksmvfs"
_EXTENSION = Path(apsw.__file__).parent / "sqlite_extra_binaries" / "cksumvfs"


class _FileSystem(ctypes.Structure):
    """A sqlite3_vfs."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("file_bytes", ctypes.c_int),
        ("path_bytes_max", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("below", ctypes.c_void_p),
        ("functions", ctypes.c_void_p * 16),
    )


_made: dict[str, _FileSystem] = {}
# While it is held the shim may be the default file system. A signal handler may come in between.
_making = threading.RLock()


def _renew_lock() -> None:
    """Make the lock anew in a child: the thread that held it at the fork does not exist there."""
    global _making  # noqa: PLW0603 - one lock for the whole process
    _making = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def checked(below: str | None = None) -> str | None:
    """Return the file system that checks pages, above another or above the default one.

    Where apsw was built without the shim it is the other one, which checks nothing.
    """
    with _making:
        if not _is_loaded():
            return below
        below = below or apsw.vfs_names()[0]
        name = f"rote-checksums-{below}"
        if name not in _made:
            _made[name] = _make(name, below)
        return name


def forget(below: str) -> None:
    """Take away what `checked` has made above a file system that goes."""
    name = f"rote-checksums-{below}"
    if name in _made:
        apsw.unregister_vfs(name)  # its memory stays: connections may still be open


def can_check() -> bool:
    """Whether pages can be checked here."""
    with _making:
        return _is_loaded()


def is_checked(connection: apsw.Connection) -> bool:
    """Whether a connection checks the pages it reads; it must have read the first."""
    answer: object = connection.pragma("checksum_verification")
    return answer == "1"


def refuse_unchecked(connection: apsw.Connection) -> None:
    """Raise for a connection that does not check the pages of a file with checksums."""
    if is_checked(connection):
        return
    if not can_check():
        raise Unavailable(
            f"{connection.filename} has checksums, which this apsw cannot check;"
            " install apsw from a wheel"
        )
    raise Corrupt(f"{connection.filename}: its header is damaged; restore a backup")


def reserve_room(connection: apsw.Connection) -> None:
    """Let the next file that the connection makes or rewrites have room for checksums."""
    room = ctypes.c_int(CHECKSUM_BYTES)
    connection.file_control("main", apsw.SQLITE_FCNTL_RESERVE_BYTES, ctypes.addressof(room))


def seal(path: Path) -> None:
    """Write the checksum of each page of a file that has room for them and that nobody has open."""
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
    file = apsw.VFSFile(checked() or "", str(path), flags)
    try:
        file.xRead(_HEADER_BYTES, 0)  # the shim sees the reserved bytes
        for place in range(0, file.xFileSize(), _PAGE_BYTES):
            # A part of a page is not checked. The shim writes the checksum into the bytes it gets.
            content = file.xRead(_PAGE_BYTES - CHECKSUM_BYTES, place)
            file.xWrite(bytearray(content + bytes(CHECKSUM_BYTES)), place)
    finally:
        file.xClose()


def _is_loaded() -> bool:
    """Load the extension; the default file system stays what it was."""
    if _SHIM in apsw.vfs_names():
        return True
    default = apsw.vfs_names()[0]
    connection = apsw.Connection(":memory:")
    try:
        connection.enable_load_extension(True)
        connection.load_extension(str(_EXTENSION))
    except apsw.Error:
        return False
    finally:
        connection.close()
    apsw.set_default_vfs(default)
    return True


def _make(name: str, below: str) -> _FileSystem:
    shim, lower, first = _described(_SHIM), _described(below), _described(apsw.vfs_names()[0])
    own_bytes = shim.file_bytes - _FileSystem.from_address(shim.below).file_bytes
    made = _FileSystem.from_buffer_copy(shim)
    made.version = lower.version
    made.file_bytes = own_bytes + lower.file_bytes
    made.path_bytes_max = lower.path_bytes_max
    made.name = name.encode()
    made.below = ctypes.addressof(lower)
    # SQLite uses it until the process ends, when Python has let go of everything else.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    # The list of file systems is changed by functions of apsw alone, which hold Python's lock.
    made.next = first.next
    first.next = ctypes.addressof(made)
    return made


def _described(name: str) -> _FileSystem:
    connection = apsw.Connection("", vfs=name)
    try:
        address = ctypes.c_void_p()
        operation = apsw.SQLITE_FCNTL_VFS_POINTER
        connection.file_control("main", operation, ctypes.addressof(address))
        invariant(address.value, f"SQLite does not know its file system {name}")
        return _FileSystem.from_address(address.value or 0)
    finally:
        connection.close()
