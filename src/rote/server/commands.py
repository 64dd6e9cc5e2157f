"""Commands over HTTP: POST with their arguments as a JSON object."""

from collections.abc import Iterable

from rote.server.answering import Answered, Service
from rote.server.messages import Http, Response
from rote.server.routes import Route
from rote.server.rows import ServerRow
from rote.server.statuses import JSON


def command_routes(rows: Iterable[ServerRow]) -> list[Route]:
    """Return the routes of all commands that are sent as JSON."""
    return [_route(row) for row in rows if row.way == "command"]


def _route(row: ServerRow) -> Route:
    def function(http: Http) -> Response:
        service: Service = http.service
        return responded(
            service.answer(http.principal, http.names.get("space", ""), row.name, http.body)
        )

    place = "/v1/spaces/{space}/" if row.space else "/v1/"
    return Route("POST", place + row.name, row.name, function)


def responded(answered: Answered) -> Response:
    """Return the response to a command that was answered."""
    headers = [JSON]
    if answered.version is not None:
        headers.append((b"rote-version", b"%d" % answered.version))
        headers.append((b"rote-erased", b"%d" % (answered.erased or 0)))
    return Response(200, tuple(headers), answered.body)
