"""Blobs: bytes in and out, stored once, described by an ordinary entity."""

import io
import threading
from array import array
from hashlib import sha256
from typing import Any

import pytest

from rote.contract import BlobInfo, BlobPart, Port
from rote.contract.commands import AdoptBlob, AdoptSpace, ListBlobs, PutBlob, PutPiece, ReadPiece
from rote.errors import Corrupt, InvalidInput, NotFound, PayloadMismatch, RoteError
from rote.space.blobs import drop_upload, send
from rote.testing.space_suite.ground import A, SpaceGround, Unchanged, add, logged, port_of
from rote.values.limits import BLOB_CHUNK_BYTES, BLOB_PIECE_BYTES, LABELS_MAX

THREADS = 4
# One byte, a chunk and its neighbours, several chunks.
SIZES = (0, 1, BLOB_CHUNK_BYTES - 1, BLOB_CHUNK_BYTES, BLOB_CHUNK_BYTES + 1, 3 * BLOB_CHUNK_BYTES)


def payload_of(size: int, seed: int = 0) -> bytes:
    """Return bytes that do not repeat near the end of a chunk."""
    block = b"".join(sha256(b"%d/%d" % (seed, n)).digest() for n in range(1 + size // 32 % 9973))
    return (block * (size // len(block) + 1))[:size]


def hash_of(data: bytes) -> str:
    return sha256(data).hexdigest()


def meta(hash: str) -> str:
    return f"urn:blob-meta:{hash}"


class Trickle:
    """A stream that gives a few bytes at a time, and may then break."""

    def __init__(self, data: bytes, *, step: int = 100_000, error: Exception | None = None) -> None:
        self._data = io.BytesIO(data)
        self._step = step
        self._error = error

    def read(self, size: int = -1, /) -> bytes:
        data = self._data.read(self._step if size < 0 else min(size, self._step))
        if not data and self._error is not None:
            raise self._error
        return data


class BlobTests(SpaceGround):
    @pytest.mark.parametrize("size", SIZES)
    def test_bytes_come_back_as_they_were_put(self, size: int) -> None:
        data = payload_of(size)
        hash = self.space.put_blob(data)
        assert hash == hash_of(data)
        assert self.space.blob(hash) == data
        assert self.space.blob_info(hash).size == size
        with self.space.open_blob(hash) as file:
            assert file.read() == data
            assert file.read(1) == b""
        assert self.space.verify().ok

    def test_a_stream_is_taken_to_its_end_however_little_it_gives(self) -> None:
        data = payload_of(BLOB_PIECE_BYTES + 70_000)
        assert self.space.put_blob(Trickle(data)) == hash_of(data)
        assert self.space.blob(hash_of(data)) == data
        again = payload_of(BLOB_PIECE_BYTES, seed=1)
        assert self.space.blob(self.space.put_blob(io.BytesIO(again))) == again

    def test_other_kinds_of_bytes_are_bytes(self) -> None:
        kinds: tuple[Any, ...] = (bytearray(b"abc"), memoryview(b"abc"), b"abc")
        for data in kinds:
            assert self.space.put_blob(data) == hash_of(b"abc")
        assert self.space.version == 1

    def test_a_stream_may_give_views_whose_items_are_several_bytes(self) -> None:
        """The items of a view were counted as bytes, so a piece could be many times as long as asked for."""
        numbers = array("I", range(BLOB_PIECE_BYTES // 16))
        wanted: list[int] = []

        class Numbers:
            def read(self, size: int, /) -> Any:
                wanted.append(size)
                return memoryview(numbers)[: len(numbers) if len(wanted) < 4 else 0]

        assert self.space.put_blob(Numbers()) == hash_of(numbers.tobytes() * 3)
        left = BLOB_PIECE_BYTES - len(numbers.tobytes())
        assert wanted[1] == left

    def test_a_blob_is_described_by_an_ordinary_entity(self) -> None:
        hash = self.space.put_blob(b"<svg/>", "image/svg+xml", labels=["logo", "é"])
        value = {"blob": hash, "contentType": "image/svg+xml", "labels": ["logo", "é"], "size": 6}
        assert self.space.get(meta(hash)) == value
        [commit] = logged(self.space)
        assert [(fact.id, fact.op, fact.body) for fact in commit.facts] == [
            (meta(hash), "set", value)
        ]
        assert self.space.blob_info(hash) == BlobInfo(hash, 6, "image/svg+xml", ("logo", "é"))
        self.space.patch(meta(hash), [add("/labels/-", "third")])
        assert self.space.blob_info(hash).labels == ("logo", "é", "third")
        assert self.space.at(1).blob_info(hash).labels == ("logo", "é")

    def test_a_blob_whose_description_is_gone_or_odd_is_still_there(self) -> None:
        hash = self.space.put_blob(b"abc", "text/plain", labels=["x"])
        plain = BlobInfo(hash, 3, "application/octet-stream", ())
        odds: list[Any] = [None, [], {"contentType": 1, "labels": {}, "size": -1}]
        for odd in odds:
            self.space.set(meta(hash), odd)
            assert self.space.blob_info(hash) == plain
        self.space.delete(meta(hash))
        assert self.space.blob_info(hash) == plain
        assert self.space.blob(hash) == b"abc"
        assert self.space.verify().ok

    def test_the_same_bytes_are_stored_once(self) -> None:
        data = payload_of(BLOB_CHUNK_BYTES + 5)
        hash = self.space.put_blob(data, "text/plain")
        assert self.space.put_blob(data, "text/plain") == hash
        assert self.space.put_blob(io.BytesIO(data), "text/plain") == hash
        assert (
            self.space.version,
            len(self.port.answer(self.did, ListBlobs(after="", limit=9))),
        ) == (1, 1)
        assert self.space.put_blob(io.BytesIO(data), "text/html") == hash
        assert (
            self.space.version,
            len(self.port.answer(self.did, ListBlobs(after="", limit=9))),
        ) == (2, 1)
        assert self.space.blob_info(hash).content_type == "text/html"
        self.clock.move(seconds=1e6)
        assert self.space.gc().uploads == 0, "an upload of the same bytes was left behind"

    def test_blobs_belong_to_a_space(self) -> None:
        other = self.store.space("other")
        hash = self.space.put_blob(b"mine")
        with pytest.raises(NotFound):
            other.blob(hash)
        assert other.put_blob(b"mine") == hash
        assert other.blob(hash) == b"mine"

    def test_a_wrong_expected_hash_stores_nothing(self) -> None:
        data = payload_of(BLOB_CHUNK_BYTES + 1)
        for sent in (data, io.BytesIO(data)):
            with Unchanged(self, InvalidInput):
                self.space.put_blob(sent, expect="0" * 64)
        assert self.port.answer(self.did, ListBlobs(after="", limit=9)) == ()
        self.clock.move(seconds=1e6)
        assert self.space.gc().size_bytes == 0, "something of it was left behind"
        assert self.space.put_blob(io.BytesIO(data), expect=hash_of(data)) == hash_of(data)

    def test_a_stream_that_breaks_stores_nothing(self) -> None:
        data = payload_of(BLOB_PIECE_BYTES + 10)
        with pytest.raises(ZeroDivisionError):
            self.space.put_blob(Trickle(data, error=ZeroDivisionError()))
        with pytest.raises(NotFound):
            self.space.blob(hash_of(data))
        self.clock.move(seconds=1e6)
        assert (self.space.version, self.space.gc().size_bytes) == (0, 0)

    @pytest.mark.parametrize(
        "data", ["text", None, 7, [1], io.StringIO("text")], ids=lambda data: type(data).__name__
    )
    def test_what_is_not_bytes_is_refused(self, data: Any) -> None:
        with Unchanged(self, InvalidInput):
            self.space.put_blob(data)

    @pytest.mark.parametrize(
        "arguments",
        [
            {"content_type": "plain"},
            {"content_type": ""},
            {"content_type": "text/plain\n"},
            {"content_type": "text/" + "x" * 300},
            {"content_type": None},
            {"labels": "text"},
            {"labels": [""]},
            {"labels": [1]},
            {"labels": ["\ud800"]},
            {"labels": ["x" * 201]},
            {"labels": ["x"] * (LABELS_MAX + 1)},
            {"expect": "abc"},
            {"expect": hash_of(b"abc").upper()},
            {"key": ""},
            {"key": "rote:mine"},
        ],
        ids=repr,
    )
    def test_arguments_that_cannot_be_are_refused(self, arguments: dict[str, Any]) -> None:
        with Unchanged(self, RoteError):
            self.space.put_blob(b"abc", **arguments)
        assert self.port.answer(self.did, ListBlobs(after="", limit=9)) == ()

    @pytest.mark.parametrize("hash", ["", "abc", "Z" * 64, "A" * 64, None, 7, b"a" * 64], ids=repr)
    def test_what_is_no_hash_is_refused(self, hash: Any) -> None:
        for use in (self.space.blob, self.space.open_blob, self.space.blob_info):
            with pytest.raises(InvalidInput):
                use(hash)

    def test_a_blob_that_was_never_put_is_not_found(self) -> None:
        for use in (self.space.blob, self.space.open_blob, self.space.blob_info):
            with pytest.raises(NotFound):
                use("0" * 64)

    def test_a_value_may_refer_to_a_blob_that_is_not_there(self) -> None:
        """A reference is plain data, like a link to an entity; following it gives an error."""
        data = b"comes later"
        self.space.set(A, {"file": {"$blob": hash_of(data)}})
        with pytest.raises(NotFound):
            self.space.blob(hash_of(data))
        assert self.space.verify().ok
        self.space.put_blob(data)
        assert self.space.blob(self.space.get(A)["file"]["$blob"]) == data

    # -- keys and views ----------------------------------------------------------------------------

    def test_a_key_puts_once(self) -> None:
        first = self.space.put_blob(b"abc", key="k")
        assert self.space.put_blob(io.BytesIO(b"abc"), key="k") == first
        assert self.space.version == 1
        with Unchanged(self, PayloadMismatch):
            self.space.put_blob(b"other", key="k")
        with pytest.raises(NotFound):
            self.space.blob(hash_of(b"other"))
        assert self.space.put_blob(b"abc", key="another") == first
        assert self.space.version == 2

    def test_a_pinned_view_reads_blobs_and_puts_none(self) -> None:
        hash = self.space.put_blob(b"abc")
        view = self.space.at(1)
        assert view.blob(hash) == b"abc"
        with Unchanged(self, InvalidInput):
            view.put_blob(b"more")

    # -- files -------------------------------------------------------------------------------------

    def test_a_file_can_be_read_from_any_place(self) -> None:
        data = payload_of(2 * BLOB_CHUNK_BYTES + 100)
        plain = io.BytesIO(data)
        with self.space.open_blob(self.space.put_blob(data)) as file:
            assert (file.readable(), file.seekable(), file.writable()) == (True, True, False)
            ends = (0, 1, BLOB_CHUNK_BYTES, 2 * BLOB_CHUNK_BYTES, len(data), len(data) + 9)
            for place in [
                place + step for place in ends for step in (-1, 0, 1) if place + step >= 0
            ]:
                assert file.seek(place) == plain.seek(place) == file.tell()
                assert file.read(BLOB_CHUNK_BYTES + 3) == plain.read(BLOB_CHUNK_BYTES + 3)
            assert file.seek(-5, io.SEEK_END) == plain.seek(-5, io.SEEK_END)
            assert file.seek(2, io.SEEK_CUR) == plain.seek(2, io.SEEK_CUR)
            assert file.read() == plain.read()
        with pytest.raises(ValueError, match="closed"):
            file.read()

    def test_pieces_begin_where_they_are_asked_for_and_end_with_the_blob(self) -> None:
        data = payload_of(BLOB_CHUNK_BYTES + 7)
        hash = self.space.put_blob(data)
        for offset in (0, 1, BLOB_CHUNK_BYTES - 1, BLOB_CHUNK_BYTES, len(data) - 1):
            piece = self.port.answer(self.did, ReadPiece(hash, offset=offset))
            assert piece and data[offset:].startswith(piece)
        assert self.port.answer(self.did, ReadPiece(hash, offset=len(data))) == b""
        assert self.port.answer(self.did, ReadPiece(hash, offset=2**62)) == b""
        wrong: list[Any] = [-1, 1.0, None]
        for offset in wrong:
            with pytest.raises(InvalidInput):
                self.port.answer(self.did, ReadPiece(hash, offset=offset))

    # -- at once -----------------------------------------------------------------------------------

    def test_threads_that_put_the_same_bytes_store_them_once(self) -> None:
        data, problems = payload_of(BLOB_CHUNK_BYTES + 1), []
        together = threading.Barrier(THREADS)

        def put(number: int) -> None:
            try:
                together.wait()
                for _ in range(3):
                    stream = data if number % 2 else io.BytesIO(data)
                    assert self.space.put_blob(stream) == hash_of(data)
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=put, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        assert self.port.answer(self.did, ListBlobs(after="", limit=9)) == (
            BlobPart(hash_of(data), len(data)),
        )
        assert self.space.blob(hash_of(data)) == data
        self.clock.move(seconds=1e6)
        assert self.space.gc().blobs == 0
        assert self.space.blob(hash_of(data)) == data
        assert self.space.verify().ok

    # -- copies ------------------------------------------------------------------------------------

    def test_a_copy_brings_the_blobs(self) -> None:
        sent = {self.space.put_blob(payload_of(size, seed=7)): size for size in SIZES}
        target = self.open_fresh("target")
        report = self.store.copy("notes", target)
        assert (report.ok, report.blobs) == (True, len(sent))
        copy = target.space("notes")
        for hash, size in sent.items():
            assert copy.blob(hash) == payload_of(size, seed=7)
        assert copy.head == self.space.head
        more = self.space.put_blob(b"later")
        assert self.store.copy("notes", target).blobs == 1
        assert copy.blob(more) == b"later"
        assert self.store.copy("notes", target).blobs == 0

    def test_no_commit_of_a_copy_describes_a_blob_that_is_not_there_yet(self) -> None:
        for number in range(5):
            self.space.put_blob(b"%d" % number)
        target = self.open_fresh("target")
        verified = []

        def look(phase: str, done: int, total: int) -> None:
            if phase == "copying":
                verified.append(target.space("notes").verify().ok)

        assert self.store.copy("notes", target, progress=look).ok
        assert verified and all(verified)

    def test_a_copy_brings_a_blob_that_nothing_describes(self) -> None:
        hash = self.space.put_blob(b"abc")
        self.space.delete(meta(hash))
        target = self.open_fresh("target")
        assert self.store.copy("notes", target).ok
        assert target.space("notes").blob(hash) == b"abc"

    def test_bytes_that_are_not_the_blob_are_refused(self) -> None:
        port = port_of(self.open_fresh("target"))
        port.answer("", AdoptSpace(self.did, "notes"))
        with pytest.raises(Corrupt):
            adopt(port, self.did, hash_of(b"abc"), b"abd")
        assert port.answer(self.did, ListBlobs(after="", limit=9)) == ()
        assert adopt(port, self.did, hash_of(b"abc"), b"abc")
        assert not adopt(port, self.did, hash_of(b"abc"), b"abc")
        with pytest.raises(InvalidInput):
            adopt(port, self.did, "abc", b"abc")

    def test_blobs_are_listed_in_the_order_of_their_hashes(self) -> None:
        sent = {self.space.put_blob(b"%d" % number): len(b"%d" % number) for number in range(12)}
        listed: list[BlobPart] = []
        while page := self.port.answer(
            self.did, ListBlobs(after=listed[-1].hash if listed else "", limit=5)
        ):
            listed += page
        assert listed == [BlobPart(hash, sent[hash]) for hash in sorted(sent)]
        with pytest.raises(InvalidInput):
            self.port.answer(self.did, ListBlobs(after="abc", limit=5))

    def test_a_backup_holds_the_blobs(self) -> None:
        data = payload_of(BLOB_CHUNK_BYTES + 1)
        hash = self.space.put_blob(data, "text/plain")
        self.store.backup(self.place / "copy.db")
        copy = self.restore("copy.db").space("notes")  # type: ignore[attr-defined]
        assert copy.blob(hash) == data
        assert copy.blob_info(hash).content_type == "text/plain"
        assert copy.verify().ok

    def test_the_port_takes_pieces(self) -> None:
        upload = self.port.answer(self.did, PutPiece(None, 0, b"a"))
        assert self.port.answer(self.did, PutPiece(upload, 1, b"bc")) == upload
        with pytest.raises(InvalidInput, match="ended"):
            self.port.answer(self.did, PutPiece(upload, 2, b"x"))
        command = PutBlob(upload, "text/plain", ("x",), hash_of(b"abc"), "k")
        assert self.port.answer(self.did, command) == hash_of(b"abc")
        assert logged(self.space)[0].key == "k"


def adopt(port: Port, did: str, hash: str, data: bytes) -> bool | None:
    """Send bytes for a blob that another store has."""
    upload = send(port, did, io.BytesIO(data))
    try:
        return port.answer(did, AdoptBlob(hash, upload))
    finally:
        drop_upload(port, did, upload)
