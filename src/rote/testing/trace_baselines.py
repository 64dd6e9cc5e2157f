"""A pytest plugin that compares the trace of a run with the one that was kept from a good run.

    # conftest.py
    pytest_plugins = ["rote.testing.trace_baselines"]

    def test_triage(trace_baseline):
        ...
        trace_baseline.check("triage", run.trace, run.retrieval_trace)

With `recording=path` (the file that `space.run(record=path)` wrote) the recording is kept too, and a
failure shows the values that differ; with `level="full"` writes, replies of the model and scores are
compared too.

`pytest --trace-baselines DIR` says where they are kept (default: `trace_baselines`); a relative DIR
begins at pytest's rootdir, wherever pytest is started. `pytest --update-traces` keeps those of this
run instead. A conftest names the plugin, and it has no entry point. So only projects that use it
pay for importing Rote.
"""

import os
import re
import shutil
from pathlib import Path

import pytest

from rote.bridges.trace_files import (
    companion_of,
    named_recording,
    recording_beside,
    recording_of,
)
from rote.traces import Failure, Report, check_trace
from rote.traces.checking import Examination
from rote.traces.comparing import compare_runs
from rote.traces.reports import Level
from rote.values import Json, canonical
from rote.values.limits import TRACE_BYTES_MAX, TRACE_DEPTH_MAX

_FAILURES_SHOWN = 20
_OTHER_SNAPSHOT = "envelope_mismatch:memory_snapshot_id"
_SNAPSHOT_ADVICE = (
    "the memory that the run began with has another history: seed it with"
    ' rote.open(clock=FixedClock(), ids=SeededIds(7)), see "A gate for CI" in docs/traces.md;'
    " or keep the new trace with --update-traces if you have changed what is seeded"
)
_COMPANION_ENDING = ".retrieval"  # before .json
_name = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}").fullmatch


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rote")
    group.addoption(
        "--trace-baselines", metavar="DIR", help="where traces to compare with are, from rootdir"
    )
    group.addoption("--update-traces", action="store_true", help="keep the traces of this run")


class TraceBaseline:
    """The kept traces in a folder, to compare runs with."""

    def __init__(self, folder: Path, *, is_updating: bool) -> None:
        self.folder = folder
        self._is_updating = is_updating

    def check(
        self,
        name: str,
        trace: Json,
        retrieval: Json = None,
        *,
        recording: str | os.PathLike[str] | None = None,
        level: Level = "contract",
        size_bytes_max: int = TRACE_BYTES_MAX,
    ) -> None:
        """Fail the test unless the run did the same as the one whose trace is kept under the name."""
        if type(name) is not str or not _name(name) or name.endswith(_COMPANION_ENDING):
            pytest.fail(
                f"{name!r:.120} is no name for a trace: use a text of up to 100 letters, digits, . _ -"
                f" that does not end in {_COMPANION_ENDING}, as the retrieval traces do",
                pytrace=False,
            )
        path = self.folder / f"{name}.json"
        if self._is_updating:
            _judge(check_trace(trace, retrieval, size_bytes_max=size_bytes_max), name)
            self._keep(path, trace, retrieval, recording)
            return
        if not path.exists():
            pytest.fail(f"there is no {path}; keep one with --update-traces", pytrace=False)
        companion = companion_of(path)
        kept = companion.read_bytes() if companion.exists() else None
        report = compare_runs(
            Examination(path.read_bytes(), kept, size_bytes_max, parameter="left_retrieval"),
            Examination(trace, retrieval, size_bytes_max, parameter="retrieval"),
            (
                recording_beside(path),
                None if recording is None else named_recording(Path(recording)),
            ),
            level,
        )
        _judge(report, name)

    def _keep(
        self, path: Path, trace: Json, retrieval: Json, recording: str | os.PathLike[str] | None
    ) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_text(trace))
        if retrieval is None:
            companion_of(path).unlink(missing_ok=True)
        else:
            companion_of(path).write_bytes(_text(retrieval))
        if recording is None:
            recording_of(path).unlink(missing_ok=True)
        else:
            shutil.copyfile(recording, recording_of(path))


@pytest.fixture
def trace_baseline(request: pytest.FixtureRequest) -> TraceBaseline:
    """Return the kept traces, to compare this test's runs with."""
    folder = request.config.getoption("--trace-baselines") or "trace_baselines"
    is_updating = bool(request.config.getoption("--update-traces"))
    return TraceBaseline(request.config.rootpath / folder, is_updating=is_updating)


def _judge(report: Report, name: str) -> None:
    if report.ok:
        return
    shown = [_told(each) for each in report.failures]
    rest = len(shown) + report.more - _FAILURES_SHOWN
    more = [f"and {rest:,} more"] if rest > 0 else []
    is_elsewhere = any(each.code == _OTHER_SNAPSHOT for each in report.failures)
    advice = [_SNAPSHOT_ADVICE] if is_elsewhere else []
    lines = [f"the trace {name} is {report.status}", *shown[:_FAILURES_SHOWN], *more, *advice]
    pytest.fail("\n".join(lines), pytrace=False)


def _told(failure: Failure) -> str:
    """Return a failure in words, with the values of both runs where recordings have them."""
    words = f"{failure.code} at {failure.pointer}: {failure.message}"
    if not failure.has_values:
        return words
    values = (
        f"  {name} {'unknown' if value is None else value if value.isprintable() else ascii(value)}"
        for name, value in (("kept:", failure.left_value), ("now: ", failure.right_value))
    )
    return "\n".join([words, *values])


def _text(artifact: Json) -> bytes:
    """Return the bytes to keep: text as it is, or the canonical form of data."""
    if isinstance(artifact, str):
        return artifact.encode()
    if isinstance(artifact, bytes):
        return artifact
    return canonical(artifact, depth_max=TRACE_DEPTH_MAX)
