"""Records on their way into commits: not more at once than a commit holds, and no key twice."""

from collections.abc import Iterable, Iterator
from hashlib import sha256

from rote.errors import InvalidInput, LimitExceeded
from rote.records.envelope import Envelope
from rote.records.keys import entity_id
from rote.values import canonical
from rote.values.limits import COMMIT_BYTES_MAX

Numbered = tuple[int, Envelope]  # a record with its place in a file

# What stands for a key that was met: files may have millions.
_DIGEST_BYTES = 16


def fitting(records: Iterable[Numbered]) -> Iterator[Numbered]:
    """The same records; LimitExceeded as soon as they are more than one commit holds."""
    size = 0
    for number, record in records:
        size += _size(record)
        if size > COMMIT_BYTES_MAX:
            raise LimitExceeded(
                "the size of the records in bytes", size=size, limit=COMMIT_BYTES_MAX,
                advice="import it in batches",
            )  # fmt: skip
        yield number, record


def in_batches(records: Iterable[Numbered], count_max: int) -> Iterator[list[Numbered]]:
    """So many records at a time, or fewer where they are large. A key that comes again is refused in
    a later batch too: the two would take turns whenever the file is imported."""
    met: dict[bytes, int] = {}
    batch: list[Numbered] = []
    size = 0
    for number, record in records:
        key = sha256(_entity(record).encode()).digest()[:_DIGEST_BYTES]
        if key in met:
            raise InvalidInput(
                f"record {number} has the key of record {met[key]}; keep one of them",
                number=number,
            )
        met[key] = number
        size += _size(record)
        if batch and (len(batch) == count_max or size > COMMIT_BYTES_MAX):
            yield batch
            batch, size = [], _size(record)
        batch.append((number, record))
    if batch:
        yield batch


def _size(record: Envelope) -> int:
    """What it takes up in a commit."""
    return len(canonical(_entity(record))) + len(canonical(record))


def _entity(record: Envelope) -> str:
    return entity_id(record["namespace"], record["record_kind"], record["record_id"])
