"""A raw client: requests that are bytes already, and answers of which only the length is read."""

import socket

import orjson


class RawClient:
    """One connection that is kept; it takes answers that say their length."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        """Send a request and return the body of its answer."""
        self._socket.sendall(request)
        data = self._socket.recv(1 << 20)
        while b"\r\n\r\n" not in data:
            data += self._more()
        head, _, body = data.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), data[:500]
        size = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        parts, have = [body], len(body)
        while have < size:
            parts.append(self._more())
            have += len(parts[-1])
        return b"".join(parts)

    def stream(self, request: bytes) -> int:
        """Send a request and read its chunked answer to its end; return how many bytes came."""
        self._socket.sendall(request)
        count, last = 0, b""
        while not last.endswith(b"\r\n0\r\n\r\n"):
            data = self._more()
            count += len(data)
            last = (last + data)[-64:]
        return count

    def upload(self, hash: str, piece: bytes, count: int, token: str) -> None:
        """Put a blob of pieces that are all the same."""
        head = request("PUT", f"/v1/spaces/notes/blobs/{hash}", token=token)
        size = b"content-length: %d" % (len(piece) * count)
        self._socket.sendall(head.replace(b"content-length: 0", size))
        for _ in range(count):
            self._socket.sendall(piece)
        self.ask(b"")

    def download(self, asked: bytes) -> int:
        """Return how many bytes the body of an answer has; none is kept."""
        self._socket.sendall(asked)
        data = self._more()
        while b"\r\n\r\n" not in data:
            data += self._more()
        head, _, body = data.partition(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        have = len(body)
        while have < size:
            have += len(self._more())
        return have

    def close(self) -> None:
        self._socket.close()

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 20)
        assert data, "the server has hung up"
        return data


def request(method: str, target: str, body: bytes = b"", token: str | None = None) -> bytes:
    """Return the bytes of a request."""
    bearer = "" if token is None else f"authorization: Bearer {token}\r\n"
    kind = "content-type: application/json\r\n" if body else ""
    head = (
        f"{method} {target} HTTP/1.1\r\nhost: localhost\r\n{bearer}{kind}"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class RawLine:
    """A WebSocket to `/v1/sync` that masks with zeros; whole messages, none larger than 64 KiB up."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(_UPGRADE)
        self._data = bytearray()
        while b"\r\n\r\n" not in self._data:
            self.take_in()
        head, _, rest = bytes(self._data).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head
        self._data = bytearray(rest)
        self._last = 0

    def open(self, space: str, token: str | None, watches: object) -> None:
        """Begin a session that lasts."""
        self.tell(type="hello", protocol="rote/1")
        self.tell(type="session.open", space=space, auth={"token": token}, watches=watches)
        for id in (1, 2):
            answer = orjson.loads(self.next())
            assert answer["id"] == id and "ok" in answer, answer

    def tell(self, **members: object) -> None:
        self._last += 1
        self._send(0x81, orjson.dumps({"id": self._last, **members}))

    def next(self) -> bytes:
        """Return the next message; wait for it."""
        while (message := self.message()) is None:
            self.take_in()
        return message

    def take_in(self) -> None:
        data = self.socket.recv(1 << 20)
        assert data, "the server has hung up"
        self._data += data

    def message(self) -> bytes | None:
        """Return a message that has come whole; pings are answered."""
        while True:
            frame = self._frame()
            if frame is None or frame[0] != _PING:
                return None if frame is None else frame[1]
            self._send(_PONG, frame[1])

    def _frame(self) -> tuple[int, bytes] | None:
        data = self._data
        if len(data) < 2:
            return None
        size, begin = data[1], 2
        if size > 125:
            begin = 4 if size == 126 else 10
            size = int.from_bytes(data[2:begin], "big")
        if len(data) < begin + size:
            return None
        kind, body = data[0], bytes(data[begin : begin + size])
        del data[: begin + size]
        return kind, body

    def _send(self, kind: int, data: bytes) -> None:
        size = (
            bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
        )
        self.socket.sendall(bytes([kind]) + size + b"\0\0\0\0" + data)


_PING, _PONG = 0x89, 0x8A
_UPGRADE = (
    b"GET /v1/sync HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
