"""Reading entities, now or at a version: a single one, many at once, or parts of one."""

from collections.abc import Sequence

from rote.contract import Glance, ReadState, State, StatePage
from rote.contract.commands import GlanceAt, Read, ReadPage
from rote.errors import InvalidInput, LimitExceeded
from rote.kernel.log.entries import ABSENT, Entry, glance_at, state_of
from rote.kernel.log.page_sizes import answer_pace
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.values import check_entity_id
from rote.values.limits import PAGE_BYTES_MAX, PAGE_MAX, ROWS_READ_FIRST


def read(space: OpenSpace, command: Read) -> tuple[State, ...]:
    ids, view = command.ids, command.view
    branch, version = view.branch, view.version
    if len(ids) == 1:
        # The most frequent call of all, handled directly because it is faster.
        id = ids[0]
        if type(id) is not str:
            check_entity_id(id)
        rows, reads = space.engine.reader(), space.last_reader
        if reads is None or reads.rows is not rows:
            reads = space.reader()
        if version is None:
            return (state_of(id, reads.current(branch, id)),)
        # The past changes by an erasure alone. Another process may have erased the entity, so the head
        # is asked for where that is cheap. Elsewhere it is a round trip, and the cache learns of the
        # erasure with the next read of the present.
        if not space.engine.is_remote:
            reads.sync()
        entry = space.remembered(branch, id, version)
        if entry is not None:
            return (state_of(id, entry),)
    for id in ids:
        check_entity_id(id)
    reads = space.reader()
    if version is None:
        entries = reads.steadily(None, lambda _: reads.newest(branch, ids))
    else:
        entries = _entries_at(reads, branch, ids, version)
    return tuple([state_of(id, entries[id]) for id in ids])


def read_page(space: OpenSpace, command: ReadPage) -> StatePage:
    ids, known = command.ids, _known(command)
    reads, branch = space.reader(), command.view.branch
    if command.view.version is not None and not space.engine.is_remote:
        reads.sync()  # as in read
    version = reads.resolve(command.view.version)
    reads.line(branch, version)  # NotFound for an unknown branch, also without ids
    if len(ids) == 1:
        # The most frequent page of all: what it holds needs no measuring.
        (entry,) = _entries_in(reads, branch, ids, version).values()
        return StatePage(version, (_read_state(ids[0], entry, known[0]),), None)
    pace = answer_pace(PAGE_BYTES_MAX, limit=len(ids), first=ROWS_READ_FIRST)
    states: list[ReadState] = []
    while wanted := pace.wanted:
        chunk = ids[len(states) : len(states) + wanted]
        entries = _entries_in(reads, branch, chunk, version)
        given = known[len(states) : len(states) + wanted]
        found = [_read_state(id, entries[id], hash) for id, hash in zip(chunk, given, strict=True)]
        fitting = pace.took(
            [0 if state.unchanged else entries[state.id].size_bound for state in found]
        )
        states += found[:fitting]
    return StatePage(version, tuple(states), len(states) if len(states) < len(ids) else None)


def _known(command: ReadPage) -> Sequence[str | None]:
    """Return the hash that the caller has for each id; raise for a malformed command."""
    ids, known = command.ids, command.known
    for given, name in ((ids, "ids"), (() if known is None else known, "known")):
        if type(given) not in (list, tuple):
            raise InvalidInput(f"{name} must be a list", argument=name)
    if len(ids) > PAGE_MAX:
        raise LimitExceeded("the number of ids", size=len(ids), limit=PAGE_MAX)
    for id in ids:
        check_entity_id(id)
    if known is None:
        return [None] * len(ids)
    if len(known) != len(ids) or not all(hash is None or type(hash) is str for hash in known):
        raise InvalidInput("known has a hash or null for each id", argument="known")
    return known


def _read_state(id: str, entry: Entry, known: str | None) -> ReadState:
    hash = None if entry.hash is None else entry.hash.hex()
    # An erased fact has the hash that it had before: its reader must hear of it.
    if known is not None and known == hash and not entry.erased:
        return ReadState(id, entry.version, hash, unchanged=True)
    state = state_of(id, entry)
    return ReadState(id, state.version, state.hash, state.value, state.exists, state.erased)


def _entries_in(
    reads: SpaceReader, branch: str, ids: Sequence[str], version: int
) -> dict[str, Entry]:
    """Return entries as of a version; those of the newest are cached as such."""
    space = reads.space
    entries = {id: space.remembered(branch, id, version) for id in ids}
    missing = [id for id, entry in entries.items() if entry is None]
    found = {id: entry for id, entry in entries.items() if entry is not None}
    if missing and version == space.known:
        newest = reads.steadily(version, lambda _: reads.newest(branch, missing))
        # Others may have committed meanwhile.
        found |= {id: entry for id, entry in newest.items() if entry.version <= version}
        missing = [id for id in missing if id not in found]
    return found | reads.entries_at(branch, missing, version) if missing else found


def glance(space: OpenSpace, command: GlanceAt) -> Glance:
    id, view = command.id, command.view
    check_entity_id(id)
    reads = space.reader()
    if view.version is not None:
        entry = _entries_at(reads, view.branch, (id,), view.version)[id]
    elif command.may_be_new and space.wiring.presumes and space.presumes_new(view.branch, id):
        entry = ABSENT
    else:
        entry = reads.current(view.branch, id)
    return glance_at(entry, command.values, command.sizes)


def _entries_at(
    reads: SpaceReader, branch: str, ids: Sequence[str], version: int
) -> dict[str, Entry]:
    if not reads.space.engine.is_remote:
        reads.sync()  # as in read
    reads.check_version(version)
    remembered = {id: reads.space.remembered(branch, id, version) for id in ids}
    entries = {id: entry for id, entry in remembered.items() if entry is not None}
    missing = [id for id in remembered if id not in entries]
    return entries | reads.entries_at(branch, missing, version) if missing else entries
