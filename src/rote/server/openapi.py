"""The document of a server: OpenAPI 3.1, made from the table of commands and from the routes."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any

from msgspec import structs
from msgspec.json import encode

from rote.contract.commands import Work
from rote.contract.wire import answer_type
from rote.errors import FINER_CODES, RoteError
from rote.server.json_schemas import Schema, Schemas
from rote.server.parameters import Parameter
from rote.server.routes import Route
from rote.server.rows import ServerRow
from rote.server.settings import Limits

_JSON, _NDJSON, _EVENTS = "application/json", "application/x-ndjson", "text/event-stream"
_BYTES = "application/octet-stream"
_PREFIX = {"prefix": {"type": "string", "description": "Stands for start and end."}}
_KINDS: dict[str, Schema] = {
    "text": {"type": "string"},
    "integer": {"type": "integer", "minimum": 0},
    "flag": {"type": "boolean"},
    "point": {"type": "string", "description": "A version, or an RFC 3339 time."},
    "place": {"type": "string", "pattern": r"^\d+\.\d+$"},
    "json": {"type": "string", "contentMediaType": _JSON},
}
_MEANINGS = {
    400: "The request is malformed, or its arguments are.",
    401: "Nobody is shown to ask.",
    403: "Who asks may not.",
    404: "It is not there, or who asks may not see it.",
    405: "The route has other methods.",
    408: "The request came too slowly.",
    409: "Something has changed since it was read.",
    410: "The history was compacted away.",
    412: "The condition of a header does not hold.",
    413: "The body, or something in it, is too large.",
    414: "The address is too long.",
    415: "The body has another type or coding.",
    416: "The range has none of the bytes.",
    417: "The server does not do what is expected.",
    421: "The server is not the host that is asked.",
    422: "A patch does not apply, or a key stands for something else.",
    429: "Too many requests.",
    431: "The head is too large.",
    500: "The server has met damage, or a bug.",
    503: "The store or the server cannot answer now.",
}
# Of every answer of a space, and of every answer.
_HEADERS = {
    "Rote-Request": ("string", "The name of this request in the server's log."),
    "Rote-Version": ("integer", "The head that the answer was made at, or after."),
    "Rote-Erased": ("integer", "The version of the newest erasure, 0 without one."),
}
# Answers of routes that are no JSON, by the name of their row and their method.
_STREAMS = {
    "export": (_NDJSON,),
    "watch": (_EVENTS, _NDJSON),
    "blob_get": (_BYTES,),
    "metrics": ("text/plain",),
}
_ALSO_LINES = ("scan", "history", "log")


def document(
    rows: Sequence[ServerRow], routes: Sequence[Route], limits: Limits, *, version: str
) -> bytes:
    """Return the document as JSON."""
    by_name = {row.name: row for row in rows}
    schemas = Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row.way == "command":
            place = "/v1/spaces/{space}/" if row.space else "/v1/"
            paths.setdefault(place + row.name, {})["post"] = _command(
                schemas, row, place + row.name
            )
    for route in routes:
        row = by_name[route.row]
        paths.setdefault(route.pattern, {})[route.method.lower()] = _route(schemas, route, row)
        if route.method == "GET":
            head = _route(schemas, route, row)
            head["operationId"] = head["operationId"].replace("get_", "head_", 1)
            paths[route.pattern]["head"] = head
    made = {
        "openapi": "3.1.0",
        "info": {
            "title": "Rote",
            "version": version,
            "summary": "Memory for AI agents that you can prove.",
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {"Error": _ERROR, **dict(sorted(schemas.components.items()))},
            "responses": {str(status): _failure(status) for status in _MEANINGS},
            "headers": {
                name: {"description": words, "schema": {"type": kind}}
                for name, (kind, words) in _HEADERS.items()
            },
            "securitySchemes": _SECURITY,
        },
        "x-rote-limits": structs.asdict(limits),
    }
    return encode(made)


_SECURITY: dict[str, Any] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token, or a grant that POST /v1/grants has answered.",
    },
    "signature": {
        "type": "apiKey",
        "in": "header",
        "name": "Signature",
        "description": "A signed request (RFC 9421, RFC 9530), with Signature-Input,"
        " Content-Digest and Rote-Audience; see docs/access.md.",
    },
}


@cache
def _codes() -> tuple[str, ...]:
    codes, waiting = set(FINER_CODES), [RoteError]
    while waiting:
        kind = waiting.pop()
        if kind.__module__ == RoteError.__module__:
            codes.add(kind.code)
            waiting += kind.__subclasses__()
    return tuple(sorted(codes))


_ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "details"],
            "properties": {
                "code": {"type": "string", "examples": list(_codes())},
                "message": {"type": "string"},
                "details": {"type": "object"},
            },
        }
    },
}


def _failure(status: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "description": _MEANINGS[status],
        "headers": {"Rote-Request": {"$ref": "#/components/headers/Rote-Request"}},
        "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    return made


# -- commands --------------------------------------------------------------------------------------


def _command(schemas: Schemas, row: ServerRow, place: str) -> dict[str, Any]:
    arguments = schemas.members(row.arguments, is_asked=True)
    if row.name == "scan":
        arguments["properties"] |= _PREFIX
    content = {_JSON: {"schema": _answer(schemas, row)}}
    if issubclass(row.arguments, Work):
        content[_NDJSON] = {"schema": {"type": "string"}}
    made = _operation(row, row.name, place, content)
    made["requestBody"] = {"content": {_JSON: {"schema": arguments}}}
    if "required" in arguments:
        made["requestBody"]["required"] = True
    made["parameters"] += _once(row)
    made["x-rote-limit"] = row.bound
    return made


def _answer(schemas: Schemas, row: ServerRow) -> Schema:
    if row.kernel is None:
        return {"type": "object"} if row.answers is None else schemas.of(row.answers)
    kind = answer_type(row.kernel.command)
    if kind is bytes:
        return {"type": "object", "properties": {"data": schemas.of(bytes)}}
    if kind is type(None):
        return {"type": "object"}
    found = schemas.of(kind)
    if row.kernel.member is None:
        return found
    return {
        "type": "object",
        "required": [row.kernel.member],
        "properties": {row.kernel.member: found},
    }


# -- routes ----------------------------------------------------------------------------------------


def _route(schemas: Schemas, route: Route, row: ServerRow) -> dict[str, Any]:
    kinds = _STREAMS.get(row.name, (_JSON,)) if route.method != "PUT" else (_JSON,)
    answer = schemas.of(route.answer) if route.answer is not None else {}
    content: dict[str, Any] = {kind: {"schema": _of_kind(kind, answer)} for kind in kinds}
    if row.name in _ALSO_LINES:
        content[_NDJSON] = {"schema": {"type": "string"}}
    made = _operation(row, _named(route), route.pattern, content)
    made["parameters"] += [_parameter(each) for each in route.query]
    if route.method in ("PUT", "POST", "PATCH"):
        types = [kind.decode() for kind in route.types] or ["*/*"]
        made["requestBody"] = {"content": {kind: {"schema": _body(route)} for kind in types}}
    if route.method in ("PUT", "PATCH", "POST", "DELETE"):
        made["parameters"] += _once(row)
    made["parameters"] += list(_conditions(route))
    for status, words in _more(route):
        made["responses"][str(status)] = {"description": words}
    return made


def _named(route: Route) -> str:
    """Return a name that no other operation has."""
    place = re.sub(r"[^a-z0-9{]+", "_", route.pattern.lower().removeprefix("/v1")).strip("_")
    return f"{route.method.lower()}_{place.replace('{', 'by_')}"


def _of_kind(kind: str, answer: Schema) -> Schema:
    return answer if kind == _JSON else {"type": "string"}


def _body(route: Route) -> Schema:
    if route.upload is not None:
        return {"type": "string"}
    if route.method == "PATCH":
        return {"type": "array", "items": {"type": "object"}}
    if route.row == "watch":
        return {
            "type": "object",
            "required": ["query"],
            "properties": {
                "query": {"type": "object"},
                "branch": {"type": "string"},
                "since": {"type": ["integer", "null"]},
            },
            "additionalProperties": False,
        }
    return {"type": "object", "maxProperties": 0} if route.row == "space_create" else {}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.meaning,
        "schema": _KINDS[parameter.kind],
    }


def _conditions(route: Route) -> Iterator[dict[str, Any]]:
    names = []
    if route.pattern.endswith("/entity"):
        names = ["If-None-Match"] if route.method == "GET" else ["If-Match", "If-None-Match"]
    elif route.row == "blob_get":
        names = ["Range", "If-None-Match"]
    elif route.row == "blob_put":
        names = ["Rote-Labels"]
    elif route.row == "watch":
        names = ["Last-Event-ID"]
    yield from (
        {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
        for name in names
    )


def _more(route: Route) -> Iterator[tuple[int, str]]:
    if route.method == "GET" and (route.pattern.endswith("/entity") or route.row == "blob_get"):
        yield 304, "It is the one that the header If-None-Match names."
    if route.row == "blob_get":
        yield 206, "The range of bytes that the header Range asks for."


# -- both ------------------------------------------------------------------------------------------


def _operation(row: ServerRow, name: str, place: str, content: dict[str, Any]) -> dict[str, Any]:
    names = ["Rote-Request", *(["Rote-Version", "Rote-Erased"] if row.space else [])]
    parameters = [_in_path(each) for each in re.findall(r"\{(\w+)\}", place)]
    responses: dict[str, Any] = {
        "200": {
            "description": HTTPStatus(200).phrase,
            "headers": {each: {"$ref": f"#/components/headers/{each}"} for each in names},
            "content": content,
        }
    }
    responses |= {str(each): {"$ref": f"#/components/responses/{each}"} for each in _MEANINGS}
    is_open = row.right == "open"
    return {
        "operationId": name,
        "tags": [row.right],
        "x-rote-command": row.name,
        "x-rote-right": row.right,
        "x-rote-path": row.path,
        "security": [] if is_open else [{"bearer": []}, {"signature": []}],
        "parameters": parameters,
        "responses": responses,
    }


def _in_path(name: str) -> dict[str, Any]:
    words = {
        "space": "The name of a space, or its did.",
        "hash": "The SHA-256 of the bytes, in hex.",
    }
    return {
        "name": name, "in": "path", "required": True, "description": words[name],
        "schema": {"type": "string"},
    }  # fmt: skip


def _once(row: ServerRow) -> list[dict[str, Any]]:
    """Return the headers by which a write happens once."""
    is_routed = row.name in ("entity_put", "entity_patch", "entity_delete")
    names = [
        header
        for name, header in (("key", "Idempotency-Key"), ("attempt", "Rote-Attempt"))
        if is_routed or row.takes(name)
    ]
    return [
        {"name": each, "in": "header", "required": False, "schema": {"type": "string"}}
        for each in names
    ]
