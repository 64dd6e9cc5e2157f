"""How long traces are kept: `<traces>/<run_id>/trace.json`, its companion, and drafts of dead runs.

Traces of deterministic runs stay for 14 days at the least, whatever is asked for. What cannot be read
may be one of them.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from rote.bridges.trace_files import check_name_count, read_trace
from rote.errors import RoteError
from rote.runs.trace_files import RETRIEVAL_NAME, TRACE_NAME
from rote.traces.formats import LIVE
from rote.values.limits import TRACE_DAYS_MIN

_DAY = 86_400


class OldRun(Struct, frozen=True):
    """The traces of a run that may go."""

    run_id: str
    files: tuple["OldFile", ...]  # in the order in which they go
    size_bytes: int


class OldFile(Struct, frozen=True):
    """A file as it was found."""

    name: str
    inode: int
    written_ns: int


def find_old_runs(folder: Path, *, days: int, now: float) -> list[OldRun]:
    """The runs whose files are all older than so many days, in order. Links are not followed."""
    found: list[OldRun] = []
    with os.scandir(folder) as entries:
        for count, entry in enumerate(entries, 1):
            check_name_count(count)
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                found.extend(_old_run(folder / entry.name, days, now))
    return sorted(found, key=lambda run: run.run_id)


def remove_run(folder: Path, run: OldRun) -> None:
    """Remove the files of a run that are as they were found, and its folder if nothing else is in
    it."""
    try:
        # Nobody can put a link in the place of the folder once it is open.
        descriptor = os.open(folder / run.run_id, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return  # somebody else was faster
    try:
        for file in run.files:
            try:
                status = os.stat(file.name, dir_fd=descriptor, follow_symlinks=False)
                if file == _found(file.name, status):
                    os.unlink(file.name, dir_fd=descriptor)
            except FileNotFoundError:
                pass  # here too
    finally:
        os.close(descriptor)
    try:
        (folder / run.run_id).rmdir()
    except OSError:
        pass  # what else is in it was not made by a run


def _old_run(place: Path, days: int, now: float) -> Iterator[OldRun]:
    """The run of a folder, if it has one and may go."""
    states = {
        entry.name: entry.stat(follow_symlinks=False)
        for entry in _entries(place)
        if entry.name in (TRACE_NAME, RETRIEVAL_NAME)
        or (entry.name.startswith(".rote-") and entry.name.endswith(".draft"))
    }
    if not states or not all(stat.S_ISREG(state.st_mode) for state in states.values()):
        return
    age = now - max(state.st_mtime for state in states.values())
    if age >= days * _DAY and (age >= TRACE_DAYS_MIN * _DAY or _is_live(place / TRACE_NAME)):
        # The trace goes first: whoever finds one finds its retrievals too.
        names = sorted(states, key=lambda name: (name != TRACE_NAME, name))
        files = tuple(_found(name, states[name]) for name in names)
        yield OldRun(place.name, files, sum(each.st_size for each in states.values()))


def _found(name: str, status: os.stat_result) -> OldFile:
    return OldFile(name, status.st_ino, status.st_mtime_ns)


def _entries(place: Path) -> list["os.DirEntry[str]"]:
    with os.scandir(place) as entries:
        return list(entries)


def _is_live(trace: Path) -> bool:
    """Whether a trace says that its run never claimed to be deterministic."""
    try:
        found = read_trace(trace).decoded()
    except (OSError, RoteError):
        return False
    return type(found) is dict and found.get("visibility_mode") == LIVE
