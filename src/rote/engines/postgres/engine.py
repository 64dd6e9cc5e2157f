"""The engine on PostgreSQL: one schema of a database, any number of threads, processes and machines.

The engine remembers the newest commit that this process has seen of each space. It never trusts it:
a block that starts from it proves at its end that it was still the newest.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar
from weakref import ref

from msgspec.structs import astuple

from rote.engines.postgres.backup import copy_store
from rote.engines.postgres.connections import Session, Target
from rote.engines.postgres.pool import Pool
from rote.engines.postgres.reader import Known, PostgresReader
from rote.engines.postgres.schema import check_format, check_schema, prepare, quoted
from rote.engines.postgres.scrubbing import OUT_OF_REACH, scrub
from rote.engines.postgres.writer import LockingWriter, OptimisticWriter
from rote.engines.postgres.writes import SYNCHRONOUS
from rote.engines.protocol import Contended, OutcomeUnknown, Scrubbed, check_writable
from rote.engines.rows import ERASED_SPACE, STORE, BranchRow, SpaceRow
from rote.engines.sqlite.backup import write_new_file
from rote.errors import Busy, InvalidInput, RoteError, Unavailable
from rote.values.limits import (
    CONTENTION_ATTEMPTS_MAX,
    CONTENTION_PAUSE_SECONDS_MAX,
    POSTGRES_SETTLE_SECONDS_MAX,
)

_Answer = TypeVar("_Answer")


class PostgresEngine:
    """Implements Engine."""

    is_remote = True
    targets = Target  # the kind of target that is connected to

    def __init__(
        self,
        url: str,
        *,
        schema: str = "rote",
        durability: str = "fsync",
        create: bool = True,
        read_only: str | None = None,
    ) -> None:
        if durability not in ("fsync", "os"):
            raise InvalidInput(f'durability is "fsync" or "os", not {durability!r}')
        self._schema = quoted(check_schema(schema))
        self._durability = durability
        self.read_only = read_only
        self._target = self.targets(url, writes=read_only is None)
        self._pool = Pool(self._target)
        self._own = _Own()
        self._known: dict[int, Known] = {}
        self._reader = PostgresReader(self._pool.rows, self._schema, self._remember)
        self._reader.is_audit = read_only is not None
        try:
            with self._pool.lent() as session:
                if read_only is not None:
                    check_format(session, schema)
                else:
                    prepare(session, schema, create=create)
        except BaseException:
            self._pool.close()
            raise

    def why_not_written(self) -> str | None:
        rows = self._pool.rows(
            "select has_table_privilege($1, 'insert'), pg_is_in_recovery()",
            (f"{self._schema}.commits",),
        )
        may_insert, is_standby = rows[0]
        if is_standby:
            return f"{self._target.place} is a standby, which only reads; name the primary"
        return None if may_insert else f"{self._target.place}: this user may only read"

    @staticmethod
    def place_of(url: str) -> str:
        """Return a URL without user and password."""
        return Target(url).place

    def mark(self) -> None:
        """Return None: only a look at the database tells whether others have committed."""

    def now(self) -> int:
        rows = self._pool.rows("select (extract(epoch from clock_timestamp()) * 1000000)::bigint")
        micros: int = rows[0][0]
        return micros

    # -- spaces ------------------------------------------------------------------------------------

    def spaces(self) -> list[SpaceRow]:
        return self.reader().spaces()

    def space(self, name: str) -> SpaceRow | None:
        return self.reader().space(name)

    def leased_spaces(self) -> list[SpaceRow]:
        return self.reader().leased_spaces()

    def create_space(self, *, did: str, name: str, seal: bytes, main: BranchRow) -> SpaceRow:
        check_writable(self)
        s = self._schema
        text = (
            f"with settings as materialized (select {SYNCHRONOUS[self._durability]}),"
            f" made as (insert into {s}.spaces"
            " select 1 + greatest("
            f" (select coalesce(max(number), 0) from {s}.spaces),"
            f" (select coalesce(max(fence), 0) from {s}.sides where space = {STORE}"
            f" and kind = '{ERASED_SPACE}')), $1, $2, $3, 0, '', 0, 0"
            " from settings on conflict do nothing returning number),"
            f" main as (insert into {s}.branches"
            " select number, $4, $5, $6, $7, $8, $9, $10 from made)"
            " select number from made"
        )
        values = (did, name, seal, *astuple(main))

        def make() -> SpaceRow:
            for row in self._pool.rows(text, values):
                return SpaceRow(row[0], did, name, seal)
            taken = self.space(name) or self.space(did)
            if taken is not None:
                return taken
            raise Contended()  # another space was made at this moment and took the number

        return _retried(make)

    def drop_store_row(self, kind: str, key: str) -> None:
        check_writable(self)
        self._pool.rows(
            f"delete from {self._schema}.sides where space = $1 and kind = $2 and key = $3",
            (STORE, kind.encode(), key.encode()),
        )

    # -- reading and writing -----------------------------------------------------------------------

    def check_usable(self) -> None:
        self._pool.check_open()

    def reader(self) -> PostgresReader:
        self._pool.check_open()
        return self._reader

    def writer(self, space: int, *, optimistic: bool = False) -> "_Block":
        check_writable(self)
        return _Block(self, space, optimistic)

    def begin(self, block: "_Block") -> LockingWriter | OptimisticWriter:
        """Start the transaction that `end` ends."""
        try:
            return self._begin(block)
        except Unavailable as error:
            if block.session is None or not block.session.closed:
                raise
            self.let_go(block, error)
        # Nothing had begun. The session had lost its connection before, and the pool has dropped
        # the other lost ones by now.
        return self._begin(block)

    def _begin(self, block: "_Block") -> LockingWriter | OptimisticWriter:
        # The block owns the session before the session locks anything. An interruption may come at
        # any moment, even after this function has returned and before its caller has the result.
        self._own.block = ref(block)
        session = block.session = self._pool.take()
        arguments = (session, self._schema, self._remember)
        if block.optimistic:
            hopeful = OptimisticWriter(*arguments, space=block.space, durability=self._durability)
            hopeful.begin(self._known.get(block.space))
            return hopeful
        locking = LockingWriter(*arguments, space=block.space, durability=self._durability)

        def begin() -> None:
            try:
                locking.begin()
            except RoteError as error:
                locking.abandon(error)
                raise

        _retried(begin)
        return locking

    def end(
        self,
        block: "_Block",
        writer: LockingWriter | OptimisticWriter,
        error: BaseException | None,
    ) -> None:
        """Commit, or undo what `error` interrupted."""
        try:
            if error is None:
                writer.finish()
            else:
                writer.abandon(error)
        except BaseException as failure:
            if isinstance(failure, Contended | OutcomeUnknown):
                self._known.pop(block.space, None)
            error = failure
            raise
        finally:
            self.let_go(block, error)

    def let_go(self, block: "_Block", error: BaseException | None) -> None:
        """Give the block's session back, once only: afterwards another thread may be using it."""
        session, block.session = block.session, None
        if session is not None:
            self._pool.give_back(session, error)

    def _remember(self, space: int, known: Known) -> None:
        before = self._known.get(space)
        if before is None or before.changes < known.changes:
            self._known[space] = known

    # -- keeping -----------------------------------------------------------------------------------

    def harden(self) -> None:
        check_writable(self)
        # PostgreSQL answers a commit of any row only when everything before it is as durable.
        with self._pool.lent() as session:
            _run_durably(
                session,
                f"with settings as materialized (select {SYNCHRONOUS['fsync']})"
                f" update {self._schema}.store set hardened = hardened + 1 from settings",
            )

    def settle(self, space: int, version: int, attempt: bytes) -> bool:
        check_writable(self)
        self._pool.check_open()
        self._known.pop(space, None)
        deadline = time.monotonic() + POSTGRES_SETTLE_SECONDS_MAX
        while True:
            try:
                return self._settle(space, version, attempt)
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(CONTENTION_PAUSE_SECONDS_MAX)

    def _settle(self, space: int, version: int, attempt: bytes) -> bool:
        """Say whether the attempt is in the log for good.

        Moving the counter waits for a statement that is still running, and keeps a statement that
        has yet to begin from matching. After that the log tells the final outcome.
        """
        session = self._target.connect()
        try:
            _run_durably(
                session,
                "begin isolation level read committed;"
                f" set local lock_timeout = '{POSTGRES_SETTLE_SECONDS_MAX}s';"
                f" set local statement_timeout = '{POSTGRES_SETTLE_SECONDS_MAX}s';"
                f" select {SYNCHRONOUS['fsync']};"
                f" update {self._schema}.spaces set changes = changes + 1 where number = {space:d};"
                " commit",
            )
            rows = session.rows(
                f"select attempt from {self._schema}.commits where space = $1 and version = $2",
                (space, version),
            )
        finally:
            session.close()
        return rows == [(attempt,)]

    def scrub(self, *, payloads: bool = False) -> Scrubbed:
        check_writable(self)
        self._pool.check_open()
        # A connection of its own, because the settings stay with it.
        session = self._target.connect()
        try:
            left = scrub(session, self._schema, payloads=payloads)
        finally:
            session.close()
        return Scrubbed((*left, *OUT_OF_REACH), is_whole=not left)

    def tidy(self) -> None:
        """Leave files alone: the server has none of its own, and backups are anywhere."""

    def abandon(self) -> None:
        block = None if self._own.block is None else self._own.block()
        if block is not None:
            self.let_go(block, KeyboardInterrupt())

    def damage(self) -> list[str]:
        """Compare each space's copy of its newest commit, which the log does not cover, with the log."""
        rows = self._pool.rows(
            "select s.name, s.version, s.hash, s.at, c.version, c.hash, c.at"
            f" from {self._schema}.spaces as s left join lateral"
            f" (select version, hash, at from {self._schema}.commits where space = s.number"
            " order by version desc limit 1) as c on true order by s.name"
        )
        return [
            f"the row of space {name!r} is of version {row[0]},"
            f" its log ends with version {row[3] or 0}, or they differ"
            for name, *row in rows
            if row[:3] != row[3:] and row != [0, b"", 0, None, None, None]
        ]

    def backup(self, path: Path) -> None:
        with self._pool.lent() as session:
            write_new_file(path, lambda part: copy_store(session, self._schema, part))

    def close(self) -> None:
        self._pool.close()


