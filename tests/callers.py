"""Callers of a server in tests: each asks as one principal, in one way of showing who it is."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Protocol

import rote
from rote.access.signed_requests import RequestLine, sign_request
from rote.access.tokens import TokenRight
from rote.contract.commands import GetSide
from rote.opening.sources import SystemClock, SystemIds
from rote.server.serving import Serving
from rote.space import Store
from rote.space.sources import port_of_store
from rote.testing.keys import did_of, lend, seed_of
from rote.testing.serving import serving
from rote.values import Json, canonical, micros_of
from tests.wires import Reply, Wire

_nonces = count()


class Server(Protocol):
    """A server, in this process or in another."""

    url: str
    did: str


class Caller:
    """Somebody who asks a server; each request has a connection of its own."""

    def __init__(self, server: Server, **headers: str) -> None:
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


def nobody(server: Server) -> Caller:
    return Caller(server)


def bearer(server: Server, token: str | None) -> Caller:
    return Caller(server, authorization=f"Bearer {token}")


class Signer(Caller):
    """A did that signs every request."""

    def __init__(
        self,
        server: Server,
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


ADA, BEN = did_of("ada"), did_of("ben")


class Served:
    """A server, its store, and its space `notes`, in which ada is the owner and ben may write."""

    def __init__(self, server: Serving, store: Store) -> None:
        self.server = server
        self.store = store
        self.notes = store.space("notes")
        self.operator = bearer(server, server.token)
        self.ada = Signer(server, "ada").granted()
        self.ben = Signer(server, "ben").granted()

    def token(self, name: str, **bound: Any) -> Caller:
        text, _ = self.server.service.home.create_token(
            name,
            TokenRight(**bound),
            now=micros_of(SystemClock().now()),
            expires=None,
            ids=SystemIds(),
        )
        return bearer(self.server, text)

    def lend(self, issuer: str, to: str, **changes: Any) -> dict[str, Any]:
        now = micros_of(SystemClock().now())
        return lend(issuer, to, **{"space": self.notes.did, "now": now, **changes})

    def acl(self, grants: dict[str, str], **more: Any) -> dict[str, Any]:
        return {"kind": "acl/1", "grants": grants, **more}

    def side(self, kind: str, key: str) -> Any:
        return port_of_store(self.store).answer(self.notes.did, GetSide(kind, key))


@contextmanager
def serving_notes() -> Iterator[Served]:
    """Serve a new store with the space `notes`."""
    with rote.open(":memory:") as store:
        notes = store.space("notes")
        notes.set("urn:entity:a", 1)
        notes.set("urn:other:b", 2)
        notes.grant(ADA, "owner")
        notes.grant(BEN, "write")
        with serving(store, auth=("token", "did")) as server:
            yield Served(server, store)


def told(reply: Reply) -> tuple[int, Any]:
    """Return the status of an error and its details."""
    return reply.status, reply.json["error"]["details"]
