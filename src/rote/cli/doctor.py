"""`rote doctor`: a look at a store's place, at its surroundings, and quickly inside.

Sizes and modes come from stat alone. Opening and closing a live database file outside the driver
would drop the locks that this process holds on it.
"""

import os
import platform
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from rote.cli.options import StoreOptions, spread_options
from rote.cli.outcome import no
from rote.cli.output import plural, print_line, print_rows, printable, short
from rote.cli.progress import bar
from rote.cli.server_doctor import examine_server
from rote.errors import InvalidInput, RoteError
from rote.opening import locate
from rote.space import Space
from rote.space.store import every_space
from rote.values.limits import MIB, SQLITE_WAL_BYTES_KEPT

# A small store is verified whole, because that is quick. A larger store is only read in part.
_SIZE_BYTES_VERIFIED = 16 * MIB
_COMMITS_VERIFIED = 1_000
_COMMITS_LOOKED_AT = 100
_ENTITIES_LOOKED_AT = 100
_FAULTS_SHOWN = 3
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(slots=True)
class Examination:
    """Findings about a store and its surroundings."""

    versions: dict[str, str]  # of the programs that matter
    store: dict[str, Any] = field(default_factory=dict)  # the file and its log, or the server
    keys: dict[str, Any] = field(default_factory=dict)  # the folder of private keys
    spaces: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # the user must mend these
    notes: list[str] = field(default_factory=list)  # the user should know these

    def to_dict(self) -> dict[str, Any]:
        return {
            "ok": not self.problems if self.store else None,
            "versions": self.versions,
            "store": self.store,
            "keys": self.keys,
            "spaces": self.spaces,
            "problems": self.problems,
            "notes": self.notes,
        }


@spread_options
def doctor(
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="First build the indexes anew from the log.")
    ] = False,
    options: StoreOptions,
) -> None:
    """Look at a store and its surroundings; exit 1 when there is a problem."""
    examination = Examination(_versions())
    unreachable: RoteError | None = None
    try:
        _examine(examination, options, repair=repair)
    except RoteError as error:
        if examination.store:
            examination.problems.append(str(error))
        else:
            unreachable = error
    options.print_answer(examination.to_dict(), lambda: _print_examination(examination))
    if unreachable is not None:
        raise unreachable
    if examination.problems:
        raise no()


def _versions() -> dict[str, str]:
    apsw = version("apsw")
    return {
        "rote": version("rote"),
        "python": platform.python_version(),
        "apsw": apsw,
        # apsw brings its SQLite along and is numbered after it.
        "sqlite": ".".join(apsw.split(".")[:3]),
    }


def _examine(examination: Examination, options: StoreOptions, *, repair: bool) -> None:
    if options.store.startswith(("http://", "https://")):
        if repair:
            raise InvalidInput("--repair needs the store itself; run it where the server runs")
        for name, found in examine_server(options.store).items():
            setattr(examination, name, found)
        return
    location = locate(options.store)
    if location.path is not None and location.path.is_file():
        # The surroundings come first: they may show why the store cannot be opened.
        _examine_surroundings(examination, location.path)
    with options.opened_store() as store:
        if location.path is None:
            examination.store = {"server": printable(location.shown)}
        spaces = every_space(store)
        if location.keys is not None:
            _examine_keys(examination, location.keys, spaces)
        for space in spaces:
            if repair:
                _repair(examination, space)
            _examine_space(examination, space)


def _examine_surroundings(examination: Examination, path: Path) -> None:
    status = path.stat()
    log = path.with_name(path.name + "-wal")
    log_bytes = log.stat().st_size if log.exists() else 0
    examination.store = {
        "path": printable(str(path)),
        "file_system": _file_system(path),
        "mode": _mode(status),
        "size_bytes": status.st_size,
        "log_bytes": log_bytes,
    }
    if os.name == "posix" and status.st_mode & _OTHERS:
        examination.notes.append(f"other users may open the store; chmod 600 {path} to prevent it")
    if log_bytes > SQLITE_WAL_BYTES_KEPT:
        examination.notes.append("the log is long: some process has been reading for a long time")


