"""The newest version of a space, and that of its newest erasure: what every answer of a server tells."""

from rote.contract import Versions
from rote.contract.commands import GetVersions
from rote.kernel.log.events import erased_by, event_rows
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader


class NewestErasure:
    """The version of the newest erasure; events are read when one was met, and mostly once."""

    def __init__(self, space: OpenSpace) -> None:
        self._seen = (space.losses, -1)  # how often the log was lost, and an erasure met
        self._newest = 0
        self._until = 0  # the version up to which all events were read

    def version(self, reads: SpaceReader) -> int:
        space = reads.space
        seen, known = (space.losses, space.erasures), space.known
        if seen != self._seen:
            is_lost = seen[0] != self._seen[0]
            newest, after = (0, 0) if is_lost else (self._newest, self._until)
            rows = event_rows(reads.rows, reads.number, after=after)
            newest = max([newest, *(row.version for row in rows if erased_by(row))])
            self._newest, self._until, self._seen = newest, known, seen
        return self._newest


def get_versions(space: OpenSpace, command: GetVersions) -> Versions:
    reads = space.reader()
    if not (command.may_be_old and space.engine.is_remote and space.is_ready):
        reads.sync()
    version = space.known
    return Versions(version, space.part(NewestErasure).version(reads))
