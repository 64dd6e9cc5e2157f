"""Exports: the living records of a memory as envelopes, and nothing of the store they come from.

    jsonl       one canonical envelope a line
    json        the same lines as the elements of one array
    retrieval   one memory a line, as retrieval sees it in the space; what has expired is judged
                by the time of the last commit, as it does

In the order of namespace, kind and id, so equal memories give equal bytes.
"""

from collections.abc import Callable, Iterator
from typing import BinaryIO

from rote.errors import InvalidInput
from rote.records import Memory
from rote.records.envelope import Envelope
from rote.records.filters import Filters
from rote.records.keys import check_kind
from rote.records.listing import find_records
from rote.retrieval import memory_line
from rote.values import canonical, micros_of

_RETRIEVAL = "retrieval"
FORMATS = ("jsonl", "json", _RETRIEVAL)
Told = Callable[[int], None]  # how many records are done


def export_records(
    memory: Memory,
    *,
    namespace: str | None = None,
    kind: str | None = None,
    by_state: bool = False,
) -> Iterator[Envelope]:
    """All of one state, also while others write; expired by the clock, or by that state's time."""
    if kind is not None:
        check_kind(kind)
    chosen = memory.namespaces if namespace is None else (namespace,)
    for name in chosen:
        memory.check_namespace(name)
    view = memory.space.at(memory.space.version)
    now = micros_of(view.now if by_state else memory.space.now)
    for name in chosen:
        yield from find_records(view, Filters(), namespace=name, kind=kind, id_prefix="", now=now)


def write_export(
    memory: Memory,
    stream: BinaryIO,
    *,
    namespace: str | None = None,
    kind: str | None = None,
    format: str = "jsonl",
    progress: Told | None = None,
) -> int:
    """Write an export; how many records it has."""
    if format not in FORMATS:
        raise InvalidInput(f"there is no format {format!r:.80}; there are {', '.join(FORMATS)}")
    start, between, end = (b"[\n", b",\n", b"\n]\n") if format == "json" else (b"", b"\n", b"\n")
    is_retrieval = format == _RETRIEVAL
    records = export_records(memory, namespace=namespace, kind=kind, by_state=is_retrieval)
    count = 0
    for record in records:
        written = memory_line(record) if is_retrieval else canonical(record)
        stream.write((between if count else start) + written)
        count += 1
        if progress is not None:
            progress(count)
    if count or format == "json":
        stream.write(end if count else start + b"]\n")
    return count