def _examine_keys(examination: Examination, folder: Path, spaces: list[Space]) -> None:
    if not folder.is_dir():
        examination.keys = {"path": printable(str(folder)), "mode": None, "files": 0}
        if spaces:
            examination.notes.append(f"there are no keys in {folder}: nothing can be signed here")
        return
    files = {path.name: path for path in folder.iterdir()}
    examination.keys = {
        "path": printable(str(folder)),
        "mode": _mode(folder.stat()),
        "files": len(files),
    }
    for path in _open_to_others([folder, *files.values()]):
        examination.problems.append(f"other users may reach {path}; run chmod go= on it")
    for space in spaces:
        if space.did not in files:
            examination.notes.append(f"space {space.name} has no key in {folder}: it cannot sign")


def _open_to_others(paths: list[Path]) -> Iterator[Path]:
    if os.name == "posix":
        yield from (path for path in sorted(paths) if path.stat().st_mode & _OTHERS)


def _repair(examination: Examination, space: Space) -> None:
    """Build the indexes of a space anew from its log."""
    with bar() as advance:
        space.reindex(
            progress=None
            if advance is None
            else lambda done, total: advance("indexing", done, total)
        )
    examination.notes.append(f"space {space.name}: its indexes were built anew")


def _examine_space(examination: Examination, space: Space) -> None:
    # A server does not tell its size, so the number of commits decides there.
    size = examination.store.get("size_bytes")
    small = space.version <= _COMMITS_VERIFIED if size is None else size <= _SIZE_BYTES_VERIFIED
    examination.spaces.append(
        {
            "name": space.name,
            "did": space.did,
            "version": space.version,
            "head": space.head,
            "verified": small,
        }
    )
    try:
        faults = [str(fault) for fault in space.verify().faults] if small else []
        if not small:
            look_into(space)
    except RoteError as error:
        faults = [str(error)]
    examination.problems += (f"space {space.name}: {fault}" for fault in faults[:_FAULTS_SHOWN])
    if faults:
        examination.problems.append(f"space {space.name}: rote verify tells all its faults")


def look_into(space: Space) -> None:
    """Read the newest commits and the first entities; raise when one of them cannot be read."""
    commits = space.log(newest=True, limit=_COMMITS_LOOKED_AT)
    for _ in chain(commits, space.scan(limit=_ENTITIES_LOOKED_AT)):
        pass  # reading alone is the test


def _file_system(path: Path) -> str | None:
    """Return the type of the file system with the longest mount point above a path; None if unknown."""
    try:
        lines = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return None
    mounts = [line.split(" ") for line in lines]
    holding = [mount for mount in mounts if len(mount) > 2 and path.is_relative_to(mount[1])]
    return max(holding, key=lambda mount: len(mount[1]), default=["", "", None])[2]


def _mode(status: os.stat_result) -> str:
    return f"{stat.S_IMODE(status.st_mode):04o}"


def _print_examination(examination: Examination) -> None:
    print_rows(("what", "found"), _rows(examination))
    for note in examination.notes:
        print_line(f"note: {note}", style="yellow")
    for problem in examination.problems:
        print_line(f"problem: {problem}", style="red")
    if examination.store and not examination.problems:
        everything = all(space["verified"] for space in examination.spaces)
        is_served = "clock_seconds" in examination.store
        words = (
            ""
            if everything or is_served
            else "; the store is large: only rote verify checks everything"
        )
        print_line(f"ok: no problem found{words}", style="green")


def _rows(examination: Examination) -> Iterator[tuple[str, str]]:
    yield from examination.versions.items()
    if store := examination.store:
        if "server" in store:
            yield "store", store["server"]
            if "clock_seconds" in store:
                yield "server version", store["version"]
                seconds = store["clock_seconds"]
                yield "clock", "not seen" if seconds is None else f"differs by {seconds} s"
                yield "operator", "yes" if store["operator"] else "no"
        else:
            yield "store", store["path"]
            yield "file system", store["file_system"] or "unknown"
            yield "mode", store["mode"]
            yield "size", plural(store["size_bytes"], "byte")
            yield "log", plural(store["log_bytes"], "byte")
    if keys := examination.keys:
        mode = "none" if keys["mode"] is None else f"mode {keys['mode']}"
        yield "keys", f"{keys['path']} ({mode}, {plural(keys['files'], 'file')})"
    for space in examination.spaces:
        head = "" if space["head"] is None else f", head {short(space['head'])}"
        right = f"{space['right']}, " if "right" in space else ""
        yield f"space {space['name']}", f"{right}version {space['version']}{head}, {space['did']}"
