"""Where a store's file lies, and whether SQLite can be trusted there."""

import os
from itertools import count
from pathlib import Path

from rote.errors import InvalidInput, NotFound, Unavailable

# Write-ahead logging needs shared memory on one host; these are shared by several.
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre",
     "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "ncpfs", "ocfs2"}
)  # fmt: skip

_memory_numbers = count(1)


def memory_filename() -> str:
    """A name for a database in memory that the connections of one engine share."""
    return f"file:/rote-{os.getpid()}-{next(_memory_numbers)}?vfs=memdb"


def prepare_file(path: Path, *, create: bool) -> Path:
    """The absolute path of a store's file, made empty and private when it is new."""
    path = path.absolute()
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder; name a file in it, for example {path / 'rote.db'}")
    if not path.exists():
        if not create:
            raise NotFound(f"there is no store at {path}; create it by writing to it")
        if not path.parent.is_dir():
            raise NotFound(f"the folder {path.parent} does not exist; make it first")
        _make_private(path)
    _refuse_network(path)
    return path


def _make_private(path: Path) -> None:
    """An empty file that only its owner may read: memories are personal."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return  # another process was first
    except OSError as error:
        raise Unavailable(f"cannot make {path}: {error.strerror}") from error


def _refuse_network(path: Path) -> None:
    kind = file_system_of(path, _mounts())
    if kind in NETWORK_FILE_SYSTEMS:
        raise Unavailable(
            f"{path} is on a network file system ({kind}), where SQLite loses writes;"
            " use a local disk, or PostgreSQL",
            file_system=kind,
        )


def file_system_of(path: Path, mounts: list[tuple[str, str]]) -> str | None:
    """The type of the file system that holds `path`: that of the longest mount above it."""
    holding = [(place, kind) for place, kind in mounts if path.is_relative_to(place)]
    return max(holding, key=lambda mount: len(mount[0]), default=("", None))[1]


def _mounts() -> list[tuple[str, str]]:
    """(mount point, type) of every mount; nothing where the system does not say."""
    try:
        lines = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return []
    fields = [line.split(" ") for line in lines]
    return [(field[1].replace("\\040", " "), field[2]) for field in fields if len(field) > 2]
