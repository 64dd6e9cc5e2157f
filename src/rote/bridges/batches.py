"""Records on their way into commits: not more at once than a commit holds, and no key twice."""

from collections.abc import Iterable, Iterator
from hashlib import sha256

from msgspec import Struct

from rote.bridges.validator import key_in
from rote.errors import InvalidInput, LimitExceeded
from rote.records.envelope import Envelope, Life
from rote.values import canonical, decode_canonical
from rote.values.limits import COMMIT_BYTES_MAX

# What stands for a key that was met, and for what a note says: files may have millions.
_DIGEST_BYTES = 16


class Incoming(Struct, frozen=True):
    """A record as it was found."""

    place: str  # where, for people
    record: Envelope
    timeless: bool = False  # the file has no times and no ttl for it: they are those of a put


class Checked(Struct, frozen=True, gc=False):
    """A record that can be written. It is held as text: as objects, the records of a file would take
    up much room and be looked through by the garbage collector again and again."""

    place: str
    entity: str
    data: bytes  # canonical, in its normal form
    life: Life | None  # None when it is timeless
    size: int  # what it takes up in a commit, in bytes

    @property
    def timeless(self) -> bool:
        return self.life is None

    @property
    def record(self) -> Envelope:
        """Decoded anew, each time."""
        record: Envelope = decode_canonical(self.data)
        return record


class Keys:
    """The keys that were met: each may come once, in later batches too, because two records of one
    key would take turns whenever the file is imported. But a note that is found twice is one."""

    def __init__(self) -> None:
        self._places: dict[bytes, str] = {}
        self._notes: dict[bytes, bytes] = {}

    def is_new(self, item: "Incoming | Checked") -> bool:
        """Whether a record with a key is to be taken; InvalidInput when another one has its key."""
        key = _digest(_key_of(item))
        note = _digest(canonical(item.record["payload"])) if item.timeless else None
        if key not in self._places:
            self._places[key] = item.place
            if note is not None:
                self._notes[key] = note
            return True
        if note is not None and self._notes.get(key) == note:
            return False
        reason = f"has the key of {self._places[key]}; keep one of them"
        raise InvalidInput(f"{item.place} {reason}", place=item.place, reason=f"it {reason}")


def distinct(records: Iterable[Checked]) -> Iterator[Checked]:
    """Each key once."""
    keys = Keys()
    return (record for record in records if keys.is_new(record))


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


def _key_of(item: Incoming | Checked) -> bytes:
    if isinstance(item, Checked):
        return item.entity.encode()
    return canonical(list(key_in(item.record)))


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()[:_DIGEST_BYTES]
