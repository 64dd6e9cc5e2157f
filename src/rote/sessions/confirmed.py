"""The confirmed state as a port: the space at one version, from what is held as far as that goes.

held     by the watches of the session, also offline; of what they show to be absent the store says
         which commit has deleted it, as long as it can be asked
kept     states that were read of this version, until it moves
others   asked of the store, at this version
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import structs

from rote.contract import Clock, Glance, Head, Port, PortLayer, ScanPage, State, Times, View
from rote.contract.commands import (
    Command,
    GetHead,
    GetTimes,
    GlanceAt,
    Query,
    Read,
    Scan,
    Skip,
    Values,
)
from rote.errors import Compacted, Unavailable
from rote.patch import find, parse_pointer
from rote.sessions.held import Held
from rote.sessions.sources import PortSource, answer_query
from rote.values import Json, canonical, decode_canonical, micros_of
from rote.values.session_limits import SESSION_KEPT_BYTES_MAX

R = TypeVar("R")


class ConfirmedPort(PortLayer):
    """The space as it is confirmed at one step. Any thread may ask."""

    def __init__(
        self,
        port: Port,
        head: Head,
        held: Held,
        *,
        clock: Clock | None,
        check: Callable[[], None] | None,
    ) -> None:
        """clock  of this client; None: the store is in this process, and has the clock
        check  raises when the store cannot be asked; None: it is in this process, and nothing is kept
        """
        super().__init__(port)
        self.head = head
        self.held = held
        self._clock = clock
        self._check = check
        self._mutex = threading.Lock()
        self._kept: dict[tuple[str, str], State] = {}
        self._room_bytes = 0 if check is None else SESSION_KEPT_BYTES_MAX
        self._rules: dict[type[Command[Any]], Callable[[str, Any], Any]] = {
            Read: self._read,
            GlanceAt: self._glance,
            Scan: self._scan,
            Skip: self._skip,
            Query: self._query,
            Values: self._query,
            GetHead: self._head_of,
            GetTimes: self._times,
        }

    def answer(self, space: str, command: Command[R], /) -> R:
        rule = self._rules.get(type(command))
        answer: R = self._ask(space, command) if rule is None else rule(space, command)
        return answer

    def _ask(self, space: str, command: Command[Any]) -> Any:
        if self._check is not None:
            self._check()
        return self._port.answer(space, command)

    def _is_here(self, view: View) -> bool:
        return view.version == self.head.version

    def _read(self, space: str, command: Read) -> tuple[State, ...]:
        if not self._is_here(command.view):
            return tuple(self._ask(space, command))
        branch = command.view.branch
        known = {id: self._known(branch, id) for id in command.ids}
        missing = [id for id, state in known.items() if state is None]
        absent = [id for id in known if self._may_be_deleted(branch, id)]
        if missing or absent:
            try:
                states = self._ask(space, Read([*missing, *absent], command.view))
            except (Unavailable, Compacted):
                if missing:
                    raise
                states = ()  # that they do not exist is held, and all that is known
            for state in states:
                known[state.id] = state
                self._keep(branch, state)
        return tuple([_copy_of(known[id]) for id in command.ids])

    def _may_be_deleted(self, branch: str, id: str) -> bool:
        """Whether it is held that an entity does not exist, and not known which commit has deleted it, if
        any."""
        with self._mutex:
            if (branch, id) in self._kept:
                return False
            state = self.held.state(branch, id)
            return state is not None and state.version == 0

    def _known(self, branch: str, id: str) -> State | None:
        with self._mutex:
            return self._kept.get((branch, id)) or self.held.state(branch, id)

    def _keep(self, branch: str, state: State) -> None:
        if self._room_bytes <= 0:
            return
        size = len(canonical(state.value))
        with self._mutex:
            if size <= self._room_bytes and (branch, state.id) not in self._kept:
                self._kept[branch, state.id] = state
                self._room_bytes -= size

    def _glance(self, space: str, command: GlanceAt) -> Glance:
        state = None
        if self._is_here(command.view):
            state = self._known(command.view.branch, command.id)
        if state is None:
            return self._ask(space, command)  # type: ignore[no-any-return]
        values = [find(state.value, parse_pointer(pointer)) for pointer in command.values]
        arrays = [find(state.value, parse_pointer(pointer)) for pointer in command.sizes]
        return Glance(
            state.exists,
            state.version,
            state.hash,
            tuple([decode_canonical(canonical(value)) for value in values]),
            tuple([len(array) if type(array) is list else None for array in arrays]),
        )

    def _scan(self, space: str, command: Scan) -> ScanPage:
        page = None
        if self._is_here(command.view):
            page = self.held.page(command.view.branch, command, self.head.version)
        if page is None:
            return self._ask(space, command)  # type: ignore[no-any-return]
        return structs.replace(page, states=tuple([_copy_of(state) for state in page.states]))

    def _skip(self, space: str, command: Skip) -> str | None:
        view = command.view
        if self._is_here(view) and self.held.covers(view.branch, command.start, command.end):
            return None  # a scan tells, and asks nobody
        return self._ask(space, command)  # type: ignore[no-any-return]

    def _query(self, space: str, command: Query | Values) -> dict[str, Json]:
        if not self.held.watches or not self._is_here(command.view):
            return self._ask(space, command)  # type: ignore[no-any-return]
        source = PortSource(self, space, command.view, name=space, own=(), below=self._port)
        return answer_query(source, command)

    def _head_of(self, space: str, command: GetHead) -> Head:
        if command.at is None and command.version in (None, self.head.version):
            return self.head
        return self._ask(space, command)  # type: ignore[no-any-return]

    def _times(self, space: str, command: GetTimes) -> Times:
        if self._clock is None:
            return self._port.answer(space, command)
        return Times(micros_of(self._clock.now()), None)


def _copy_of(state: State | None) -> State:
    assert state is not None
    return structs.replace(state, value=decode_canonical(canonical(state.value)))
