"""Branches and blobs: what any branch says counts, also one that left its parent long ago."""

from pathlib import Path

import pytest

import rote
from rote.contract import BlobRequest, CommitRequest
from rote.engines.rows import MAIN, BranchRow
from rote.errors import NotFound
from rote.kernel.seals import branch_seal
from tests.faults.tampering import raw


@pytest.fixture
def space(store_path: Path) -> rote.Space:
    """A space with a branch that left main after the blob was put."""
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
    space._port.commit(space.did, CommitRequest(list(operations), branch="side"))


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
    request = BlobRequest("text/plain", branch="side")
    other = space._port.put_blob(space.did, b"on the side", request)
    assert space.get(f"urn:blob-meta:{other}") is None
    assert space.blob(other) == b"on the side"
    assert space.gc(grace_seconds=0).blobs == 0
    on_side(space, {"op": "delete", "id": f"urn:blob-meta:{other}"})
    assert space.gc(grace_seconds=0).blobs == 1
    with pytest.raises(NotFound):
        space.blob(other)
