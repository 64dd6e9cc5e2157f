"""Processes that are killed in the middle of their work.

A child prints one output line for each write that the store has acknowledged to it. After SIGKILL
at any moment, every acknowledged write must be in the store. Output that was still in the pipe when
the child died counts too: the store had answered before the child printed it.

The child leads a process group of its own and the whole group is killed, so that nothing outlives
a test, however it ends.
"""

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

_READ_SIZE_BYTES = 65_536
_ERROR_OUTPUT_BYTES_MAX = 4_000
# Seconds that a killed group may take to end, with its output.
_DRAIN_SECONDS_MAX = 10.0


def run_until_killed(
    argv: Sequence[str],
    *,
    acknowledgements: int,
    delay_seconds_max: float = 0.0,
    seed: int = 0,
    timeout_seconds: float = 60.0,
    cwd: Path | str | None = None,
) -> tuple[str, ...]:
    """Run a child, kill -9 it after so many lines of output, and return all lines that it printed.

    With `delay_seconds_max` the kill comes at a moment after that line, drawn from the seed. A
    child that ends before it is killed is an AssertionError: it proved nothing.
    """
    with ChildProcess(argv, timeout_seconds=timeout_seconds, cwd=cwd) as child:
        child.read_until(acknowledgements)
        if delay_seconds_max > 0:
            child.read_for(Random(seed).uniform(0, delay_seconds_max))
        return child.kill()


class ChildProcess:
    """A child to be killed; use it directly when several run at once."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float = 60.0,
        cwd: Path | str | None = None,
        ahead_bytes: int = -1,
    ) -> None:
        """Start the child.

        ahead_bytes  output that nobody has read yet and for which the child does not wait, where
                     the system lets one choose: 4,096 at least; -1 for what it usually is
        """
        # Whole lines that the child printed, as far as they were read.
        self.acknowledged: list[str] = []
        self._unfinished_line = b""
        self._deadline = time.monotonic() + timeout_seconds
        # A file, not a pipe: a child that writes many errors must not wait for a reader.
        self._error_output = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        try:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._error_output,
                start_new_session=True,
                cwd=cwd,
                pipesize=ahead_bytes,
            )
        except BaseException:
            self._error_output.close()
            raise
        assert self._process.stdout is not None
        self._output = self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def read_until(self, acknowledgements: int) -> None:
        """Read until the child has printed so many lines in all."""
        while len(self.acknowledged) < acknowledgements:
            if time.monotonic() >= self._deadline:
                raise AssertionError(self._complaint("timed out (does it flush its output?)"))
            if not self._read(self._deadline):
                raise AssertionError(self._complaint("ended by itself"))

    def read_for(self, seconds: float) -> None:
        """Read what the child prints within a time."""
        moment = min(time.monotonic() + seconds, self._deadline)
        while time.monotonic() < moment:
            if not self._read(moment):
                raise AssertionError(self._complaint("ended by itself"))

    def send(self, number: int) -> None:
        """Send the child a signal."""
        self._process.send_signal(number)

    def kill(self) -> tuple[str, ...]:
        """Kill -9 the child and all it started; return every whole line it ever printed."""
        if self._process.returncode is None:
            self._end()
            if self._process.returncode != -signal.SIGKILL:
                code = self._process.returncode
                raise AssertionError(f"the child ended by itself with {code} before it was killed")
        return tuple(self.acknowledged)

    def _end(self) -> None:
        try:
            # The child is reaped only after this, so the number still names this group and no other.
            if self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait(_DRAIN_SECONDS_MAX)
                self._drain()
        finally:
            self._output.close()
            self._error_output.close()

    def _drain(self) -> None:
        end = time.monotonic() + _DRAIN_SECONDS_MAX
        while time.monotonic() < end:
            if not self._read(end):
                return
        raise AssertionError("the child is dead, yet something it started holds its output open")

    def _read(self, until: float) -> bool:
        """Read what is printed up to a moment; return False once the output has ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            if not selector.select(max(0.0, until - time.monotonic())):
                return True
        chunk = os.read(self._output.fileno(), _READ_SIZE_BYTES)
        *lines, self._unfinished_line = (self._unfinished_line + chunk).split(b"\n")
        self.acknowledged.extend(line.decode() for line in lines)
        return bool(chunk)

    def _complaint(self, what: str) -> str:
        self._error_output.seek(0)
        errors = self._error_output.read()[-_ERROR_OUTPUT_BYTES_MAX:].decode(errors="replace")
        return f"the child {what} after {len(self.acknowledged)} acknowledgements:\n{errors}"
