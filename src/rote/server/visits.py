"""Helpers that routes share: a request that was let into a space, and answers in JSON or in lines."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from msgspec import Struct

from rote.contract import Port, SpaceInfo
from rote.contract.commands import Command, Describe
from rote.contract.wire import encode_answer
from rote.kernel.kernel import TABLE as KERNEL
from rote.server.messages import Http, Response
from rote.server.rows import Asked
from rote.server.statuses import JSON, NDJSON
from rote.server.streams import lines
from rote.space import Space, Store
from rote.space.sources import space_through


class Visit(Struct, frozen=True):
    """A request that was let into a space."""

    port: Port
    space: str  # the did

    def answer(self, command: Command[Any]) -> Any:
        return self.port.answer(self.space, command)


def visit(http: Http, row: str) -> Visit:
    """Let a request in by the row of a command."""
    service = http.service
    port = service.enter(http.principal, row, http.space, http.seen)
    return Visit(port, http.seen.space or "")


def space_of(asked: Asked) -> Space:
    """Return the space of a command, asked through the port of the principal."""
    return held(asked.service.store, asked.port, asked.space)


def held(store: Store, port: Port, did: str) -> Space:
    about = port.answer(did, Describe())
    return space_through(store, port, SpaceInfo(about.did, about.name))


def answer_json(visited: Visit, command: Command[Any]) -> Response:
    """Return the response with the answer to a command."""
    return json(encode_answer(KERNEL.row(type(command)), visited.answer(command)).head)


def json(body: bytes) -> Response:
    return Response(200, (JSON,), body)


def streamed(items: Iterator[bytes]) -> Response:
    """Return lines; the first is made at once, so that its error has a status of its own."""
    first = list(islice(items, 1))

    def all_items() -> Iterator[bytes]:
        yield from first
        yield from items

    return Response(200, ((b"content-type", NDJSON),), lines(all_items()))


def takes_lines(http: Http) -> bool:
    return http.accepts(NDJSON)
