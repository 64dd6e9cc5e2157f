"""The Port: everything the layers above may ask of a space, whoever answers.

The kernel answers in process, a client answers over the wire; both pass the same suite. Every call
is atomic and sees one committed state. Reads may be retried freely; `commit` may be retried with
its key. Errors are those of rote.errors, nothing else.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from rote.contract.copies import CopyPage, SidePage
from rote.contract.facts import Commit, State
from rote.contract.index import Hit
from rote.contract.reports import VerifyReport
from rote.contract.requests import (
    CommitRequest,
    FactPage,
    Head,
    ScanPage,
    SideRow,
    SpaceInfo,
    View,
)
from rote.values import Json

Progress = Callable[[int, int], None]  # (done, total)
CopyProgress = Callable[[str, int, int], None]  # ("copying" or "verifying", done, total)


class Port(Protocol):
    """A store of spaces. Spaces are named by their did."""

    def spaces(self) -> tuple[SpaceInfo, ...]: ...

    def space(self, name: str, *, create: bool) -> SpaceInfo:
        """The space of that name or did; made on first use when `create`, else NotFound."""
        ...

    def now(self) -> int:
        """The store's clock, microseconds since the epoch."""
        ...

    def head(self, space: str) -> Head: ...

    def head_at(self, space: str, *, version: int | None = None, at: int | None = None) -> Head:
        """The head as it was at a version, or at an instant (the newest commit not after it)."""
        ...

    def commit(self, space: str, request: CommitRequest) -> Commit:
        """Validate, append and make durable, or raise and write nothing."""
        ...

    def read(self, space: str, ids: Sequence[str], view: View) -> tuple[State, ...]:
        """The states of `ids`, in that order, all from one state of the space."""
        ...

    def scan(
        self, space: str, *, start: str, end: str | None, after: str | None, limit: int, view: View
    ) -> ScanPage:
        """Existing entities with start <= id < end and id > after, in code point order."""
        ...

    def history(
        self, space: str, id: str, *, before: tuple[int, int] | None, limit: int, view: View
    ) -> FactPage: ...

    def log(self, space: str, *, since: int, limit: int) -> tuple[Commit, ...]:
        """Commits above `since`, oldest first, over all branches."""
        ...

    def find(
        self, space: str, index: str, *, start: str, end: str | None, after: Hit | None,
        limit: int, view: View,
    ) -> tuple[Hit, ...]:  # fmt: skip
        """Entities that a declared index lists under terms in [start, end), in (term, id) order."""
        ...

    def side(self, space: str, kind: str, key: str) -> SideRow | None: ...

    def sides(self, space: str, kind: str, *, after: str, limit: int) -> tuple[SideRow, ...]:
        """The rows of a kind, in key order, above `after`."""
        ...

    def put_side(self, space: str, kind: str, key: str, body: Json, *, fence: int) -> SideRow:
        """Write a row if its fence is `fence` (0: if it is absent); a stale fence is Denied."""
        ...

    def drop_side(self, space: str, kind: str, key: str, *, fence: int) -> None: ...

    def verify(
        self, space: str, *, against: dict[str, Any] | None, progress: Progress | None
    ) -> VerifyReport: ...

    def checkpoint(self, space: str) -> dict[str, Any]: ...

    def backup(self, path: Path) -> None: ...

    # Copies: a space leaves one store and enters another, as it is. Everything that enters is
    # checked first. All of it may be repeated: what is there already is not written again.

    def adopt(self, did: str, name: str, *, seed: bytes | None) -> SpaceInfo:
        """The space of that did; made empty when it is new, and its private key kept if given."""
        ...

    def seed(self, space: str) -> bytes:
        """The private key of a space, for another store; Denied where it is not at hand."""
        ...

    def copy_out(self, space: str, *, since: int, until: int) -> CopyPage:
        """Commits in (since, until], oldest first; a page is bounded in count and in bytes."""
        ...

    def copy_in(self, space: str, page: CopyPage) -> Head:
        """Append what is not there yet, in one transaction; the head then, from where to go on.

        It may take a part of the page only. InvalidInput when the page does not continue this
        log, Corrupt when it is not what was written; then nothing is.
        """
        ...

    def sides_out(self, space: str, *, after: tuple[str, str]) -> SidePage:
        """Side rows above (kind, key), but for those that copy_out gives."""
        ...

    def sides_in(self, space: str, page: SidePage) -> None:
        """Take over the rows of the page, all or none; rows that it does not have stay.

        InvalidInput when a row here has a higher fence, or the same one and another body: no
        fence moves back. Of two checkpoints of a version the one with the higher fence stays.
        """
        ...

    def close(self) -> None: ...
