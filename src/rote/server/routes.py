"""Routes: which function answers a method and a path.

A path is split at its slashes before its parts are decoded, so that an encoded slash is no slash.
Nothing is normalised: a path that is not exactly a route's is not found.
"""

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from rote.errors import InvalidInput, NotFound
from rote.server.messages import Http, Response, Upload
from rote.server.parameters import Parameter
from rote.server.rows import ServerRow

_SPACE = "{space}"
_HASH = "{hash}"


class Route(Struct, frozen=True):
    """A method and a path, and the function that answers them."""

    method: str
    pattern: str  # "/v1/spaces/{space}/entity"
    row: str  # the command whose right it needs, and under whose name it is counted
    function: Callable[[Http], Response]
    upload: Callable[[Http], Upload] | None = (
        None  # takes the body in pieces, instead of `function`
    )
    types: tuple[bytes, ...] = (b"application/json",)  # of a body; empty: any
    query: tuple[Parameter, ...] = ()  # the parameters that it takes
    answer: Any = None  # the type of the answer, for documents
    is_immediate: bool = False  # answered by the event loop, also when no thread is free


class Found(Struct, frozen=True):
    """The route of a request, and the parts of its path."""

    route: Route
    row: ServerRow
    names: dict[str, str]


class Router:
    """Finds the route of a request."""

    def __init__(self, routes: Sequence[Route], table: dict[str, ServerRow]) -> None:
        self._table = table
        self._shapes: dict[tuple[str, ...], dict[str, Route]] = {}
        for route in routes:
            shape = tuple(route.pattern.split("/")[1:])
            self._shapes.setdefault(shape, {})[route.method] = route

    def at(self, path: bytes) -> tuple[dict[str, Route], dict[str, str]]:
        """Return the routes at a path by method, and the parts of the path; NotFound without any."""
        shape = path.decode("ascii", "replace").split("/")[1:]
        names: dict[str, str] = {}
        if shape[:2] == ["v1", "spaces"] and len(shape) > 2:
            names["space"], shape[2] = _decoded(shape[2]), _SPACE
            if len(shape) == 5:
                names["hash"], shape[4] = _decoded(shape[4]), _HASH
        routes = self._shapes.get(tuple(shape))
        if routes is None or "" in names.values():
            raise NotFound("there is no such route; see /v1/openapi.json")
        return routes, names

    def choose(self, routes: dict[str, Route], names: dict[str, str], method: str) -> Found:
        """Return the route of a method; InvalidInput with the code `method` without one."""
        route = routes.get("GET" if method == "HEAD" else method)
        if route is None:
            allow = allowed(routes)
            raise InvalidInput(f"use one of {', '.join(allow)}", code="method", allow=allow)
        return Found(route, self._table[route.row], names)


def allowed(routes: dict[str, Route]) -> list[str]:
    """Return the methods that a path takes."""
    more = ["HEAD"] if "GET" in routes else []
    return sorted([*routes, *more, "OPTIONS"])


def _decoded(part: str) -> str:
    """Return a part of a path that names something; the empty text for one that cannot."""
    if "%" not in part:
        return part
    data = unquote_to_bytes(part)
    try:
        return "" if b"/" in data or b"%" in data else data.decode()
    except UnicodeDecodeError:
        return ""
