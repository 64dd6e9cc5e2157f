"""Records on their way into commits: never more than a commit holds, and no key twice."""

from collections.abc import Iterable, Iterator
from hashlib import sha256

from msgspec import Struct

from rote.bridges.validator import key_in
from rote.errors import InvalidInput, LimitExceeded
from rote.records.envelope import Envelope, Life
from rote.values import canonical, decode_canonical
from rote.values.limits import COMMIT_BYTES_MAX

# Keys and notes are remembered by short digests, because a file may have millions of them.
_DIGEST_BYTES = 16


class Incoming(Struct, frozen=True):
    """A record as it was found in a file."""

    place: str  # where it was found, for people
    record: Envelope
    timeless: bool = False  # the file has no times and no ttl; it gets those of a put
    whole: bool = False  # of a timeless one: the file says more of it than its payload


class Checked(Struct, frozen=True, gc=False):
    """A record that can be written. It is held as bytes: the records of a file would take much more
    memory as objects, and the garbage collector would visit them again and again."""

    place: str
    entity: str
    data: bytes  # canonical, in its normal form
    life: Life | None  # None when it is timeless
    size: int  # what it takes up in a commit, in bytes
    whole: bool = False  # as above

    @property
    def timeless(self) -> bool:
        return self.life is None

    @property
    def record(self) -> Envelope:
        """The envelope, decoded anew each time."""
        record: Envelope = decode_canonical(self.data)
        return record


class Keys:
    """The keys of all records so far. Each may come once, in later batches too: two records of one
    key would replace each other at every import. A note that is found twice counts as one."""

    def __init__(self) -> None:
        self._places: dict[bytes, str] = {}
        self._notes: dict[bytes, bytes] = {}

    def is_new(self, item: "Incoming | Checked") -> bool:
        """Whether a record has a new key; InvalidInput when a different record has its key."""
        key = _digest(_key_of(item))
        note = _digest(canonical(item.record["payload"])) if item.timeless else None
        if key not in self._places:
            self._places[key] = item.place
            if note is not None:
                self._notes[key] = note
            return True
        if note is not None and self._notes.get(key) == note:
            return False
        advice = "keep one of them" + (", or --skip one" if item.timeless else "")
        reason = f"has the key of {self._places[key]}; {advice}"
        raise InvalidInput(f"{item.place} {reason}", place=item.place, reason=f"it {reason}")


def distinct(records: Iterable[Checked]) -> Iterator[Checked]:
    """Return the records without repeated notes; InvalidInput when two records have one key."""
    keys = Keys()
    return (record for record in records if keys.is_new(record))


def fitting(records: Iterable[Checked]) -> Iterator[Checked]:
    """Return the records; LimitExceeded as soon as they are more than one commit holds."""
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
    """Return lists of at most `count_max` records; fewer when more would not fit a commit."""
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
