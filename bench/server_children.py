"""Other processes of the rows about the server: python -m bench.server_children echo | watch …

echo                                 the smallest application on the same web server
watch PORT TOKEN SPACE READ UNREAD   watches, of which some are never read
"""

import os
import selectors
import socket
import sys
from typing import Any

import uvicorn

from bench.wires import request
from rote.server.pool import Pool
from rote.server.protocol import guarded
from rote.server.settings import Limits

_WATCH = (
    "/v1/spaces/{space}/watch?query=%7B%22select%22%3A%7B%22urn%3Awatched%3A%2A%22%3A%7B%7D%7D%7D"
)


class Echo:
    """Takes a body on a thread of the pool and sends it back."""

    def __init__(self) -> None:
        self._pool = Pool(16, waiting_max=256)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        answer = await self._pool.run(bytes, body)
        headers = [
            (b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer)),
        ]  # fmt: skip
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


def echo() -> None:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        Echo(),
        http=guarded(Limits(), lambda error: None),
        ws="none",
        lifespan="off",
        log_level="critical",
        access_log=False,
        server_header=False,
    )
    bound.listen(128)
    sys.stdout.write(f"{bound.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(config).run([bound])


def watch(port: int, token: str, space: str, read: int, unread: int) -> None:
    """Open watches, say so, and read the answers of some until the standard input ends."""
    asked = request("GET", _WATCH.format(space=space), token=token)
    opened = []
    for _ in range(read + unread):
        opened.append(socket.create_connection(("127.0.0.1", port), 60))
        opened[-1].sendall(asked)
        assert opened[-1].recv(4096).startswith(b"HTTP/1.1 200")
    selector = selectors.DefaultSelector()
    for each in opened[:read]:
        each.setblocking(False)
        selector.register(each, selectors.EVENT_READ)
    os.set_blocking(sys.stdin.fileno(), False)
    selector.register(sys.stdin, selectors.EVENT_READ)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        for key, _ in selector.select():
            if key.fileobj is sys.stdin:
                os._exit(0)
            key.fileobj.recv(1 << 16)  # type: ignore[union-attr]


if __name__ == "__main__":
    if sys.argv[1] == "echo":
        echo()
    else:
        port_text, token_text, space_name, *counts = sys.argv[2:]
        watch(int(port_text), token_text, space_name, *map(int, counts))