class _Own(threading.local):
    """The state of each thread."""

    # The block that the thread began last. The reference is weak: the block's session holds the
    # lock of a space and must not be kept alive.
    block: "ref[_Block] | None" = None


class _Block:
    """A `with` block around begin and end."""

    __slots__ = ("__weakref__", "_engine", "_writer", "optimistic", "session", "space")

    def __init__(self, engine: PostgresEngine, space: int, optimistic: bool) -> None:
        self._engine = engine
        self.space = space
        self.optimistic = optimistic
        self.session: Session | None = None  # while the block owns it

    def __enter__(self) -> LockingWriter | OptimisticWriter:
        try:
            self._writer = self._engine.begin(self)
            return self._writer
        except BaseException as error:
            self._engine.let_go(self, error)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._engine.end(self, self._writer, error)
        except BaseException as failure:
            self._engine.let_go(self, failure)
            raise


def _run_durably(session: Session, text: str) -> None:
    """Run a statement that commits; raise Unavailable when it waited for a standby in vain."""
    session.notices.commit_in_doubt = False
    session.run(text)
    if session.notices.commit_in_doubt:
        raise Unavailable(
            f"{session.place}: no standby has confirmed it, the wait was cancelled; try again"
        )


def _retried(action: Callable[[], _Answer]) -> _Answer:
    """Repeat an action that raised Contended, each time after a pause that differs between callers."""
    for _ in range(CONTENTION_ATTEMPTS_MAX):
        try:
            return action()
        except Contended:
            part = time.monotonic_ns() % 1_000 / 1_000
            time.sleep(CONTENTION_PAUSE_SECONDS_MAX * part)
    raise Busy("others write here all the time; try again")
