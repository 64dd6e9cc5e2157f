"""Imports: envelopes from a file, checked one by one, written together.

Everything is checked first and written by one commit, or, in batches, by one commit for each. A
record that is there already as it is in the file is left alone, so an import that is run again
changes nothing. Times are those of the file.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import BinaryIO

from msgspec import Struct

from rote.bridges.batches import fitting, in_batches
from rote.bridges.validator import metadata_in, validate
from rote.errors import InvalidInput, InvalidValue, LimitExceeded
from rote.records import Memory
from rote.records.envelope import FIELDS, Envelope
from rote.records.keys import entity_id
from rote.records.metadata import check_metadata
from rote.records.profiles import V1
from rote.values import Json, canonical, decode
from rote.values.limits import (
    COMMIT_BYTES_MAX,
    DEPTH_MAX,
    OPERATIONS_MAX,
    PAGE_MAX,
    VALUE_BYTES_MAX,
)

Told = Callable[[int], None]  # how many bytes of the file were read
# A line holds one value; escapes can make a text six times as long as what it means.
_LINE_BYTES_MAX = 6 * VALUE_BYTES_MAX


class ImportReport(Struct, frozen=True, gc=False):
    """What an import did."""

    records: int  # in the file
    changed: int  # written, because they were not there or not like this
    commits: int

    def to_dict(self) -> dict[str, Json]:
        return {
            "records": self.records,
            "changed": self.changed,
            "unchanged": self.records - self.changed,
            "commits": self.commits,
        }


def import_records(
    memory: Memory,
    stream: BinaryIO,
    *,
    batch: int | None = None,
    progress: Told | None = None,
) -> ImportReport:
    """Bring in a file of JSON lines, or of one JSON array.

    batch  records in one commit; without it everything is one commit or nothing
    """
    if batch is not None and (type(batch) is not int or not 1 <= batch <= OPERATIONS_MAX):
        raise InvalidInput(f"a batch has 1 to {OPERATIONS_MAX:,} records", argument="batch")
    records = check_records(memory, read_records(stream, progress))
    if batch is None:
        whole = list(islice(fitting(records), OPERATIONS_MAX + 1))
        if len(whole) > OPERATIONS_MAX:
            raise LimitExceeded(
                "the number of records", size=len(whole), limit=OPERATIONS_MAX,
                advice="import it in batches",
            )  # fmt: skip
        return _write(memory, whole)
    done = ImportReport(0, 0, 0)
    for some in in_batches(records, batch):
        report = _write(memory, some)
        done = ImportReport(
            done.records + report.records,
            done.changed + report.changed,
            done.commits + report.commits,
        )
    return done


def read_records(stream: BinaryIO, progress: Told | None = None) -> Iterator[tuple[int, Json]]:
    """The values of a file with their places: the numbers of lines, or of an array's elements."""
    tell: Told = progress or (lambda count: None)
    number = 0
    while line := stream.readline(_LINE_BYTES_MAX + 1):
        tell(len(line))
        number += 1
        if number == 1 and line.lstrip()[:1] == b"[":
            yield from _array(line, stream, tell)
            return
        if line.strip():
            yield number, _decoded(line, f"line {number}", _LINE_BYTES_MAX)


def _array(line: bytes, stream: BinaryIO, tell: Told) -> Iterator[tuple[int, Json]]:
    rest = stream.read(COMMIT_BYTES_MAX + 1)
    tell(len(rest))
    # The array is around values that may be as deep as any.
    values = _decoded(line + rest, "the file", COMMIT_BYTES_MAX, depth_max=DEPTH_MAX + 1)
    if type(values) is not list:
        raise InvalidInput("a file of records is JSON lines, or one array")
    yield from enumerate(values, start=1)


def _decoded(text: bytes, place: str, size_bytes_max: int, depth_max: int = DEPTH_MAX) -> Json:
    if len(text) > size_bytes_max:
        raise LimitExceeded(
            f"{place} in bytes", size=len(text), limit=size_bytes_max,
            advice="have one record a line",
        )  # fmt: skip
    try:
        return decode(text, depth_max=depth_max)
    except InvalidValue as error:
        raise InvalidInput(f"{place}: {error}", place=place) from None


def check_records(
    memory: Memory, values: Iterable[tuple[int, Json]]
) -> Iterator[tuple[int, Envelope]]:
    """The envelopes in their normal form; the first that is wrong is told by its number."""
    for number, value in values:
        for problem in validate(value, namespaces=memory.namespaces, profile=memory.profile):
            if problem.kind == "error":
                raise InvalidInput(
                    f"record {number}{problem.path and ' at '}{problem.path}: {problem.message}",
                    number=number,
                    path=problem.path,
                )
        assert type(value) is dict
        metadata = None if memory.profile == V1 else check_metadata(metadata_in(value)[1])
        yield number, {**{name: value.get(name) for name in FIELDS}, "metadata": metadata}


def _write(memory: Memory, numbered: list[tuple[int, Envelope]]) -> ImportReport:
    by_entity: dict[str, Envelope] = {}
    numbers: dict[str, int] = {}
    for number, record in numbered:
        entity = entity_id(record["namespace"], record["record_kind"], record["record_id"])
        if entity in by_entity:
            raise InvalidInput(
                f"record {number} has the key of record {numbers[entity]}; keep one of them",
                number=number,
            )
        by_entity[entity], numbers[entity] = record, number
    changed = _differing(memory, by_entity)
    if changed:
        memory.space.transact([{"op": "set", "id": id, "value": by_entity[id]} for id in changed])
    return ImportReport(len(by_entity), len(changed), 1 if changed else 0)


def _differing(memory: Memory, records: dict[str, Envelope]) -> list[str]:
    """The entities that are not there, or not like this."""
    view = memory.space.at(memory.space.version)
    differing: list[str] = []
    ids = iter(records)
    while some := list(islice(ids, PAGE_MAX)):
        for state in view.read_many(some):
            if not state.exists or canonical(state.value) != canonical(records[state.id]):
                differing.append(state.id)
    return differing
