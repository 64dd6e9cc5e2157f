"""The queue tier: messages that are put once, taken in order under a lease, and acknowledged once.

A take moves the side row of a message by compare-and-set, so a message has one living lease, whoever takes
on however many machines. An ack is a commit that deletes the message and drops the row together.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from rote.contract import Guard, Hit, IdSource, SideRow, TokenSource
from rote.contract.commands import AwaitCommit, DropSide, GetSide, ListSides, MakeCommit, PutSide
from rote.errors import Busy, Compacted, Denied, InvalidInput, LimitExceeded, NotFound
from rote.space import Space
from rote.space.sources import port_of, shared_now
from rote.tiers.grants import check_granted
from rote.tiers.messages import (
    ID_BYTES,
    KIND,
    MESSAGES,
    Message,
    Tries,
    id_of_key,
    place_in,
    tries_in,
)
from rote.tiers.options import checked_options
from rote.tiers.verbs import Parameter, Verb, table
from rote.values import Json, canonical, check_space_name, format_time, parse_time
from rote.values.limits import (
    AWAIT_SECONDS_MAX,
    CONTENTION_ATTEMPTS_MAX,
    INTEGER_MAX,
    LEASE_SECONDS_DEFAULT,
    LEASE_SECONDS_MAX,
    PAGE_MAX,
    SPACE_NAME_CHARACTERS_MAX,
)
from rote.values.tier_limits import (
    MERGES_LOOKED_FOR_MAX,
    MESSAGE_BYTES_DEFAULT,
    MESSAGE_TRIES_DEFAULT,
    MESSAGES_READ_FIRST,
    QUEUES_REMEMBERED,
    SIDES_READ_FIRST,
)

R = TypeVar("R")
_SECOND = 1_000_000


def _is_queue(name: str) -> bool:
    with suppress(InvalidInput):
        check_space_name(name)
        return True
    return False


def _is_positive(seconds: float | None) -> bool:
    return seconds is None or seconds > 0


_NAME = (
    f"a name of 1 to {SPACE_NAME_CHARACTERS_MAX} characters of A-Z a-z 0-9 . _ -"
    " that starts with a letter or digit"
)
_QUEUE = Parameter("queue", {"type": "string", "description": _NAME}, check=_is_queue)
_SECONDS = {
    "type": ["number", "null"],
    "maximum": LEASE_SECONDS_MAX,
    "description": f"number above 0 and up to {LEASE_SECONDS_MAX:,}, or null",
}
_LEASE_SECONDS = Parameter("lease_seconds", _SECONDS, None, check=_is_positive)
_DELAY = Parameter(
    "delay_seconds", {"type": "number", "minimum": 0, "maximum": LEASE_SECONDS_MAX}, 0
)
_WAIT = Parameter("wait_seconds", {"type": "number", "minimum": 0, "maximum": AWAIT_SECONDS_MAX}, 0)
_TEXT = {"type": "string"}
_ID, _LEASE = Parameter("id", _TEXT), Parameter("lease", _TEXT)
_LIMIT = Parameter("limit", {"type": "integer", "minimum": 1, "maximum": PAGE_MAX}, 1)
VERBS = table(
    [
        Verb(
            "put",
            (
                _QUEUE,
                Parameter("payload", {}),
                Parameter("key", {"type": ["string", "null"]}, None),
            ),
            True,
        ),
        Verb("take", (_QUEUE, _LEASE_SECONDS, _WAIT), True),
        Verb("ack", (_QUEUE, _ID, _LEASE), True, destructive=True),
        Verb("nack", (_QUEUE, _ID, _LEASE, _DELAY), True),
        Verb("extend", (_QUEUE, _ID, _LEASE, _LEASE_SECONDS), True),
        Verb("peek", (_QUEUE, _LIMIT, Parameter("dead", {"type": "boolean"}, False)), False),
        Verb("depth", (_QUEUE,), False),
        Verb("revive", (_QUEUE, _ID), True),
        Verb("drop", (_QUEUE, _ID), True, destructive=True),
    ]
)
_OPTIONS = (
    Parameter(
        "max_tries",
        {"type": "integer", "minimum": 1, "maximum": INTEGER_MAX},
        MESSAGE_TRIES_DEFAULT,
    ),
    Parameter("lease_seconds", _SECONDS, LEASE_SECONDS_DEFAULT, check=_is_positive),
    Parameter("max_payload_bytes", {"type": "integer", "minimum": 0}, MESSAGE_BYTES_DEFAULT),
)


class Found(NamedTuple):
    """A look for a message that is ready."""

    message: dict[str, Json] | None
    due: int | None  # when one that is leased or delayed will be ready, microseconds


class Start(NamedTuple):
    """A place in a queue, at a look: every message before it has a row."""

    term: str
    version: int  # of the space, before the look


def queue_settings(options: Mapping[str, Any]) -> dict[str, Json]:
    return checked_options("queue", _OPTIONS, options)


def check_names(verb: str, given: Mapping[str, Json], granted: Mapping[str, Json]) -> None:
    check_granted(granted, "queues", given["queue"])


def check_not_pinned(space: Space | None) -> None:
    """Raise InvalidInput where a verb would write to a pinned view."""
    if space is not None and space.is_pinned:
        raise InvalidInput("a pinned view is read-only; use the space it came from")


class QueueTier:
    """The queues of a space, on its branch. Any thread may call it."""

    name = "queue"
    verbs = VERBS
    switches: Mapping[str, bool] = {}

    def __init__(
        self, space: Space, settings: Mapping[str, Any], *, ids: IdSource, tokens: TokenSource
    ) -> None:
        self._space = space
        self._port = port_of(space)
        self._settings = settings
        self._ids = ids
        self._tokens = tokens
        self._starts: dict[str, Start] = {}  # by queue

    def call(
        self, verb: str, arguments: Mapping[str, Json], granted: Mapping[str, Json], /
    ) -> Json:
        if VERBS[verb].writes:
            check_not_pinned(self._space)
        return getattr(self, f"_{verb}")(**arguments)

    def close(self) -> None:
        pass

    # -- putting and taking ------------------------------------------------------------------------

    def _put(self, queue: str, payload: Json, key: str | None) -> Json:
        size, limit = len(canonical(payload)), self._settings["max_payload_bytes"]
        if size > limit:
            raise LimitExceeded("max_payload_bytes: the payload in bytes", size=size, limit=limit)
        if key is None:
            message = self._message(queue, self._ids.random_bytes(ID_BYTES).hex())
        else:
            message = self._message(queue, id_of_key(queue, key))
        # The key stands for queue and payload: another max_tries is no other message.
        call = {"name": "queue.put", "queue": queue, "payload": payload}
        operation = put_operation(message, payload, self._settings)
        self._keep(operation, key, None if key is None else call)
        return message.id

    def _keep(self, operation: Mapping[str, Any], key: str | None, call: Json) -> None:
        self._space.transact([operation], key=key, call=call)

    def _take(self, queue: str, lease_seconds: float | None, wait_seconds: float) -> Json:
        micros = self._micros(lease_seconds)
        deadline = time.monotonic() + wait_seconds
        version = 0
        while True:
            if wait_seconds:  # before the look, so that no later put is missed
                version = self._space.version
            found = self._look(queue, micros)
            left = deadline - time.monotonic()
            if found.message is not None or left <= 0:
                return {"message": found.message}
            if found.due is not None:
                left = min(left, max(0.0, (found.due - self._now()) / _SECOND))
            self._port.answer(self._space.did, AwaitCommit(version, left))

    def _look(self, queue: str, micros: int) -> Found:
        """Take the oldest message that is ready."""
        now, rows, due = self._now(), self._rows(queue), None
        for message, term in self._ordered(queue, rows, lambda tries: tries.is_ready(now)):
            row = rows.get(message.id)
            is_away = row is not None and not tries_in(row).is_ready(now)
            if is_away or not self._is_seen(message):
                continue
            try:
                taken = self._claim(message, term, row, now + micros)
            except Denied as error:
                _check_moved(error)
                due = now  # others have it now: another look tells until when
                continue
            if taken is not None:
                return Found(taken, None)
        for row in rows.values():
            tries = tries_in(row)
            if tries.is_away(now) and tries.tries < tries.max_tries:
                assert tries.until is not None
                due = tries.until if due is None else min(due, tries.until)
        return Found(None, due)

    def _is_seen(self, message: Message) -> bool:
        """Return whether a message may be taken here, once it is ready."""
        return True

    def _claim(
        self, message: Message, term: str, row: SideRow | None, until: int
    ) -> dict[str, Json] | None:
        """Lease a message; None when it is gone, Denied when others have moved its row."""
        state = self._space.read(message.entity)
        if not state.exists:
            if row is not None:
                self._forget(message, row)
            return None
        version, place = place_in(term)
        tries = Tries(
            tries=1 if row is None else tries_in(row).tries + 1,
            max_tries=state.value["max_tries"],
            put_at=parse_time(state.value["put_at"]),
            version=version,
            place=place,
            lease=self._tokens.token().hex(),
            until=until,
        )
        moved = self._move(message, tries, 0 if row is None else row.fence)
        # An ack drops the row, and then a row that is absent looks like a message never tried.
        if not self._space.glance(message.entity).exists:
            self._forget(message, moved)
            return None
        return {**_shown(message, state.value, tries), "lease": tries.lease}

    def _forget(self, message: Message, row: SideRow) -> None:
        """Drop the row of a message that is gone."""
        with suppress(Denied):
            self._port.answer(self._space.did, DropSide(KIND, message.key, row.fence))

    # -- with a lease ------------------------------------------------------------------------------

    def _ack(self, queue: str, id: str, lease: str) -> Json:
        def acknowledge(message: Message, row: SideRow, _: Tries) -> Json:
            self._delete(message, row)
            return {"ok": True}

        try:
            return self._held(self._message(queue, id), lease, acknowledge)
        except NotFound:
            raise lost(queue, id) from None

    def _nack(self, queue: str, id: str, lease: str, delay_seconds: float) -> Json:
        def give_back(message: Message, row: SideRow, tries: Tries) -> Json:
            until = self._now() + int(delay_seconds * _SECOND) if delay_seconds else None
            self._move(message, replace(tries, lease=None, until=until), row.fence)
            return {"ok": True, "dead": tries.tries >= tries.max_tries}

        return self._held(self._message(queue, id), lease, give_back)

    def _extend(self, queue: str, id: str, lease: str, lease_seconds: float | None) -> Json:
        def extend(message: Message, row: SideRow, tries: Tries) -> Json:
            until = self._now() + self._micros(lease_seconds)
            self._move(message, replace(tries, until=until), row.fence)
            return {"leased_until": format_time(until)}

        return self._held(self._message(queue, id), lease, extend)

    def _held(self, message: Message, lease: str, act: Callable[[Message, SideRow, Tries], R]) -> R:
        """Do something with a message whose last lease this is; also when it has run out."""

        def look(row: SideRow | None) -> R:
            if row is None or tries_in(row).lease != lease:
                raise lost(message.queue, message.id)
            if not self._space.glance(message.entity).exists:
                self._forget(message, row)  # erased, or deleted by a merge
                raise lost(message.queue, message.id)
            return act(message, row, tries_in(row))

        return self._settled(message, look)

    # -- looking on --------------------------------------------------------------------------------

    def _peek(self, queue: str, limit: int, dead: bool) -> Json:
        now, items = self._now(), []
        for message, tries in self._told(queue):
            if (tries is not None and tries.is_dead(now)) is not dead:
                continue
            state = self._space.read(message.entity)
            if state.exists:
                items.append(_shown(message, state.value, tries))
            if len(items) == limit:
                break
        return {"items": items}

    def _depth(self, queue: str) -> Json:
        now, counts = self._now(), {"ready": 0, "leased": 0, "dead": 0}
        for _, tries in self._told(queue):
            if tries is None:
                counts["ready"] += 1
            elif tries.is_dead(now):
                counts["dead"] += 1
            else:
                counts["leased" if tries.is_away(now) else "ready"] += 1
        return counts

    def _told(self, queue: str) -> Iterator[tuple[Message, Tries | None]]:
        rows = self._rows(queue)
        for message, _ in self._ordered(queue, rows, lambda _: True):
            row = rows.get(message.id)
            if row is None:
                yield message, None
            elif self._space.glance(message.entity).exists:
                yield message, tries_in(row)

    # -- the dead ----------------------------------------------------------------------------------

    def _revive(self, queue: str, id: str) -> Json:
        message = self._message(queue, id)

        def revive(row: SideRow | None) -> Json:
            found = self._dead(message, row)
            # The row stays: without it fences would begin again, and an old take might fit.
            fresh = replace(tries_in(found), tries=0, lease=None, until=None)
            self._move(message, fresh, found.fence)
            return {"ok": True}

        return self._settled(message, revive)

    def _drop(self, queue: str, id: str) -> Json:
        message = self._message(queue, id)

        def drop(row: SideRow | None) -> Json:
            self._delete(message, self._dead(message, row))
            return {"ok": True}

        return self._settled(message, drop)

    def _dead(self, message: Message, row: SideRow | None) -> SideRow:
        """Return the row of a dead message."""
        if not message.can_exist or not self._space.glance(message.entity).exists:
            raise NotFound(f"there is no message {message.id!r:.80} in {message.queue!r}")
        if row is None or not tries_in(row).is_dead(self._now()):
            raise Denied(
                f"the message {message.id} is not dead; take it, or wait until its tries are over",
                code="not_dead",
            )
        return row

    # -- what the verbs share ----------------------------------------------------------------------

    def _message(self, queue: str, id: str) -> Message:
        return Message(queue, id, self._space.branch)

    def _micros(self, lease_seconds: float | None) -> int:
        seconds = self._settings["lease_seconds"] if lease_seconds is None else lease_seconds
        return max(1, int(seconds * _SECOND))

    def _now(self) -> int:
        return shared_now(self._port)

    def _move(self, message: Message, tries: Tries, fence: int) -> SideRow:
        return self._port.answer(self._space.did, PutSide(KIND, message.key, tries.body(), fence))

    def _delete(self, message: Message, row: SideRow) -> None:
        """Delete a message and its row together."""
        operation = {"op": "delete", "id": message.entity}
        guard = Guard(KIND, message.key, row.fence, drop=True)
        command = MakeCommit([operation], message.branch, guards=[guard])
        self._port.answer(self._space.did, command)

    def _settled(self, message: Message, act: Callable[[SideRow | None], R]) -> R:
        """Look at the row of a message and act; look again when others have moved it meanwhile."""
        for _ in range(CONTENTION_ATTEMPTS_MAX):
            row = None
            if message.can_exist:
                row = self._port.answer(self._space.did, GetSide(KIND, message.key))
            try:
                return act(row)
            except Denied as error:
                _check_moved(error)
        raise Busy(f"others keep moving the message {message.id}; try again")

    def _rows(self, queue: str) -> dict[str, SideRow]:
        """Return the rows of a queue's messages on this branch, by id."""
        start, end = f"{queue}/", f"@{self._space.branch}"
        found: dict[str, SideRow] = {}
        after, size = start, SIDES_READ_FIRST
        while True:
            page = self._port.answer(self._space.did, ListSides(KIND, after, size))
            for row in page.rows:
                if not row.key.startswith(start):
                    return found
                if row.key.endswith(end):
                    found[row.key[len(start) : -len(end)]] = row
            if page.next is None:
                return found
            after, size = page.next, PAGE_MAX

    def _ordered(
        self, queue: str, rows: Mapping[str, SideRow], is_wanted: Callable[[Tries], bool]
    ) -> Iterator[tuple[Message, str]]:
        """Yield the messages of a queue in the order of their puts, each with its term.

        is_wanted  may leave out messages with a row; one that is gone may be among them
        """
        start = self._start(queue)
        tried = ((id, tries_in(row)) for id, row in rows.items())
        early = {
            id: term
            for id, tries in tried
            if (term := tries.term(queue)) < start.term and is_wanted(tries)
        }
        for id, term in sorted(early.items(), key=itemgetter(1)):
            yield self._message(queue, id), term
        for hit in self._hits(queue, start, rows):
            if (id := _id_in(hit.id)) not in early:
                yield self._message(queue, id), hit.term

    def _start(self, queue: str) -> Start:
        """Return the place from which on the index is walked.

        The index keeps what is gone, and a walk passes it by. Before the oldest message without a
        row no new one comes, as commits never go back in time; but a merge may bring old ones.
        """
        first = Start(f"{queue}/", self._space.version)
        kept = self._starts.get(queue)
        if kept is None or self._space.is_pinned:
            return first
        if len(self._space.branches()) > 1 and self._may_be_merged(kept.version):
            return first
        return Start(kept.term, first.version)

    def _may_be_merged(self, since: int) -> bool:
        """Return whether a merge may have brought messages since a version."""
        try:
            commits = list(self._space.log(since=since, limit=MERGES_LOOKED_FOR_MAX))
        except Compacted:
            return True
        return len(commits) == MERGES_LOOKED_FOR_MAX or any(each.event for each in commits)

    def _hits(self, queue: str, start: Start, rows: Mapping[str, SideRow]) -> Iterator[Hit]:
        """Yield messages in the order of their puts; few at first, because most takes end there."""
        size, last, is_noted = MESSAGES_READ_FIRST, None, self._space.is_pinned
        while True:
            page = list(
                self._space.find(
                    MESSAGES.name, start=start.term, end=f"{queue}0", after=last, limit=size
                )
            )
            for hit in page:
                if not is_noted and _id_in(hit.id) not in rows:
                    self._remember(queue, Start(hit.term, start.version))
                    is_noted = True
                yield hit
            last = page[-1] if page else last
            if len(page) < size:
                break
            size = min(8 * size, PAGE_MAX)
        if last is not None and not is_noted:
            self._remember(queue, Start(last.term, start.version))

    def _remember(self, queue: str, start: Start) -> None:
        if len(self._starts) >= QUEUES_REMEMBERED:
            self._starts.clear()
        self._starts[queue] = start


def _id_in(entity: str) -> str:
    return entity.rpartition("/")[2]


def put_operation(message: Message, payload: Json, settings: Mapping[str, Any]) -> dict[str, Json]:
    """Return the operation by which a message is put; the commit stamps its time."""
    value = {"payload": payload, "max_tries": settings["max_tries"], "put_at": ""}
    return {"op": "set", "id": message.entity, "value": value, "stamp": ["/put_at"]}


def _shown(message: Message, value: Json, tries: Tries | None) -> dict[str, Json]:
    until = None if tries is None or tries.lease is None else tries.until
    return {
        "id": message.id,
        "queue": message.queue,
        "payload": value["payload"],
        "put_at": value["put_at"],
        "tries": 0 if tries is None else tries.tries,
        "leased_until": None if until is None else format_time(until),
    }


def lost(queue: str, id: str) -> Denied:
    return Denied(
        f"the lease of {id!r:.80} in {queue!r} is lost: it was given back, taken again, or is done;"
        " take another message",
        code="lease_lost",
    )


def _check_moved(error: Denied) -> None:
    """Raise an error again unless it says that others have moved a row."""
    if "actual_fence" not in error.details:
        raise error
