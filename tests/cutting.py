"""A server of a few lines between a client and a real one: it cuts lines where a test says."""

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

# What is done with one connection of the client; it ends with the function.
Plan = Callable[[socket.socket, "Between"], None]


class Between:
    """Listens for a client; each of its connections follows the next plan, or is passed on whole."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._place = parts.hostname, parts.port
        self._host = parts.netloc.encode()
        self.plans: deque[Plan] = deque()
        self.requests: list[bytes] = []  # as they came, whole
        self.connections = 0  # that were accepted
        self.hung_up = threading.Semaphore(0)  # released when a connection has ended
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._own = b"127.0.0.1:%d" % self._listening.getsockname()[1]
        self.url = f"http://{self._own.decode()}"
        self._thread = threading.Thread(target=self._serve, name="between")
        self._thread.start()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    def _serve(self) -> None:
        threads = []
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                break
            self.connections += 1
            plan = self.plans.popleft() if self.plans else passed
            threads.append(threading.Thread(target=self._follow, args=(plan, client)))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def _follow(self, plan: Plan, client: socket.socket) -> None:
        with client, suppress(OSError):
            plan(client, self)
        self.hung_up.release()

    def take(self, client: socket.socket) -> bytes:
        """Return the next request of a client; none when it has hung up."""
        data = b""
        while b"\r\n\r\n" not in data:
            data = _more(client, data)
            if not data:
                return b""
        head, _, body = data.partition(b"\r\n\r\n")
        size = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                size = int(line.partition(b":")[2])
        while len(body) < size:
            body = _more(client, body)
        self.requests.append(head + b"\r\n\r\n" + body)
        return self.requests[-1]

    def ask(self, request: bytes) -> bytes:
        """Return the server's answer to a request."""
        request = request.replace(self._own, self._host, 1)
        head, _, body = request.partition(b"\r\n\r\n")
        with socket.create_connection(self._place, 30) as server:
            server.sendall(head + b"\r\nconnection: close\r\n\r\n" + body)
            answer = b""
            while data := server.recv(1 << 16):
                answer += data
        return answer.replace(b"connection: close\r\n", b"")


def _more(client: socket.socket, data: bytes) -> bytes:
    found = client.recv(1 << 16)
    return data + found if found else b""


# -- plans -----------------------------------------------------------------------------------------


def passed(client: socket.socket, between: Between) -> None:
    """Pass everything on."""
    while request := between.take(client):
        client.sendall(between.ask(request))


def once(client: socket.socket, between: Between) -> None:
    """Pass one request on, and hang up."""
    client.sendall(between.ask(between.take(client)))


def refused(client: socket.socket, between: Between) -> None:
    """Hang up before a request."""


def swallowed(client: socket.socket, between: Between) -> None:
    """Take a request, and hang up without passing it on."""
    between.take(client)


def unanswered(client: socket.socket, between: Between) -> None:
    """Pass a request on, and hang up before its answer."""
    between.ask(between.take(client))


def cut_at(size: int) -> Plan:
    """Pass a request on, and so many bytes of its answer."""

    def plan(client: socket.socket, between: Between) -> None:
        client.sendall(between.ask(between.take(client))[:size])

    return plan


def silent(client: socket.socket, between: Between) -> None:
    """Take a request and say nothing until the client hangs up."""
    between.take(client)
    client.recv(1)


def says(*pieces: bytes) -> Plan:
    """Answer a request by these bytes, each in a packet of its own, and hang up."""

    def plan(client: socket.socket, between: Between) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        between.take(client)
        for piece in pieces:
            client.sendall(piece)

    return plan


def answers(status: int, body: bytes = b"", *headers: str) -> Plan:
    """Answer a request by itself."""
    lines = [f"HTTP/1.1 {status} Of a test", f"content-length: {len(body)}", *headers]
    answer = "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    def plan(client: socket.socket, between: Between) -> None:
        between.take(client)
        client.sendall(answer)
        passed(client, between)

    return plan


@contextmanager
def between(url: str) -> Iterator[Between]:
    made = Between(url)
    try:
        yield made
    finally:
        made.close()
