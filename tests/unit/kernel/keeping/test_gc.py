"""Collections, tested from inside: branches, and the moments between two transactions."""

from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest

import rote
from rote.contract.commands import MakeCommit
from rote.engines.rows import MAIN, BranchRow
from rote.errors import NotFound, Unavailable
from rote.kernel.keeping import gc
from rote.kernel.keeping.gc import _Walk
from rote.kernel.log.seals import branch_seal
from rote.kernel.state.space_reader import SpaceReader
from rote.testing import FixedClock
from rote.values.limits import BLOB_PIECE_BYTES, UPLOAD_IDLE_SECONDS_MAX
from tests.faults.tampering import raw


@pytest.fixture
def space(store_path: Path) -> rote.Space:
    """Return a space with a branch that left main after the blob was put."""
    with rote.open(store_path) as store:
        first = store.space("agent")
        first.put_blob(b"abc")
        did = first.did
    row = BranchRow(2, "side", MAIN, 1, 1, None, b"")
    with raw(store_path) as connection:
        connection.execute(
            "insert into branches values (1, 2, 'side', 1, 1, 1, null, ?)",
            (branch_seal(did, row),),
        )
    return rote.open(store_path).space("agent")


HASH = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
META = f"urn:blob-meta:{HASH}"


def on_side(space: rote.Space, *operations: dict[str, object]) -> None:
    space._port.answer(space.did, MakeCommit(list(operations), branch="side"))


def test_a_blob_that_an_older_branch_still_describes_stays(space: rote.Space) -> None:
    space.delete(META)
    assert space.gc(grace_seconds=0).blobs == 0
    on_side(space, {"op": "delete", "id": META})
    assert space.gc(grace_seconds=0).blobs == 1


def test_a_blob_that_a_value_of_a_branch_refers_to_stays(space: rote.Space) -> None:
    on_side(
        space, {"op": "set", "id": "urn:a", "value": {"hash": HASH, "slot": {}, "x": "x" * 2_000}}
    )
    move = {"op": "move", "from": "/hash", "path": "/slot/$blob"}
    on_side(space, {"op": "patch", "id": "urn:a", "ops": [move]}, {"op": "delete", "id": META})
    space.delete(META)
    assert space.gc(grace_seconds=0).blobs == 0
    assert space.blob(HASH) == b"abc"


def test_a_blob_can_be_put_on_a_branch(space: rote.Space) -> None:
    other = space.on("side").put_blob(b"on the side", "text/plain")
    assert space.get(f"urn:blob-meta:{other}") is None
    assert space.blob(other) == b"on the side"
    assert space.gc(grace_seconds=0).blobs == 0
    on_side(space, {"op": "delete", "id": f"urn:blob-meta:{other}"})
    assert space.gc(grace_seconds=0).blobs == 1
    with pytest.raises(NotFound):
        space.blob(other)


# -- between two transactions ----------------------------------------------------------------------


@pytest.fixture
def alone(store_path: Path) -> rote.Space:
    """Return a space with a blob that nothing describes any more."""
    space = rote.open(store_path).space("agent")
    space.put_blob(b"abc")
    space.delete(META)
    return space


@pytest.mark.parametrize("looks", [1, 2], ids=["while it reads", "just before its lock"])
@pytest.mark.parametrize("how", ["refers", "describes"])
def test_what_comes_at_the_last_moment_is_seen(
    alone: rote.Space, monkeypatch: pytest.MonkeyPatch, looks: int, how: str
) -> None:
    """The walk along the log is done; before the data is condemned someone refers to it."""
    go_on, walked = _Walk.go_on, []

    def go_on_and_write(walk: _Walk, reads: SpaceReader) -> None:
        go_on(walk, reads)
        walked.append(reads)
        if len(walked) != looks:
            return
        if how == "refers":
            alone.set("urn:a", {"$blob": HASH})
        else:
            alone.put_blob(b"abc")

    monkeypatch.setattr(_Walk, "go_on", go_on_and_write)
    assert alone.gc(grace_seconds=0).blobs == 0
    assert len(walked) == 3
    assert alone.blob(HASH) == b"abc"


def test_an_upload_that_is_condemned_never_counts(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collection stops between condemning an upload and dropping its chunks. The upload goes
    on, though its chunks may be dropped at any moment."""
    clock = FixedClock()
    space = rote.open(store_path, clock=clock).space("agent")

    def stop(*arguments: object, **more: object) -> None:
        raise ZeroDivisionError

    class Stuck(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            part = super().read(size)
            if not part:
                clock.move(seconds=UPLOAD_IDLE_SECONDS_MAX)
                with monkeypatch.context() as patches, pytest.raises(ZeroDivisionError):
                    patches.setattr(gc, "drop", stop)
                    space.gc()
            return part

    data = bytes(BLOB_PIECE_BYTES)
    with pytest.raises(Unavailable, match="put it again"):
        space.put_blob(Stuck(data))
    with pytest.raises(NotFound):
        space.blob(sha256(data).hexdigest())
    assert space.verify().ok
