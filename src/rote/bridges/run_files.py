"""Files of a run: `<traces>/<run_id>/` with its traces and its recording, whole or cut short.

trace.json, trace.retrieval.json, recording.jsonl          after its end
trace.partial.jsonl, recording.jsonl.partial               while it goes on, or after a kill
"""

import os
from pathlib import Path

from msgspec import Struct

from rote.bridges.folders import shown_name
from rote.bridges.trace_files import is_partial, read_plain, trace_in
from rote.bridges.trace_folders import check_name_count
from rote.errors import InvalidInput, NotFound, RoteError
from rote.recordings.recordings import PARTIAL_ENDING
from rote.runs.trace_files import (
    PARTIAL_NAME,
    RECORDING_NAME,
    RETRIEVAL_NAME,
    TRACE_NAME,
)
from rote.traces.artifacts import member, members
from rote.traces.partial import read_partial
from rote.values import Json, check_run_id
from rote.values.names import told

# Kinds in the order in which people look at them, and the names of their files.
_NAMES = {
    "trace": TRACE_NAME,
    "retrieval": RETRIEVAL_NAME,
    "recording": RECORDING_NAME,
    "partial trace": PARTIAL_NAME,
    "partial recording": RECORDING_NAME + PARTIAL_ENDING,
}

# Members of the metadata of a trace that say what its run was.
_TOLD = (
    "model", "model_fixed", "tools", "replayed", "recording", "truncated", "events_dropped",
)  # fmt: skip


class RunFile(Struct, frozen=True):
    """One file of a run."""

    kind: str  # trace, retrieval, recording, partial trace or partial recording
    path: Path
    size_bytes: int

    def to_dict(self) -> dict[str, Json]:
        path = shown_name(str(self.path))
        return {"kind": self.kind, "path": path, "size_bytes": self.size_bytes}


def files_of(folder: Path) -> list[RunFile]:
    """Return the files in the folder of a run; none where there is no folder."""
    found = []
    for kind, name in _NAMES.items():
        try:
            found.append(RunFile(kind, folder / name, (folder / name).stat().st_size))
        except (FileNotFoundError, NotADirectoryError):
            pass  # there is none, or the run has just ended and the file has its last name
    return found


def read_run_trace(path: Path) -> Json:
    """Return the trace in a file of a run, also in a partial one."""
    file = read_plain(path)
    if not is_partial(path):
        return file.decoded()
    trace, _ = read_partial(file.data)
    return trace


def summary_of(path: Path) -> dict[str, Json]:
    """Return what a trace says of its run, as far as it can be read and says it."""
    try:
        trace = read_run_trace(path)
    except (OSError, RoteError) as error:
        return {"error": f"{path} cannot be read: {error}"}
    metadata, events = member(trace, "metadata"), members(trace, "events")
    raised = member(metadata, "error")
    said = {name: metadata[name] for name in _TOLD if type(metadata) is dict and name in metadata}
    return {
        "events": len(events),
        "tool_calls": sum(len(members(event, "tool_calls")) for event in events),
        "output_type": member(member(trace, "output"), "output_type"),
        **said,
        **({"raised": raised} if type(raised) is str else {}),
    }


def find_trace(traces: Path, run_id: str) -> Path:
    """Return the file of the trace of a run in a folder of traces.

    run_id  an id, or how one begins; NotFound when none begins so, InvalidInput when several do
    """
    return trace_in(_find_folder(traces, run_id))


def _find_folder(traces: Path, run_id: str) -> Path:
    check_run_id(run_id)
    if (traces / run_id).is_dir():
        return traces / run_id
    found = sorted(name for name in _names_in(traces) if name.startswith(run_id))
    if not found:
        raise NotFound(f"no run in {traces} begins with {run_id}", run_id=run_id)
    if len(found) > 1:
        raise InvalidInput(
            f"{len(found):,} runs in {traces} begin with {run_id}; {told(found)}", run_id=run_id
        )
    return traces / found[0]


def _names_in(traces: Path) -> list[str]:
    names = []
    try:
        with os.scandir(traces) as entries:
            for count, entry in enumerate(entries, 1):
                check_name_count(count)
                if entry.is_dir():
                    names.append(entry.name)
    except FileNotFoundError:
        pass  # no run has written a trace yet
    return names
