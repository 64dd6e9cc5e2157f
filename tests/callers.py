"""Callers of a server in tests: each asks as one principal, in one way of showing who it is."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from rote.access.signed_requests import RequestLine, sign_request
from rote.opening.sources import SystemClock
from rote.server.serving import Serving
from rote.testing.keys import seed_of
from rote.values import Json, canonical
from tests.wires import Reply, Wire

_nonces = count()


class Caller:
    """Somebody who asks a server; each request has a connection of its own."""

    def __init__(self, server: Serving, **headers: str) -> None:
        self.server = server
        self._headers = headers

    def ask(
        self, method: str, target: str, body: bytes | None = None, **headers: str | None
    ) -> Reply:
        with Wire(self.server.url) as wire:
            sent = self.headers(method, target, body)
            return wire.ask(method, target, body, **{**sent, **headers})

    def command(self, name: str, arguments: Json = None, *, space: str | None = "notes") -> Reply:
        place = "/v1/" if space is None else f"/v1/spaces/{space}/"
        return self.ask("POST", place + name, canonical({} if arguments is None else arguments))

    def set(self, id: str, value: Json = 1, *, space: str = "notes", **more: Any) -> Reply:
        operations = [{"op": "set", "id": id, "value": value}]
        return self.command("commit", {"operations": operations, **more}, space=space)

    def read(self, *ids: str, space: str = "notes") -> Reply:
        return self.command("read", {"ids": list(ids)}, space=space)

    def headers(self, method: str, target: str, body: bytes | None) -> dict[str, str]:
        """Return the headers that show who asks."""
        return self._headers


def nobody(server: Serving) -> Caller:
    return Caller(server)


def bearer(server: Serving, token: str | None) -> Caller:
    return Caller(server, authorization=f"Bearer {token}")


class Signer(Caller):
    """A did that signs every request."""

    def __init__(
        self,
        server: Serving,
        name: str,
        *,
        proofs: Sequence[Mapping[str, Any]] = (),
        **changes: Any,
    ) -> None:
        """changes  arguments of sign_request that are not as they should be"""
        super().__init__(server)
        self.name = name
        self.proofs = proofs
        self._changes = changes

    def headers(self, method: str, target: str, body: bytes | None) -> dict[str, str]:
        path, _, query = target.partition("?")
        now = int(SystemClock().now().timestamp())
        arguments: dict[str, Any] = {
            "audience": self.server.did,
            "created": now,
            "expires": now + 60,
            "nonce": f"nonce-{next(_nonces):020d}",
            "headers": {} if body is None else {"content-type": "application/json"},
            "proofs": self.proofs,
            **self._changes,
        }
        line = RequestLine(method, path, query)
        return sign_request(seed_of(self.name), line, body or b"", **arguments)

    def granted(self, **arguments: Json) -> Caller:
        """Return the caller that uses a grant which this one has asked for."""
        reply = self.ask("POST", "/v1/grants", canonical(arguments))
        assert reply.status == 200, reply
        return bearer(self.server, reply.json["token"])
