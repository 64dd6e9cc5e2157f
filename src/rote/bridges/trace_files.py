"""Traces in files: a trace `X.json` with its companion `X.retrieval.json`, and folders of them."""

import os
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from rote.bridges.folders import shown_name
from rote.errors import InvalidInput, InvalidValue, LimitExceeded, RoteError
from rote.retrieval.plain_files import NotPlainError, open_plain
from rote.traces import Failure, Report, check_trace, compare_traces
from rote.values import Json, decode
from rote.values.limits import (
    TRACE_BYTES_MAX,
    TRACE_DEPTH_MAX,
    TRACE_FOLDERS_DEPTH_MAX,
    TRACE_NAMES_MAX,
    TRACE_READ_BYTES_MAX,
)

_TRACE, _RETRIEVAL = ".json", ".retrieval.json"


class Pair(Struct, frozen=True):
    """Two traces of one name in two folders."""

    name: str  # relative to both folders, with slashes, in printable form
    report: Report


class TraceFile(Struct, frozen=True):
    """A file of a trace and the bytes that were read from it."""

    path: Path
    data: bytes

    def decoded(self) -> Json:
        return decode(self.data, size_bytes_max=TRACE_READ_BYTES_MAX, depth_max=TRACE_DEPTH_MAX)


def check_trace_file(
    path: Path, retrieval: Path | None = None, *, size_bytes_max: int = TRACE_BYTES_MAX
) -> Report:
    """Check the trace in a file; without a retrieval trace its companion is used, if there is one."""
    files = _read_named(path, retrieval)
    try:
        return check_trace(*_texts(files), size_bytes_max=size_bytes_max)
    except (InvalidValue, LimitExceeded) as error:
        raise _named(error, files) from None


def compare_trace_files(
    left: Path,
    right: Path,
    *,
    left_retrieval: Path | None = None,
    right_retrieval: Path | None = None,
    size_bytes_max: int = TRACE_BYTES_MAX,
) -> Report:
    """Compare the traces in two files, with their companions where no retrieval trace is named."""
    files = [*_read_named(left, left_retrieval), *_read_named(right, right_retrieval)]
    return _compare(files, size_bytes_max)


def compare_trace_folders(
    left: Path, right: Path, *, size_bytes_max: int = TRACE_BYTES_MAX
) -> Iterator[Pair]:
    """Compare each trace of either folder with its namesake in the other, in order of names.

    A trace that is alone or cannot be read is ineligible. InvalidInput when there is none at all.
    """
    lefts, rights = _traces_in(left), _traces_in(right)
    if not lefts and not rights:
        raise InvalidInput(f"there are no traces in {left} nor in {right}")
    for name in sorted(lefts.keys() | rights.keys()):
        shown = shown_name(name)
        if lefts.get(name) or rights.get(name):
            message = f"{shown} is a link to a folder; linked folders are not followed"
            yield Pair(shown, _ineligible("unreadable", message))
        elif name in lefts and name in rights:
            yield Pair(shown, _compare_found(left / name, right / name, size_bytes_max))
        else:
            side = "left" if name in lefts else "right"
            yield Pair(shown, _ineligible("unpaired", f"{shown} is only on the {side}"))


def _compare_found(left: Path, right: Path, size_bytes_max: int) -> Report:
    try:
        return _compare([*_read_found(left), *_read_found(right)], size_bytes_max)
    except RoteError as error:
        return _ineligible("unreadable", str(error))
    except OSError as error:
        return _ineligible("unreadable", f"{shown_name(str(error.filename))}: {error.strerror}")


def _compare(files: list[TraceFile | None], size_bytes_max: int) -> Report:
    left, left_retrieval, right, right_retrieval = _texts(files)
    try:
        return compare_traces(
            left,
            right,
            left_retrieval=left_retrieval,
            right_retrieval=right_retrieval,
            size_bytes_max=size_bytes_max,
        )
    except (InvalidValue, LimitExceeded) as error:
        raise _named(error, files) from None


