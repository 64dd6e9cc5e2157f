"""Removal of old traces: `<traces>/<run_id>/trace.json` and all files that its run has left beside it,
also those of a run that was killed.

Traces of deterministic runs stay for 14 days at the least, whatever is asked for. A trace that cannot
be read, or is not complete, counts as one of them. A run that goes on holds its partial trace, however
long it has written nothing.
"""

import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from msgspec import Struct

from rote.bridges.trace_files import read_trace
from rote.bridges.trace_folders import check_name_count
from rote.contract.run_modes import LIVE
from rote.errors import RoteError
from rote.recordings.drafts import is_held
from rote.retrieval.plain_files import NotPlainError, open_plain
from rote.runs.trace_files import FILE_NAMES, PARTIAL_NAME, TRACE_NAME
from rote.values.limits import TRACE_DAYS_MIN

_DAY = 86_400


class OldRun(Struct, frozen=True):
    """A run whose traces may be removed."""

    run_id: str
    files: tuple["OldFile", ...]  # in the order of their removal
    size_bytes: int


class OldFile(Struct, frozen=True):
    """A file as it was found."""

    name: str
    inode: int
    written_ns: int


def find_old_runs(folder: Path, *, days: int, now: float) -> list[OldRun]:
    """Return the runs whose files are all older than `days`, in order. Links are not followed."""
    found: list[OldRun] = []
    with os.scandir(folder) as entries:
        for count, entry in enumerate(entries, 1):
            check_name_count(count)
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                found.extend(_old_run(folder / entry.name, days, now))
    return sorted(found, key=lambda run: run.run_id)


def remove_run(folder: Path, run: OldRun) -> None:
    """Remove the files of a run that have not changed since, and its folder when it is empty."""
    try:
        # Once the folder is open, nobody can put a link in its place.
        descriptor = os.open(folder / run.run_id, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return  # another process has removed it
    try:
        for file in run.files:
            try:
                status = os.stat(file.name, dir_fd=descriptor, follow_symlinks=False)
                if file == _found(file.name, status):
                    os.unlink(file.name, dir_fd=descriptor)
            except FileNotFoundError:
                pass  # another process has removed it
    finally:
        os.close(descriptor)
    try:
        (folder / run.run_id).rmdir()
    except OSError:
        pass  # it holds files that no run made


def _old_run(place: Path, days: int, now: float) -> Iterator[OldRun]:
    """Return the run of a folder, if it has one that may be removed."""
    states = {
        entry.name: entry.stat(follow_symlinks=False)
        for entry in _entries(place)
        if entry.name in FILE_NAMES
        or (entry.name.startswith(".rote-") and entry.name.endswith(".draft"))
    }
    if not states or not all(stat.S_ISREG(state.st_mode) for state in states.values()):
        return
    age = now - max(state.st_mtime for state in states.values())
    if age < days * _DAY or _goes_on(place / PARTIAL_NAME):
        return
    if age >= TRACE_DAYS_MIN * _DAY or _is_live(place / TRACE_NAME):
        # The trace is removed first, so that no trace is ever left without its retrievals.
        names = sorted(states, key=lambda name: (name != TRACE_NAME, name))
        files = tuple(_found(name, states[name]) for name in names)
        yield OldRun(place.name, files, sum(each.st_size for each in states.values()))


def _found(name: str, status: os.stat_result) -> OldFile:
    return OldFile(name, status.st_ino, status.st_mtime_ns)


def _entries(place: Path) -> list["os.DirEntry[str]"]:
    with os.scandir(place) as entries:
        return list(entries)


def _goes_on(partial: Path) -> bool:
    """Whether a process holds a partial trace."""
    try:
        with BufferedReader(open_plain(partial)) as file:
            return is_held(file.fileno())
    except (OSError, NotPlainError):
        return False


def _is_live(trace: Path) -> bool:
    """Whether a trace says that its run never claimed to be deterministic."""
    try:
        found = read_trace(trace).decoded()
    except (OSError, RoteError):
        return False
    return type(found) is dict and found.get("visibility_mode") == LIVE
