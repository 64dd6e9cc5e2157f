"""Routes by which a server tells of itself: its health, its metrics and its document."""

from msgspec import Struct
from msgspec.json import encode

from rote.errors import InvalidInput
from rote.server.messages import Http, Response
from rote.server.metrics import CONTENT_TYPE
from rote.server.parameters import parameters
from rote.server.statuses import JSON

# Anybody may keep the document for a while: it changes with the version of the server.
_KEPT = (b"cache-control", b"public, max-age=300")
_NEVER_KEPT = (b"cache-control", b"no-store")
_SOON = (b"retry-after", b"1")


class Health(Struct, frozen=True, omit_defaults=True):
    """The state of a server."""

    status: str  # "ok", or "unavailable"
    reason: str | None = None  # why not
    server: str | None = None  # the did of the server, for whom requests are signed


def get_health(http: Http) -> Response:
    """Say that the event loop turns."""
    parameters(http.head)
    return Response(200, (JSON, _NEVER_KEPT), encode(Health("ok", server=http.service.home.did)))


def get_ready(http: Http) -> Response:
    """Say whether requests should come here."""
    parameters(http.head)
    reason = http.service.unready()
    if reason is None:
        return Response(200, (JSON, _NEVER_KEPT), encode(Health("ok")))
    return Response(503, (JSON, _NEVER_KEPT, _SOON), encode(Health("unavailable", reason)))


def get_metrics(http: Http) -> Response:
    parameters(http.head)
    http.service.enter(http.principal, "metrics", "", http.seen)
    return Response(200, ((b"content-type", CONTENT_TYPE.encode()),), http.service.metrics.text())


def get_openapi(http: Http) -> Response:
    parameters(http.head)
    return Response(200, (JSON, _KEPT), http.service.document())


def get_sync(http: Http) -> Response:
    """Refuse a request that does not go on as a WebSocket."""
    parameters(http.head)
    raise InvalidInput("sessions are WebSockets; send the headers Upgrade and Connection")