def _ineligible(code: str, message: str) -> Report:
    return Report(False, "ineligible", (Failure(code, "", None, None, message),))


def _traces_in(folder: Path) -> dict[str, bool]:
    """Return the names of traces and of linked folders in a folder and below it; True marks a folder.

    Only the name decides whether a file is a trace. Companions and hidden files are left out.
    """
    found: dict[str, bool] = {}
    waiting, count = [(folder, "", 0)], 0
    while waiting:
        here, prefix, depth = waiting.pop()
        with os.scandir(here) as entries:
            for entry in entries:
                count += 1
                check_name_count(count)
                if entry.name.startswith("."):
                    continue
                name = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    if depth == TRACE_FOLDERS_DEPTH_MAX:
                        raise LimitExceeded("the folders in folders", size=depth + 1, limit=depth)
                    waiting.append((here / entry.name, f"{name}/", depth + 1))
                elif _is_folder(entry):
                    found[name] = True
                elif name.endswith(_TRACE):
                    found[name] = False
    return {name: linked for name, linked in found.items() if _owner_of(name) not in found}


def check_name_count(count: int) -> None:
    """Check that a folder has no more names than a walk may look at."""
    if count > TRACE_NAMES_MAX:
        raise LimitExceeded("the names in the folder", size=count, limit=TRACE_NAMES_MAX)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    """Whether an entry is a folder or a link to one; a link in a circle is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _owner_of(name: str) -> str | None:
    """Return the trace that a file is the companion of, by its name; None when it is none."""
    return name.removesuffix(_RETRIEVAL) + _TRACE if name.endswith(_RETRIEVAL) else None


def companion_of(path: Path) -> Path:
    """Return the path of the retrieval trace that belongs to a trace."""
    return path.with_name(path.name.removesuffix(_TRACE) + _RETRIEVAL)


def _read_named(path: Path, retrieval: Path | None) -> list[TraceFile | None]:
    """Read a trace and its retrieval trace, as a user names them: `<(zcat trace.json.gz)` is a pipe."""
    if retrieval is None:
        return [read_trace(path), _read_companion(path)]
    return [read_trace(path), read_trace(retrieval)]


def _read_found(path: Path) -> list[TraceFile | None]:
    """Read a trace that was found in a folder, and its retrieval trace; both must be plain files."""
    return [_read_plain(path), _read_companion(path)]


def _read_companion(path: Path) -> TraceFile | None:
    """Read the companion of a trace; None when there is none. One that cannot be read is an error."""
    companion = companion_of(path)
    is_there = companion != path and os.path.lexists(companion)
    return _read_plain(companion) if is_there else None


def _read_plain(path: Path) -> TraceFile:
    """Read a plain file; anything else is refused, because a pipe could block for ever."""
    try:
        with BufferedReader(open_plain(path)) as file:
            return TraceFile(path, _beginning(file))
    except NotPlainError:
        name = shown_name(str(path))
        raise InvalidInput(f"{name}: it is no plain file, so it is not read", path=name) from None


def read_trace(path: Path) -> TraceFile:
    """Read a file of any kind, pipes too."""
    with path.open("rb") as file:
        return TraceFile(path, _beginning(file))


def _beginning(file: BinaryIO) -> bytes:
    """Read one byte more than is allowed, so that the decoder refuses a trace that is too long."""
    return file.read(TRACE_READ_BYTES_MAX + 1)


def _texts(files: list[TraceFile | None]) -> list[bytes | None]:
    return [None if file is None else file.data for file in files]


def _named(error: RoteError, files: list[TraceFile | None]) -> RoteError:
    """Return the error with the name of its file; the files are decoded again to find it."""
    for file in files:
        if file is None:
            continue
        try:
            file.decoded()
        except RoteError as reason:
            name = shown_name(str(file.path))
            return InvalidInput(f"{name}: {reason}", path=name)
    return error
