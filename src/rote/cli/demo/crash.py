"""A writer that is killed with SIGKILL in the middle of its work, and the commits it was told of."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rote.errors import invariant

# A writer that runs longer is killed, so that nobody waits for ever.
_SECONDS_MAX = 30.0


def kill_writer(path: Path, *, after: int) -> dict[int, str]:
    """Start a writer and kill it after `after` commits; return the hashes it was told, by version.

    Lines that were still in the pipe when it died count: it had been told before it wrote them.
    """
    with _started(path) as (process, lines):
        acknowledged = dict(_parse(line) for _, line in zip(range(after), lines, strict=False))
        invariant(process.poll() is None, "the writer ended before it was killed")
        process.kill()
        acknowledged.update(_parse(line) for line in lines)
    return acknowledged


@contextmanager
def _started(path: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """Start a writer; it is killed when the block ends, even by an error."""
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
