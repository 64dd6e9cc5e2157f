"""Ctrl-C at the end of a block, where the block itself cannot see it: it must not block others.

Once only commits released their locks then. After any other write the writers' lock stayed taken,
and on PostgreSQL that of the space, until the thread wrote again or the server gave it up.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import _GeneratorContextManager
from pathlib import Path
from types import CodeType

import pytest

import rote
from rote.contract.commands import DropSide, PutSide, Reindex
from rote.engines.postgres.engine import _Block
from rote.engines.sqlite import SqliteEngine
from rote.engines.sqlite.engine import _Transaction
from rote.testing.engine_suite.ground import MAIN_BRANCH, side
from rote.testing.postgres import schema_of, server_url
from tests.faults.children import open_store
from tests.faults.interruptions import interrupt_before
from tests.faults.persistence import place_of
from tests.faults.postgres_rig import ROOT

ID = "urn:entity:1"
OTHER = "urn:entity:2"
BOUND_SECONDS = 15  # seconds; less than anyone waits for a lock
ENDS = {"sqlite": _Transaction.__exit__.__code__, "postgres": _Block.__exit__.__code__}

Write = Callable[[rote.Store, rote.Space], object]


def put_side(store: rote.Store, space: rote.Space) -> None:
    space._port.answer(space.did, PutSide("note", "n", {}, fence=0))


def drop_side(store: rote.Store, space: rote.Space) -> None:
    space._port.answer(space.did, DropSide("seen", "s", fence=1))


def copy_in(store: rote.Store, space: rote.Space) -> None:
    with rote.open(":memory:") as source:
        original = source.space(f"{space.name}-copy")
        original.set(ID, 1)
        original.set(ID, 2)
        original.compact(before=2)
        original.put_blob(b"copied")
        source.copy(original.name, store)


WRITES: dict[str, Write] = {
    "put a side row": put_side,
    "drop a side row": drop_side,
    "make a checkpoint": lambda store, space: space.checkpoint(),
    "put a blob": lambda store, space: space.put_blob(b"another"),
    "collect garbage": lambda store, space: space.gc(grace_seconds=0),
    "erase": lambda store, space: space.erase(ID, reason="asked to"),
    "compact": lambda store, space: space.compact(before=3),
    "build an index": lambda store, space: space._port.begin(space.did, Reindex()).result(),
    "copy": copy_in,
}


@pytest.fixture(params=list(ENDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(kind: str, tmp_path: Path) -> Iterator[rote.Store]:
    postgres = place_of(server_url(), tmp_path, schema=schema_of(tmp_path), durability="os")
    with open_store(postgres if kind == "postgres" else str(tmp_path / "memory.db")) as opened:
        yield opened


def filled(store: rote.Store, name: str) -> rote.Space:
    space = store.space(name)
    for number in range(4):
        space.set(ID, {"n": number})
    for number in range(20):
        space.patch(ID, [{"op": "add", "path": "/n", "value": number}])
    space.delete(f"urn:blob-meta:{space.put_blob(b'collected')}")
    space._port.answer(space.did, PutSide("seen", "s", {}, fence=0))
    return space


def interruption(
    write: Callable[[], object], end: CodeType, skipped: int
) -> KeyboardInterrupt | None:
    """Interrupt a call before the end of a block, after so many others; return the error, or None
    when the call ended first."""
    interrupt_before(end, KeyboardInterrupt(), skipped=skipped)
    try:
        write()
        return None
    except KeyboardInterrupt as error:
        return error
    finally:
        sys.settrace(None)


@pytest.mark.parametrize("name", WRITES)
def test_an_interruption_before_the_end_of_any_block_holds_nobody_up(
    store: rote.Store, kind: str, name: str
) -> None:
    blocks = 0
    with ThreadPoolExecutor(1) as other:
        while True:
            space = filled(store, f"space-{blocks}")
            if not interruption(lambda: WRITES[name](store, space), ENDS[kind], blocks):  # noqa: B023
                break
            blocks += 1
            version = space.version
            made = other.submit(space.set, OTHER, blocks).result(BOUND_SECONDS)
            assert made.version == version + 1
            assert space.verify().ok
    assert blocks > 0


def test_an_interruption_while_a_space_is_made_holds_nobody_up(tmp_path: Path) -> None:
    with rote.open(tmp_path / "memory.db") as store, ThreadPoolExecutor(1) as other:
        assert interruption(lambda: store.space("one"), ENDS["sqlite"], 0)
        assert other.submit(store.space, "two").result(BOUND_SECONDS).version == 0
        assert [space.name for space in store.spaces()] == ["two"]


def test_no_lock_is_kept_by_an_error_that_somebody_keeps(tmp_path: Path) -> None:
    """A generator held the locks around calls that are no transaction, and it lived in the error."""
    kept: list[KeyboardInterrupt] = []
    with rote.open(tmp_path / "memory.db") as store, ThreadPoolExecutor(1) as other:
        space = filled(store, "one")
        end = _GeneratorContextManager.__exit__.__code__
        while error := interruption(lambda: space.erase(ID, reason="asked to"), end, len(kept)):
            kept.append(error)
            other.submit(space.set, OTHER, len(kept)).result(BOUND_SECONDS)


def test_a_block_after_one_that_never_ended_leaves_nothing_locked(tmp_path: Path) -> None:
    """The thread that had the lock took it once more, but released it only once."""
    engine = SqliteEngine(tmp_path / "memory.db")
    space = engine.create_space(did="did:key:z1", name="x", seal=b"s", main=MAIN_BRANCH).number

    def begin() -> None:
        engine.writer(space).__enter__().put_side(space, side("run", "lost"))

    def write() -> None:
        with engine.writer(space) as writes:
            assert writes.side(space, "run", "lost") is None
            writes.put_side(space, side("run", "kept"))

    begin()
    write()
    with ThreadPoolExecutor(1) as other:
        other.submit(write).result(BOUND_SECONDS)
    engine.close()


def test_every_block_of_the_kernel_stands_where_an_interruption_of_its_end_is_seen() -> None:
    """Commits clean up by themselves."""
    lines = {
        f"{path.name}: {line.strip()}"
        for path in (ROOT / "src/rote/kernel").rglob("*.py")
        for line in path.read_text().splitlines()
        if ".writer(" in line and "Abandoning(" not in line
    }
    assert {line.split(":")[0] for line in lines} == {"committer.py"}
