"""Filters over segments: they are asked once for all rows that have the same details."""

from collections.abc import Callable
from itertools import compress
from typing import Any

import msgspec

from rote.errors import Corrupt
from rote.questions import NO_FILTERS, Filters
from rote.retrieval.details import Details
from rote.retrieval.ranking.filtering import canonical_members, has_details, has_tags, has_time
from rote.retrieval.segments.segment import OWN_THREAD, Segment

_THREAD, _TURN = "thread", "turn"
_decode = msgspec.json.Decoder(tuple[str, str, tuple[str, ...], dict[str, Any]]).decode


def passing(filters: Filters, segment: Segment, head: Callable[[str], str]) -> bytes:
    """Return 1 for each row that the filters let pass, else 0.

    `head` returns the details of all entries of a record, as text.
    """
    where = canonical_members(filters)
    # The thread and the turn of a row are beside its details.
    shared = msgspec.structs.replace(filters, threads=None)
    placed = msgspec.structs.replace(NO_FILTERS, threads=filters.threads)
    of_place = {name: value for name, value in where.items() if name in (_THREAD, _TURN)}
    of_details = {name: value for name, value in where.items() if name not in of_place}
    known = [(Details(), ()), *map(_details, segment.details)]

    def is_right(details: Details, tags: tuple[str, ...]) -> bool:
        return has_tags(filters, tags) and has_details(shared, of_details, details)

    states = [is_right(*each) for each in known]
    passes = bytearray(map(states.__getitem__, segment.detail))
    if segment.has_entries:
        texts = list(map(head, segment.entities))
        states_of = {text: bool(text) and is_right(*_details(text)) for text in set(texts)}
        for row in compress(range(segment.size), segment.number):
            passes[row] = states_of[texts[segment.entity[row]]]
    if filters.after is not None or filters.before is not None:
        for row, instant in enumerate(segment.instant):
            passes[row] &= has_time(filters, instant)
    if filters.threads is not None or of_place:
        for row in compress(range(segment.size), bytes(passes)):
            details = _placed(segment, row, known[segment.detail[row]][0])
            passes[row] = has_details(placed, of_place, details)
    return bytes(passes)


def _details(data: str) -> tuple[Details, tuple[str, ...]]:
    """Return the details that rows share, and their tags."""
    try:
        namespace, kind, tags, metadata = _decode(data)
    except msgspec.MsgspecError:
        raise Corrupt("the details in the index are damaged; run `rote doctor --repair`") from None
    return Details(namespace, kind, metadata), tags


def _placed(segment: Segment, row: int, details: Details) -> Details:
    """Return the details of a row, with its thread and its turn."""
    metadata = dict(details.metadata or {})
    thread, turn = segment.thread_names[row], segment.turn[row]
    if thread is not None:
        metadata[_THREAD] = thread
    if segment.thread[row] == OWN_THREAD:
        metadata[_TURN] = segment.number[row]
    elif turn:
        metadata[_TURN] = segment.turns[turn - 1]
    return Details(metadata=metadata)
