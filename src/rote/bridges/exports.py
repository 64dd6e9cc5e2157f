"""Exports: the living records of a memory as envelopes, without anything about their store.

    jsonl       one canonical envelope a line
    json        the same lines as the elements of one array
    retrieval   one memory a line, as retrieval by phase6-v1 sees it in the space
    memories    the same for the policies of ranking: a record with entries is a line for each

Records are in the order of namespace, kind and id, so that equal memories give equal bytes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from rote.bridges.record_files import check_binary
from rote.errors import InvalidInput
from rote.records.envelope import Envelope
from rote.records.filters import Filters
from rote.records.keys import check_kinds
from rote.records.listing import find_records
from rote.records.memory import Memory
from rote.retrieval import memory_line, memory_lines
from rote.space import Space
from rote.values import canonical, micros_of

# The lines of a record in each format.
_LINES: dict[str, Callable[[Envelope], list[bytes]]] = {
    "jsonl": lambda record: [canonical(record)],
    "json": lambda record: [canonical(record)],
    "retrieval": lambda record: [memory_line(record)],
    "memories": memory_lines,
}
FORMATS = tuple(_LINES)
Told = Callable[[int], None]  # how many records are done


def export_records(
    memory: Memory,
    *,
    namespace: str | Sequence[str] | None = None,
    kind: str | Sequence[str] | None = None,
) -> Iterator[Envelope]:
    """Return the living records of one state, also while others write.

    namespace, kind  one or several; all when left out or empty
    """
    kinds = check_kinds(kind)
    chosen = _several(namespace) or memory.namespaces
    for name in chosen:
        memory.check_namespace(name)
    view = memory.space.at(memory.space.version)
    now = micros_of(memory.space.now)
    for name in chosen:
        yield from living_records(view, now, name, kinds)


def living_records(
    view: Space, now: int, namespace: str, kinds: tuple[str, ...]
) -> Iterator[Envelope]:
    """Return the living records of a namespace in a view, of the kinds; of all kinds without any."""
    for kind in kinds or (None,):
        yield from find_records(
            view, Filters(), namespace=namespace, kind=kind, id_prefix="", now=now
        )


def _several(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return one name or several as a tuple, each once, in the order of exports."""
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(sorted(set(names)))


def write_export(
    memory: Memory,
    stream: BinaryIO,
    *,
    namespace: str | Sequence[str] | None = None,
    kind: str | Sequence[str] | None = None,
    format: str = "jsonl",
    progress: Told | None = None,
) -> int:
    """Write an export; return the number of its records."""
    if format not in FORMATS:
        raise InvalidInput(f"there is no format {format!r:.80}; there are {', '.join(FORMATS)}")
    check_binary(stream, "write")
    start, between, end = (b"[\n", b",\n", b"\n]\n") if format == "json" else (b"", b"\n", b"\n")
    lines_of, is_begun, count = _LINES[format], False, 0
    for record in export_records(memory, namespace=namespace, kind=kind):
        for line in lines_of(record):
            stream.write((between if is_begun else start) + line)
            is_begun = True
        count += 1
        if progress is not None:
            progress(count)
    if is_begun or format == "json":
        stream.write(end if is_begun else start + b"]\n")
    return count
