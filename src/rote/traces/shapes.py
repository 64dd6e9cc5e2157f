"""The structure of outputs, by which they are compared, without their words. Frozen for our types.

    text        {"type": "text", "sections": ["intro", "body"]}
    plan        {"type": "plan", "steps": [{"id": 1, "action": "analyze"}]}
    code_patch  {"type": "code_patch", "files": [{"path": "foo.py", "changes": []}]}
    none        {"type": "none"}      no output at all
    error       {"type": "error"}     with "error": "ValueError", the name of a class, where it is given

Other members of an output are left out of its form.
"""

from collections.abc import Callable
from typing import Any

from rote.errors import InvalidInput, LimitExceeded
from rote.traces.formats import NORMALIZATION
from rote.values import Json, canonical, check_trace_name, fingerprint
from rote.values.limits import OUTPUT_SHAPES_MAX
from rote.values.names import told

# Makes the members of a form, without `type`, from an output without its type.
Former = Callable[[dict[str, Json]], dict[str, Json]]


def structural_form(output: Any) -> dict[str, Json]:
    """Return the form of an output, an object with its `type`."""
    canonical(output)
    if type(output) is not dict or type(output.get("type")) is not str:
        raise InvalidInput('an output is an object with its type, like {"type": "text", …}')
    kind = output["type"]
    former = _OWN.get(kind) or _registered.get(kind)
    if former is None:
        raise InvalidInput(
            f"the output type {kind!r:.120} has no form; {told(sorted({**_OWN, **_registered}))}; "
            "add one with rote.traces.register_shape",
            output_type=kind,
        )
    form = former(output)
    if type(form) is not dict:
        raise InvalidInput(f"the form of {kind!r} is an object, not {type(form).__qualname__}")
    return {**form, "type": kind}


def output_shape_hash(output: Any) -> str:
    """Return a hash that is equal for outputs of the same structure."""
    return fingerprint(structural_form(output))


def describe_output(output: Any) -> dict[str, Json]:
    """Return the member of a trace that describes an output."""
    form = structural_form(output)
    return {
        "output_type": form["type"],
        "output_shape_hash": fingerprint(form),
        "normalization_version": NORMALIZATION,
    }


def register_shape(output_type: str, former: Former) -> None:
    """Add a type of output: `former` makes the members of its form from an output.

    It holds for the whole process and cannot be undone, so that a type always has the same form.
    """
    check_trace_name(output_type, "an output type")
    if not callable(former):
        raise InvalidInput("the form of an output type is a function of the output")
    if output_type in _OWN or _registered.get(output_type, former) is not former:
        raise InvalidInput(f"the output type {output_type!r} has a form already; use another name")
    if len(_registered) >= OUTPUT_SHAPES_MAX:
        raise LimitExceeded(
            "the number of output types", size=len(_registered) + 1, limit=OUTPUT_SHAPES_MAX
        )
    _registered[output_type] = former


def _text(output: dict[str, Json]) -> dict[str, Json]:
    sections = _items(output, "sections")
    for index, section in enumerate(sections):
        if type(section) is not str:
            raise InvalidInput(f"/sections/{index} of a text is the name of a section")
    return {"sections": sections}


def _plan(output: dict[str, Json]) -> dict[str, Json]:
    return {"steps": _parts(output, "steps", ("id", "action"))}


def _code_patch(output: dict[str, Json]) -> dict[str, Json]:
    return {"files": _parts(output, "files", ("path", "changes"))}


def _error(output: dict[str, Json]) -> dict[str, Json]:
    name = output.get("error")
    return {"error": name} if type(name) is str else {}


def _nothing(output: dict[str, Json]) -> dict[str, Json]:
    return {}


_OWN: dict[str, Former] = {
    "text": _text,
    "plan": _plan,
    "code_patch": _code_patch,
    "none": _nothing,
    "error": _error,
}
_registered: dict[str, Former] = {}


def _items(output: dict[str, Json], member: str) -> list[Json]:
    items = output.get(member)
    if not isinstance(items, list | tuple):
        raise InvalidInput(f"an output of type {output['type']} has a list of {member}")
    return list(items)


def _parts(output: dict[str, Json], member: str, kept: tuple[str, ...]) -> list[Json]:
    """Return the objects of a list with only the compared members; all of these must exist."""
    parts = []
    for index, item in enumerate(_items(output, member)):
        if type(item) is not dict or any(name not in item for name in kept):
            raise InvalidInput(f"/{member}/{index} is an object with {' and '.join(kept)}")
        parts.append({name: item[name] for name in kept})
    return parts
