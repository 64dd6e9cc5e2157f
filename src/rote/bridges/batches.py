"""Records on their way into commits: not more at once than a commit holds, and no key twice."""

from collections.abc import Iterable, Iterator
from hashlib import sha256

from msgspec import Struct

from rote.errors import InvalidInput, LimitExceeded
from rote.records.envelope import Envelope
from rote.values import canonical
from rote.values.limits import COMMIT_BYTES_MAX

# What stands for a key that was met, and for what a note says: files may have millions.
_DIGEST_BYTES = 16


class Incoming(Struct, frozen=True):
    """A record as it was found."""

    place: str  # where, for people
    record: Envelope
    timeless: bool = False  # the file has no times and no ttl for it: they are those of a put


class Checked(Struct, frozen=True):
    """A record that can be written."""

    place: str
    entity: str
    record: Envelope  # in its normal form
    timeless: bool
    size: int  # what it takes up in a commit, in bytes


def distinct(records: Iterable[Checked]) -> Iterator[Checked]:
    """Each key once. One that comes again is refused, in a later batch too: the two would take turns
    whenever the file is imported. But a note that was found twice is one note."""
    places: dict[bytes, str] = {}
    notes: dict[bytes, bytes] = {}
    for item in records:
        key = _digest(item.entity.encode())
        note = _digest(canonical(item.record["payload"])) if item.timeless else None
        if key not in places:
            places[key] = item.place
            if note is not None:
                notes[key] = note
            yield item
        elif note is None or notes.get(key) != note:
            raise InvalidInput(
                f"{item.place} has the key of {places[key]}; keep one of them", place=item.place
            )


def fitting(records: Iterable[Checked]) -> Iterator[Checked]:
    """The same records; LimitExceeded as soon as they are more than one commit holds."""
    size = 0
    for item in records:
        size += item.size
        if size > COMMIT_BYTES_MAX:
            raise LimitExceeded(
                "the size of the records in bytes", size=size, limit=COMMIT_BYTES_MAX,
                advice="import it in batches",
            )  # fmt: skip
        yield item


def in_batches(records: Iterable[Checked], count_max: int) -> Iterator[list[Checked]]:
    """So many records at a time, or fewer where they are large."""
    batch: list[Checked] = []
    size = 0
    for item in records:
        if batch and (len(batch) == count_max or size + item.size > COMMIT_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item.size
    if batch:
        yield batch


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()[:_DIGEST_BYTES]
