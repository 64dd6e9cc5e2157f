"""Views: the confirmed state of a branch with own layers laid over it, as a port."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from rote.contract import Head, Port, Rehearsal, State, View
from rote.contract.commands import Query, Read, Rehearse, Values
from rote.sessions.layers import Fetch, Fold, Layer, absent, relied_on
from rote.sessions.rehearsal import rehearse
from rote.sessions.sources import PortSource, answer_query
from rote.space.buffer import Own
from rote.space.overlay_port import OverlayPort
from rote.values import Json


class LayersWritten:
    """The layers of a fold up to a local, as what was written over a state."""

    def __init__(self, fold: Fold, until: int) -> None:
        self._fold = fold
        self._until = until
        self._ids: list[str] | None = None

    @property
    def lock(self) -> AbstractContextManager[object]:
        return self._fold.lock

    @property
    def count(self) -> int:
        return self._until

    def written(self) -> list[str]:
        if self._ids is None:
            self._ids = self._fold.written(self._until)
        return self._ids

    def own(self, id: str) -> Own | None:
        return self._fold.own(id, self._until)


class ViewPort(OverlayPort):
    """One view of a session. It never changes, whatever arrives and is written meanwhile."""

    who = "a view of a session"

    def __init__(
        self, port: Port, space: str, branch: str, head: Head, *, fold: Fold, until: int
    ) -> None:
        """until  the last local that it shows"""
        super().__init__(port, space, branch, head)
        self.fold = fold
        self.until = until
        self.lay(LayersWritten(fold, until))
        self._rules |= {Rehearse: self._rehearse, Query: self._query, Values: self._query}

    @property
    def branch(self) -> str:
        return self._view.branch

    @property
    def version(self) -> int:
        return self._head.version

    def overlapping(self, read: Mapping[str, Any], after: int = 0) -> list[Layer]:
        """Return the layers above a local that write what a read has seen; shown, or left out because
        they do not apply."""
        return self.fold.overlapping(read, after, self.until)

    def source(self) -> PortSource:
        """Return it as a source of answers to queries."""
        name = f"{self._space}#{self.until}"  # another one with each layer, so cursors are, too
        own = self._writes.written()
        return PortSource(self, self._space, self._view, name=name, own=list(own), below=self._port)

    def _query(self, _: str, command: Query | Values) -> dict[str, Json]:
        self._shows(command.view)
        return answer_query(self.source(), command)

    def _rehearse(self, space: str, command: Rehearse) -> tuple[Rehearsal, ...]:
        self._shows(command.view)
        parsed = [each for each in command.operations if type(each.get("id")) is str]
        relied = sorted(relied_on(parsed) - command.own.keys())
        states = {each["id"]: absent(each["id"]) for each in parsed}
        own = {id: written.state for id in relied if (written := self.own(id)) is not None}
        stored = [id for id in relied if id not in own]
        states |= own | {
            each.id: each for each in self._port.answer(space, Read(stored, self._view))
        }
        return rehearse(command.operations, {**states, **command.own}, command.now)


def fetch_from(port: Port, space: str, view: View) -> Fetch:
    """Return a function that reads the confirmed states of a branch."""

    def fetch(ids: Sequence[str]) -> dict[str, State]:
        return {state.id: state for state in port.answer(space, Read(ids, view))}

    return fetch
