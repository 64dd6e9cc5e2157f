"""An artifact from outside: JSON text or plain data, decoded once and judged as far as its members go."""

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
    """What was given, in three forms: plain data, text, and typed when all members are in order."""

    def __init__(
        self, value: Any, data: bytes | None, document: Document | None, *, is_shallow: bool
    ) -> None:
        self.value = value
        self.data = data  # none when it is no value
        self.document = document
        self.is_shallow = is_shallow  # no deeper than one value may be

    def forget_events(self) -> None:
        """Let go of the plain form of events, which are most of it: the typed one is enough."""
        if type(self.value) is dict:
            self.value = {key: part for key, part in self.value.items() if key != "events"}

    @property
    def checked(self) -> Document:
        """The typed form of what was found to be in order."""
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
    """The artifact; what is wrong with its members is added to `failures`.

    InvalidValue or LimitExceeded when text cannot be read at all.
    """
    if isinstance(source, bytes | str):
        value, is_shallow = _decoded(source)
        data = source.encode() if isinstance(source, str) else source
        # The second look is for numbers such as 1.0, which the canonical form writes as 1.
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
    """A member of what may be no object; None when it is not there."""
    return value.get(name) if type(value) is dict else None


def members(value: Any, name: str) -> list[Any]:
    """The elements of a member that may be no list."""
    found = member(value, name)
    return list(found) if type(found) in (list, tuple) else []


def _add_strangers(value: Any, kind: type[Struct], prefix: str, failures: Failures) -> None:
    """Data that is no value, such as NaN: the first in the whole, in each event and in each call.

    The members are told first, they may say it better.
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
    """The whole, its events and their calls, each with its place and without those inside it.

    Arguments of calls are left out: they are in nothing but determinism traces, and checking.py
    judges them by json-v1, which is stricter.
    """
    whole, events = _parted(value, "events")
    yield "", whole
    for position, each in enumerate(events):
        event, calls = _parted(each, "tool_calls") if kind is DeterminismTrace else (each, [])
        yield f"/events/{position}", event
        for place, call in enumerate(calls):
            yield f"/events/{position}/tool_calls/{place}", _without_arguments(call)


def _parted(value: Any, name: str) -> tuple[Any, list[Any]]:
    """A value without a list that it has, and what is in that."""
    parts = members(value, name)
    return (_without(value, name), parts) if parts else (value, [])


def _without_arguments(call: Any) -> Any:
    name = "normalized_args"
    return _without(call, name) if type(member(call, name)) is dict else call


def _without(value: dict[Any, Any], name: str) -> dict[Any, Any]:
    return {key: part for key, part in value.items() if key != name}


def _decoded(text: bytes | str) -> tuple[Any, bool]:
    """The value, and whether it is no deeper than any: the decoder looks anyway."""
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
