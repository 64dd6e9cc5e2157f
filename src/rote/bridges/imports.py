"""Imports: envelopes from a file, checked one by one, written together.

Everything is checked first and written by one commit, or, in batches, by one commit for each. A
record that is there already as it is in the file is left alone, so an import that is run again
changes nothing; one that differs is replaced, unless it is newer (differences.py). Times are those
of the file; where it has none, they are those of the commit.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import BinaryIO

import orjson
from msgspec import Struct

from rote.bridges.batches import Checked, Incoming, distinct, fitting, in_batches
from rote.bridges.differences import Counts, Difference, differences, none_newer
from rote.bridges.record_files import Told, read_records
from rote.bridges.validator import Problem, normal_record, sized, validate
from rote.errors import InvalidInput, InvalidValue, LimitExceeded, RoteError, invariant
from rote.records.envelope import Envelope
from rote.records.memory import Memory
from rote.records.profiles import V1
from rote.values import Json
from rote.values.limits import NAMED_IN_ERROR_MAX, NAMESPACES_MAX, OPERATIONS_MAX

_ANY_TIMES = dict.fromkeys(("created_at", "updated_at"), "1970-01-01T00:00:00.000000Z")
_NO_TIMES = dict.fromkeys(_ANY_TIMES)
_STAMPS_BYTES = 160  # as much as a commit counts for two stamps


class ImportReport(Struct, frozen=True, gc=False):
    """Report of an import, or of a dry run."""

    counts: Counts
    commits: int

    @property
    def records(self) -> int:
        return self.counts.records

    @property
    def written(self) -> int:
        return self.counts.written

    def to_dict(self) -> dict[str, Json]:
        return {**self.counts.to_dict(), "commits": self.commits}


def import_records(
    memory: Memory,
    stream: BinaryIO,
    *,
    batch: int | None = None,
    dry_run: bool = False,
    overwrite: bool = False,
    progress: Told | None = None,
) -> ImportReport:
    """Bring in a file of JSON lines, or of one JSON array.

    batch      records in one commit; without it everything is one commit or nothing
    dry_run    everything but the commits, and what would be refused as newer is counted
    overwrite  replace what is newer there, too
    """
    values = read_records(stream, progress)
    incoming = (Incoming(f"record {number}", value) for number, value in values)
    manner = Manner(batch, dry_run, overwrite)
    counts, commits = Counts(), 0
    for found in write_incoming(memory, incoming, manner):
        some = Counts.of(found)
        counts = counts.plus(some)
        commits += 1 if some.written and not dry_run else 0
    return ImportReport(counts, commits)


class Manner(Struct, frozen=True):
    """Settings of an import, as its caller gave them."""

    batch: int | None
    dry_run: bool
    overwrite: bool


def write_incoming(
    memory: Memory, incoming: Iterable[Incoming], manner: Manner
) -> Iterator[list[Difference]]:
    """Check everything that comes and write what differs: at once, or batch by batch."""
    batch = manner.batch
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
        yield _write(memory, whole, manner)
        return
    written = 0
    try:
        for some in in_batches(records, batch):
            done = _write(memory, some, manner)
            written += 0 if manner.dry_run else len(some)
            yield done
    except RoteError as error:
        raise _told_after(error, written) from None


def _told_after(error: RoteError, records: int) -> RoteError:
    """Return the error with the number of records that were written before it."""
    if records:
        error.args = (f"{error}; the batches before it, {records:,} records, were written",)
        error.details["records_before"] = records
    return error


def check_incoming(memory: Memory, incoming: Iterable[Incoming]) -> Iterator[Checked]:
    """Return the records in their normal form; InvalidInput names the place of the first bad one."""
    namespaces, profile = memory.namespaces, memory.profile
    rest = iter(incoming)
    for item in rest:
        found = normal_record(_timed(item, profile), namespaces=namespaces, profile=profile)
        if found is None:
            problems = problems_of(item, namespaces=namespaces, profile=profile)
            raise _refusal(item, problems, rest, namespaces)
        entity, record, life = found
        if item.timeless:
            ttl_seconds = memory.default_ttl(record["namespace"])
            record = {**record, **_NO_TIMES, "ttl_seconds": ttl_seconds}
        try:
            data = sized(record)
        except (InvalidValue, LimitExceeded) as error:
            raise InvalidInput(f"{item.place}: {error}", place=item.place) from None
        size = len(orjson.dumps(entity)) + len(data)
        if item.timeless:
            yield Checked(item.place, entity, data, None, size + _STAMPS_BYTES, item.whole)
        else:
            yield Checked(item.place, entity, data, life, size)


def problems_of(item: Incoming, *, namespaces: Iterable[str], profile: str) -> list[Problem]:
    """Return the problems that the validator finds in a record."""
    return validate(_timed(item, profile), namespaces=namespaces, profile=profile)


def _timed(item: Incoming, profile: str) -> Envelope:
    """Return the record for the validator: a timeless one gets any times, because its commit will
    set them, and under v1 it loses its metadata, which only this import added."""
    if not item.timeless:
        return item.record
    record = {**item.record, **_ANY_TIMES}
    if profile == V1:
        record["metadata"] = None
    return record


def _refusal(
    item: Incoming, problems: list[Problem], rest: Iterator[Incoming], namespaces: Iterable[str]
) -> InvalidInput:
    """Return the error with all problems of a record, and other unknown namespaces of the file."""
    errors = [problem for problem in problems if problem.kind == "error"]
    invariant(bool(errors), "the validator finds what is wrong with what is refused")
    told = [f"{'at ' if error.path else ''}{error.path}: {error.message}" for error in errors]
    if any(error.path == "/namespace" for error in errors) and type(item.record) is dict:
        known = {*namespaces, item.record.get("namespace")}
        others = sorted(_namespaces_of(rest) - known)[:NAMED_IN_ERROR_MAX]
        told += [f"further on there is {name!r:.80}" for name in others]
    first, *more = told
    space = "" if first.startswith(":") else " "
    return InvalidInput(
        "; ".join([f"{item.place}{space}{first}", *more]), place=item.place, path=errors[0].path
    )


def _namespaces_of(rest: Iterator[Incoming]) -> set[str]:
    """Return the namespaces of the records that are still to come, as far as they can be read."""
    found: set[str] = set()
    try:
        for item in rest:
            namespace = item.record.get("namespace") if type(item.record) is dict else None
            if type(namespace) is str and len(found) < NAMESPACES_MAX:
                found.add(namespace)
    except RoteError:
        pass  # the user meets this error after mending the first
    return found


def _write(memory: Memory, items: list[Checked], manner: Manner) -> list[Difference]:
    by_entity = {item.entity: item for item in items}

    def write_once() -> list[Difference]:
        compared = differences(memory, by_entity, overwrite=manner.overwrite)
        if manner.dry_run:
            return list(compared)
        found = list(compared if manner.overwrite else none_newer(compared))
        written = [difference for difference in found if difference.value is not None]
        if written:
            memory.space.transact(
                [difference.operation for difference in written],
                reads=[difference.read for difference in written],
            )
        return found

    return memory.space.retry(write_once)
