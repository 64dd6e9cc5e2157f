"""Commands over HTTP: POST with their arguments as a JSON object."""

from collections.abc import Iterable

from rote.errors import InvalidInput
from rote.server.answering import Service
from rote.server.messages import Head, Http, Response
from rote.server.requests import once_in
from rote.server.routes import Route
from rote.server.rows import ServerRow
from rote.server.statuses import JSON, NDJSON
from rote.server.visits import streamed


def command_routes(rows: Iterable[ServerRow]) -> list[Route]:
    """Return the routes of all commands that are sent as JSON."""
    return [_route(row) for row in rows if row.way == "command"]


def _route(row: ServerRow) -> Route:
    def function(http: Http) -> Response:
        check_no_query(http.head)
        service: Service = http.service
        asked = http.principal, http.space, row.name, http.body
        if row.lines is not None and http.accepts(NDJSON):
            return streamed(row.lines(service.ask(*asked, seen=http.seen)))
        body = service.answer(*asked, seen=http.seen, once=once_in(http.head), tell=http.tell)
        return Response(200, (JSON,), body)

    place = "/v1/spaces/{space}/" if row.space else "/v1/"
    return Route("POST", place + row.name, row.name, function)


def check_no_query(head: Head) -> None:
    # Its text may hold a token, so it is not shown.
    if head.query:
        raise InvalidInput("a command takes its arguments in the body, and none in the address")
