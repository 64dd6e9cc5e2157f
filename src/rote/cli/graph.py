"""`rote log --graph`: one lane for each branch, one line for each commit, drawn oldest first.

●      1  main   set urn:a
├─╮    2  topic  branch.create
│ ●    3  topic  set urn:b
●─┤    4  main   merge topic
│ ╵    5  topic  branch.delete
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from rote.contract import Branch, Commit

# More lanes than this cannot be read; a branch that does not fit gets none.
LANES_MAX = 24


class Lanes:
    """Lanes side by side, each with the branch that is drawn in it."""

    def __init__(self, branches: Iterable[Branch]) -> None:
        self._lanes: list[str | None] = []
        for branch in branches:
            if not branch.deleted:
                self._place(branch.name)

    def draw(self, commits: Iterable[Commit]) -> Iterator[tuple[str, Commit]]:
        for commit in commits:
            yield self._line(commit), commit

    def _line(self, commit: Commit) -> str:
        event = commit.event or {}
        kind = event.get("type")
        if kind == "branch.create":
            here = self._place(commit.branch)
            marks = self._marks()
            self._join(marks, here, "╮", self._find(event["parent"]), "├", end_left="╭")
            return _spaced(marks)
        marks = self._marks()
        here = self._find(commit.branch)
        if here is not None:
            marks[here] = "╵" if kind == "branch.delete" else "●"
        if kind == "merge":
            self._join(marks, self._find(event["source"]), "┤", here, "●", end_left="├")
        elif kind == "branch.delete" and here is not None:
            self._lanes[here] = None
        return _spaced(marks)

    def _marks(self) -> list[str]:
        return [" " if name is None else "│" for name in self._lanes]

    def _join(
        self,
        marks: list[str],
        end: int | None,
        end_right: str,
        start: int | None,
        start_mark: str,
        *,
        end_left: str,
    ) -> None:
        """Draw a line from one lane to another, across the lanes between them."""
        if end is None:
            return
        if start is None:
            marks[end] = "●"
            return
        low, high = sorted((start, end))
        for lane in range(low + 1, high):
            marks[lane] = "┼" if marks[lane] == "│" else "─"
        marks[start] = start_mark if start_mark == "●" or start < end else "┤"
        marks[end] = end_right if end > start else end_left

    def _find(self, name: str) -> int | None:
        return self._lanes.index(name) if name in self._lanes else None

    def _place(self, name: str) -> int | None:
        """Give a branch the first free lane and return it; None when all are taken."""
        if None in self._lanes:
            lane = self._lanes.index(None)
            self._lanes[lane] = name
            return lane
        if len(self._lanes) >= LANES_MAX:
            return None
        self._lanes.append(name)
        return len(self._lanes) - 1


def mirrored(drawn: str) -> str:
    """Return a line as it looks when the newest commit is on top."""
    return drawn.translate(_UPSIDE_DOWN)


_UPSIDE_DOWN = str.maketrans("╮╭╵", "╯╰╷")
_JOINS_RIGHT = "├─┼╭"
_JOINS_LEFT = "╮─┼┤"


def _spaced(marks: list[str]) -> str:
    """Return the marks as one line, with the gaps filled where a line crosses them."""
    drawn = marks[:1]
    for left, right in pairwise(marks):
        is_joined = (left in _JOINS_RIGHT and right in _JOINS_LEFT + "●") or (
            left == "●" and right in _JOINS_LEFT
        )
        drawn += ["─" if is_joined else " ", right]
    return "".join(drawn)
