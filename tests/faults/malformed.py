"""Requests that no server should take, and a client that sends many of them at once.

Three sources: heads that are not HTTP/1.1 as the server takes it; commands of every name whose bodies
or arguments are wrong; and mutations of good requests that only read, since some of them stay good.
"""

import selectors
import socket
from collections import Counter
from collections.abc import Iterator
from random import Random
from urllib.parse import urlsplit

from rote.server.table import TABLE

CONNECTIONS = 64
# A connection that has been silent for so long waits for more of its last request.
SILENCE_SECONDS = 0.3
# Ends every head and every chunk with an error.
SENTINEL = b"\r\n\r\n\x00\x00\r\n\r\n"

_COMMANDS = [row for row in TABLE.values() if row.way == "command"]
_METHODS = (b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE", b"FLY",
            b"PRI", b"get", b"", b"CONNECT", b"PROPFIND", b"M-SEARCH")  # fmt: skip
_TARGETS = (b"/", b"*", b"", b"//", b"/v1", b"/v1/now", b"/v1/spaces/notes/read", b"/v1/../etc",
            b"http://evil.example/v1/now", b"/v1/spaces/%ff/read", b"/v1/spaces/a%2Fb/read",
            b"/" + b"a" * 9_000, b"/v1/now?" + b"x" * 100, b"/v1/now#x", b"evil.example:443",
            b"/v1/spaces/notes/blobs/0", b"/v1/spaces/notes/entity?id=%zz",
            b"/v1/spaces/notes/watch?query=1", b"/metrics?x", b"/v1/openapi.json?a=1&a=2")  # fmt: skip
