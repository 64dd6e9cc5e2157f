"""Routes by which a server tells of itself: its metrics and its document."""

from rote.server.messages import Http, Response
from rote.server.metrics import CONTENT_TYPE
from rote.server.parameters import parameters
from rote.server.statuses import JSON

# Anybody may keep the document for a while: it changes with the version of the server.
_KEPT = (b"cache-control", b"public, max-age=300")


def get_metrics(http: Http) -> Response:
    parameters(http.head)
    http.service.enter(http.principal, "metrics", "", http.seen)
    return Response(200, ((b"content-type", CONTENT_TYPE.encode()),), http.service.metrics.text())


def get_openapi(http: Http) -> Response:
    parameters(http.head)
    return Response(200, (JSON, _KEPT), http.service.document())
