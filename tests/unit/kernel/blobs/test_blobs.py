"""The data of blobs, tested from inside: groups of commits, chunks out of place, limits."""

from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pytest

import rote
from rote.contract import Caller
from rote.contract.commands import DropUpload, MakeCommit, PutBlob, PutPiece
from rote.engines.sqlite.reader import SqliteReader
from rote.errors import Corrupt, InvalidInput, LimitExceeded, Unavailable
from rote.kernel import Kernel
from rote.kernel.blobs import blob_data
from rote.kernel.blobs.blob_data import Uploads
from rote.kernel.committing.committer import Committer
from rote.kernel.committing.jobs import job_of
from tests.faults.tampering import raw


def test_two_of_one_group_that_put_the_same_bytes_make_one_count(store_path: Path) -> None:
    with rote.open(store_path) as store:
        kernel = store._port
        assert isinstance(kernel, Kernel)
        opened = kernel.spaces.open(store.space("agent").did)
        uploads, jobs = opened.part(Uploads), []
        for token in (b"one", b"two"):
            uploads.add(token, 0, b"abc")
            job = job_of(
                MakeCommit([{"op": "set", "id": "urn:a", "value": token.hex()}]),
                Caller(),
                token,
            )
            job.attachment = uploads.data(token)
            jobs.append(job)
        committer = opened.part(Committer)
        group = committer.queue.join(jobs[0])
        assert group is not None
        committer.queue.waiting.append(jobs[1])
        committer._answer_all(group)
        committer.queue.hand_back(group)
        assert [job.error for job in jobs] == [None, None]
        reads = kernel.spaces.wiring.engine.reader()
        assert [row.upload for row in reads.blobs(opened.number, after=b"", limit=9)] == [b"one"]
        assert [row.upload for row in reads.uploads(opened.number, after=b"", limit=9)] == [b"two"]


def test_a_chunk_that_says_to_end_elsewhere_is_found(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes and their order are right: only a reader from the middle would be misled."""
    monkeypatch.setattr(blob_data, "BLOB_CHUNK_BYTES", 8)
    with rote.open(store_path) as store:
        hash = store.space("agent").put_blob(b"0123456789abcdefghijklmnop")
    with raw(store_path) as connection:
        connection.execute("update chunks set until = 17 where until = 16")
    with rote.open(store_path) as store:
        space = store.space("agent")
        [fault] = space.verify().faults
        assert (fault.kind, fault.id) == ("blob", hash)
        with pytest.raises(Corrupt):
            space.blob(hash)
        with space.open_blob(hash) as file:
            file.seek(8)
            with pytest.raises(Corrupt):
                file.read(1)


def test_a_space_that_is_full_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_data, "SPACE_BLOB_BYTES_MAX", 100)
    with rote.open(":memory:") as store:
        space = store.space("agent")
        space.put_blob(b"x" * 60)
        with pytest.raises(LimitExceeded, match="run gc"):
            space.put_blob(b"y" * 41)
        space.put_blob(b"x" * 60, "text/plain")  # stored once, so there is room for it
        space.put_blob(b"y" * 40)
        with pytest.raises(LimitExceeded):
            space.put_blob(b"z")
        assert (space.version, space.gc().kept) == (3, 2)


def test_a_put_costs_the_same_however_many_blobs_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sizes of all blobs were added up for every piece, to see whether there is room for it."""
    looks: list[int] = []
    blob_bytes = SqliteReader.blob_bytes

    def counting(self: SqliteReader, space: int) -> int:
        looks.append(space)
        return blob_bytes(self, space)

    monkeypatch.setattr(SqliteReader, "blob_bytes", counting)
    with rote.open(":memory:") as store:
        space = store.space("agent")
        for number in range(50):
            space.put_blob(b"%d" % number)
        assert len(looks) == 1


def test_a_space_is_full_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes of its blobs are added up only now and then."""
    monkeypatch.setattr(blob_data, "SPACE_BLOB_BYTES_MAX", 10_000)
    with rote.open(":memory:") as store:
        space = store.space("agent")
        for number in range(1_000):
            space.put_blob(b"%010d" % number)
        with pytest.raises(LimitExceeded):
            space.put_blob(b"z")


def test_a_blob_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_data, "BLOB_BYTES_MAX", 100)
    with rote.open(":memory:") as store:
        space = store.space("agent")
        space.put_blob(b"x" * 100)
        with pytest.raises(LimitExceeded):
            space.put_blob(BytesIO(b"x" * 101))
        assert (space.version, space.gc().kept) == (1, 1)


def test_an_upload_that_goes_while_it_is_hashed_has_no_hash(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload was once described by the hash of what was left: nothing."""
    with rote.open(store_path) as store:
        space = store.space("agent")
        space.put_blob(b"")
        port = space._port
        upload = port.answer(space.did, PutPiece(None, 0, b"0123456789"))
        chunks_of = blob_data.chunks_of

        def dropped(*arguments: Any) -> Any:
            port.answer(space.did, DropUpload(upload))
            return chunks_of(*arguments)

        uploads = cast(Kernel, port).spaces.open(space.did).part(Uploads)
        uploads._hashed.clear()  # as in another process
        monkeypatch.setattr(blob_data, "chunks_of", dropped)
        with pytest.raises(Unavailable, match="put it again"):
            port.answer(space.did, PutBlob(upload))
        assert space.verify().ok


def test_an_upload_that_grows_while_it_is_described_is_refused(store_path: Path) -> None:
    with rote.open(store_path) as store:
        space = store.space("agent")
        port = space._port
        upload = port.answer(space.did, PutPiece(None, 0, b"abc"))
        uploads = cast(Kernel, port).spaces.open(space.did).part(Uploads)
        data = uploads.data(bytes.fromhex(upload))
        port.answer(space.did, PutPiece(upload, 3, b"def"))
        assert data.hash == sha256(b"abc").digest()
        job = job_of(MakeCommit([{"op": "set", "id": "urn:a", "value": 1}]), Caller(), b"token")
        job.attachment = data
        with pytest.raises(Unavailable, match="put it again"):
            uploads._space.part(Committer).commit(job)


@pytest.mark.parametrize("name", ["", "xyz", "00" * 65, 5, None])
def test_the_name_of_an_upload_is_one_that_was_given(store_path: Path, name: Any) -> None:
    with rote.open(store_path) as store:
        space = store.space("agent")
        with pytest.raises(InvalidInput):
            space._port.answer(space.did, DropUpload(name))
