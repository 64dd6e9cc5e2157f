"""A raw client: requests that are bytes already, and answers of which only the length is read."""

import socket


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
