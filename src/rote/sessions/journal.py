"""The journal of a session: a SQLite file that goes on after a crash of its client, offline too.

    facts     what the session is of, what opens it again, the last verdict, the confirmed version
    commits   own commits that are not integrated, with the versions of those that were accepted
    verdicts  the versions of those that a commit may still name
    held      what the watches show at the confirmed version

A commit is synced before its call returns, a token before the next message, verdicts before they are
acknowledged; a step and its version are one transaction. Values are in clear, for the owner of the file
alone, and those that are deleted are overwritten. One process holds a journal at a time.

Frozen: the tables, and what is in them: docs/formats/journal.md.
"""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
from msgspec import MsgspecError, Struct, convert, structs

from rote.contract import Head, State
from rote.contract.sync import Sync, Transact
from rote.contract.verdicts import Verdict
from rote.errors import (
    Busy,
    Corrupt,
    InvalidInput,
    RoteError,
    SessionExpired,
    Unavailable,
    disk_full,
    system_failure,
)
from rote.sessions.held import Held, HeldWatch, held_by
from rote.sessions.layers import Layer
from rote.values import canonical, decode_canonical
from rote.values.limits import DEPTH_MAX

FORMAT = "rote-journal/1"
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE commits (
  local INTEGER PRIMARY KEY, body BLOB NOT NULL, version INTEGER, is_dead INTEGER NOT NULL
);
CREATE TABLE verdicts (local INTEGER PRIMARY KEY, version INTEGER NOT NULL);
CREATE TABLE held (
  watch TEXT NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (watch, id)
) WITHOUT ROWID;
"""
_ANY_UNDECIDED = "SELECT 1 FROM commits WHERE version IS NULL LIMIT 1"
_LEVELS = 3 * DEPTH_MAX  # a value in an operation, in a commit, in a row
_HeadRow = tuple[int, str | None, int | None]
_HeldRow = tuple[Any, bool, int, str | None]
_making = threading.Lock()  # held by who makes a file


class _LayerRow(Struct):
    """The body of a commit."""

    sent: Transact
    now: int
    size: int
    names: tuple[int, ...]


class Known(Struct):
    """All that a journal knows when it is opened."""

    session: str | None
    token: str | None
    decided: int
    head: Head | None  # None: nothing was confirmed yet
    held: Held
    is_watched: bool  # whether the held states are those of the watches that were asked for
    verdicts: list[int]  # versions of those that a commit may still name
    commits: list[tuple[Layer, int | None]]  # with the versions of accepted ones
    ended: RoteError | None


class Journal:
    """An open journal. Any thread may write; one after the other."""

    def __init__(self, path: Path, owner: Mapping[str, str | None]) -> None:
        """owner  what the session is of: the server, the space, and who calls where that is known"""
        self._path = path
        self._mutex = threading.Lock()
        self._database: apsw.Connection | None = None
        # Why it does not have all that the session has taken over: then nothing may be acknowledged.
        self.failure: RoteError | None = None
        self._is_left = False  # whether a commit was rejected whose bytes may be in the file still
        self._is_known = False  # whether the store has opened the session, for who calls now
        with self._translated("open"):
            self._database = _opened(path.absolute())
            self._begin(owner)

    def close(self) -> None:
        with self._mutex:
            database, self._database = self._database, None
        if database is not None:
            database.close()

    # -- opening -----------------------------------------------------------------------------------

    def _begin(self, owner: Mapping[str, str | None]) -> None:
        """Make the tables of a new file, or check that this one is of the same session."""
        try:
            is_new = not self._all("SELECT 1 FROM sqlite_schema LIMIT 1")
            if not is_new:
                self._check_owner(owner)
            # Only now: the file of somebody else stays as it is.
            self._path.chmod(0o600)
            self._all("PRAGMA journal_mode = WAL")
            if is_new:
                with self._writing(synced=True) as database:
                    database.execute(_TABLES)
                    self._put(database, format=FORMAT, decided=0, **owner)
        except apsw.SQLError:
            self.close()
            raise InvalidInput(f"{self._path} is no journal of a session") from None
        except BaseException:
            self.close()
            raise

    def _check_owner(self, owner: Mapping[str, str | None]) -> None:
        if self._all("SELECT value FROM facts WHERE name = 'format'") != [(canonical(FORMAT),)]:
            raise InvalidInput(f"{self._path} is no journal of a session")
        with self._undamaged():
            known = self._facts()
        for name, value in owner.items():
            if None not in (value, known.get(name)) and known[name] != value:
                raise InvalidInput(
                    f"the journal {self._path} is of another {name}: {known[name]}; take another"
                    " file for another session",
                    argument="journal",
                )

    def read(self, watches: Mapping[str, Any]) -> Known:
        """Return all that is known; what other watches have shown is dropped."""
        with self._translated("read"), self._undamaged():
            facts = self._facts()
            is_watched = facts.get("watches") == dict(watches)
            if not is_watched:
                with self._writing(synced=True) as database:
                    database.execute("DELETE FROM held")
                    self._put(database, watches=dict(watches))
            head = facts.get("head")
            ended = facts.get("ended")
            return Known(
                session=convert(facts.get("session"), str | None),
                token=convert(facts.get("token"), str | None),
                decided=convert(facts["decided"], int),
                head=None if head is None else Head(*convert(head, _HeadRow)),
                held=self._held(watches, is_whole=is_watched and head is not None),
                is_watched=is_watched,
                verdicts=[
                    convert(version, int)
                    for (version,) in self._all("SELECT version FROM verdicts ORDER BY local")
                ],
                commits=[
                    (
                        _layer_in(decode_canonical(body), is_dead=bool(is_dead)),
                        convert(version, int | None),
                    )
                    for body, version, is_dead in self._all(
                        "SELECT body, version, is_dead FROM commits ORDER BY local"
                    )
                ],
                ended=None if ended is None else RoteError.from_dict(ended),
            )

    def _facts(self) -> dict[str, Any]:
        rows = self._all("SELECT name, value FROM facts")
        return {name: decode_canonical(value) for name, value in rows}

    def _held(self, watches: Mapping[str, Any], *, is_whole: bool) -> Held:
        found = dict(held_by(watches).watches)
        cut = self._facts().get("cut", [])
        for name, watch in found.items():
            shown = {}
            for id, body in self._all("SELECT id, body FROM held WHERE watch = ?", (name,)):
                value, exists, version, hash = convert(decode_canonical(body), _HeldRow)
                shown[id] = State(id, value, exists, version, hash)
            is_known = is_whole and name not in cut
            found[name] = HeldWatch(watch.query, watch.branch, shown, is_known)
        return Held(found)

    # -- writing -----------------------------------------------------------------------------------

    def add(self, layer: Layer) -> None:
        """Keep a commit; it survives a power cut once this returns."""
        with self._translated("write"), self._writing(synced=True) as database:
            body = canonical(_told(layer), depth_max=_LEVELS)
            database.execute("INSERT INTO commits VALUES (?, ?, NULL, 0)", (layer.local, body))

    def remove(self, local: int) -> None:
        """Forget a commit that was never laid over the view."""
        with self._translated("write"), self._writing(synced=True) as database:
            database.execute("DELETE FROM commits WHERE local = ?", (local,))

    def open(self, session: str | None, token: str | None) -> None:
        """Keep what opens the session again."""
        with self._translated("write", is_taken=True), self._writing(synced=True) as database:
            self._put(database, session=session, token=token)
        self._is_known = True

    def decide(self, verdict: Verdict, dead: Sequence[int]) -> None:
        """Keep a verdict; `dead` are commits that wait, and will be rejected for it."""
        local, version = verdict.local, verdict.version
        with self._translated("write", is_taken=True), self._writing(synced=False) as database:
            self._put(database, decided=local)
            database.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?)", (local, version))
            if not verdict.accepted:
                database.execute("DELETE FROM commits WHERE local = ?", (local,))
            else:
                database.execute("UPDATE commits SET version = ? WHERE local = ?", (version, local))
            self._bury(database, dead)
        # The step that tells of an erasure may have come before.
        self._is_left = self._is_left or not verdict.accepted
        with self._translated("write", is_taken=True):
            if self._is_left and not self._all(_ANY_UNDECIDED):
                self._clear()

    def bury(self, dead: Sequence[int]) -> None:
        """Keep that commits are never applied; they wait for their verdicts."""
        with self._translated("write", is_taken=True), self._writing(synced=True) as database:
            self._bury(database, dead)

    def _bury(self, database: apsw.Connection, dead: Sequence[int]) -> None:
        database.executemany(
            "UPDATE commits SET is_dead = 1 WHERE local = ?", [(local,) for local in dead]
        )

    def step(
        self, head: Head, told: Sync | None, held: Held, *, basis: int, is_erasing: bool
    ) -> None:
        """Keep a step, and let go of the commits that it shows.

        basis       the lowest version that a later commit may have seen
        held        what is held after it
        is_erasing  whether something was erased, perhaps: nothing of it stays in the file
        """
        with self._translated("write", is_taken=True):
            with self._writing(synced=is_erasing) as database:
                self._put(database, head=[head.version, head.hash, head.at])
                database.execute("DELETE FROM commits WHERE version <= ?", (head.version,))
                database.execute("DELETE FROM verdicts WHERE version < ?", (basis,))
                for name, part in () if told is None else told.watches.items():
                    watch = held.watches.get(name)
                    if watch is not None:
                        gone = None if part.start is None else part.removes
                        self._hold(database, name, watch, gone, self._shown(part.upserts, told))
                cut = [name for name, watch in held.watches.items() if not watch.is_whole]
                self._put(database, cut=cut)
            if is_erasing or self._is_left:
                self._clear()

    def _clear(self) -> None:
        """Leave nothing in the file of what was deleted."""
        with self._mutex:
            self._open().wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._is_left = False

    @staticmethod
    def _shown(upserts: Sequence[int], told: Sync | None) -> list[str]:
        states = () if told is None else told.states
        return [_id_of(bytes(states[place])) for place in upserts]

    @staticmethod
    def _hold(
        database: apsw.Connection,
        name: str,
        watch: HeldWatch,
        gone: Sequence[str] | None,
        shown: Sequence[str],
    ) -> None:
        """Write what a watch shows otherwise; `gone` None: it shows nothing that it did before."""
        if gone is None:
            database.execute("DELETE FROM held WHERE watch = ?", (name,))
        else:
            database.executemany(
                "DELETE FROM held WHERE watch = ? AND id = ?", [(name, id) for id in gone]
            )
        rows = []
        for id in shown:
            state = watch.shown[id]
            body = canonical(
                [state.value, state.exists, state.version, state.hash], depth_max=_LEVELS
            )
            rows.append((name, id, body))
        database.executemany("INSERT OR REPLACE INTO held VALUES (?, ?, ?)", rows)

    def sync(self) -> None:
        """Make all that was kept survive a power cut."""
        with self._translated("write", is_taken=True), self._writing(synced=True) as database:
            self._put(database, synced=True)

    def end(self, error: RoteError) -> None:
        """Keep why the session has ended: nobody goes on with it by itself.

        A store that does not know it may have been asked by another principal: it answers both alike. So
        what has never been open here is not ended.
        """
        if isinstance(error, SessionExpired) and not self._is_known:
            return
        with self._translated("write"), self._writing(synced=True) as database:
            self._put(database, ended=error.to_dict())

    # -- the database ------------------------------------------------------------------------------

    def _all(self, statement: str, bound: Sequence[Any] = ()) -> list[Any]:
        with self._mutex:
            return list(self._open().execute(statement, bound))

    def _open(self) -> apsw.Connection:
        if self._database is None:
            raise Unavailable(f"the journal {self._path} is closed")
        return self._database

    @contextmanager
    def _writing(self, *, synced: bool) -> Iterator[apsw.Connection]:
        """Give a transaction; a synced one makes all before it durable, too."""
        with self._mutex:
            database = self._open()
            database.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
            with database:
                yield database

    @staticmethod
    def _put(database: apsw.Connection, **facts: Any) -> None:
        database.executemany(
            "INSERT OR REPLACE INTO facts VALUES (?, ?)",
            [(name, canonical(value)) for name, value in facts.items()],
        )

    @contextmanager
    def _undamaged(self) -> Iterator[None]:
        """Raise Corrupt for what no journal holds."""
        try:
            yield
        except (
            Corrupt, apsw.SQLError, MsgspecError, LookupError, TypeError, ValueError, AttributeError
        ):  # fmt: skip
            raise Corrupt(f"the journal {self._path} is damaged") from None

    @contextmanager
    def _translated(self, what: str, *, is_taken: bool = False) -> Iterator[None]:
        """Raise errors of the driver as errors of the library.

        is_taken  whether the session has taken over what is written
        """
        try:
            with self._drivers_errors(what):
                yield
        except RoteError as error:
            if is_taken:
                self.failure = error
            raise

    @contextmanager
    def _drivers_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (apsw.BusyError, apsw.LockedError):
            raise Busy(f"another session holds the journal {self._path}") from None
        except apsw.NotADBError:
            raise InvalidInput(f"{self._path} is no journal of a session") from None
        except apsw.CorruptError:
            raise Corrupt(f"the journal {self._path} is damaged") from None
        except apsw.FullError:
            raise disk_full(f"cannot {what} the journal {self._path}", self._path) from None
        except OSError as error:
            raise system_failure(
                f"cannot {what} the journal {self._path}", error, self._path
            ) from error
        except apsw.Error as error:
            raise Unavailable(f"cannot {what} the journal {self._path}: {error}") from None


def _opened(path: Path) -> apsw.Connection:
    """Return the database of a file, locked; a new file may be read by its owner only."""
    _make(path)
    database = apsw.Connection(str(path))
    try:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA secure_delete = ON")
        # The lock is taken by the first transaction, and held to the end.
        database.execute("BEGIN EXCLUSIVE; COMMIT")
    except BaseException:
        database.close()
        raise
    return database


def _make(path: Path) -> None:
    """Make a file, unless it is there.

    One that is there is opened by SQLite alone: whoever closes a file gives up all locks that this
    process has on it, also those of another session.
    """
    with _making:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            if not path.is_file():
                raise InvalidInput(f"{path} is no file; name another", argument="journal") from None


def _told(layer: Layer) -> dict[str, Any]:
    sent = structs.asdict(layer.sent)
    return {"sent": sent, "now": layer.now, "size": layer.size_bytes, "names": list(layer.names)}


def _layer_in(told: Any, *, is_dead: bool) -> Layer:
    row = convert(told, _LayerRow)
    ids = frozenset([convert(operation["id"], str) for operation in row.sent.operations])
    return Layer(row.sent, row.now, row.size, ids, row.names, was_sent=True, is_dead=is_dead)


def _id_of(state: bytes) -> str:
    told: Any = decode_canonical(state)
    return str(told["id"])
