"""The published JSON Schemas of the four artifacts, made from documents.py.

A schema describes members. It cannot describe relations between them (indexes, ranks, links, sizes),
so `check_trace` decides. Every trace that passes there conforms to these schemas.
"""

from typing import Any

import msgspec
from msgspec import Struct

from rote.traces.documents import (
    BufferStateDocument,
    DeterminismTrace,
    RetrievalTrace,
    ToolProfileDocument,
)
from rote.traces.formats import (
    BUFFER_STATE_MACHINE,
    DETERMINISM_TRACE,
    RETRIEVAL_TRACE,
    TOOL_PROFILE,
)
from rote.values import Json, fingerprint

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DOCUMENTS: dict[str, type[Struct]] = {
    DETERMINISM_TRACE: DeterminismTrace,
    RETRIEVAL_TRACE: RetrievalTrace,
    TOOL_PROFILE: ToolProfileDocument,
    BUFFER_STATE_MACHINE: BufferStateDocument,
}
# Examples of structural forms; an output_shape_hash is the fingerprint of one.
_SHAPES: list[Json] = [
    {"type": "text", "sections": ["intro", "body", "conclusion"]},
    {"type": "plan", "steps": [{"id": 1, "action": "analyze"}, {"id": 2, "action": "generate"}]},
    {"type": "code_patch", "files": [{"path": "foo.py", "changes": []}]},
]
# The states that may follow each state; any other step is an error.
_STEPS = {
    "buffer_open": ["commit_pending"],
    "commit_pending": ["commit_applied", "commit_aborted"],
    "commit_applied": [],
    "commit_aborted": [],
}


def json_schemas() -> dict[str, dict[str, Json]]:
    """Return the schemas by the names of their formats."""
    return {name: _schema(name, kind) for name, kind in _DOCUMENTS.items()}


def _schema(name: str, kind: type[Struct]) -> dict[str, Json]:
    made: dict[str, Any] = msgspec.json.schema(kind)
    parts: dict[str, Any] = made["$defs"]
    if kind is DeterminismTrace:
        parts["ToolCall"] |= _exactly_when(
            {"side_effect_required": {"const": True}}, "side_effect_fingerprint"
        )
        parts["Output"]["$comment"] = "output_shape_hash is the fingerprint of a structural form"
        parts["Output"]["examples"] = [
            {
                "output_type": shape["type"],
                "output_shape_hash": fingerprint(shape),
                "normalization_version": "json-v1",
                "shape": shape,
            }
            for shape in _SHAPES
        ]
    elif kind is BufferStateDocument:
        parts[kind.__name__] |= _exactly_when({"state": {"const": "commit_aborted"}}, "reason_code")
        parts[kind.__name__]["x-steps"] = _STEPS
    return {"$schema": _DIALECT, "$id": f"urn:rote:{name}", "title": name, **made}


def _exactly_when(condition: dict[str, Json], member: str) -> dict[str, Json]:
    """Return a schema: the member is a text under a condition, and null otherwise."""
    return {
        "if": {"properties": condition},
        "then": {"properties": {member: {"type": "string"}}},
        "else": {"properties": {member: {"type": "null"}}},
    }
