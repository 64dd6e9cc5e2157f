"""Servers in processes of their own, as `rote serve` starts them."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rote.values import decode
from tests.wires import Wire

END_SECONDS_MAX = 60


class ServerProcess:
    """A server that can be asked, stopped and killed; a context manager that kills it."""

    def __init__(self, store: Path | str, *options: str, port: int = 0) -> None:
        # A file, not a pipe: a server that says much must not wait for a reader.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rote", "serve", "--json", "--store", str(store),
             "--port", str(port), "--access-log", "none", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._said,
            start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise AssertionError(self.said)
        told: Any = decode(line)
        self.url: str = told["url"]
        self.token: str = told["token"]
        self.told = told
        self.pid = self._process.pid

    def __enter__(self) -> "ServerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def wire(self) -> Wire:
        return Wire(self.url, self.token)

    def kill(self) -> None:
        """End it as a crash would, unless it has ended already."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._said.close()

    @property
    def said(self) -> str:
        """Return what it has said on stderr."""
        self._said.seek(0)
        return self._said.read().decode()

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Wait for its end; return its exit code and what it said on stderr."""
        self._process.wait(END_SECONDS_MAX)
        return self._process.returncode, self.said

    # -- what it uses ----------------------------------------------------------------------------------

    @property
    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))

    @property
    def files(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    @property
    def memory_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
