"""The published JSON Schemas of the four artifacts, made from documents.py.

A schema says which members there are. What lies between members (indexes, ranks, links, sizes) it
cannot say, so `check_trace` is what decides; whatever passes there conforms to these.
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
# The structural forms that show what an output_shape_hash is the fingerprint of.
_SHAPES: list[Json] = [
    {"type": "text", "sections": ["intro", "body", "conclusion"]},
    {"type": "plan", "steps": [{"id": 1, "action": "analyze"}, {"id": 2, "action": "generate"}]},
    {"type": "code_patch", "files": [{"path": "foo.py", "changes": []}]},
]
# What follows what; any other step is an error.
_STEPS = {
    "buffer_open": ["commit_pending"],
    "commit_pending": ["commit_applied", "commit_aborted"],
    "commit_applied": [],
    "commit_aborted": [],
}


def json_schemas() -> dict[str, dict[str, Json]]:
    """Each schema by the name of its format."""
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
    """A member that is a text under a condition, and null otherwise."""
    return {
        "if": {"properties": condition},
        "then": {"properties": {member: {"type": "string"}}},
        "else": {"properties": {member: {"type": "null"}}},
    }
