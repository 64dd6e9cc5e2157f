"""Messages of queues: where they are kept, under which names, and when one is ready.

    entity    queue:<queue>/<id>                    {"payload", "put_at", "max_tries"}; put sets it, ack and
                                                    drop delete it, nothing else writes it
    side row  message <queue>/<id>@<branch>         tries and lease, from the first take on; it goes with
                                                    the message
    index     messages/2                            for the order: <queue>/<put_at>/<version>/<place>; a row
                                                    has these, too, so that a message with one is found
                                                    without the index

A commit's time is never before that of an earlier commit, so the order by `put_at` is that of versions;
a merge gives a message another version, but not another `put_at`. Frozen: all of these names.
"""

import re
from collections.abc import Iterable

from msgspec import Struct, structs

from rote.contract import SideRow
from rote.errors import InvalidInput
from rote.values import Json, digest, parse_time
from rote.values.times import MICROS_MIN

PREFIX = "queue:"
KIND = "message"
ID_BYTES = 16
_is_id = re.compile(r"[0-9a-f]{32}").fullmatch
_entity = re.compile(r"queue:([A-Za-z0-9][A-Za-z0-9._\-]*)/([0-9a-f]{32})").fullmatch


class MessageIndex:
    """The declaration of the index; rote.open gives it to the kernel."""

    name = "messages/2"
    prefix = PREFIX

    def terms(self, id: str, value: Json, version: int, place: int, /) -> Iterable[str]:
        named, put_at = _entity(id), _put_at(value)
        if named is None or put_at is None:
            return ()  # another program wrote something else there
        return (term_of(named[1], put_at, version, place),)


def term_of(queue: str, put_at: int, version: int, place: int) -> str:
    return f"{queue}/{put_at - MICROS_MIN:020d}/{version:020d}/{place:020d}"


def place_in(term: str) -> tuple[int, int]:
    """Return the version of a put, and its place in the commit."""
    _, version, place = term.rsplit("/", 2)
    return int(version), int(place)


MESSAGES = MessageIndex()


def _put_at(value: Json) -> int | None:
    if type(value) is not dict or type(value.get("max_tries")) is not int or "payload" not in value:
        return None
    try:
        return parse_time(value.get("put_at"))
    except InvalidInput:
        return None


class Message(Struct, frozen=True):
    """The name of a message on a branch."""

    queue: str
    id: str
    branch: str

    @property
    def entity(self) -> str:
        return f"{PREFIX}{self.queue}/{self.id}"

    @property
    def key(self) -> str:
        """The key of its side row."""
        return f"{self.queue}/{self.id}@{self.branch}"

    @property
    def can_exist(self) -> bool:
        return _is_id(self.id) is not None


def id_of_key(queue: str, key: str) -> str:
    """Return the id of a message that was put with a key."""
    return digest({"kind": "message/1", "queue": queue, "key": key})[: 2 * ID_BYTES]


class Tries(Struct, frozen=True, kw_only=True):
    """The body of a message's side row."""

    tries: int  # so many takes
    max_tries: int
    put_at: int  # microseconds
    # Of the put's commit, and the place in it. Rows from before this was noted have neither, and are
    # the first of their instant.
    version: int = 0
    place: int = 0
    lease: str | None  # of the last take; None after a nack
    until: int | None  # microseconds: the end of the lease, or of the delay after a nack

    def is_dead(self, now: int) -> bool:
        return self.tries >= self.max_tries and not (self.lease is not None and self.is_away(now))

    def is_away(self, now: int) -> bool:
        """Return whether it is leased or delayed."""
        return self.until is not None and now < self.until

    def is_ready(self, now: int) -> bool:
        return not self.is_away(now) and not self.is_dead(now)

    def term(self, queue: str) -> str:
        """Return the term under which the index lists the message."""
        return term_of(queue, self.put_at, self.version, self.place)

    def body(self) -> dict[str, Json]:
        return structs.asdict(self)


def tries_in(row: SideRow) -> Tries:
    return Tries(**row.body)
