"""The two ways to write a block: under a lock, or by proving afterwards that none was needed.

locking       begin, lock the row of the space, read and write, commit. Always gets through.
optimistic    no transaction. Reads run as they come, writes are kept back; at the end one statement
              writes them all if nothing has been written to the space since the block began.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from rote.engines.postgres.connections import Session
from rote.engines.postgres.reader import Known, PostgresReader, known_of
from rote.engines.postgres.writes import (
    SYNCHRONOUS,
    Derivation,
    Packing,
    Presumed,
    Statement,
    Writes,
    at_once,
)
from rote.engines.protocol import Contended, OutcomeUnknown, no_space
from rote.engines.rows import (
    STORE,
    Batch,
    BlobRow,
    ChunkRow,
    DerivedRow,
    FactPlace,
    FactRow,
    HeadRow,
    Line,
    SegmentRow,
    SideRecord,
    VectorRow,
)
from rote.engines.sqlite.schema import TABLES_OF_SPACES
from rote.errors import RoteError, Unavailable
from rote.values.limits import (
    BUSY_SECONDS_MAX,
    POSTGRES_IDLE_SECONDS_MAX,
    POSTGRES_STATEMENT_SECONDS_MAX,
)

# transaction_resolution_unknown and statement_completion_unknown.
_UNKNOWN = ("08007", "40003")


class PostgresWriter(PostgresReader, ABC):
    """The calls that both ways have in common."""

    def __init__(
        self,
        session: Session,
        schema: str,
        remember: Callable[[int, Known], None],
        *,
        space: int,
        durability: str,
    ) -> None:
        super().__init__(session.rows, schema, remember)
        self.session = session
        self._space = space
        self._durability = durability

    @abstractmethod
    def write(self, writes: Writes) -> None: ...

    def drop_space(self, space: int, *, left: Sequence[SideRecord]) -> None:
        raise Contended()  # only under the lock

    def presume_absent(
        self, space: int, *, ids: Sequence[str] = (), sides: Sequence[tuple[str, str]] = ()
    ) -> bool:
        return False

    def append(self, space: int, batch: Batch) -> None:
        self.write(Writes(batch=batch))

    def put_side(self, space: int, row: SideRecord) -> None:
        self.write(Writes(sides={(row.kind, row.key): row}))

    def drop_side(self, space: int, kind: str, key: str) -> None:
        self.write(Writes(sides={(kind, key): None}))

    def derive(
        self,
        space: int,
        index: str,
        *,
        rows: Sequence[DerivedRow],
        ended: Sequence[DerivedRow],
        indexed: int,
    ) -> None:
        self.write(Writes(derived={index: Derivation(rows, ended, indexed)}))

    def drop_derived(self, space: int, index: str) -> None:
        self.write(Writes(dropped={index}))

    def drop_derived_of(self, space: int, id: str) -> None:
        self.write(Writes(underived={id}))

    def put_segment(
        self, space: int, index: str, row: SegmentRow, postings: Iterable[tuple[str, bytes]]
    ) -> None:
        self.write(Writes(segments={(index, row.number): Packing(row, list(postings))}))

    def drop_segments(self, space: int, index: str, numbers: Sequence[int]) -> None:
        self.write(Writes(segments={(index, number): None for number in numbers}))

    def put_vectors(self, space: int, name: str, rows: Sequence[VectorRow]) -> None:
        # Of several for one text the first counts.
        self.write(Writes(vectors={(name, row.hash): row for row in reversed(rows)}))

    def drop_vectors(self, space: int, name: str, hashes: Sequence[bytes]) -> None:
        self.write(Writes(vectors={(name, hash): None for hash in hashes}))

    def rewrite_facts(self, space: int, facts: Sequence[FactRow]) -> None:
        self.write(Writes(rewritten=facts))

    def drop_facts(self, space: int, places: Sequence[FactPlace]) -> None:
        self.write(Writes(dropped_facts=places))

    def drop_commits(self, space: int, *, before: int) -> None:
        self.write(Writes(commits_from=before))

    def put_blob(self, space: int, row: BlobRow) -> None:
        self.write(Writes(blobs={row.upload: row}))

    def drop_blob(self, space: int, upload: bytes) -> None:
        self.write(Writes(blobs={upload: None}))

    def put_chunks(self, space: int, upload: bytes, rows: Sequence[ChunkRow]) -> None:
        self.write(Writes(chunks={upload: rows}))

    def drop_chunks(self, space: int, upload: bytes, *, until: int) -> None:
        self.write(Writes(dropped_chunks={upload: until}))

    def _decide(self, text: str, values: Sequence[Any] = ()) -> None:
        """Run a statement that commits; raise OutcomeUnknown when it may or may not have done so."""
        session = self.session
        session.notices.commit_in_doubt = False
        try:
            session.run(text, values)
        except RoteError as error:
            if not session.is_idle or error.details.get("sqlstate") in _UNKNOWN:
                raise OutcomeUnknown() from error
            raise
        if session.notices.commit_in_doubt:
            # Most likely committed here, but the wait for a standby was cut short.
            raise OutcomeUnknown()


class LockingWriter(PostgresWriter):
    """A transaction that holds the row of its space."""

    state: Known  # of the space, including the writes of this transaction

    def begin(self) -> None:
        rows = self.session.rows(
            "begin isolation level read committed;"
            f" set local lock_timeout = '{BUSY_SECONDS_MAX}s';"
            f" set local statement_timeout = '{POSTGRES_STATEMENT_SECONDS_MAX}s';"
            # A process that stops while it holds the row must not block all others.
            f" set local idle_in_transaction_session_timeout = '{POSTGRES_IDLE_SECONDS_MAX}s';"
            f" select {SYNCHRONOUS[self._durability]};"
            f" select version, hash, at, changes from {self._schema}.spaces"
            f" where number = {self._space:d} for update"
        )
        if not rows:
            raise no_space()
        self.state = self._base = known_of(rows[0])

    def head(self, space: int) -> HeadRow | None:
        return self.state.head

    def write(self, writes: Writes) -> None:
        statement = Statement(self._schema, self._space, writes)
        self._all(statement.text, *statement.values)
        self.state = _after(self.state, writes)

    def drop_space(self, space: int, *, left: Sequence[SideRecord]) -> None:
        for table in TABLES_OF_SPACES:
            self._all(f"delete from {self._schema}.{table} where space = $1", space)
        self._all(f"delete from {self._schema}.spaces where number = $1", space)
        for row in left:
            self._all(
                f"insert into {self._schema}.sides values ($1, $2, $3, $4, $5, $6)",
                STORE, row.kind.encode(), row.key.encode(), row.fence, row.body, row.seal,
            )  # fmt: skip
        self.state = Known(None, self.state.changes + 1)

    def finish(self) -> None:
        if self.state == self._base:
            # Nothing was written, so the outcome is known even when the connection is lost.
            self.session.run("commit")
        else:
            self._decide("commit")
        if self.session.answer != "COMMIT":
            raise Unavailable("the server gave the transaction up; nothing was written, try again")
        self._remember(self._space, self.state)

    def abandon(self, error: BaseException) -> None:
        """Roll back where that is possible.

        The pool closes a session that could not roll back, which ends its transaction. It also
        closes one that was interrupted, since an answer may still arrive on it. The caller raises
        `error`, so an error of the rollback itself is dropped.
        """
        session = self.session
        if isinstance(error, Exception) and not session.closed and not session.is_idle:
            with suppress(RoteError):
                session.run("rollback")


class OptimisticWriter(PostgresWriter):
    """A writer that holds no lock. Everything in `base` must still be true at the end."""

    base: Known

    def begin(self, base: Known | None) -> None:
        """Begin from `base`, which may be old but must have been read before anything else in the block."""
        found = base or self.known(self._space)
        if found is None:
            raise no_space()
        self.base = found
        self._presumed = Presumed()
        self._is_stale = False
        self._pieces: list[Writes] = []

    def head(self, space: int) -> HeadRow | None:
        return self.base.head

    def presume_absent(
        self, space: int, *, ids: Sequence[str] = (), sides: Sequence[tuple[str, str]] = ()
    ) -> bool:
        self._presumed.ids.update(ids)
        self._presumed.sides.update(sides)
        return True

    def newest(self, space: int, ids: Sequence[str], line: Line) -> list[FactRow]:
        """Return the newest facts, and read the counter in the same statement.

        So a plan on an old state is given up early, before random bytes are drawn for entities that
        only look new.
        """
        if not ids:
            return []
        if len(ids) == len(line) == 1:
            text = f"select * from {self._schema}.look_at_one($1, $2, $3, $4)"
            rows = self._all(text, space, ids[0], *line[0])
        else:
            text, values = self._newest_of(space, ids, line)
            rows = self._all(
                f"select s.changes, f.* from {self._schema}.spaces as s"
                f" left join lateral ({text}) as f on true where s.number = $1",
                *values,
            )
        if not rows or rows[0][0] != self.base.changes:
            self._is_stale = True
            raise Contended()
        return [FactRow(*row) for _, *row in rows if row[0] is not None]

    def write(self, writes: Writes) -> None:
        if self._pieces and self._pieces[-1].takes(writes):
            self._pieces[-1].take(writes)
        else:
            self._pieces.append(writes)

    def finish(self) -> None:
        if self._is_stale:
            raise Contended()
        if not self._pieces:
            self._prove()
        elif len(self._pieces) == 1:
            self._write_at_once(self._pieces[0])
        else:
            self._write_in_turn()

    def abandon(self, error: BaseException) -> None:
        if isinstance(error, Contended):
            raise error
        # An error that follows from an old state must not reach the caller.
        if isinstance(error, RoteError) and self.session.is_idle:
            self._prove()

    def _prove(self) -> None:
        """Raise Contended if the space was written to since `base`, or a presumption is wrong."""
        values: list[Any] = [self._space]
        presumed = self._presumed.conditions(self._schema, "$1", values)
        rows = self._all(
            f"select version, hash, at, changes from {self._schema}.spaces"
            f" where number = $1{presumed}",
            *values,
        )
        if not rows or known_of(rows[0]) != self.base:
            raise Contended()

    def _write_at_once(self, writes: Writes) -> None:
        text, values = at_once(
            self._schema,
            self._space,
            writes,
            expected=self.base,
            presumed=self._presumed,
            durability=self._durability,
        )
        self._decide(text, values)
        if self.session.answer != "SELECT 1":
            raise Contended()
        self._remember(self._space, _after(self.base, writes))

    def _write_in_turn(self) -> None:
        """Write in several statements, because a single statement cannot write the same row twice."""
        locking = LockingWriter(
            self.session,
            self._schema,
            self._remember,
            space=self._space,
            durability=self._durability,
        )
        try:
            locking.begin()
            self._prove()
            for writes in self._pieces:
                locking.write(writes)
            locking.finish()
        except RoteError as error:
            locking.abandon(error)
            raise


def _after(known: Known, writes: Writes) -> Known:
    head = known.head
    if writes.batch is not None and writes.batch.commits:
        newest = writes.batch.commits[-1]
        head = HeadRow(newest.version, newest.hash, newest.at)
    return Known(head, known.changes + 1)
