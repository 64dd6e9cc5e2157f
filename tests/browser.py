"""Chromium of the system, driven over a pipe by its own protocol; no package is needed for it.

`ROTE_CHROMIUM` names the program, else it is looked for on the path. The summary of a test run
reports clearly when there is none (tests/conftest.py).
"""

import base64
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rote.values import canonical, decode

_NAMES = ("chromium", "chromium-browser", "google-chrome")
PROGRAM: str | None = os.environ.get("ROTE_CHROMIUM") or next(
    filter(None, map(shutil.which, _NAMES)), None
)
FOUND: bool = PROGRAM is not None
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run",
    "--hide-scrollbars", "--disable-background-networking", "--disable-component-update",
    "--disable-extensions", "--disable-sync", "--remote-debugging-pipe",
    # No name leads anywhere, whatever a page asks for.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
# The program reads from its descriptor 3 and writes to 4.
_START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4);"
    " os.execv(sys.argv[3], sys.argv[3:])"
)
_MESSAGE_BYTES_MAX = 64 * 1024 * 1024
Scheme = Literal["light", "dark"]


@dataclass
class Visit:
    """A page as the browser shows it, and what it did while it was loaded."""

    _browser: "Browser"
    _session: str
    requests: list[str] = field(default_factory=list)  # addresses, also of what was refused
    complaints: list[str] = field(default_factory=list)  # console and errors
    dialogs: list[str] = field(default_factory=list)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression on the page."""
        answer = self._browser.ask(
            "Runtime.evaluate", {"expression": expression, "returnByValue": True}, self._session
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path: Path) -> None:
        answer = self._browser.ask("Page.captureScreenshot", {"format": "png"}, self._session)
        path.write_bytes(base64.b64decode(answer["data"]))

    def note(self, method: str, told: Any) -> None:
        """Note an event of the page."""
        match method:
            case "Network.requestWillBeSent":
                self.requests.append(told["request"]["url"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded":
                self.complaints.append(str(told))
            case "Page.javascriptDialogOpening":
                self.dialogs.append(told["message"])
                self._browser.send("Page.handleJavaScriptDialog", {"accept": False}, self._session)


class Browser:
    """A running Chromium; one page at a time."""

    def __init__(self, folder: Path) -> None:
        assert PROGRAM is not None
        pipes = [os.pipe(), os.pipe()]
        # High ones, so that neither is in the way of 3 and 4.
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (pipes[0][0], pipes[1][1])]
        starter = [sys.executable, "-c", _START, *map(str, theirs)]
        arguments = [*starter, PROGRAM, *_FLAGS, f"--user-data-dir={folder}"]
        self._process = subprocess.Popen(
            arguments, pass_fds=theirs, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for descriptor in (*theirs, pipes[0][0], pipes[1][1]):
            os.close(descriptor)
        self._target = os.fdopen(pipes[0][1], "wb")
        self._source = os.fdopen(pipes[1][0], "rb")
        self._number = 0
        self._rest = b""
        self._visit: Visit | None = None

    def close(self) -> None:
        self.send("Browser.close", {})
        self._target.close()
        self._source.close()
        self._process.wait()

    @contextmanager
    def visit(
        self, path: Path, *, width: int = 1280, height: int = 800, scheme: Scheme = "light"
    ) -> Iterator[Visit]:
        """Open a file in a context of its own, and wait until it is loaded."""
        context = self.ask("Target.createBrowserContext", {})["browserContextId"]
        created = {"url": "about:blank", "browserContextId": context}
        target = self.ask("Target.createTarget", created)["targetId"]
        attached = self.ask("Target.attachToTarget", {"targetId": target, "flatten": True})
        session = attached["sessionId"]
        self._visit = Visit(self, session)
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable", {}, session)
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", {"features": media}, session)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", size, session)
        self.ask("Page.navigate", {"url": path.as_uri()}, session)
        self._wait("Page.loadEventFired")
        yield self._visit
        self._visit = None
        self.ask("Target.disposeBrowserContext", {"browserContextId": context})

    def ask(self, method: str, parameters: dict[str, Any], session: str | None = None) -> Any:
        """Send a command and return its result; events that come in between are noted."""
        number = self.send(method, parameters, session)
        while True:
            message = self._next()
            if message.get("id") == number:
                assert "result" in message, message
                return message["result"]

    def send(self, method: str, parameters: dict[str, Any], session: str | None = None) -> int:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._target.write(canonical(message) + b"\0")
        self._target.flush()
        return self._number

    def _wait(self, method: str) -> None:
        while self._next().get("method") != method:
            pass

    def _next(self) -> dict[str, Any]:
        """Return the next message; events of the page that is open are noted."""
        while b"\0" not in self._rest:
            data = os.read(self._source.fileno(), 1 << 20)
            assert data, "the browser has ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        message: Any = decode(line, size_bytes_max=_MESSAGE_BYTES_MAX)
        if "method" in message and self._visit is not None:
            self._visit.note(message["method"], message["params"])
        return dict(message)
