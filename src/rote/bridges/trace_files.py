"""Traces in files: a trace `X.json` with its companion `X.retrieval.json`.

The trace of a run that has not ended, or was killed, is `trace.partial.jsonl`, which holds both. A
recording beside a trace, `X.recording.jsonl` or `recording.jsonl`, shows values if the trace names its
digest.
"""

import os
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from rote.bridges.folders import shown_name
from rote.errors import InvalidInput, InvalidValue, LimitExceeded, RoteError
from rote.recordings.recordings import PARTIAL_ENDING
from rote.retrieval.plain_files import NotPlainError, open_plain
from rote.runs.identities import parse_snapshot_id, payload_fingerprint
from rote.runs.trace_files import PARTIAL_NAME, RECORDING_NAME, TRACE_NAME
from rote.traces import Report
from rote.traces.checking import Examination, check_trace
from rote.traces.comparing import compare_runs
from rote.traces.partial import read_partial
from rote.traces.recorded_calls import KeptSource, Source
from rote.traces.reports import Level
from rote.traces.timeline import Timeline, make_timeline
from rote.values import Json, decode
from rote.values.limits import (
    RECORDING_LINE_BYTES_MAX,
    TRACE_BYTES_MAX,
    TRACE_DEPTH_MAX,
    TRACE_READ_BYTES_MAX,
)

TRACE_ENDING, RETRIEVAL_ENDING, _PARTIAL = ".json", ".retrieval.json", ".partial.jsonl"


class TraceFile(Struct, frozen=True):
    """A file of a trace and the bytes that were read from it."""

    path: Path
    data: bytes

    def decoded(self) -> Json:
        return decode(self.data, size_bytes_max=TRACE_READ_BYTES_MAX, depth_max=TRACE_DEPTH_MAX)


class RunFiles(Struct, frozen=True):
    """The files of one run."""

    trace: TraceFile
    retrieval: TraceFile | None
    recording: Source | None

    def artifacts(self) -> tuple[Json, Json]:
        """Return trace and retrieval trace, as text or as plain data."""
        if not is_partial(self.trace.path):
            return self.trace.data, None if self.retrieval is None else self.retrieval.data
        try:
            # Of one that is too long, the last line that was read is half a line.
            trace, retrieval = read_partial(self.trace.data[:TRACE_READ_BYTES_MAX])
        except RoteError as error:
            raise _in_file(self.trace.path, error) from None
        return trace, retrieval


def check_trace_file(
    path: Path, retrieval: Path | None = None, *, size_bytes_max: int = TRACE_BYTES_MAX
) -> Report:
    """Check the trace in a file; without a retrieval trace its companion is used, if there is one."""
    files = read_named(path, retrieval)
    try:
        return check_trace(*files.artifacts(), size_bytes_max=size_bytes_max)
    except (InvalidValue, LimitExceeded) as error:
        raise _named(error, files) from None


def read_timeline(
    path: Path, retrieval: Path | None = None, recording: Path | None = None
) -> Timeline:
    """Read a run as a timeline, with the files beside its trace where no others are named."""
    return timeline_of(read_named(path, retrieval, recording))


def timeline_of(files: RunFiles) -> Timeline:
    """Return the timeline of a run whose files were read."""
    is_unended = is_partial(files.trace.path)
    try:
        run = make_timeline(*files.artifacts(), files.recording, is_partial=is_unended)
    except (InvalidValue, LimitExceeded) as error:
        raise _named(error, files) from None
    return replace(run, writes_nothing=_writes_nothing(run))


def _writes_nothing(run: Timeline) -> bool:
    try:
        branch = parse_snapshot_id(run.memory_snapshot_id).branch
    except InvalidInput:  # of another program
        return False
    return run.commit_payload_fingerprint == payload_fingerprint(branch, [])


def trace_in(folder: Path) -> Path:
    """Return the file of the trace in the folder of a run, also of one that has not ended."""
    for name in (TRACE_NAME, PARTIAL_NAME):
        # A partial file without a line is of a run that never began.
        if (folder / name).is_file() and (folder / name).stat().st_size:
            return folder / name
    raise InvalidInput(
        f"{folder} is a folder without a {TRACE_NAME}; name the file of a trace, or compare two"
        " folders with rote trace compare"
    )


