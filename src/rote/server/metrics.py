"""Metrics of a server in the text format of Prometheus, version 0.0.4.

A label never takes a client's text: commands come from the table, statuses are numbers, reasons and
outcomes are codes of this program. What is counted is held in memory; a look costs nothing of the store.
"""

import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rote.errors import FINER_CODES, RoteError

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Upper bounds of histograms, in seconds.
BUCKETS = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    60.0,
)
OUTCOMES = ("committed", "conflict", "replayed", "refused")
OTHER = "other"

_HELP = {
    "rote_requests_total": ("counter", "Requests that were answered."),
    "rote_request_seconds": (
        "histogram",
        "Seconds from the head of a request to its answer's end.",
    ),
    "rote_refusals_total": ("counter", "Requests that were refused, by code."),
    "rote_commits_total": ("counter", "Commits that were asked for, by what became of them."),
    "rote_commit_seconds": ("histogram", "Seconds that a commit took in the store."),
    "rote_bytes_total": ("counter", "Bytes of bodies."),
    "rote_watch_frames_total": ("counter", "Frames that were sent to watches."),
    "rote_log_dropped_total": ("counter", "Lines of the access log that were dropped."),
    "rote_requests_in_flight": ("gauge", "Requests that run on a thread."),
    "rote_requests_waiting": ("gauge", "Requests that wait for a thread."),
    "rote_connections": ("gauge", "Open connections."),
    "rote_sessions": ("gauge", "Open sessions."),
    "rote_watches": ("gauge", "Open watches."),
    "rote_buffered_bytes": ("gauge", "Bytes of bodies and answers that are held in memory."),
    "rote_build_info": ("gauge", "1, with the version and the engine."),
    "process_cpu_seconds_total": ("counter", "Seconds of processor time."),
    "process_resident_memory_bytes": ("gauge", "Bytes of memory in use."),
    "process_open_fds": ("gauge", "Open files."),
    "process_start_time_seconds": ("gauge", "Start of the process, in seconds since the epoch."),
}

Labels = tuple[tuple[str, str], ...]


class Histogram:
    """Counts of durations below bounds, and their sum."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


class Metrics:
    """The counters of one server process. Any thread may count."""

    def __init__(
        self,
        commands: Sequence[str],
        *,
        version: str,
        engine: str,
        started: float = 0.0,
        gauges: Mapping[str, Callable[[], float]] | None = None,
    ) -> None:
        """`commands` are the names that a label may take; `gauges` are asked at each look."""
        self._commands = frozenset(commands)
        self._lock = threading.Lock()
        self._counters: dict[tuple[str, Labels], float] = {}
        self._histograms: dict[tuple[str, Labels], Histogram] = {}
        self._info: Labels = (("version", version), ("engine", engine))
        self._started = started
        self.gauges: dict[str, Callable[[], float]] = dict(gauges or {})
        for outcome in OUTCOMES:
            self._counters["rote_commits_total", (("outcome", outcome),)] = 0
        for direction in ("in", "out"):
            self._counters["rote_bytes_total", (("direction", direction),)] = 0
        self._counters["rote_log_dropped_total", ()] = 0

    def answered(
        self, command: str, status: int, seconds: float, *, code: str | None = None,
        bytes_in: int = 0, bytes_out: int = 0,
    ) -> None:  # fmt: skip
        """Count an answer; `code` is that of its error."""
        name = command if command in self._commands else OTHER
        with self._lock:
            self._add("rote_requests_total", (("command", name), ("status", str(int(status)))))
            self._observe("rote_request_seconds", (("command", name),), seconds)
            if code is not None:
                self._add("rote_refusals_total", (("reason", code if code in _CODES else OTHER),))
            self._add("rote_bytes_total", (("direction", "in"),), bytes_in)
            self._add("rote_bytes_total", (("direction", "out"),), bytes_out)

    def committed(self, outcome: str, seconds: float) -> None:
        """Count a commit that was asked for."""
        with self._lock:
            self._add("rote_commits_total", (("outcome", outcome),))
            self._observe("rote_commit_seconds", (), seconds)

    def count(self, name: str, by: int = 1) -> None:
        """Count something that has no labels."""
        with self._lock:
            self._add(name, (), by)

    def text(self) -> bytes:
        """Return everything that was counted."""
        with self._lock:
            counters = sorted(self._counters.items())
            histograms = sorted(
                (key, (list(each.counts), each.total)) for key, each in self._histograms.items()
            )
        lines = list(_counter_lines(counters))
        lines += _histogram_lines(histograms)
        gauges = {name: float(ask()) for name, ask in sorted(self.gauges.items())}
        for name, value in gauges.items() | process_gauges(self._started).items():
            lines += [*_heading(name), f"{name} {_number(value)}"]
        lines += [*_heading("rote_build_info"), f"rote_build_info{_shown(self._info)} 1"]
        return ("\n".join(lines) + "\n").encode()

    def _add(self, name: str, labels: Labels, by: float = 1) -> None:
        key = name, labels
        self._counters[key] = self._counters.get(key, 0) + by

    def _observe(self, name: str, labels: Labels, seconds: float) -> None:
        key = name, labels
        found = self._histograms.get(key)
        if found is None:
            found = self._histograms[key] = Histogram()
        found.add(seconds)


def process_gauges(started: float) -> dict[str, float]:
    """Return what the system says of this process; less of it where there is no /proc."""
    times = os.times()
    found = {
        "process_cpu_seconds_total": times.user + times.system,
        "process_start_time_seconds": started,
    }
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
        found["process_resident_memory_bytes"] = pages * os.sysconf("SC_PAGE_SIZE")
        found["process_open_fds"] = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    except OSError:
        pass
    return found


def _counter_lines(counters: Sequence[tuple[tuple[str, Labels], float]]) -> Iterator[str]:
    before = None
    for (name, labels), value in counters:
        if name != before:
            yield from _heading(name)
            before = name
        yield f"{name}{_shown(labels)} {_number(value)}"


def _histogram_lines(
    histograms: Sequence[tuple[tuple[str, Labels], tuple[list[int], float]]],
) -> Iterator[str]:
    before = None
    for (name, labels), (counts, total) in histograms:
        if name != before:
            yield from _heading(name)
            before = name
        below = 0
        for bound, count in zip((*map(_number, BUCKETS), "+Inf"), counts, strict=True):
            below += count
            yield f"{name}_bucket{_shown((*labels, ('le', bound)))} {below}"
        yield f"{name}_sum{_shown(labels)} {_number(total)}"
        yield f"{name}_count{_shown(labels)} {below}"


def _heading(name: str) -> tuple[str, str]:
    kind, words = _HELP[name]
    return f"# HELP {name} {words}", f"# TYPE {name} {kind}"


def _shown(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}" if labels else ""


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _codes() -> frozenset[str]:
    codes, waiting = set(FINER_CODES), [RoteError]
    while waiting:
        kind = waiting.pop()
        codes.add(kind.code)
        waiting += kind.__subclasses__()
    return frozenset(codes)


_CODES = _codes()
