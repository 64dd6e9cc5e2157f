"""Envelopes of tasks and results between agents: which members they have, and of what kind.

Members that are not listed here are kept as they are. Nothing in an envelope is routed or enforced.
"""

from collections.abc import Callable, Mapping
from typing import Any

from rote.errors import InvalidInput
from rote.patch import format_pointer
from rote.values import Json, check_run_id, parse_time

SCHEMA_VERSION = "1.0"
# A check returns None, or the pointer below the member and what should be there.
_Fault = tuple[tuple[str | int, ...], str]
_Check = Callable[[Json], _Fault | None]


def check_task(envelope: Json) -> dict[str, Json]:
    """Return an AgentTaskRequest; InvalidInput (bad_envelope) names the pointer of its first fault."""
    return _checked(envelope, "a task", _TASK, _TASK_OPTIONAL)


def check_result(envelope: Json) -> dict[str, Json]:
    """Return an AgentTaskResult; InvalidInput (bad_envelope) names the pointer of its first fault."""
    return _checked(envelope, "a result", _RESULT, _RESULT_OPTIONAL)


def bad_envelope(what: str, pointer: str, wanted: str) -> InvalidInput:
    place = pointer or "the envelope"
    return InvalidInput(f"{what}: {place} must be {wanted}", code="bad_envelope", pointer=pointer)


def _checked(
    envelope: Any, what: str, required: Mapping[str, _Check], optional: Mapping[str, _Check]
) -> dict[str, Json]:
    if type(envelope) is not dict:
        raise bad_envelope(what, "", "an object")
    for name, check in {**required, **optional}.items():
        if name not in envelope:
            if name in required:
                raise bad_envelope(what, format_pointer((name,)), "there")
            continue
        fault = check(envelope[name])
        if fault is not None:
            below, wanted = fault
            pointer = format_pointer((name, *(str(step) for step in below)))
            raise bad_envelope(what, pointer, wanted)
    return envelope


def _of(kind: type, wanted: str) -> _Check:
    return lambda value: None if type(value) is kind else ((), wanted)


def _version(value: Json) -> _Fault | None:
    return None if value == SCHEMA_VERSION else ((), f'"{SCHEMA_VERSION}"')


def _id(value: Json) -> _Fault | None:
    try:
        check_run_id(value)
    except InvalidInput as error:
        return (), f"an id: {error}"
    return None


def _name(value: Json) -> _Fault | None:
    return None if type(value) is str and value else ((), "a text that is not empty")


def _time(value: Json) -> _Fault | None:
    try:
        if value is not None:
            parse_time(value)
    except InvalidInput:
        return (), "a time in RFC 3339 with an offset, or null"
    return None


def _text_or_null(value: Json) -> _Fault | None:
    return None if value is None or type(value) is str else ((), "a text or null")


def _texts(value: Json) -> _Fault | None:
    if type(value) is not list:
        return (), "a list of texts"
    for place, each in enumerate(value):
        if type(each) is not str:
            return (place,), "a text"
    return None


def _refs(value: Json) -> _Fault | None:
    if type(value) is not list:
        return (), "a list of {kind, uri}"
    for place, ref in enumerate(value):
        if type(ref) is not dict:
            return (place,), "an object {kind, uri}"
        for name in ("kind", "uri"):
            if type(ref.get(name)) is not str:
                return (place, name), "a text"
    return None


def _input(value: Json) -> _Fault | None:
    if type(value) is not dict:
        return (), "an object"
    fault = _refs(value["refs"]) if "refs" in value else None
    return None if fault is None else (("refs", *fault[0]), fault[1])


def _output(value: Json) -> _Fault | None:
    if type(value) is not dict:
        return (), "an object with a summary"
    return None if type(value.get("summary")) is str else (("summary",), "a text")


def _confidence(value: Json) -> _Fault | None:
    if value is None or (type(value) in (int, float) and 0 <= value <= 1):
        return None
    return (), "a number from 0 to 1, or null"


_text, _object = _of(str, "a text"), _of(dict, "an object")
_TASK: dict[str, _Check] = {
    "schema_version": _version,
    "task_id": _id,
    "requester_id": _name,
    "target_agent": _name,
    "task_type": _name,
    "input": _input,
}
_TASK_OPTIONAL: dict[str, _Check] = {
    "target_role": _text,
    "description": _text,
    "sensitivity": _text,
    "approval_required": _text,
    "human_approver": _text_or_null,
    "deadline": _time,
    "allowed_tools": _texts,
    "required_output_contract": _object,
    "budget_limit": _object,
    "callback": _object,
    "policy_context": _object,
    "metadata": _object,
}
_RESULT: dict[str, _Check] = {
    "schema_version": _version,
    "task_id": _id,
    "agent_id": _name,
    "status": _name,
    "output": _output,
}
_RESULT_OPTIONAL: dict[str, _Check] = {
    "confidence": _confidence,
    "artifact_refs": _refs,
    "cost_used": _object,
    "time_used": _object,
    "needs_review": _object,
    "error": _object,
    "provenance_ref": _object,
}
