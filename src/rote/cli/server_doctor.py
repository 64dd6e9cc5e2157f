"""`rote doctor --store http://…`: whether a server answers, what one may do there, and its clock.

It asks for nothing that changes anything: a right shows by the refusal of a request that has it and is
malformed, because rights are judged before arguments.
"""

import os
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from rote.errors import InvalidInput, Unavailable
from rote.values import Json, canonical, decode, micros_of
from rote.values.limits import DEPTH_MAX, MESSAGE_BYTES_MAX
from rote.values.server_limits import DOCTOR_SECONDS_MAX

# Requests that are refused as malformed where the right is there, from the highest right down.
_PROBES = (("owner", "erase"), ("write", "commit"))
_CLOCK_SECONDS_MAX = 30  # signed requests are good for a minute before and after


class Server:
    """A server, asked by the token in ROTE_TOKEN."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.hostname is None or parts.path not in ("", "/") or parts.username is not None:
            raise InvalidInput("a server is named http://host:port, and a token by ROTE_TOKEN")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=DOCTOR_SECONDS_MAX)
        self._token = os.environ.get("ROTE_TOKEN")
        self.has_token = self._token is not None
        self.shown = f"{parts.scheme}://{parts.netloc}"

    def ask(self, method: str, path: str, body: Json = None) -> "Reply":
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        data = None if method == "GET" else canonical(body or {})
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            self._connection.request(method, path, data, headers)
            answer = self._connection.getresponse()
            read = answer.read(MESSAGE_BYTES_MAX)
        except (OSError, HTTPException) as error:
            raise Unavailable(
                f"the server {self.shown} cannot be reached: {error}", server=self.shown
            ) from None
        try:
            plain = decode(read, size_bytes_max=MESSAGE_BYTES_MAX, depth_max=2 * DEPTH_MAX)
        except InvalidInput:
            plain = None  # metrics, or no server of Rote
        return Reply(answer.status, plain)

    def close(self) -> None:
        self._connection.close()


class Reply(NamedTuple):
    """An answer: its status, and its body where that is JSON."""

    status: int
    body: Any


def examine_server(url: str) -> dict[str, Any]:
    """Return what can be told of a server: the members of an examination."""
    server = Server(url)
    try:
        return _examine(server)
    finally:
        server.close()


def _examine(server: Server) -> dict[str, Any]:
    health = server.ask("GET", "/health")
    if health.status == 421:
        raise Unavailable(
            f"{server.shown} does not go by that name; ask it by the address that it prints, or start"
            " it with --allow-host NAME",
            server=server.shown,
        )
    document = server.ask("GET", "/v1/openapi.json").body
    if health.status != 200 or type(document) is not dict or "x-rote-limits" not in document:
        raise Unavailable(f"{server.shown} answers, but is no server of Rote", server=server.shown)
    ready = server.ask("GET", "/ready")
    problems, notes = [], []
    if ready.status != 200:
        problems.append(f"the server is not ready: {(ready.body or {}).get('reason')}")
    begun = micros_of(datetime.now(UTC))
    now = server.ask("POST", "/v1/now")
    ended = micros_of(datetime.now(UTC))
    store: dict[str, Any] = {
        "server": server.shown,
        "version": document["info"]["version"],
        "ready": ready.status == 200,
        "clock_seconds": None,
        "operator": server.ask("GET", "/metrics").status == 200,
    }
    if now.status == 401:
        return _unknown(server, store, now.body["error"]["details"].get("reason"), problems)
    difference = (now.body["now"] - (begun + ended) // 2) / 1_000_000
    store["clock_seconds"] = round(difference, 3)
    if abs(difference) > _CLOCK_SECONDS_MAX:
        problems.append(f"its clock differs by {difference:.0f} s; signed requests need both right")
    listed = server.ask("GET", "/v1/spaces").body
    if listed["next"] is not None:
        notes.append("there are more spaces than are shown")
    spaces = [_space(server, each) for each in listed["spaces"]]
    return {"store": store, "spaces": spaces, "problems": problems, "notes": notes}


def _unknown(
    server: Server, store: dict[str, Any], reason: str, problems: list[str]
) -> dict[str, Any]:
    """Return what is told of a server that does not know who asks, and say what is not."""
    notes = []
    if server.has_token:
        problems.append(f"the server does not take the token in ROTE_TOKEN ({reason})")
    else:
        notes.append("nobody asks: set ROTE_TOKEN to a token of this server to see the rest")
    notes.append("not seen: the clock, the rights and the spaces")
    return {"store": store, "problems": problems, "notes": notes}


def _space(server: Server, info: dict[str, Any]) -> dict[str, Any]:
    place = f"/v1/spaces/{quote(info['did'], safe=':')}"
    about = server.ask("GET", place).body
    right = next(
        (
            right
            for right, command in _PROBES
            if server.ask("POST", f"{place}/{command}", {"": 0}).status == 400
        ),
        "read",
    )
    return {
        "name": info["name"],
        "did": info["did"],
        "version": about.get("version"),
        "head": about.get("hash"),
        "verified": False,
        "right": right,
    }
