"""Imports: envelopes from a file, checked one by one, written together.

Everything is checked first and written by one commit, or, in batches, by one commit for each. A
record that is there already as it is in the file is left alone, so an import that is run again
changes nothing. Times are those of the file.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import BinaryIO

from msgspec import Struct

from rote.bridges.validator import normal_record, validate
from rote.errors import InvalidInput, InvalidValue, LimitExceeded
from rote.records import Memory
from rote.records.envelope import Envelope
from rote.values import Json, canonical, decode
from rote.values.limits import COMMIT_BYTES_MAX, OPERATIONS_MAX, PAGE_MAX, VALUE_BYTES_MAX

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
        whole = list(islice(records, OPERATIONS_MAX + 1))
        if len(whole) > OPERATIONS_MAX:
            raise LimitExceeded(
                "the number of records", size=len(whole), limit=OPERATIONS_MAX,
                advice="import it in batches",
            )  # fmt: skip
        return _write(memory, whole)
    done = ImportReport(0, 0, 0)
    while some := list(islice(records, batch)):
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
    values = _decoded(line + rest, "the file", COMMIT_BYTES_MAX)
    if type(values) is not list:
        raise InvalidInput("a file of records is JSON lines, or one array")
    yield from enumerate(values, start=1)


def _decoded(text: bytes, place: str, size_bytes_max: int) -> Json:
    if len(text) > size_bytes_max:
        raise LimitExceeded(f"{place} in bytes", size=len(text), limit=size_bytes_max)
    try:
        return decode(text)
    except InvalidValue as error:
        raise InvalidInput(f"{place}: {error}", place=place) from None


def check_records(
    memory: Memory, values: Iterable[tuple[int, Json]]
) -> Iterator[tuple[int, str, Envelope]]:
    """Numbers, entities and envelopes in their normal form; the first that is wrong is told by its
    number."""
    for number, value in values:
        found = normal_record(value, namespaces=memory.namespaces, profile=memory.profile)
        if found is None:
            _refuse(memory, number, value)
        else:
            yield number, *found


def _refuse(memory: Memory, number: int, value: Json) -> None:
    """Tell the first error of a record."""
    for problem in validate(value, namespaces=memory.namespaces, profile=memory.profile):
        if problem.kind == "error":
            raise InvalidInput(
                f"record {number}{problem.path and ' at '}{problem.path}: {problem.message}",
                number=number,
                path=problem.path,
            )


def _write(memory: Memory, numbered: list[tuple[int, str, Envelope]]) -> ImportReport:
    records: dict[str, Envelope] = {}
    numbers: dict[str, int] = {}
    for number, entity, record in numbered:
        if entity in numbers:
            raise InvalidInput(
                f"record {number} has the key of record {numbers[entity]}; keep one of them",
                number=number,
            )
        records[entity], numbers[entity] = record, number
    changed = _differing(memory, records)
    if changed:
        try:
            memory.space.transact([{"op": "set", "id": id, "value": records[id]} for id in changed])
        except LimitExceeded:
            for id in changed:
                _refuse(memory, numbers[id], records[id])
            raise
    return ImportReport(len(records), len(changed), 1 if changed else 0)


def _differing(memory: Memory, records: dict[str, Envelope]) -> list[str]:
    """The entities that are not there, or not like this."""
    differing: list[str] = []
    ids = iter(records)
    while some := list(islice(ids, PAGE_MAX)):
        for state in memory.space.read_many(some):
            if not state.exists or canonical(state.value) != canonical(records[state.id]):
                differing.append(state.id)
    return differing
