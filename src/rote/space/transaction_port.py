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

from typing import Any, TypeVar

from msgspec import structs

from rote.contract import Commit, Port, ScanPage
from rote.contract.commands import Command, GetHead, GetMade, MakeCommit, Scan
from rote.errors import InvalidInput
from rote.space.buffer import Buffer
from rote.space.overlay_port import OverlayPort
from rote.space.scan_pages import ScanPages
from rote.values.ranges import above

R = TypeVar("R")
_Range = list[str | None]  # the first id, and the id it ends before; it grows with a scan


class TransactionPort(OverlayPort):
    """One state of a branch, and what a transaction makes of it."""

    who = "a transaction"

    def __init__(self, port: Port, space: str, branch: str) -> None:
        super().__init__(port, space, branch, port.answer(space, GetHead()))
        self._entities_read: dict[tuple[str, str | None], None] = {}
        self._ranges_read: list[_Range] = []
        self._scans = ScanPages(self._begin_scan)
        self._state = "new"  # then open, then ended
        self.buffer = Buffer(
            port, space, self._view, now=lambda: self.now().now, note=self.note,
            below=port.own if isinstance(port, OverlayPort) else lambda id: None,
        )  # fmt: skip
        self.lay(self.buffer)
        self._rules |= {GetMade: self._keep, MakeCommit: self._keep}

    def answer(self, space: str, command: Command[R], /) -> R:
        self.check_not_ended()
        return super().answer(space, command)

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
        command = MakeCommit(operations, self._view.branch, self.reads(), key=key, meta=meta)
        return self._port.answer(space, command)

    def reads(self) -> list[dict[str, Any]]:
        """Return what was read of the stored state, as reads of a commit."""
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

    def note(self, id: str, path: str | None = None) -> None:
        self._entities_read[(id, path)] = None

    def note_range(self, start: str, end: str | None) -> None:
        self._ranges_read.append([start, end])

    def _scan(self, space: str, command: Scan) -> ScanPage:
        if command.descending or not self._shows(command.view):
            return super()._scan(space, command)
        command = structs.replace(command, view=self._view)
        covered, page = self._scans.ask(command, lambda asked: self._page(space, asked))
        covered[1] = command.end if page.next is None else above(page.next)
        return page

    def _begin_scan(self, start: str) -> _Range:
        covered: _Range = [start, start]
        self._ranges_read.append(covered)
        return covered

    # -- writing -----------------------------------------------------------------------------------

    def _keep(self, _: str, command: MakeCommit | GetMade) -> Commit:
        self.check_open()
        if isinstance(command, GetMade) or _is_named(command) or command.meta is not None:
            raise InvalidInput("a transaction makes one commit; give key and meta to transaction()")
        return self.buffer.add(command.operations, command.reads)


def _is_named(command: MakeCommit) -> bool:
    return command.key is not None or command.attempt is not None