def compare_files(files: tuple[RunFiles, RunFiles], level: Level, size_bytes_max: int) -> Report:
    """Compare two runs whose files were read; an error names the file that cannot be decoded."""
    left, right = (each.artifacts() for each in files)
    try:
        return compare_runs(
            Examination(*left, size_bytes_max, parameter="left_retrieval"),
            Examination(*right, size_bytes_max, parameter="right_retrieval"),
            (files[0].recording, files[1].recording),
            level,
        )
    except (InvalidValue, LimitExceeded) as error:
        raise _named(error, *files) from None


def companion_of(path: Path) -> Path:
    """Return the path of the retrieval trace that belongs to a trace."""
    return path.with_name(path.name.removesuffix(TRACE_ENDING) + RETRIEVAL_ENDING)


def read_named(
    path: Path,
    retrieval: Path | None = None,
    recording: Path | None = None,
    *,
    keeps_recording: bool = False,
) -> RunFiles:
    """Read a trace and its retrieval trace, as a user names them: `<(zcat trace.json.gz)` is a pipe.

    The files beside the trace are taken where no others are named.

    keeps_recording  whether the recording, which is read later, can be read more than once
    """
    if retrieval is not None and is_partial(path):
        raise InvalidInput(
            f"{shown_name(str(path))} holds its retrievals; name no other file for them"
        )
    source = recording_beside(path) if recording is None else named_recording(recording)
    other = _read_companion(path) if retrieval is None else read_trace(retrieval)
    if keeps_recording and source is not None:
        source = KeptSource(source)
    return RunFiles(read_trace(path), other, source)


def read_found(path: Path) -> RunFiles:
    """Read a trace that was found in a folder, and its retrieval trace; both must be plain files."""
    return RunFiles(read_plain(path), _read_companion(path), recording_beside(path))


def is_partial(path: Path) -> bool:
    return path.name.endswith(_PARTIAL)


def recording_of(path: Path) -> Path:
    """Return the path of the recording that is kept under the name of its trace."""
    return path.with_name(f"{path.name.removesuffix(TRACE_ENDING)}.{RECORDING_NAME}")


def named_recording(path: Path) -> Source:
    """Return the recording in a file of any kind, which is opened when it is read."""

    def lines() -> Iterator[bytes]:
        with path.open("rb") as file:
            yield from _lines(file)

    return Source(lines(), shown_name(str(path)))


def recording_beside(path: Path) -> Source | None:
    """Return the recording beside a trace, if there is one; it is opened when it is needed."""
    names = (recording_of(path).name, RECORDING_NAME, RECORDING_NAME + PARTIAL_ENDING)
    places = [path.with_name(name) for name in names]
    place = next((place for place in places if os.path.lexists(place)), None)
    if place is None:
        return None

    def lines() -> Iterator[bytes]:
        try:
            with BufferedReader(open_plain(place)) as file:
                yield from _lines(file)
        except OSError as error:
            raise InvalidInput(f"it cannot be read: {error.strerror or error}") from None

    return Source(lines(), shown_name(str(place)), is_named=False)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; one that is too long comes in pieces, the first of them too long."""
    while line := file.readline(RECORDING_LINE_BYTES_MAX + 1):
        yield line


def _read_companion(path: Path) -> TraceFile | None:
    """Read the companion of a trace; None when there is none. One that cannot be read is an error."""
    companion = companion_of(path)
    is_there = companion != path and os.path.lexists(companion)
    return read_plain(companion) if is_there else None


def read_plain(path: Path) -> TraceFile:
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


def _named(error: RoteError, *sides: RunFiles) -> RoteError:
    """Return the error with the name of its file; the files are decoded again to find it."""
    for file in (file for side in sides for file in (side.trace, side.retrieval)):
        if file is None or is_partial(file.path):
            continue
        try:
            file.decoded()
        except RoteError as reason:
            return _in_file(file.path, reason)
    return error


def _in_file(path: Path, reason: RoteError) -> InvalidInput:
    name = shown_name(str(path))
    return InvalidInput(f"{name}: {reason}", path=name)
