"""A port that lays writes of its own over one state of a branch.

    Read, GlanceAt     what was written as it was left, all else as it is stored
    Scan, Find         both, in one order
    Skip, Postings     only where nothing was written; otherwise a scan shows it
    the past           as it is stored

What is written, and whether it is noted what was read, is said by subclasses.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import structs

from rote.contract import (
    Caller,
    Found,
    Glance,
    Head,
    Hit,
    Port,
    PortLayer,
    ScanPage,
    State,
    Task,
    Times,
    View,
    Watching,
)
from rote.contract.commands import (
    Command,
    Describe,
    Find,
    GetHead,
    GetHistory,
    GetSnapshot,
    GetTimes,
    GlanceAt,
    Postings,
    Read,
    Scan,
    Skip,
    Watch,
    Work,
)
from rote.errors import InvalidInput
from rote.space.buffer import Own
from rote.space.own_hits import OwnHits, Written
from rote.space.scan_pages import covered_ids
from rote.values import canonical, check_entity_id, decode_canonical
from rote.values.ranges import above, prefix_end

R = TypeVar("R")
Rules = dict[type[Command[Any]], Callable[[str, Any], Any]]


class OverlayPort(PortLayer):
    """One state of a branch, and what was written over it."""

    who = "a view"  # in messages

    def __init__(self, port: Port, space: str, branch: str, head: Head) -> None:
        """head  the state that is written over"""
        super().__init__(port)
        self._space = space
        self._head = head
        self._view = View(branch, head.version)
        self._times: Times | None = None

    def lay(self, writes: Written) -> None:
        """Show these writes."""
        self._writes = writes
        self._own_hits = OwnHits(self._port, self._space, self._view, writes)
        self._rules: Rules = {
            Read: self._read,
            GlanceAt: self._glance,
            GetHistory: self._history,
            Scan: self._scan,
            Skip: self._skip,
            Find: self._find,
            Postings: self._postings,
            GetHead: self._head_of,
            GetSnapshot: self._snapshot_of,
            GetTimes: lambda *_: self.now(),
            Describe: self._port.answer,
        }

    @property
    def view(self) -> View:
        """The branch, and the version that everything is read from."""
        return self._view

    def answer(self, space: str, command: Command[R], /) -> R:
        rule = self._rules.get(type(command))
        if rule is None:
            raise self._outside()
        answer: R = rule(space, command)
        return answer

    def begin(self, space: str, command: Work[R], /) -> Task[R]:
        raise self._outside()

    def watch(self, space: str, command: Watch, /) -> Watching:
        raise self._outside()

    def for_caller(self, caller: Caller, /) -> Port:
        raise InvalidInput(f"{self.who} is of the caller that began it")

    def _outside(self) -> InvalidInput:
        return InvalidInput(
            f"{self.who} reads and writes entities and records; do this on the space, outside of it"
        )

    def own(self, id: str) -> Own | None:
        """Return an entity that was written; None for others."""
        return self._writes.own(id)

    # -- reading -----------------------------------------------------------------------------------

    def note(self, id: str, path: str | None = None) -> None:
        """Take note that the stored state of an entity was read, or a path in it."""

    def note_range(self, start: str, end: str | None) -> None:
        """Take note that the stored entities in a range were read."""

    def _shows(self, view: View) -> bool:
        """Whether a view is the state with its writes; False for one of the past."""
        if view.version is not None and view.version < self._head.version:
            return False
        if view.version not in (None, self._head.version):
            raise InvalidInput(
                f"{self.who} sees nothing after its beginning, which is version {self._head.version}"
            )
        if view.branch != self._view.branch:
            raise InvalidInput(
                f"{self.who} is on one branch, this one on {self._view.branch!r};"
                f" begin another on {view.branch!r}"
            )
        return True

    def _read(self, space: str, command: Read) -> tuple[State, ...]:
        if not self._shows(command.view):
            return self._port.answer(space, command)
        own = {id: self._own(id) for id in command.ids}
        stored_ids = [id for id, written in own.items() if written is None]
        for id in stored_ids:
            self.note(id)
        states = self._port.answer(space, Read(stored_ids, self._view)) if stored_ids else ()
        stored = {state.id: state for state in states}
        return tuple([stored.get(id) or _shown(own[id]) for id in command.ids])

    def _own(self, id: str) -> Own | None:
        """Return an entity that was written, and note it if the stored one shows."""
        check_entity_id(id)
        own = self._writes.own(id)
        if own is not None and not own.is_whole:
            self.note(id)
        return own

    def _glance(self, space: str, command: GlanceAt) -> Glance:
        if not self._shows(command.view):
            return self._port.answer(space, command)
        check_entity_id(command.id)
        own = self._writes.own(command.id)
        if command.is_noted and (own is None or not own.is_whole):
            for path in (*command.values, *command.sizes) or (None,):
                self.note(command.id, path)
        if own is not None:
            return own.glance(command)
        stored = structs.replace(command, view=self._view, may_be_new=False)
        return self._port.answer(space, stored)

    def _history(self, space: str, command: GetHistory) -> Any:
        if self._shows(command.view):
            self.note(command.id)
            command = structs.replace(command, view=self._view)
        return self._port.answer(space, command)

    def _scan(self, space: str, command: Scan) -> ScanPage:
        if not self._shows(command.view):
            return self._port.answer(space, command)
        self.note_range(command.start, command.end)
        return self._page(space, structs.replace(command, view=self._view))

    def _page(self, space: str, command: Scan) -> ScanPage:
        """Return a page of stored entities with the writes laid over them."""
        page = self._port.answer(space, command)
        first, end = covered_ids(command, page)
        ids = [id for id in self._writes.written() if id >= first and (end is None or id < end)]
        own = {id: written for id in ids if (written := self._writes.own(id)) is not None}
        if not own:
            return page
        shown = {state.id: state for state in page.states}
        shown |= {id: _shown(written) for id, written in own.items()}
        in_order = sorted(shown, reverse=command.descending)
        states = [shown[id] for id in in_order if shown[id].exists]
        if len(states) <= command.limit:
            return ScanPage(tuple(states), page.version, page.next)
        kept = states[: command.limit]
        return ScanPage(tuple(kept), page.version, kept[-1].id)

    def _skip(self, space: str, command: Skip) -> str | None:
        if not self._shows(command.view):
            return self._port.answer(space, command)
        start, end = command.start, command.end
        if any(id >= start and (end is None or id < end) for id in self._writes.written()):
            return None  # only a scan lays own writes over the stored entities
        last = self._port.answer(space, structs.replace(command, view=self._view))
        if last is not None:
            self.note_range(start, above(last))
        return last

    def _find(self, space: str, command: Find) -> tuple[Hit, ...]:
        if not self._shows(command.view):
            return self._port.answer(space, command)
        if command.is_own_only:
            return self._port.answer(space, structs.replace(command, view=self._view))
        self.note_range(command.within, prefix_end(command.within))
        return self._own_hits.find(command)

    def _postings(self, space: str, command: Postings) -> Found | None:
        if not self._shows(command.view):
            return self._port.answer(space, command)
        if any(id.startswith(command.within) for id in self._writes.written()):
            return None
        found = self._port.answer(space, structs.replace(command, view=self._view))
        if found is not None:
            self.note_range(command.within, prefix_end(command.within))
        return found

    # -- points ------------------------------------------------------------------------------------

    def _head_of(self, space: str, command: GetHead) -> Head:
        if command.version is None and command.at is None:
            return self._head
        head = self._port.answer(space, command)
        return self._head if head.version > self._head.version and command.at is not None else head

    def _snapshot_of(self, space: str, command: GetSnapshot) -> Head:
        """Return the newest commit that a view shows; own writes have none yet."""
        view = self._view if self._shows(command.view) else command.view
        return self._port.answer(space, GetSnapshot(view))

    def now(self) -> Times:
        """Return one time for the whole view: that of the first question for it."""
        if self._times is None:
            self._times = self._port.answer("", GetTimes(shared=False))
        return self._times


def _shown(own: Own | None) -> State:
    """Return the state of an own write as callers get it: a copy, without version and hash."""
    assert own is not None
    value = decode_canonical(canonical(own.state.value))
    return structs.replace(own.state, value=value, version=0, hash=None)