_VERSIONS = (b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9.9", b"http/1.1", b"", b"HTTP/1.1 x")
_HEADERS = (
    b"Host: evil.example", b"Host: a\r\nHost: b", b"X: \x00", b"X : y", b": y", b"X: a\r\n b",
    b"X: a\rb", b"Content-Length: -1", b"Content-Length: 1e3", b"Content-Length: 99999999999999999999",
    b"Content-Length: 2\r\nContent-Length: 3", b"Content-Length: 70000000000",
    b"Transfer-Encoding: chunked\r\nContent-Length: 4", b"Transfer-Encoding: gzip",
    b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: \x0bchunked",
    b"Expect: 200-ok", b"Upgrade: websocket\r\nConnection: Upgrade", b"Connection: close",
    b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings", b"Origin: null",
    b"Origin: https://evil.example", b"Authorization: Basic eDp5", b"Authorization: Bearer",
    b"Authorization: Bearer x\r\nAuthorization: Bearer y", b"Range: bytes=0-",
    b"If-Match: \xff", b"Content-Encoding: gzip", b"Content-Type: text/xml",
    b"Signature: rote=:AAAA:", b"Signature-Input: rote=()", b"Cookie: " + b"c" * 40_000,
    b"\r\n".join(b"X-%d: y" % n for n in range(120)), b"Idempotency-Key: \xff\xfe",
)  # fmt: skip
_TEXTS = (
    b"", b"{", b"}", b"[]", b"null", b"true", b"1", b'"x"', b"\xff\xfe", b"\xef\xbb\xbf{}", b"{}{}",
    b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":1e999}', b'{"a":-0}', b"{'a':1}", b'{"a":"\\ud800"}',
    b"[" * 5_000, b'{"a":' * 100 + b"1" + b"}" * 100, b'{"a":"\x00"}', b'{"a":"' + b"x" * 2_000,
    b'{"\\u0000":1}', b"{,}", b'{"a"}', b'{"a":01}', b"Infinity", b'{"a":99999999999999999999}',
)  # fmt: skip
_WRONG = (
    b"null", b"true", b"-1", b"1.0", b"1e300", b'""', b'"x"', b'"\\u0000"', b"[]", b"[null]", b"[[]]",
    b"{}", b'{"x":1}', b'"' + b"y" * 3_000 + b'"', b"9223372036854775808", b'["urn:a"]', b'"urn:*"',
    b'[{"op":"set"}]', b'[{"op":"set","id":"urn:a","value":1,"x":1}]', b'{"branch":1}', b'"did:x"',
)  # fmt: skip


class Malformed:
    """Malformed requests from one seed."""

    def __init__(self, host: str, token: str, seed: int) -> None:
        self._random = Random(seed)
        self._host = host.encode()
        self._token = token.encode()

    def requests(self) -> Iterator[tuple[bytes, bool]]:
        """Yield requests without an end; and whether a connection may carry another one after it."""
        while True:
            kind = self._random.random()
            if kind < 0.4:
                yield self._wrong_command(), True
            elif kind < 0.7:
                yield self._mutated(), False
            else:
                yield self._wrong_head(), False

    def _one(self, choices: tuple[bytes, ...]) -> bytes:
        return self._random.choice(choices)

    def _wrong_head(self) -> bytes:
        draw = self._random
        method = self._one(_METHODS) if draw.random() < 0.5 else b"POST"
        target = self._one(_TARGETS)
        version = self._one(_VERSIONS) if draw.random() < 0.3 else b"HTTP/1.1"
        headers = [b"Host: " + self._host] if draw.random() < 0.8 else []
        headers += [self._one(_HEADERS) for _ in range(draw.randrange(3))]
        end = draw.choice((b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\n\r\n"))
        lines = [b" ".join((method, target, version)), *headers, b"", b""]
        return end.join(lines) + (
            draw.randbytes(draw.randrange(40)) if draw.random() < 0.3 else b""
        )

    def _wrong_command(self) -> bytes:
        """Return a command that is well formed as HTTP, and wrong in its body: never a good one."""
        draw = self._random
        row = draw.choice(_COMMANDS)
        place = draw.choice((b"notes", b"none", b"did:key:z6Mk", b"%F0%9F%A6%8A"))
        path = b"/v1/" + (b"spaces/" + place + b"/" if row.space else b"") + row.name.encode()
        if draw.random() < 0.4:
            body = self._one(_TEXTS[1:])
        else:
            names = [*row.arguments.__struct_fields__, "branch", "version", "limit"]
            given = draw.sample(names, draw.randrange(1, min(4, len(names))))
            members = [b'"%b":%b' % (name.encode(), self._one(_WRONG)) for name in given]
            if row.right not in ("read", "authenticated") or draw.random() < 0.3:
                members.append(b'"nobody knows":1')  # so that no write is right by chance
            body = b"{" + b",".join(members) + b"}"
        return self._request(b"POST", path, body)

    def _mutated(self) -> bytes:
        """Return a request that only reads, with some bytes changed."""
        draw = self._random
        good = self._request(b"POST", b"/v1/spaces/notes/read", b'{"ids":["urn:a"],"version":1}')
        if draw.random() < 0.3:
            head = self._request(b"POST", b"/v1/now", b"").removesuffix(
                b"Content-Length: 0\r\n\r\n"
            )
            good = head + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        data = bytearray(good)
        for _ in range(draw.randrange(1, 6)):
            at = draw.randrange(len(data))
            match draw.randrange(5):
                case 0:
                    data[at] = draw.randrange(256)
                case 1:
                    del data[at : at + draw.randrange(1, 20)]
                case 2:
                    data[at:at] = data[at : at + draw.randrange(1, 40)]
                case 3:
                    data[at:at] = self._one(
                        (b"\r\n", b"\n", b"\x00", b":", b" ", b"\xff", b"0", b",")
                    )
                case _:
                    data[at:at] = self._one(_HEADERS) + b"\r\n"
            if not data:
                data += b"x"
        return bytes(data)

    def _request(self, method: bytes, path: bytes, body: bytes) -> bytes:
        return b"%b %b HTTP/1.1\r\nHost: %b\r\nAuthorization: Bearer %b\r\n%bContent-Length: %d\r\n\r\n%b" % (
            method, path, self._host, self._token,
            b"Content-Type: application/json\r\n" if body else b"", len(body), body,
        )  # fmt: skip


class Attack:
    """Sends malformed requests over many connections, and counts the statuses that come back."""

    def __init__(self, url: str, token: str, seed: int) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        self._address = (parts.hostname, parts.port)
        self._requests = Malformed(parts.netloc, token, seed).requests()
        self._selector = selectors.DefaultSelector()
        self.statuses: Counter[int] = Counter()
        self.sent = 0

    def send(self, count: int) -> None:
        """Send so many requests more; return when every connection has ended."""
        until = self.sent + count
        while self.sent < until or self._selector.get_map():
            while self.sent < until and len(self._selector.get_map()) < CONNECTIONS:
                self._connect(until)
            ready = self._selector.select(SILENCE_SECONDS)
            for key, _ in ready:
                self._receive(key)
            if not ready:
                for key in list(self._selector.get_map().values()):
                    self._end(key)

    def _connect(self, until: int) -> None:
        data, goes_on = b"", True
        while goes_on and self.sent < until and len(data) < 8_000:
            request, goes_on = next(self._requests)
            data += request
            self.sent += 1
        line = socket.create_connection(self._address, 30)
        try:
            line.sendall(data + SENTINEL)
        except ConnectionError:
            pass  # it was refused before all of it was sent
        self._selector.register(line, selectors.EVENT_READ, [b""])

    def _receive(self, key: selectors.SelectorKey) -> None:
        line: socket.socket = key.fileobj  # type: ignore[assignment]
        try:
            data = line.recv(1 << 16)
        except ConnectionError:
            data = b""
        if data:
            key.data[0] += data
        else:
            self._end(key)

    def _end(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        key.fileobj.close()  # type: ignore[union-attr]
        for part in key.data[0].split(b"HTTP/1.1 ")[1:]:
            self.statuses[int(part[:3])] += 1
