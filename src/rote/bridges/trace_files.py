"""Traces in files: a trace `X.json` with its companion `X.retrieval.json`, and folders of them."""

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from rote.bridges.folders import shown_name
from rote.errors import InvalidInput, InvalidValue, LimitExceeded, RoteError
from rote.traces import Failure, Report, check_trace, compare_traces
from rote.values import decode
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

    name: str  # relative to both folders, with slashes; as it can be told
    report: Report


def check_trace_file(
    path: Path, retrieval: Path | None = None, *, size_bytes_max: int = TRACE_BYTES_MAX
) -> Report:
    """check_trace of files; without a retrieval trace the companion is used, if there is one."""
    files = _files_of(path, retrieval)
    texts = [_read(file) for file in files]
    try:
        return check_trace(*texts, size_bytes_max=size_bytes_max)
    except (InvalidValue, LimitExceeded) as error:
        raise _named(error, files, texts) from None


def compare_trace_files(
    left: Path,
    right: Path,
    *,
    left_retrieval: Path | None = None,
    right_retrieval: Path | None = None,
    size_bytes_max: int = TRACE_BYTES_MAX,
) -> Report:
    """compare_traces of files, with their companions where no retrieval trace is named."""
    files = [*_files_of(left, left_retrieval), *_files_of(right, right_retrieval)]
    texts = [_read(file) for file in files]
    try:
        return compare_traces(
            texts[0],
            texts[2],
            left_retrieval=texts[1],
            right_retrieval=texts[3],
            size_bytes_max=size_bytes_max,
        )
    except (InvalidValue, LimitExceeded) as error:
        raise _named(error, files, texts) from None


def compare_trace_folders(
    left: Path, right: Path, *, size_bytes_max: int = TRACE_BYTES_MAX
) -> Iterator[Pair]:
    """Every trace of either folder with the one of the same name in the other, in order of names.

    A trace that is alone or cannot be read is ineligible. InvalidInput when there is none at all.
    """
    lefts, rights = _traces_in(left), _traces_in(right)
    if not lefts and not rights:
        raise InvalidInput(f"there are no traces in {left} nor in {right}")
    for name in sorted(lefts | rights):
        shown = shown_name(name)
        if name in lefts and name in rights:
            yield Pair(shown, _compare(left / name, right / name, size_bytes_max))
        else:
            side = "left" if name in lefts else "right"
            yield Pair(shown, _ineligible("unpaired", f"{shown} is only on the {side}"))


def _compare(left: Path, right: Path, size_bytes_max: int) -> Report:
    try:
        return compare_trace_files(left, right, size_bytes_max=size_bytes_max)
    except RoteError as error:
        return _ineligible("unreadable", str(error))
    except OSError as error:
        return _ineligible("unreadable", f"{shown_name(str(error.filename))}: {error.strerror}")


def _ineligible(code: str, message: str) -> Report:
    return Report(False, "ineligible", (Failure(code, "", None, None, message),))


def _traces_in(folder: Path) -> set[str]:
    """The traces in a folder and below it; a companion is no trace, what is hidden stays hidden."""
    found: set[str] = set()
    waiting, count = [(folder, "", 0)], 0
    while waiting:
        here, prefix, depth = waiting.pop()
        with os.scandir(here) as entries:
            for entry in entries:
                count += 1
                if count > TRACE_NAMES_MAX:
                    raise LimitExceeded(
                        "the names in the folder", size=count, limit=TRACE_NAMES_MAX
                    )
                if entry.name.startswith("."):
                    continue
                name = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    if depth == TRACE_FOLDERS_DEPTH_MAX:
                        raise LimitExceeded("the folders in folders", size=depth + 1, limit=depth)
                    waiting.append((here / entry.name, f"{name}/", depth + 1))
                elif name.endswith(_TRACE) and entry.is_file():
                    found.add(name)
    return {name for name in found if _owner_of(name) not in found}


def _owner_of(name: str) -> str | None:
    """The trace that a file is the companion of, if it is called like one."""
    return name.removesuffix(_RETRIEVAL) + _TRACE if name.endswith(_RETRIEVAL) else None


def companion_of(path: Path) -> Path:
    """Where the retrieval trace of a trace lies."""
    return path.with_name(path.name.removesuffix(_TRACE) + _RETRIEVAL)


def _files_of(path: Path, retrieval: Path | None) -> list[Path | None]:
    if retrieval is not None:
        return [path, retrieval]
    companion = companion_of(path)
    # What is no file is no trace: a pipe would never end.
    return [path, companion if companion != path and companion.is_file() else None]


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    with path.open("rb") as file:
        # One byte more than is allowed, so that the decoder sees that it is too long.
        return file.read(TRACE_READ_BYTES_MAX + 1)


def _named(error: RoteError, files: list[Path | None], texts: list[bytes | None]) -> RoteError:
    """The error with the file that it is about, which is looked for only now."""
    for file, text in zip(files, texts, strict=True):
        if text is None:
            continue
        try:
            decode(text, size_bytes_max=TRACE_READ_BYTES_MAX, depth_max=TRACE_DEPTH_MAX)
        except RoteError as reason:
            name = shown_name(str(file))
            return InvalidInput(f"{name}: {reason}", path=name)
    return error
