"""A small store that holds everything, ways to change it behind Rote's back, and checks of it."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

import rote
from rote.contract import Caller, Guard, View
from rote.contract.commands import (
    CollectGarbage,
    Find,
    FindSpace,
    GetBlobInfo,
    GetHead,
    GetHistory,
    GetLog,
    ListBlobs,
    ListSides,
    ListSpaces,
    MakeCommit,
    PutSide,
    Read,
    Scan,
    Verify,
)
from rote.engines.sqlite import SqliteEngine
from rote.engines.sqlite.checksums import checked
from rote.errors import NotFound, RoteError
from rote.kernel import Kernel
from rote.kernel.blobs import blob_data
from rote.kernel.blobs.blob_data import Uploads
from rote.opening.keys import MemoryKeys
from rote.opening.sources import SystemTokens
from rote.runs.answers import RunQuestions
from rote.runs.side_rules import SIDE_RULES as RUN_RULES
from rote.sessions.side_rules import SIDE_RULES as SESSION_RULES
from rote.space.blobs import BlobFile
from rote.values import Json

SEED = bytes(range(32))
# More pages than a store of this size has: a verify that takes more does not end.
PAGES_MAX = 100

Cell = int | str | bytes | None


class Ticks:
    """A clock that moves on by a second at each call."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now


