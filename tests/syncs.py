"""A client of `/v1/sync` of a few lines for tests of servers: messages as they are."""

from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from rote.values import canonical, decode

SECONDS_MAX = 30
EVERYTHING: Any = {"select": {"*": {}}}


class SyncLine:
    """One connection."""

    def __init__(self, url: str, **options: Any) -> None:
        self._connecting = connect(
            url.replace("http", "ws", 1) + "/v1/sync",
            compression=None,
            max_size=None,
            proxy=None,
            **options,
        )
        self.socket: ClientConnection = self._connecting.__enter__()
        self._last = 0
        self._pushes: list[Any] = []
        self.answers: dict[int, Any] = {}  # that nobody has taken

    def __enter__(self) -> "SyncLine":
        return self

    def __exit__(self, *_: object) -> None:
        self._connecting.__exit__(None, None, None)

    def tell(self, type: str, **members: Any) -> int:
        """Send a request and return its id."""
        self._last += 1
        message = {"type": type, "id": self._last, **members}
        self.socket.send(canonical(message, depth_max=90).decode())
        return self._last

    def answer(self, id: int) -> Any:
        """Return the answer to a request; pushes that come before are kept."""
        while id not in self.answers:
            self._take()
        return self.answers.pop(id)

    def ask(self, type: str, **members: Any) -> Any:
        """Return what a request is answered with; AssertionError for an error."""
        answer = self.answer(self.tell(type, **members))
        assert "ok" in answer, answer
        return answer["ok"]

    def refused(self, type: str, **members: Any) -> Any:
        """Return the error that a request is answered with."""
        return self.answer(self.tell(type, **members))["error"]

    def push(self) -> Any:
        """Return the next push."""
        while not self._pushes:
            self._take()
        return self._pushes.pop(0)

    def take(self) -> Any:
        """Return the next step and acknowledge it."""
        step = self.push()
        assert step["type"] == "sync", step
        if not step["more"]:
            self.ask("ack", to=step["to"])
        return step

    def hello(self) -> Any:
        return self.ask("hello", protocol="rote/1")

    def open(self, space: str, token: str | None, **members: Any) -> Any:
        """Say hello, and open an ephemeral session."""
        return self.sit(space, token, ephemeral=True, **members)

    def sit(self, space: str, bearer: str | None, **members: Any) -> Any:
        """Say hello, and open a session that lasts."""
        self.hello()
        auth = {} if bearer is None else {"auth": {"token": bearer}}
        return self.ask("session.open", space=space, **auth, **members)

    def sit_refused(self, space: str, bearer: str | None, **members: Any) -> Any:
        """Say hello, and return the error that an opening is answered with."""
        self.hello()
        return self.refused("session.open", space=space, auth={"token": bearer}, **members)

    def closed(self) -> int:
        """Return the code with which the server closes, when it does so next."""
        try:
            while True:
                self._take()
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 1006

    @property
    def kept(self) -> list[Any]:
        """The pushes that nobody has taken."""
        return self._pushes

    def _take(self) -> None:
        message = self.socket.recv(timeout=SECONDS_MAX)
        found: Any = decode(message, depth_max=90)
        if "id" in found:
            self.answers[found["id"]] = found
        else:
            self._pushes.append(found)
