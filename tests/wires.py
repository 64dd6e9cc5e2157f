"""A client of a few lines for tests of servers: a socket, plain bytes, nothing that helps."""

import socket
import ssl
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rote.values import Json, canonical, decode

REPLY_SECONDS_MAX = 30
_DEPTH_MAX = 200


class Reply(NamedTuple):
    """An answer of a server."""

    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return decode(self.body, depth_max=_DEPTH_MAX)

    @property
    def code(self) -> str:
        """The code of its error."""
        code: str = self.json["error"]["code"]
        return code


class Closed(Exception):
    """The server has closed the connection before the end of an answer."""


class Wire:
    """One connection."""

    def __init__(
        self, url: str, token: str | None = None, *, tls: ssl.SSLContext | None = None
    ) -> None:
        parts = urlsplit(url)
        self.host = parts.netloc
        self.token = token
        self._left = b""
        assert parts.hostname is not None
        made = socket.create_connection((parts.hostname, parts.port), REPLY_SECONDS_MAX)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.socket = (
                made if tls is None else tls.wrap_socket(made, server_hostname=parts.hostname)
            )
        except BaseException:
            made.close()
            raise

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(
        self, method: str, target: str, body: bytes | None = None, /, **headers: str | None
    ) -> Reply:
        """Send a request and return its answer; a header of None is left out."""
        self.send(self.request(method, target, body, **headers))
        return self.reply(method)

    def command(
        self, name: str, arguments: Json = None, *, space: str | None = "notes", **headers: str
    ) -> Reply:
        place = "/v1/" if space is None else f"/v1/spaces/{space}/"
        body = canonical({} if arguments is None else arguments, depth_max=_DEPTH_MAX)
        return self.ask("POST", place + name, body, **headers)

    def request(
        self, method: str, target: str, body: bytes | None = None, /, **headers: str | None
    ) -> bytes:
        """Return the bytes of a request; `_` in the name of a header stands for `-`."""
        lines: dict[str, str | None] = {"host": self.host}
        if self.token is not None:
            lines["authorization"] = f"Bearer {self.token}"
        if body is not None:
            lines |= {"content-type": "application/json", "content-length": str(len(body))}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
        return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + (body or b"")

    def reply(self, method: str = "GET") -> Reply:
        """Return the next answer on the connection; Closed when there is none."""
        status, headers = self.head()
        if method == "HEAD" or status in (100, 204, 304):
            return Reply(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            return Reply(status, headers, b"".join(self.chunks()))
        return Reply(status, headers, self._exactly(int(headers["content-length"])))

    def head(self) -> tuple[int, dict[str, str]]:
        """Return status and headers of an answer; `chunks` has the rest of a streamed one."""
        head = self._until(b"\r\n\r\n").decode("latin-1")
        first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        pairs = (line.split(":", 1) for line in lines)
        return int(first.split(" ")[1]), {name.lower(): value.strip() for name, value in pairs}

    def chunks(self) -> Iterator[bytes]:
        """Yield the chunks of an answer whose head was read."""
        while size := int(self._until(b"\r\n"), 16):
            yield self._exactly(size)
            self._exactly(2)
        self._exactly(2)

    @property
    def is_closed(self) -> bool:
        """Whether the server closes the connection, without another byte."""
        try:
            return not self._left and self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _until(self, end: bytes) -> bytes:
        while end not in self._left:
            self._more()
        found, self._left = self._left.split(end, 1)
        return found + end

    def _exactly(self, size: int) -> bytes:
        while len(self._left) < size:
            self._more()
        found, self._left = self._left[:size], self._left[size:]
        return found

    def _more(self) -> None:
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionError:
            data = b""
        if not data:
            raise Closed
        self._left += data
