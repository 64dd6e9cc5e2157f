"""Timelines from files: a trace with what lies beside it."""

from pathlib import Path

from rote.bridges.trace_files import companion_of, read_trace
from rote.traces.timeline import Timeline, make_timeline


def read_timeline(path: Path, retrieval: Path | None, recording: Path | None) -> Timeline:
    """Read a trace and what belongs to it; files that are not named are looked for beside it."""
    path = path / "trace.json" if path.is_dir() else path
    asked = companion_of(path) if retrieval is None else retrieval
    beside = path.with_name("recording.jsonl") if recording is None else recording
    return make_timeline(
        read_trace(path).data,
        read_trace(asked).data if asked.exists() else None,
        beside.read_bytes() if beside.exists() else None,
    )
