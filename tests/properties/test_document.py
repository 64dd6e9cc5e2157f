"""The document of a server and the server agree: requests are drawn from its schemas, and spoilt.

What the document allows is answered as it says, or refused by an error that it names. What it does not
allow is refused. Nothing that is drawn makes an error of the server.
"""

import time
from collections.abc import Iterator
from random import Random
from typing import Any

import jsonschema_rs
import pytest

from rote.values import canonical
from tests.lanes import SLOW, examples
from tests.served import Served, served

# These would take the space or the store away from the other draws, or take long by design.
LEFT_OUT = ("space_erase", "adopt", "foundation_in")
TEXTS = ("", "main", "urn:a", "urn:b:*", "draft", "notes", "x" * 300, "\u0000", "é")
NUMBERS = (-1, 0, 1, 2, 3, 1_000, 2**53, 2**63 - 1)


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(threads=4) as found:
        found.space.set("urn:a", {"n": 1})
        found.space.create_branch("draft")
        yield found


@pytest.fixture(scope="module")
def document(server: Served) -> Any:
    return server.wire.ask("GET", "/v1/openapi.json").json


def value(draw: Random, depth: int = 0) -> Any:
    """Return any JSON value."""
    kind = draw.randrange(6 if depth < 2 else 4)
    if kind == 4:
        return [value(draw, depth + 1) for _ in range(draw.randrange(3))]
    if kind == 5:
        return {draw.choice(TEXTS): value(draw, depth + 1) for _ in range(draw.randrange(3))}
    return draw.choice(((None, True, False), NUMBERS, TEXTS, (1.5, 0.0))[kind])


def drawn(draw: Random, document: Any, schema: Any, depth: int = 0) -> Any:
    """Return a value of a schema; what is too deep is drawn without one."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return drawn(draw, document, draw.choice(options), depth + 1)
    if "enum" in schema or "const" in schema:
        return draw.choice(schema.get("enum", [schema.get("const")]))
    match schema.get("type"):
        case "object" if "properties" in schema and depth < 5:
            required = schema.get("required", [])
            return {
                name: drawn(draw, document, part, depth + 1)
                for name, part in schema["properties"].items()
                if name in required or draw.random() < 0.4
            }
        case "object":
            return {draw.choice(TEXTS): value(draw) for _ in range(draw.randrange(3))}
        case "array":
            items = schema.get("items") or {}
            return [drawn(draw, document, items, depth + 1) for _ in range(draw.randrange(3))]
        case "string":
            return draw.choice(TEXTS)
        case "integer":
            return draw.choice(NUMBERS)
        case "number":
            return draw.choice((*NUMBERS, 0.5))
        case "boolean":
            return draw.random() < 0.5
        case "null":
            return None
    return value(draw)


def spoilt(draw: Random, body: dict[str, Any]) -> Any:
    """Return a body as it is, with another member, or with a part of another type."""
    return body if draw.random() < 0.6 else _changed(draw, body)


def _changed(draw: Random, part: Any) -> Any:
    """Return a part of a body with something else in it, at any depth."""
    if isinstance(part, dict):
        name = draw.choice([*sorted(part), "more"])
        is_deeper = draw.random() < 0.5 and isinstance(part.get(name), dict | list)
        return {**part, name: _changed(draw, part[name]) if is_deeper else value(draw)}
    if isinstance(part, list) and part:
        place = draw.randrange(len(part))
        return [*part[:place], _changed(draw, part[place]), *part[place + 1 :]]
    return value(draw)


def schema_of(operation: Any) -> Any:
    content = operation.get("requestBody", {}).get("content", {})
    return content.get("application/json", {}).get("schema", {})


def commands(document: Any) -> list[str]:
    return sorted(
        path
        for path, methods in document["paths"].items()
        if "post" in methods
        and schema_of(methods["post"]).get("type") == "object"
        and path.rpartition("/")[2] not in (*LEFT_OUT, "watch")
    )


def test_the_document_and_the_server_agree(server: Served, document: Any) -> None:
    seed = time.time_ns() if SLOW else 0
    draw = Random(seed)
    paths = commands(document)
    for _ in range(examples(400, 50_000)):
        path = draw.choice(paths)
        schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"][
            "schema"
        ]
        body = spoilt(draw, drawn(draw, document, schema))
        fault = disagreement(server, document, path, body)
        assert fault is None, f"{path} {body!r:.500}: {fault} (seed {seed})"


def disagreement(server: Served, document: Any, path: str, body: Any) -> str | None:
    """Return what the server does otherwise than its document says; None when they agree."""
    operation = document["paths"][path]["post"]
    schema = schema_of(operation)
    data = canonical(body, depth_max=100)
    reply = server.wire.ask("POST", path.replace("{space}", server.space.name), data)
    components = {"components": document["components"]}
    is_allowed = jsonschema_rs.is_valid({**schema, **components}, body)
    if reply.status == 500 or str(reply.status) not in operation["responses"]:
        return f"answers {reply.status} {reply.body!r:.300}"
    if not is_allowed and not 400 <= reply.status < 500:
        return f"is not allowed, and answers {reply.status}"
    told = document["components"]["schemas"]["Error"]
    if reply.status == 200:
        told = operation["responses"]["200"]["content"]["application/json"]["schema"]
    errors = jsonschema_rs.Draft202012Validator({**told, **components}).iter_errors(reply.json)
    return next((f"{reply.status}: {error}" for error in errors), None)
