"""The raw side: apsw alone, on the same tables with the same settings, and nothing on top.

Rows are made beforehand; only prepared statements on one cursor are timed. The writer leaves
`wal_autocheckpoint` at SQLite's default of 1,000 pages, so it pays for its own checkpoints, as Rote
pays for those of its checkpointer. Both sides open their file before a turn and close it after,
so that no side works in the background while the other is measured.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import apsw

from bench.documents import Document
from rote.engines.sqlite.connections import connect, use_write_ahead_log
from rote.engines.sqlite.schema import FORMAT_WITH_SEGMENTS, bring_up_to_date
from rote.values import canonical

AUTOCHECKPOINT_PAGES = 1_000

COMMIT = "insert into commits values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
FACT = "insert into facts values (null, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
ENTITY = "insert into entities values (?, ?, ?, ?, ?)"
CURRENT = "select body from facts where space = ? and id = ? order by version desc limit 1"

_SPACE = _BRANCH = _SET = 1


@dataclass(frozen=True, slots=True)
class RawCommit:
    """The rows of one commit of sets."""

    commit: tuple[Any, ...]
    facts: list[tuple[Any, ...]]
    entities: list[tuple[Any, ...]]


class RawRows:
    """Rows of the shape and size that Rote writes; the hashes are random bytes."""

    def __init__(self) -> None:
        self._random = random.Random(2)
        self._version = 0

    def commits(self, batches: Iterable[Sequence[tuple[str, Document]]]) -> list[RawCommit]:
        return [self._commit(batch) for batch in batches]

    def _commit(self, batch: Sequence[tuple[str, Document]]) -> RawCommit:
        self._version += 1
        version, draw = self._version, self._random.randbytes
        at = 1_770_000_000_000_000 + version * 100
        return RawCommit(
            (_SPACE, version, _BRANCH, draw(32), at, None, None, None, None, draw(16)),
            [
                (_SPACE, _BRANCH, version, position, id, _SET, draw(32), draw(32), draw(16),
                 canonical(document), None)
                for position, (id, document) in enumerate(batch)
            ],
            [(_SPACE, _BRANCH, id, version, place) for place, (id, _) in enumerate(batch)],
        )  # fmt: skip


class RawFile:
    """One connection and one cursor."""

    def __init__(self, path: Path, *, durability: str = "os") -> None:
        new = not path.exists()
        path.touch()
        self.connection = connect(str(path), durability=durability, vfs=None)
        use_write_ahead_log(self.connection)
        self.connection.pragma("wal_autocheckpoint", AUTOCHECKPOINT_PAGES)
        self.cursor: apsw.Cursor = self.connection.cursor()
        if new:
            bring_up_to_date(self.connection, done=0, format=FORMAT_WITH_SEGMENTS)

    def write(self, commits: Iterable[RawCommit]) -> None:
        """Write each commit as one transaction."""
        execute = self.cursor.execute
        for commit in commits:
            execute("begin immediate")
            execute(COMMIT, commit.commit)
            for fact in commit.facts:
                execute(FACT, fact)
            for entity in commit.entities:
                execute(ENTITY, entity)
            execute("commit")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.connection.close()
