"""Imports: envelopes from a file, checked one by one, written together.

Everything is checked first and written by one commit, or, in batches, by one commit for each. A
record that is there already as it is in the file is left alone, so an import that is run again
changes nothing; one that differs is replaced, also a newer one. Times are those of the file; where
it has none, they are those of the commit.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO

from msgspec import Struct

from rote.bridges.batches import Checked, Incoming, distinct, fitting, in_batches
from rote.bridges.validator import Problem, check_size, normal_record, validate
from rote.contract import State
from rote.errors import InvalidInput, InvalidValue, LimitExceeded, RoteError, invariant
from rote.records import Memory
from rote.records.envelope import Envelope, life_of, record_of
from rote.records.profiles import V1
from rote.values import Json, canonical, decode, micros_of
from rote.values.limits import (
    COMMIT_BYTES_MAX,
    DEPTH_MAX,
    OPERATIONS_MAX,
    PAGE_MAX,
    VALUE_BYTES_MAX,
)

Told = Callable[[int], None]  # how many bytes of the file were read
TIMES = ("/created_at", "/updated_at")
_ANY_TIMES = {"created_at": "1970-01-01T00:00:00Z", "updated_at": "1970-01-01T00:00:00Z"}
_NO_TIMES = dict.fromkeys(_ANY_TIMES)
_STAMPS_BYTES = 160  # as much as a commit counts for two stamps
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
    dry_run: bool = False,
    progress: Told | None = None,
) -> ImportReport:
    """Bring in a file of JSON lines, or of one JSON array.

    batch    records in one commit; without it everything is one commit or nothing
    dry_run  everything but the commits
    """
    values = read_records(stream, progress)
    incoming = (Incoming(f"record {number}", value) for number, value in values)
    records = changed = commits = 0
    for some, written in write_incoming(memory, incoming, batch=batch, dry_run=dry_run):
        records += len(some)
        changed += len(written)
        commits += 1 if written and not dry_run else 0
    return ImportReport(records, changed, commits)


Batch = tuple[list[Checked], list[Checked]]  # the records of one commit, and those that changed


def write_incoming(
    memory: Memory, incoming: Iterable[Incoming], *, batch: int | None, dry_run: bool
) -> Iterator[Batch]:
    """Check everything that comes and write what differs: at once, or batch by batch."""
    if batch is not None and (type(batch) is not int or not 1 <= batch <= OPERATIONS_MAX):
        raise InvalidInput(f"a batch has 1 to {OPERATIONS_MAX:,} records", argument="batch")
    records = distinct(check_incoming(memory, incoming))
    if batch is None:
        whole = list(islice(fitting(records), OPERATIONS_MAX + 1))
        if len(whole) > OPERATIONS_MAX:
            raise LimitExceeded(
                "the number of records", size=len(whole), limit=OPERATIONS_MAX,
                advice="import it in batches",
            )  # fmt: skip
        yield _write(memory, whole, dry_run=dry_run)
        return
    written = 0
    try:
        for some in in_batches(records, batch):
            done = _write(memory, some, dry_run=dry_run)
            written += 0 if dry_run else len(some)
            yield done
    except RoteError as error:
        raise _told_after(error, written) from None


def _told_after(error: RoteError, records: int) -> RoteError:
    """The error, and how much was done before it."""
    if records:
        error.args = (f"{error}; the batches before it, {records:,} records, were written",)
        error.details["records_before"] = records
    return error


def read_records(stream: BinaryIO, progress: Told | None = None) -> Iterator[tuple[int, Json]]:
    """The values of a file with their places: the numbers of lines, or of an array's elements."""
    for number, value in try_records(stream, progress):
        if isinstance(value, RoteError):
            raise value
        yield number, value


def try_records(
    stream: BinaryIO, progress: Told | None = None
) -> Iterator[tuple[int, Json | RoteError]]:
    """The same, with what cannot be read as its error."""
    tell: Told = progress or (lambda count: None)
    number = 0
    while line := stream.readline(_LINE_BYTES_MAX + 1):
        tell(len(line))
        number += 1
        if number == 1 and line.lstrip()[:1] == b"[":
            yield from _array(line, stream, tell)
            return
        if line.strip():
            value = _decoded(line.rstrip(), f"line {number}", _LINE_BYTES_MAX)
            yield number, value
            if isinstance(value, LimitExceeded):
                return  # where the next line begins is not known


def _array(line: bytes, stream: BinaryIO, tell: Told) -> Iterator[tuple[int, Json | RoteError]]:
    rest = stream.read(COMMIT_BYTES_MAX + 1)
    tell(len(rest))
    # The array is around values that may be as deep as any.
    values = _decoded(line + rest, "the file", COMMIT_BYTES_MAX, depth_max=DEPTH_MAX + 1)
    if type(values) is list:
        yield from enumerate(values, start=1)
    else:
        assert isinstance(values, RoteError)  # what starts like an array is one or is nothing
        yield 1, values


