"""The port of a transaction: the store's, wrapped, so that all that is written against a space works
in a transaction too.

It shows one state with the transaction's own writes, notes what was read of that state, and keeps
operations back. Reads of the past are not noted, because nobody changes it:

    own set or delete    the answer depends on the transaction alone; nothing is noted
    own patch            the answer depends on the stored value too, so the read is noted
    scan, find           the range of ids that was really walked, or could have been listed
    postings             the range of ids that the caller looks at; with own writes in it only a scan
                         shows them
"""

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import structs

from rote.contract import (
    Caller,
    Commit,
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
    GetMade,
    GetSnapshot,
    GetTimes,
    GlanceAt,
    MakeCommit,
    Postings,
    Read,
    Scan,
    Skip,
    Watch,
    Work,
)
from rote.errors import InvalidInput
from rote.space.buffer import Buffer, Own
from rote.space.own_hits import OwnHits
from rote.space.scan_pages import ScanPages, covered_ids
from rote.values import canonical, check_entity_id, decode_canonical
from rote.values.ranges import above, prefix_end

R = TypeVar("R")
_Range = list[str | None]  # the first id, and the id it ends before; it grows with a scan


class TransactionPort(PortLayer):
    """One state of a branch, and what a transaction makes of it."""

    def __init__(self, port: Port, space: str, branch: str) -> None:
        super().__init__(port)
        self._head = port.answer(space, GetHead())
        self._view = View(branch, self._head.version)
        self._times: Times | None = None
        self._entities_read: dict[tuple[str, str | None], None] = {}
        self._ranges_read: list[_Range] = []
        self._scans = ScanPages(self._begin_scan)
        self._state = "new"  # then open, then ended
        self.buffer = Buffer(port, space, self._view, now=lambda: self._now().now, note=self._note)
        self._own_hits = OwnHits(port, space, self._view, self.buffer)
        self._rules: dict[type[Command[Any]], Callable[[str, Any], Any]] = {
            Read: self._read,
            GlanceAt: self._glance,
            GetHistory: self._history,
            Scan: self._scan,
            Skip: self._skip,
            Find: self._find,
            Postings: self._postings,
            GetHead: self._head_of,
            GetSnapshot: self._snapshot_of,
            GetTimes: lambda *_: self._now(),
            Describe: port.answer,
            GetMade: self._keep,
            MakeCommit: self._keep,
        }

    @property
    def view(self) -> View:
        """The branch, and the version that everything is read from."""
        return self._view

    def answer(self, space: str, command: Command[R], /) -> R:
        self.check_not_ended()
        rule = self._rules.get(type(command))
        if rule is None:
            raise _outside()
        answer: R = rule(space, command)
        return answer

    def begin(self, space: str, command: Work[R], /) -> Task[R]:
        raise _outside()

    def watch(self, space: str, command: Watch, /) -> Watching:
        raise _outside()

    def for_caller(self, caller: Caller, /) -> Port:
        raise InvalidInput("a transaction is of the caller that began it")

    # -- its block ---------------------------------------------------------------------------------

    def open(self) -> None:
        if self._state == "open":
            raise InvalidInput("this transaction has begun already; begin another one")
        self.check_not_ended()
        self._state = "open"

    def end(self) -> None:
        self._state = "ended"
        self.buffer.close()

    def check_not_ended(self) -> None:
        if self._state == "ended":
            raise InvalidInput("this transaction has ended; begin another one")

    def check_open(self) -> None:
        self.check_not_ended()
        if self._state != "open":
            raise InvalidInput(
                "a transaction is written to in its block: with space.transaction() as tx: …"
            )

    def commit(self, space: str, *, key: str | None, meta: Any) -> Commit | None:
        """Commit what was kept back, under all reads; None when there is nothing."""
        operations = self.buffer.operations
        if not operations:
            return None
        command = MakeCommit(operations, self._view.branch, self._reads(), key=key, meta=meta)
        return self._port.answer(space, command)

    def _reads(self) -> list[dict[str, Any]]:
        version, entities = self._view.version, self._entities_read
        return [
            *[
                {"id": id, "version": version, **({} if path is None else {"path": path})}
                for id, path in entities
                if path is None or (id, None) not in entities
            ],
            *[
                {"from": start, "to": end, "version": version}
                for start, end in dict.fromkeys(map(tuple, self._ranges_read))
                if end is None or (start is not None and start < end)
            ],
        ]

    # -- reading -----------------------------------------------------------------------------------

    def _shows(self, view: View) -> bool:
        """Whether a view is the state of the transaction; False for one of the past."""
        if view.version is not None and view.version < self._head.version:
            return False
        if view.version not in (None, self._head.version):
            raise InvalidInput(
                f"a transaction sees nothing after its beginning, which is version {self._head.version}"
            )
        if view.branch != self._view.branch:
            raise InvalidInput(
                f"a transaction is on one branch, this one on {self._view.branch!r};"
                f" begin another on {view.branch!r}"
            )
        return True

    def _read(self, space: str, command: Read) -> tuple[State, ...]:
        if not self._shows(command.view):
            return self._port.answer(space, command)
        own = {id: self._own(id) for id in command.ids}
        stored_ids = [id for id, written in own.items() if written is None]
        for id in stored_ids:
            self._note(id)
        states = self._port.answer(space, Read(stored_ids, self._view)) if stored_ids else ()
        stored = {state.id: state for state in states}
        return tuple([stored.get(id) or _shown(own[id]) for id in command.ids])

    def _own(self, id: str) -> Own | None:
        """Return an entity that the transaction has written, and note it if the stored one shows."""
        check_entity_id(id)
        own = self.buffer.own(id)
        if own is not None and not own.is_whole:
            self._note(id)
        return own

    def _glance(self, space: str, command: GlanceAt) -> Glance:
        if not self._shows(command.view):
            return self._port.answer(space, command)
        check_entity_id(command.id)
        own = self.buffer.own(command.id)
        if command.is_noted and (own is None or not own.is_whole):
            for path in (*command.values, *command.sizes) or (None,):
                self._note(command.id, path)
        if own is not None:
            return own.glance(command)
        stored = structs.replace(command, view=self._view, may_be_new=False)
        return self._port.answer(space, stored)

    def _history(self, space: str, command: GetHistory) -> Any:
        if self._shows(command.view):
            self._note(command.id)
            command = structs.replace(command, view=self._view)
        return self._port.answer(space, command)

    def _scan(self, space: str, command: Scan) -> ScanPage:
        if not self._shows(command.view):
            return self._port.answer(space, command)
        command = structs.replace(command, view=self._view)
        if command.descending:
            self._ranges_read.append([command.start, command.end])
            return self._page(space, command)
        covered, page = self._scans.ask(command, lambda asked: self._page(space, asked))
        covered[1] = command.end if page.next is None else above(page.next)
        return page

    def _begin_scan(self, start: str) -> _Range:
        covered: _Range = [start, start]
        self._ranges_read.append(covered)
        return covered

    def _page(self, space: str, command: Scan) -> ScanPage:
        """Return a page of stored entities with own writes laid over them."""
        page = self._port.answer(space, command)
        first, end = covered_ids(command, page)
        own = [id for id in self.buffer.written() if id >= first and (end is None or id < end)]
        if not own:
            return page
        shown = {state.id: state for state in page.states}
        shown |= {id: _shown(self.buffer.own(id)) for id in own}
        ids = sorted(shown, reverse=command.descending)
        states = [shown[id] for id in ids if shown[id].exists]
        if len(states) <= command.limit:
            return ScanPage(tuple(states), page.version, page.next)
        kept = states[: command.limit]
        return ScanPage(tuple(kept), page.version, kept[-1].id)

    def _skip(self, space: str, command: Skip) -> str | None:
        if not self._shows(command.view):
            return self._port.answer(space, command)
        start, end = command.start, command.end
        if any(id >= start and (end is None or id < end) for id in self.buffer.written()):
            return None  # only a scan lays own writes over the stored entities
        last = self._port.answer(space, structs.replace(command, view=self._view))
        if last is not None:
            self._ranges_read.append([start, above(last)])
        return last

    def _find(self, space: str, command: Find) -> tuple[Hit, ...]:
        if not self._shows(command.view):
            return self._port.answer(space, command)
        self._ranges_read.append([command.within, prefix_end(command.within)])
        return self._own_hits.find(command)

    def _postings(self, space: str, command: Postings) -> Found | None:
        if not self._shows(command.view):
            return self._port.answer(space, command)
        if any(id.startswith(command.within) for id in self.buffer.written()):
            return None
        found = self._port.answer(space, structs.replace(command, view=self._view))
        if found is not None:
            self._ranges_read.append([command.within, prefix_end(command.within)])
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

    def _now(self) -> Times:
        """Return one time for the whole transaction: that of the first question for it."""
        if self._times is None:
            self._times = self._port.answer("", GetTimes(shared=False))
        return self._times

    # -- writing -----------------------------------------------------------------------------------

    def _keep(self, _: str, command: MakeCommit | GetMade) -> Commit:
        self.check_open()
        if isinstance(command, GetMade) or _is_named(command) or command.meta is not None:
            raise InvalidInput("a transaction makes one commit; give key and meta to transaction()")
        return self.buffer.add(command.operations, command.reads)

    def _note(self, id: str, path: str | None = None) -> None:
        self._entities_read[(id, path)] = None


def _is_named(command: MakeCommit) -> bool:
    return command.key is not None or command.attempt is not None


def _shown(own: Own | None) -> State:
    """Return the state of an own write as callers get it: a copy, without version and hash."""
    assert own is not None
    value = decode_canonical(canonical(own.state.value))
    return structs.replace(own.state, value=value, version=0, hash=None)


def _outside() -> InvalidInput:
    return InvalidInput(
        "a transaction reads and writes entities and records; do this on the space, outside of it"
    )
