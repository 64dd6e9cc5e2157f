"""Scans whose pages grow from one entity on, for layers that note what was walked.

A caller that stops early has then asked for little more than it took.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import structs

from rote.contract import ScanPage
from rote.contract.commands import Scan
from rote.values.limits import PAGE_MAX, SCANS_OPEN_MAX
from rote.values.ranges import above

S = TypeVar("S")


class ScanPages(Generic[S]):
    """The scans that a layer has begun to answer, each with a note of type S."""

    def __init__(self, begin: Callable[[str], S]) -> None:
        """Begin without scans; `begin` makes the note of one that starts with an id."""
        self._begin = begin
        self._open: dict[Scan, tuple[S, int]] = {}  # by the command that would go on with each

    def ask(self, command: Scan, answer: Callable[[Scan], ScanPage]) -> tuple[S, ScanPage]:
        """Return the note of the scan that a command begins or goes on with, and its next page."""
        known = self._open.pop(structs.replace(command, limit=0), None)
        note, size = known or (self._begin(first_id(command)), 1)
        page = answer(structs.replace(command, limit=min(command.limit, size)))
        if page.next is not None and size < command.limit:
            if len(self._open) >= SCANS_OPEN_MAX:
                # If it is continued all the same, it counts as another scan from there on.
                del self._open[next(iter(self._open))]
            following = structs.replace(command, after=page.next, limit=0)
            self._open[following] = note, min(2 * size, PAGE_MAX)
        return note, page


def first_id(command: Scan) -> str:
    """Return the first text that can be an id in a scan."""
    return command.start if command.after is None else max(command.start, above(command.after))


def covered_ids(command: Scan, page: ScanPage) -> tuple[str, str | None]:
    """Return the first id that a page speaks of, and the one that it ends before."""
    if not command.descending:
        return first_id(command), command.end if page.next is None else above(page.next)
    ends = [end for end in (command.end, command.after) if end is not None]
    return page.next or command.start, min(ends, default=None)