def _decoded(
    text: bytes, place: str, size_bytes_max: int, depth_max: int = DEPTH_MAX
) -> Json | RoteError:
    if len(text) > size_bytes_max:
        return LimitExceeded(
            f"{place} in bytes", size=len(text), limit=size_bytes_max,
            advice="have one record a line",
        )  # fmt: skip
    try:
        return decode(text, depth_max=depth_max)
    except InvalidValue as error:
        return InvalidInput(f"{place}: {error}", place=place, **error.details)


def check_incoming(memory: Memory, incoming: Iterable[Incoming]) -> Iterator[Checked]:
    """The records in their normal form, each looked at once; the first that is wrong is told by its
    place."""
    namespaces, profile = memory.namespaces, memory.profile
    for item in incoming:
        found = normal_record(_timed(item, profile), namespaces=namespaces, profile=profile)
        if found is None:
            raise _refusal(item, problems_of(item, namespaces=namespaces, profile=profile))
        entity, record = found
        stamps = 0
        if item.timeless:
            ttl_seconds = memory.default_ttl(record["namespace"])
            record = {**record, **_NO_TIMES, "ttl_seconds": ttl_seconds}
            stamps = _STAMPS_BYTES
        try:
            size = len(canonical(entity)) + check_size(record) + stamps
        except (InvalidValue, LimitExceeded) as error:
            raise InvalidInput(f"{item.place}: {error}", place=item.place) from None
        yield Checked(item.place, entity, record, item.timeless, size)


def problems_of(item: Incoming, *, namespaces: Iterable[str], profile: str) -> list[Problem]:
    """What the validator says about a record."""
    return validate(_timed(item, profile), namespaces=namespaces, profile=profile)


def _timed(item: Incoming, profile: str) -> Envelope:
    """A record as it can be checked: a commit will bring the times of a timeless one, and v1 leaves
    out what was only said about it."""
    if not item.timeless:
        return item.record
    record = {**item.record, **_ANY_TIMES}
    if profile == V1:
        record["metadata"] = None
    return record


def _refusal(item: Incoming, problems: list[Problem]) -> InvalidInput:
    """The first error of a record."""
    errors = [problem for problem in problems if problem.kind == "error"]
    invariant(bool(errors), "the validator finds what is wrong with what is refused")
    path, message = errors[0].path, errors[0].message
    return InvalidInput(
        f"{item.place}{path and ' at '}{path}: {message}", place=item.place, path=path
    )


def _write(memory: Memory, items: list[Checked], *, dry_run: bool) -> Batch:
    by_entity = {item.entity: item for item in items}

    def write_once() -> list[Checked]:
        operations, reads = _differences(memory, by_entity)
        if operations and not dry_run:
            memory.space.transact(operations, reads=reads)
        return [by_entity[operation["id"]] for operation in operations]

    return items, memory.space.retry(write_once)


def _differences(
    memory: Memory, incoming: dict[str, Checked]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What has to be written, and what must not change meanwhile."""
    now = micros_of(memory.space.now)
    operations: list[dict[str, Any]] = []
    reads: list[dict[str, Any]] = []
    ids = iter(incoming)
    while some := list(islice(ids, PAGE_MAX)):
        for state in memory.space.read_many(some):
            item = incoming[state.id]
            if item.timeless:
                operation = _timeless_operation(item.record, state, now)
                if operation is not None:
                    reads.append({"id": state.id, "version": state.version})
                    operations.append(operation)
            elif not state.exists or canonical(state.value) != canonical(item.record):
                operations.append({"op": "set", "id": state.id, "value": item.record})
    return operations, reads


def _timeless_operation(record: Envelope, state: State, now: int) -> dict[str, Any] | None:
    """The write of a record without times; None when what it says is there."""
    there = record_of(state)
    life = None if there is None else life_of(there)
    if there is None or life is None or life.has_expired(now):
        return {"op": "set", "id": state.id, "value": record, "stamp": list(TIMES)}
    if _holds(there["payload"], record["payload"]):
        return None
    value = {**record, "created_at": there["created_at"]}
    return {"op": "set", "id": state.id, "value": value, "stamp": [TIMES[1]]}


def _holds(there: dict[str, Any], payload: dict[str, Any]) -> bool:
    """Whether a payload is there; a log may have gone on since."""
    entries, wanted = there.get("entries"), payload.get("entries")
    if type(entries) is list and type(wanted) is list:
        there = {**there, "entries": entries[: len(wanted)]}
    return canonical(there) == canonical(payload)
