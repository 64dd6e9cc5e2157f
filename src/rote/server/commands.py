"""Commands over HTTP: POST with their arguments as a JSON object."""

from collections.abc import Iterable

from rote.errors import InvalidInput
from rote.server.answering import Service
from rote.server.messages import Head, Http, Pieces, Response
from rote.server.requests import once_in
from rote.server.routes import Route
from rote.server.rows import ServerRow
from rote.server.statuses import JSON


def command_routes(rows: Iterable[ServerRow]) -> list[Route]:
    """Return the routes of all commands that are sent as JSON."""
    return [_route(row) for row in rows if row.way == "command"]


def _route(row: ServerRow) -> Route:
    def function(http: Http) -> Response:
        check_no_query(http.head)
        service: Service = http.service
        body = service.answer(
            http.principal,
            http.space,
            row.name,
            http.body,
            seen=http.seen,
            once=once_in(http.head),
            tell=http.tell,
        )
        return answered(body)

    place = "/v1/spaces/{space}/" if row.space else "/v1/"
    return Route("POST", place + row.name, row.name, function)


def answered(body: bytes | Pieces) -> Response:
    """Return the response to a command that was answered."""
    return Response(200, (JSON,), body)


def check_no_query(head: Head) -> None:
    # Its text may hold a token, so it is not shown.
    if head.query:
        raise InvalidInput("a command takes its arguments in the body, and none in the address")
