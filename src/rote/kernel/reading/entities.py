"""Reading entities, now or at a version: a single one, many at once, or parts of one."""

from collections.abc import Sequence

from rote.contract import Glance, State
from rote.contract.commands import GlanceAt, Read
from rote.kernel.log.entries import ABSENT, Entry, glance_at, state_of
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.values import check_entity_id


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
        entry = _remembered(reads, branch, id, version)
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


def _remembered(reads: SpaceReader, branch: str, id: str, version: int) -> Entry | None:
    """Return an entry of the past if it is cached.

    The past changes by an erasure alone. Another process may have erased the entity, so the head is
    asked for where that is cheap. Elsewhere it is a round trip, and the cache learns of the erasure
    with the next read of the present.
    """
    if not reads.space.engine.is_remote:
        reads.sync()
    return reads.space.remembered(branch, id, version)


def _entries_at(
    reads: SpaceReader, branch: str, ids: Sequence[str], version: int
) -> dict[str, Entry]:
    if not reads.space.engine.is_remote:
        reads.sync()  # as above
    reads.check_version(version)
    remembered = {id: reads.space.remembered(branch, id, version) for id in ids}
    entries = {id: entry for id, entry in remembered.items() if entry is not None}
    missing = [id for id in remembered if id not in entries]
    return entries | reads.entries_at(branch, missing, version) if missing else entries
