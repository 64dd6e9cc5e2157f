"""Rehearsing operations: apply them to a state with the code of a commit, and write nothing."""

from collections.abc import Collection
from typing import cast

from rote.contract import Rehearsal, State
from rote.contract.commands import Rehearse
from rote.contract.operations import check_size, parse_operations
from rote.kernel.committing.drafts import Draft
from rote.kernel.committing.plans import apply_operations
from rote.kernel.log.branches import writable
from rote.kernel.log.chain import OPERATION_NAMES
from rote.kernel.log.entries import Entry
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceWriter
from rote.schemas.registry import REGISTRY_ID


class _Stage(Draft, kw_only=True):
    """A draft that begins with a past state and with entries that replace some of it."""

    own: dict[str, Entry]  # the entries that replace those of the state

    def look_up(
        self, branch: str, ids: Collection[str], *, may_be_new: bool = False
    ) -> dict[str, Entry]:
        found = {id: self.own[id] for id in ids if id in self.own}
        missing = [id for id in ids if id not in found]
        if missing:
            found |= self.reads.entries_at(branch, missing, self.base)
        return {id: found[id] for id in ids}

    def is_ungoverned(self, branch: str) -> bool:
        is_newest = self.base == self.space.known and REGISTRY_ID not in self.own
        return is_newest and super().is_ungoverned(branch)


def rehearse(space: OpenSpace, command: Rehearse) -> tuple[Rehearsal, ...]:
    view, now, reads = command.view, command.now, space.reader()
    parsed = parse_operations(command.operations)
    check_size(parsed, None)
    version = reads.resolve(view.version)
    reads.line(view.branch, version)  # catches up when others made the branch, or raises NotFound
    writable(reads.space.branches, view.branch)
    stage = _Stage(
        did=reads.space.did,
        version=version,
        hash=None,
        at=now,
        space=reads.space,
        reads=cast(SpaceWriter, reads),
        base=version,
        followed=(),
        locked=False,
        own={id: Entry.showing(state) for id, state in command.own.items()},
    )
    current = stage.look_up(view.branch, list(dict.fromkeys(each.id for each in parsed)))
    steps = apply_operations(stage, view.branch, parsed, current, now)
    return tuple(
        Rehearsal(
            OPERATION_NAMES[op],
            before.hash.hex() if before.hash else None,
            _state_of(id, after),
        )
        for id, _, op, _, _, before, after in steps
    )


def _state_of(id: str, entry: Entry) -> State:
    """Return the state of an entry that no commit has made: without version and hash."""
    return State(id, entry.shared_document() if entry.exists else None, entry.exists, 0, None)
