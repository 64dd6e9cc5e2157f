"""The data of blobs: uploads in chunks, complete blobs by their hash, and drops."""

import pytest

from rote.engines.rows import BlobRow, ChunkRow
from rote.errors import RoteError
from rote.testing.engine_suite.ground import EngineGround, blob, fact

PAYLOAD = b"\0payload\xff"


class BlobRowTests(EngineGround):
    def put_blobs(self, *rows: BlobRow, space: int | None = None) -> None:
        number = self.space if space is None else space
        with self.engine.writer(number) as writes:
            for row in rows:
                writes.put_blob(number, row)

    def put_payload(self, upload: bytes, *ends: int, space: int | None = None) -> None:
        number = self.space if space is None else space
        starts = (0, *ends)
        rows = [ChunkRow(end, PAYLOAD[start:end]) for start, end in zip(starts, ends, strict=False)]
        with self.engine.writer(number) as writes:
            writes.put_chunks(number, upload, rows)

    def ends(self, upload: bytes, *, after: int = 0, limit: int = 99) -> list[int]:
        reads = self.engine.reader()
        return [row.until for row in reads.chunks(self.space, upload, after=after, limit=limit)]

    def test_a_blob_row_comes_back_field_by_field(self) -> None:
        row = BlobRow(b"\0token", b"\xffhash" * 6, 2**40, 2**50, b"\0seal")
        self.put_blobs(row)
        reads = self.engine.reader()
        assert row.hash is not None
        assert reads.blob(self.space, row.hash) == row == reads.upload(self.space, row.upload)

    def test_a_payload_that_is_not_whole_is_found_by_its_token_alone(self) -> None:
        self.put_blobs(blob(b"u"))
        reads = self.engine.reader()
        assert reads.upload(self.space, b"u") == blob(b"u")
        assert reads.blob(self.space, b"") is None
        assert reads.blobs(self.space, after=b"", limit=9) == []
        assert reads.uploads(self.space, after=b"", limit=9) == [blob(b"u")]

    def test_what_was_never_put_is_none(self) -> None:
        self.put_blobs(blob(b"u", hash=b"h"))
        reads = self.engine.reader()
        other = self.make_space("other")
        assert reads.blob(self.space, b"x") is None
        assert reads.upload(self.space, b"x") is None
        assert reads.blob(other, b"h") is None
        assert reads.upload(other, b"u") is None

    def test_an_upload_becomes_whole_and_back(self) -> None:
        self.put_blobs(blob(b"u", size=1))
        self.put_blobs(blob(b"u", hash=b"h", size=2, at=3))
        reads = self.engine.reader()
        assert reads.blob(self.space, b"h") == blob(b"u", hash=b"h", size=2, at=3)
        assert reads.uploads(self.space, after=b"", limit=9) == []
        self.put_blobs(blob(b"u", size=2))
        assert reads.blob(self.space, b"h") is None
        assert reads.uploads(self.space, after=b"", limit=9) == [blob(b"u", size=2)]

    def test_a_hash_stands_in_one_row_only(self) -> None:
        self.put_blobs(blob(b"one", hash=b"h"))
        with pytest.raises(RoteError):
            self.put_blobs(blob(b"two", hash=b"h"))
        reads = self.engine.reader()
        assert reads.blob(self.space, b"h") == blob(b"one", hash=b"h")
        assert reads.upload(self.space, b"two") is None

    def test_payloads_are_paged_by_hash_and_uploads_by_token(self) -> None:
        hashes = [bytes([number]) * 32 for number in (0, 1, 127, 128, 255)]
        tokens = [bytes([255 - number]) for number in range(5)]
        self.put_blobs(*(blob(t, hash=h) for t, h in zip(tokens, hashes, strict=True)))
        self.put_blobs(*(blob(token + b"u") for token in tokens))
        reads = self.engine.reader()
        found, after = [], b""
        while page := reads.blobs(self.space, after=after, limit=2):
            found += [row.hash for row in page]
            after = page[-1].hash or b""
        assert found == hashes
        rows, after = [], b""
        while page := reads.uploads(self.space, after=after, limit=2):
            rows += page
            after = page[-1].upload
        assert rows == [blob(token + b"u") for token in reversed(tokens)]

    def test_sizes_are_added_up_for_each_space(self) -> None:
        other = self.make_space("other")
        reads = self.engine.reader()
        assert reads.blob_bytes(self.space) == 0
        self.put_blobs(blob(b"one", hash=b"h", size=2**40), blob(b"two", size=5))
        self.put_blobs(blob(b"one", size=7), space=other)
        assert (reads.blob_bytes(self.space), reads.blob_bytes(other)) == (2**40 + 5, 7)

    def test_a_payload_comes_back_chunk_by_chunk(self) -> None:
        self.put_payload(b"u", 3, 6, 9)
        reads = self.engine.reader()
        rows = reads.chunks(self.space, b"u", after=0, limit=9)
        assert b"".join(row.data for row in rows) == PAYLOAD
        assert [row.until for row in rows] == [3, 6, 9]

    def test_the_first_chunk_after_a_byte_is_the_one_that_holds_it(self) -> None:
        self.put_payload(b"u", 3, 6, 9)
        assert [self.ends(b"u", after=byte, limit=1) for byte in range(10)] == [
            *[[3]] * 3, *[[6]] * 3, *[[9]] * 3, [],
        ]  # fmt: skip
        assert self.ends(b"u", after=3) == [6, 9]
        assert self.ends(b"other") == []

    def test_chunks_go_from_the_beginning(self) -> None:
        self.put_payload(b"u", 3, 6, 9)
        self.put_payload(b"v", 3)
        with self.engine.writer(self.space) as writes:
            writes.drop_chunks(self.space, b"u", until=6)
        assert (self.ends(b"u"), self.ends(b"v")) == ([9], [3])
        with self.engine.writer(self.space) as writes:
            writes.drop_chunks(self.space, b"u", until=2**62)
            writes.drop_chunks(self.space, b"never there", until=2**62)
        assert (self.ends(b"u"), self.ends(b"v")) == ([], [3])

    def test_a_dropped_row_leaves_its_chunks_as_strays(self) -> None:
        self.put_blobs(blob(b"u"), blob(b"v"))
        self.put_payload(b"u", 3, 6)
        self.put_payload(b"v", 3)
        reads = self.engine.reader()
        assert reads.chunk_strays(self.space) == 0
        with self.engine.writer(self.space) as writes:
            writes.drop_blob(self.space, b"u")
        assert reads.upload(self.space, b"u") is None
        assert reads.chunk_strays(self.space) == 2
        assert reads.chunk_strays(self.make_space("other")) == 0

    def test_a_commit_a_row_and_chunks_are_written_together_or_not_at_all(self) -> None:
        for optimistic in (False, True):
            with (
                pytest.raises(ZeroDivisionError),
                self.engine.writer(self.space, optimistic=optimistic) as writes,
            ):
                writes.put_blob(self.space, blob(b"u", hash=b"h"))
                writes.put_chunks(self.space, b"u", [ChunkRow(1, b"x")])
                raise ZeroDivisionError
        reads = self.engine.reader()
        assert reads.blob(self.space, b"h") is None
        assert self.ends(b"u") == []
        with self.engine.writer(self.space, optimistic=True) as writes:
            writes.append(self.space, self.batch([fact("urn:a", 1)]))
            writes.put_blob(self.space, blob(b"u", hash=b"h"))
            writes.put_blob(self.space, blob(b"v", hash=b"i"))
            writes.put_chunks(self.space, b"u", [ChunkRow(1, b"x")])
            writes.drop_chunks(self.space, b"v", until=9)
        assert reads.counts(self.space, until=1) == (1, 1)
        assert [row.upload for row in reads.blobs(self.space, after=b"", limit=9)] == [b"u", b"v"]
        assert self.ends(b"u") == [1]

    def test_a_writer_sees_the_payloads_it_has_written(self) -> None:
        with self.engine.writer(self.space) as writes:
            writes.put_blob(self.space, blob(b"u", hash=b"h", size=3))
            writes.put_chunks(self.space, b"u", [ChunkRow(3, b"abc")])
            assert writes.blob(self.space, b"h") is not None
            assert writes.chunks(self.space, b"u", after=0, limit=9) == [ChunkRow(3, b"abc")]
            writes.drop_blob(self.space, b"u")
            writes.drop_chunks(self.space, b"u", until=3)
            assert writes.blob(self.space, b"h") is None
            assert writes.chunks(self.space, b"u", after=0, limit=9) == []
