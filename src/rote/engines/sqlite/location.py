"""The place of a store's file, and whether SQLite can be trusted there."""

import os
from itertools import count
from pathlib import Path

from rote.errors import InvalidInput, NotFound, Unavailable, system_failure

# Write-ahead logging needs shared memory on one host; several hosts share these file systems.
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre",
     "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "ncpfs", "ocfs2"}
)  # fmt: skip

# SQLite takes a shorter file for an empty one and would overwrite it.
SQLITE_FILE_BYTES_MIN = 512

_memory_numbers = count(1)


def memory_filename() -> str:
    """Return a name for a database in memory that the connections of one engine share."""
    return f"file:/rote-{os.getpid()}-{next(_memory_numbers)}?vfs=memdb"


def prepare_file(path: Path, *, create: bool) -> Path:
    """Return the absolute path of a store's file; make a new file, empty and private."""
    path = path.absolute()
    try:
        if path.is_dir():
            raise InvalidInput(f"{path} is a folder; name a file in it, like {path / 'rote.db'}")
        size = path.stat().st_size if path.exists() else None
    except OSError as error:
        raise system_failure(f"cannot open {path}", error, path) from error
    if size is not None and 0 < size < SQLITE_FILE_BYTES_MIN:
        raise InvalidInput(f"{path} is not a Rote store; name another file")
    if not size and not create:
        raise NotFound(f"there is no store at {path}; write something to make one")
    if size is None:
        if not path.parent.is_dir():
            raise NotFound(f"the folder {path.parent} does not exist; make it first")
        make_private(path)
    _refuse_network(path)
    return path


def make_private(path: Path) -> None:
    """Make an empty file that only its owner may read: memories are personal."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return  # another process was first
    except OSError as error:
        raise system_failure(f"cannot make {path}", error, path) from error


def _refuse_network(path: Path) -> None:
    kind = file_system_of(path, _mounts())
    if kind in NETWORK_FILE_SYSTEMS:
        raise Unavailable(
            f"{path} is on a network file system ({kind}), where SQLite loses writes;"
            " use a local disk, or PostgreSQL",
            file_system=kind,
        )


def file_system_of(path: Path, mounts: list[tuple[str, str]]) -> str | None:
    """Return the type of the file system that holds `path`: that of the longest mount above it."""
    holding = [(place, kind) for place, kind in mounts if path.is_relative_to(place)]
    return max(holding, key=lambda mount: len(mount[0]), default=("", None))[1]


def _mounts() -> list[tuple[str, str]]:
    """Return (mount point, type) of every mount; nothing where the system does not tell."""
    try:
        lines = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return []
    fields = [line.split(" ") for line in lines]
    return [(field[1].replace("\\040", " "), field[2]) for field in fields if len(field) > 2]
