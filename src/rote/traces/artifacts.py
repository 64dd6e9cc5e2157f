"""An artifact from outside: JSON text or plain data, decoded once; its members are checked here."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct, inspect

from rote.errors import InternalError, InvalidValue, invariant
from rote.traces.conformance import conform
from rote.traces.documents import DeterminismTrace
from rote.traces.reports import Failures
from rote.values import canonical, decode
from rote.values.depth import text_is_deeper
from rote.values.limits import DEPTH_MAX, TRACE_DEPTH_MAX, TRACE_READ_BYTES_MAX

Document = TypeVar("Document", bound=Struct)


class Artifact(Generic[Document]):
    """One artifact in three forms: plain data, text, and typed when all members are valid."""

    def __init__(
        self, value: Any, data: bytes | None, document: Document | None, *, is_shallow: bool
    ) -> None:
        self.value = value
        self.data = data  # None when it is no value
        self.document = document
        self.is_shallow = is_shallow  # not deeper than a value may be

    def forget_events(self) -> None:
        """Drop the plain form of events, which is most of it; the typed form is enough."""
        if type(self.value) is dict:
            self.value = {key: part for key, part in self.value.items() if key != "events"}

    @property
    def checked(self) -> Document:
        """Return the typed form of an artifact that is valid."""
        if self.document is None:
            raise InternalError("a trace is compared that is not in order")
        return self.document

    @property
    def is_truncated(self) -> bool:
        metadata = member(self.value, "metadata")
        return member(metadata, "truncated") is True


def read_artifact(
    source: Any, kind: type[Document], prefix: str, failures: Failures
) -> Artifact[Document]:
    """Return the artifact; add the faults of its members to `failures`.

    Raises InvalidValue or LimitExceeded when text cannot be read at all.
    """
    if isinstance(source, bytes | str):
        value, is_shallow = _decoded(source)
        data = source.encode() if isinstance(source, str) else source
        # The second attempt accepts numbers such as 1.0, which the canonical form writes as 1.
        document = _typed(data, kind) or _typed(_canonical(value), kind)
    else:
        value = source
        try:
            data = _canonical(value)
        except InvalidValue:
            _add_strangers(value, kind, prefix, failures)
            return Artifact(value, None, None, is_shallow=False)
        document = _typed(data, kind)
        is_shallow = not text_is_deeper(data, DEPTH_MAX)
    if document is None:
        before = len(failures)
        conform(value, _type_of(kind), "", prefix, failures)
        invariant(len(failures) > before, "a trace is refused, and nothing says why")
    return Artifact(value, data, document, is_shallow=is_shallow)


def member(value: Any, name: str) -> Any:
    """Return a member, None when it is not there or when the value is no object."""
    return value.get(name) if type(value) is dict else None


def members(value: Any, name: str) -> list[Any]:
    """Return the elements of a member, none when it is no list."""
    found = member(value, name)
    return list(found) if type(found) in (list, tuple) else []


def _add_strangers(value: Any, kind: type[Struct], prefix: str, failures: Failures) -> None:
    """Report data that is no value, such as NaN: the first in each event, call and in the rest.

    Faults of members are reported first, because their messages may say more.
    """
    before = len(failures.listed)
    conform(value, _type_of(kind), "", prefix, failures)
    told = {failure.pointer for failure in failures.listed[before:]}
    for place, piece in _pieces(value, kind):
        try:
            canonical(piece, depth_max=TRACE_DEPTH_MAX - place.count("/"))
        except InvalidValue as error:
            pointer = place + error.details["pointer"]
            if pointer not in told:
                message = f"{pointer or 'the whole'} is not a value: {error.details['reason']}"
                failures.add(f"{prefix}:value", pointer, None, "a JSON value", message)


def _pieces(value: Any, kind: type[Struct]) -> Iterator[tuple[str, Any]]:
    """Yield the whole without its events, the events without their calls, and the calls.

    Each comes with its place. Arguments of calls are left out: only determinism traces have them,
    and checking.py checks them by json-v1, which is stricter.
    """
    whole, events = _parted(value, "events")
    yield "", whole
    for position, each in enumerate(events):
        event, calls = _parted(each, "tool_calls") if kind is DeterminismTrace else (each, [])
        yield f"/events/{position}", event
        for place, call in enumerate(calls):
            yield f"/events/{position}/tool_calls/{place}", _without_arguments(call)


def _parted(value: Any, name: str) -> tuple[Any, list[Any]]:
    """Return a value without one of its lists, and the elements of that list."""
    parts = members(value, name)
    return (_without(value, name), parts) if parts else (value, [])


def _without_arguments(call: Any) -> Any:
    name = "normalized_args"
    return _without(call, name) if type(member(call, name)) is dict else call


def _without(value: dict[Any, Any], name: str) -> dict[Any, Any]:
    return {key: part for key, part in value.items() if key != name}


def _decoded(text: bytes | str) -> tuple[Any, bool]:
    """Return the value, and whether it is not deeper than a value may be."""
    try:
        return decode(text, size_bytes_max=TRACE_READ_BYTES_MAX), True
    except InvalidValue:
        deep = decode(text, size_bytes_max=TRACE_READ_BYTES_MAX, depth_max=TRACE_DEPTH_MAX)
        return deep, False


def _canonical(value: Any) -> bytes:
    return canonical(value, depth_max=TRACE_DEPTH_MAX)


def _typed(data: bytes, kind: type[Document]) -> Document | None:
    try:
        document: Document = _decoder(kind).decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return document


@cache
def _decoder(kind: type[Document]) -> "msgspec.json.Decoder[Document]":
    return msgspec.json.Decoder(kind)


@cache
def _type_of(kind: type[Struct]) -> inspect.Type:
    return inspect.type_info(kind)
