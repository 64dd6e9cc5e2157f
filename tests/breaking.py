"""A line between a client and a server that can be cut, held, and comes back. For tests of clients."""

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit


class BreakingLine:
    """Passes connections on to a server, until it is told otherwise."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = parts.hostname, parts.port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._is_down = False
        self._flows = threading.Event()  # cleared: bytes wait
        self._flows.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "BreakingLine":
        return self

    def __exit__(self, *_: object) -> None:
        self._flows.set()
        # A thread that waits in accept keeps the socket alive: this wakes it.
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def cut(self) -> None:
        """Break every connection; new ones are taken."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for each in pair:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()

    def go_down(self) -> None:
        """Break every connection, and those to come."""
        self._is_down = True
        self.cut()

    def come_back(self) -> None:
        self._is_down = False

    def hold(self) -> None:
        """Let all bytes wait."""
        self._flows.clear()

    def let_go(self) -> None:
        self._flows.set()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            if self._is_down:
                near.close()
                continue
            try:
                far = socket.create_connection(self._target)
            except OSError:
                near.close()
                continue
            self._pairs.append((near, far))
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self._flows.wait()
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