class Seeded:
    """Randomness that is the same every time."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def random_bytes(self, size: int, /) -> bytes:
        return self._random.randbytes(size)


class Tags:
    """An index of entities by their tag."""

    name = "tags/1"
    prefix = ""

    def terms(self, id: str, value: Json, version: int, place: int, /) -> Iterable[str]:
        return [str(value["tag"])] if isinstance(value, dict) and "tag" in value else []


def open_port(path: Path) -> Kernel:
    """Return a store with the index declared, wired as rote.open does, but with other sources."""
    return Kernel(
        SqliteEngine(path, durability="os"),
        clock=Ticks(),
        ids=Seeded(1),
        tokens=SystemTokens(),
        keys=MemoryKeys(),
        questions=RunQuestions(),
        caller=Caller("did:key:author"),
        side_rules=(*RUN_RULES, *SESSION_RULES),
        seed=SEED,
        indexes=(Tags(),),
    )


# -- the store that is tampered with ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """A closed store, as bytes, and facts about it that are kept elsewhere."""

    content: bytes
    dids: tuple[str, ...]
    version: int  # of the first space
    checkpoint: dict[str, Any] = field(repr=False)  # of the first space, older than its head
    checkpoint_at_head: dict[str, Any] = field(repr=False)

    def restore(self, path: Path) -> None:
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        path.write_bytes(self.content)


def make_sample(path: Path, *, compacted: bool = False) -> Sample:
    """Make about thirty commits of every kind, in two spaces; with `compacted`, compact the first."""
    port = open_port(path)
    store = rote.Store(port, url=str(path), local=port)
    space, other = store.space("agent"), store.space("other")
    dids = (space.did, other.did)
    _put_blobs(port, space)
    _write_history(space, short=False)
    _write_branches(space)
    checkpoint = space.checkpoint()
    space.patch("urn:entity:large", [{"op": "add", "path": "/note", "value": "x" * 2_100}])
    port.answer(dids[0], PutSide("note", "one", {"state": "running"}, fence=0))
    guard = Guard("note", "one", 1, {"state": "done"})
    operation = {"op": "set", "id": "urn:entity:tagged", "value": {"tag": "last"}}
    port.answer(dids[0], MakeCommit([operation], key="rote:run", guards=[guard]))
    _write_history(other, short=True)
    other.put_blob(b"of another space")
    if compacted:
        space.compact(before=space.version - 4)
        space.compact(before=space.version - 3)
        everything = View()
        port.answer(
            dids[0], Find("tags/1", start="", end=None, after=None, limit=9, view=everything)
        )
    at_head, version = space.checkpoint(), space.version
    store.close()
    return Sample(path.read_bytes(), dids, version, checkpoint, at_head)


def _put_blobs(port: Kernel, space: rote.Space) -> None:
    """Put blobs of one chunk and of several, empty, described and not, and an abandoned upload."""
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(blob_data, "BLOB_CHUNK_BYTES", 8)
        for data in (b"", b"short", b"a payload of several chunks"):
            space.put_blob(data, "text/plain", labels=["label"])
        hash = space.put_blob(b"referred to only")
        space.set("urn:entity:file", {"$blob": hash})
        space.delete(f"urn:blob-meta:{hash}")
        opened = port.spaces.open(space.did)
        opened.part(Uploads).add(b"given up", 0, b"0123456789")


def _write_history(space: rote.Space, *, short: bool) -> None:
    space.set("urn:entity:a", {"text": "é\0", "number": 1}, key="key-a")
    space.set("urn:entity:tagged", {"tag": "one"})
    space.delete("urn:entity:a")
    if short:
        return
    space.set("urn:entity:a", ["back"])
    space.transact(
        [
            {"op": "set", "id": "urn:entity:b", "value": {"items": []}},
            {"op": "patch", "id": "urn:entity:b", "ops": [
                {"op": "add", "path": "/items/-", "value": 1.5}]},
            {"op": "set", "id": "urn:entity:c", "value": None},
        ],
        meta={"why": "all at once"},
        key="key-b",
    )  # fmt: skip
    for number in range(3):
        space.patch("urn:entity:b", [{"op": "add", "path": "/items/-", "value": number}])
    space.set("urn:entity:large", {"text": "x" * 2_100})
    for number in range(3):
        space.patch("urn:entity:large", [{"op": "add", "path": f"/{number}", "value": number}])
    space.set("urn:entity:tagged", {"tag": "two"})
    space.delete("urn:entity:c")
    space.set("urn:entity:d", {"tag": "gone"}, key="key-d")
    space.delete("urn:entity:d")


def _write_branches(space: rote.Space) -> None:
    topic = space.create_branch("topic", at=space.version - 1, key="key-branch")
    topic.patch("urn:entity:large", [{"op": "add", "path": "/topic", "value": 1}])
    topic.set("urn:entity:tagged", {"tag": "three"})
    topic.delete("urn:entity:a")
    deeper = topic.create_branch("topic/deeper")
    deeper.set("urn:entity:e", {"tag": "deep"})
    space.merge("topic", on_conflict="theirs")
    space.delete_branch("topic", key="key-gone")
    _erase(space)
    for number in range(4):
        space.set("urn:entity:f", number)


def _erase(space: rote.Space) -> None:
    """Write a set, patches with and without a snapshot and a delete; then revive the entity."""
    space.set("urn:entity:erased", {"tag": "erased"}, key="key-erased")
    space.patch("urn:entity:erased", [{"op": "add", "path": "/n", "value": 1}])
    space.on("topic/deeper").set("urn:entity:erased", {"tag": "there"})
    space.delete("urn:entity:erased")
    space.erase("urn:entity:erased", reason="to be tampered with")
    space.set("urn:entity:erased", {"tag": "anew"})


# -- changing it -----------------------------------------------------------------------------------


@contextlib.contextmanager
def raw(path: Path) -> Iterator[apsw.Connection]:
    """Open the file behind Rote's back."""
    connection = apsw.Connection(str(path), vfs=checked())
    try:
        connection.pragma("synchronous", "off")
        yield connection
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table, as it was written."""

    table: str
    cells: dict[str, Cell]
    keys: tuple[str, ...]  # the columns of its primary key

    def where(self) -> tuple[str, list[Cell]]:
        return " and ".join(f"{key} = ?" for key in self.keys), [self.cells[k] for k in self.keys]

    def put(self, connection: apsw.Connection, column: str, cell: Cell | tuple[bytes]) -> None:
        """Set one cell; a tuple holds the bytes of a text that may not be UTF-8."""
        condition, bindings = self.where()
        value, shown = ("cast(? as text)", cell[0]) if isinstance(cell, tuple) else ("?", cell)
        connection.execute(
            f"update {self.table} set {column} = {value} where {condition}", [shown, *bindings]
        )

    def delete(self, connection: apsw.Connection) -> None:
        condition, bindings = self.where()
        connection.execute(f"delete from {self.table} where {condition}", bindings)

    def insert(self, connection: apsw.Connection) -> None:
        names, marks = ", ".join(self.cells), ", ".join("?" for _ in self.cells)
        connection.execute(
            f"insert into {self.table} ({names}) values ({marks})", list(self.cells.values())
        )


def tables(path: Path) -> dict[str, list[Row]]:
    """Return every row of every table."""
    with raw(path) as connection:
        names = connection.execute("select name from sqlite_schema where type = 'table'").fetchall()
        return {str(name): _rows(connection, str(name)) for (name,) in sorted(names)}


def _rows(connection: apsw.Connection, table: str) -> list[Row]:
    columns: list[Any] = connection.execute(f"pragma table_info({table})").fetchall()
    keys = tuple(column[1] for column in columns if column[5])
    content: list[Any] = connection.execute(
        f"select * from {table} order by {', '.join(keys)}"
    ).fetchall()
    names = [column[1] for column in columns]
    return [Row(table, dict(zip(names, row, strict=True)), keys) for row in content]


# -- looking at it ---------------------------------------------------------------------------------


def is_found(path: Path, dids: Iterable[str]) -> bool:
    """Whether opening or verify reports that this store is not as it was; only errors of Rote come out."""
    try:
        port = open_port(path)
    except RoteError:
        return True
    try:
        return not all(_verifies(port, did) for did in dids)
    finally:
        port.close()


def _verifies(port: Kernel, did: str) -> bool:
    pages = 0

    def count(_: str, done: int, total: int) -> None:
        nonlocal pages
        pages += 1
        assert pages < PAGES_MAX, "verify does not end"

    try:
        port.answer("", FindSpace(did, False))
        return port.begin(did, Verify(against=None)).result(count).ok
    except NotFound:
        return False
    except RoteError as error:
        assert error.code == "corrupt", repr(error)
        return False


def read_everything(path: Path, dids: Iterable[str], version: int) -> None:
    """Make every kind of read; a damaged store may refuse it, but only with an error of Rote."""
    with contextlib.suppress(RoteError):
        port = open_port(path)
        try:
            for did in dids:
                for use in _uses(port, did, version):
                    with contextlib.suppress(RoteError):
                        use()
        finally:
            port.close()


def _read_blobs(port: Kernel, did: str) -> None:
    """Check that blobs are read as they were put, or with an error."""
    for blob in port.answer(did, ListBlobs(after="", limit=9)):
        with contextlib.suppress(RoteError):
            size = port.answer(did, GetBlobInfo(blob.hash, View())).size
            data = BlobFile(port, did, blob.hash, size).readall()
            assert sha256(data).hexdigest() == blob.hash


def _uses(port: Kernel, did: str, version: int) -> list[Callable[[], object]]:
    ids = [f"urn:entity:{name}" for name in ("a", "b", "c", "d", "erased", "large", "tagged")]
    return [
        lambda: port.answer("", ListSpaces()),
        lambda: port.answer(did, GetHead()),
        lambda: [port.answer(did, GetHead(version=v)) for v in range(version + 1)],
        lambda: port.answer(did, GetHead(at=1_767_225_610_000_000)),
        lambda: [port.answer(did, Read([id], View())) for id in ids],
        lambda: [
            port.answer(did, Read([id], View(version=v))) for id in ids for v in range(version + 1)
        ],
        lambda: port.answer(did, Scan(start="", end=None, after=None, limit=100, view=View())),
        lambda: [
            port.answer(did, GetHistory(id, before=None, limit=100, view=View())) for id in ids
        ],
        lambda: [commit.to_dict() for commit in port.answer(did, GetLog(since=0, limit=100))],
        lambda: port.answer(
            did, Find("tags/1", start="", end=None, after=None, limit=10, view=View(version=3))
        ),
        lambda: port.answer(did, ListSides("note", after="", limit=10)),
        lambda: _read_blobs(port, did),
        lambda: port.begin(did, CollectGarbage(grace_seconds=0)).result(),
        lambda: port.answer(
            did,
            MakeCommit(
                [{"op": "set", "id": ids[0], "value": {"text": "é\0", "number": 1}}], key="key-a"
            ),
        ),
    ]
