"""Killing a writer: run it, end it with SIGKILL in the middle of its work, keep what it was told."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rote.errors import invariant

# A writer that has said nothing new by then is ended, so that nobody waits for ever.
_SECONDS_MAX = 30.0


def kill_writer(path: Path, *, after: int) -> dict[int, str]:
    """Start a writer, kill it after so many acknowledged commits; all that it was told, by version.

    Lines that were on their way when it died count: it had been told before it wrote them.
    """
    with _started(path) as (process, lines):
        acknowledged = dict(_parse(line) for _, line in zip(range(after), lines, strict=False))
        invariant(process.poll() is None, "the writer ended before it was killed")
        process.kill()
        acknowledged.update(_parse(line) for line in lines)
    return acknowledged


@contextmanager
def _started(path: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A writer that is gone when the block ends, however it ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rote.cli.demo.writer", str(path)],
        cwd=path.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        # Ctrl-C is for the story, which then ends the writer.
        start_new_session=True,
    )
    watchdog = threading.Timer(_SECONDS_MAX, process.kill)
    watchdog.daemon = True
    with process:
        watchdog.start()
        try:
            assert process.stdout is not None
            yield process, process.stdout
        finally:
            watchdog.cancel()
            process.kill()


def _parse(line: str) -> tuple[int, str]:
    version, hash = line.split()
    return int(version), hash
