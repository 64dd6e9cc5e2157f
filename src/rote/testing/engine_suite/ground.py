"""The ground of the engine suite: an engine, a space in it, and rows to write.

The rows mean nothing: an engine keeps bytes. Branch 2 and above are written without branch rows,
because an engine's reads take lines and do not look at branch rows.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from rote.contract.operations import DELETE, SET
from rote.engines import Engine
from rote.engines.rows import (
    MAIN,
    Batch,
    BlobRow,
    BranchRow,
    CommitRow,
    DerivedRow,
    EntityRow,
    FactRow,
    Line,
    SideRecord,
)

NEWEST = 2**62
ON_MAIN: Line = ((MAIN, NEWEST),)
MAIN_BRANCH = BranchRow(MAIN, "main", None, 0, 0, None, b"main seal")

# In code point order, which is neither UTF-16 order nor any language's.
ORDERED_IDS = [
    "urn:A",
    "urn:a",
    "urn:a:1",
    "urn:a:10",
    "urn:a:2",
    "urn:aa",
    "urn:b",
    "urn:ß",
    "urn:\ud7ff",
    "urn:\ue000",
    "urn:\uffff",
    "urn:\U00010000",
    "urn:\U0010ffff",
]


class EngineGround:
    """Subclasses make the engine; each test has its own."""

    place: Path
    engine: Engine
    space: int

    def make_engine(self, place: Path) -> Engine:
        """Return an engine on `place`, a folder of this test alone; the same place is the same data."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _ground(self, tmp_path: Path) -> Iterator[None]:
        self.place = tmp_path
        self._opened: list[Engine] = []
        self._live: dict[tuple[int, int, str], bool] = {}
        self.engine = self.open()
        self.space = self.make_space("notes")
        yield
        for engine in self._opened:
            engine.close()

    def open(self) -> Engine:
        engine = self.make_engine(self.place)
        self._opened.append(engine)
        return engine

    def make_space(self, name: str) -> int:
        row = self.engine.create_space(
            did=f"did:key:{name}", name=name, seal=name.encode(), main=MAIN_BRANCH
        )
        return row.number

    def write(self, *facts: FactRow, space: int | None = None) -> None:
        """Write the facts in one transaction, with the commits and pointers that belong to them."""
        number = self.space if space is None else space
        with self.engine.writer(number) as writes:
            writes.append(number, self.batch(facts, space=number))

    def batch(self, facts: Iterable[FactRow], *, space: int | None = None) -> Batch:
        number = self.space if space is None else space
        facts = list(facts)
        branches = {fact.version: fact.branch for fact in facts}
        pointers: dict[tuple[int, str], EntityRow] = {}
        for fact in facts:
            key = (number, fact.branch, fact.id)
            live = fact.op != DELETE
            earlier = pointers.get(key[1:])
            revived = (live and self._live.get(key) is False) or (
                earlier is not None and earlier.revived
            )
            pointers[key[1:]] = EntityRow(
                fact.branch, fact.id, fact.version, fact.index, live, revived
            )
            self._live[key] = live
        commits = [commit(version, branch=branch) for version, branch in branches.items()]
        return Batch(commits, facts, list(pointers.values()))

    def put_sides(self, *rows: SideRecord) -> None:
        with self.engine.writer(self.space) as writes:
            for row in rows:
                writes.put_side(self.space, row)

    def derive(self, *rows: DerivedRow, index: str = "words/1", indexed: int = 1) -> None:
        with self.engine.writer(self.space) as writes:
            writes.derive(self.space, index, rows=rows, ended=[], indexed=indexed)


def commit(version: int, *, branch: int = MAIN) -> CommitRow:
    """Return a commit that leaves out everything optional."""
    hash = b"commit %25d" % version
    return CommitRow(
        version, branch, hash, 1_000 * version, None, None, None, None, b"attempt%9d" % version
    )


def fact(
    id: str,
    version: int,
    *,
    index: int = 0,
    branch: int = MAIN,
    op: int = SET,
    body: bytes | None = b"1",
    value: bytes | None = None,
    salt: bytes | None = b"salt" * 4,
) -> FactRow:
    """Return a fact whose hash tells its place."""
    hash = f"{branch}.{version}.{index}".encode().ljust(32)
    if op == DELETE:
        body = None
    return FactRow(branch, version, index, id, op, hash, b"p" * 32, salt, body, value)


def side(kind: str, key: str, *, fence: int = 1, body: bytes = b"{}") -> SideRecord:
    return SideRecord(kind, key, fence, body, b"seal of a side")


def blob(upload: bytes, *, hash: bytes | None = None, size: int = 0, at: int = 1) -> BlobRow:
    return BlobRow(upload, hash, size, at, b"seal of a blob")


def places(facts: Iterable[FactRow]) -> list[tuple[int, int, int]]:
    """Return (branch, version, index) of each fact."""
    return [(row.branch, row.version, row.index) for row in facts]
