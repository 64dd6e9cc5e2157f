"""A store file that an earlier Rote wrote opens, verifies and gives the same answers.

`sqlite-1.store` holds the stories of `chain-1.json` in SQLite format 1, and a space with blobs.
`sqlite-2.store` holds the same in format 2, and vectors and a packed index in that space;
`sqlite-3.store` holds all that in format 3, with checksums of pages. To add a
file for a new format: run `python -m tests.golden.test_sqlite NAME` and list the name in STORES.
"""

import shutil
import sys
from hashlib import sha256
from pathlib import Path

import pytest

import rote
from rote.engines.rows import SegmentRow, VectorRow
from rote.engines.sqlite import SqliteEngine
from rote.kernel.log.seals import vector_record
from tests.golden import stories
from tests.golden.formulas import Story

STORES = ["sqlite-1.store", "sqlite-2.store", "sqlite-3.store"]
STORIES = stories.load("chain-1.json")
SIZE_BYTES_MAX = 200_000
# The blobs of a space beside the stories, with their types.
FILES = {b"": "text/plain", b"golden": "text/plain", bytes(range(256)) * 80: "image/png"}
# The vectors of that space by their text, under the name of an embedder that nobody has.
EMBEDDER = "vectors/golden@1/4"
VECTORS = {"golden": b"\x7f\x00\x81\x01" + (65_536).to_bytes(4, "big"), "": bytes(8)}
# The segments and the postings of an index that nobody declares.
INDEX = "golden/1"
SEGMENTS = [SegmentRow(7, 2, 3, b"body"), SegmentRow(2**62, 1, 5, bytes(range(256)) * 20)]
POSTINGS = {
    "a": b"1", "a\0": b"", "b": b"long " * 1_000, "z\u00e9": b"last", "\U0010ffff": b"of all"
}  # fmt: skip


@pytest.fixture(params=STORES)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy: opening a store may write to it."""
    copy = tmp_path / "copy.db"
    shutil.copyfile(stories.FOLDER / request.param, copy)
    return copy


def test_a_golden_store_is_small_and_stands_alone(golden: Path) -> None:
    assert golden.stat().st_size < SIZE_BYTES_MAX
    assert [path.name for path in stories.FOLDER.glob("*.store-*")] == []


def test_a_golden_store_verifies_with_the_heads_it_was_written_with(golden: Path) -> None:
    with rote.open(golden, create=False) as store:
        names = [story["name"] for story in STORIES]
        assert [space.name for space in store.spaces()] == sorted([*names, "files"])
        for story in STORIES:
            report = store.space(story["did"]).verify(against=story["checkpoint"])
            assert report.ok, report.faults
            assert report.head == story["commits"][-1]["hash"]
            assert report.commits == len(story["commits"])


def test_a_golden_store_gives_every_value_at_every_version(golden: Path) -> None:
    with rote.open(golden, create=False) as store:
        for story in STORIES:
            space = store.space(story["name"])
            for version, told in enumerate(story["commits"], start=1):
                for id, value in told["values"].items():
                    assert space.at(version).get(id) == value
            newest = {
                id: value for told in story["commits"] for id, value in told["values"].items()
            }
            assert {id: space.get(id) for id in newest} == newest


def test_a_golden_store_remembers_its_keys(golden: Path) -> None:
    with rote.open(golden, create=False) as store:
        for story in STORIES:
            space = store.space(story["name"])
            for version, told in enumerate(story["commits"], start=1):
                if "key" in told["request"]:
                    assert space.transact(**told["request"]).version == version
            assert space.version == len(story["commits"])


def test_a_golden_store_has_its_blobs(golden: Path) -> None:
    with rote.open(golden, create=False) as store:
        space = store.space("files")
        for data, content_type in FILES.items():
            hash = sha256(data).hexdigest()
            assert space.blob(hash) == data
            info = space.blob_info(hash)
            assert (info.size, info.content_type) == (len(data), content_type)
        assert space.verify().ok
        assert space.gc().kept == len(FILES)


@pytest.mark.parametrize("golden", STORES[1:], indirect=True)
def test_a_golden_store_has_its_vectors_and_its_segments(golden: Path) -> None:
    engine = SqliteEngine(golden)
    row = engine.space("files")
    assert row is not None
    reads, space = engine.reader(), row.number
    assert reads.vector_names(space) == [EMBEDDER]
    assert reads.vector_rows(space, EMBEDDER, after=b"", limit=9) == vectors(row.did)
    bodies = {segment.number: segment.body for segment in SEGMENTS}
    assert [segment.number for segment in reads.segments(space, INDEX)] == list(bodies)
    assert reads.segment_bodies(space, INDEX, list(bodies)) == bodies
    assert reads.indexed(space, INDEX) == 5
    for number in bodies:
        found = reads.postings_of(space, INDEX, number, after="", limit=9)
        assert found == list(POSTINGS.items())
        assert len(reads.postings(space, INDEX, [number], list(POSTINGS))) == len(POSTINGS)
    engine.close()


def test_a_golden_store_goes_on(golden: Path) -> None:
    with rote.open(golden, create=False) as store:
        for story in STORIES:
            space = store.space(story["name"])
            commit = space.set("urn:note:1", "written later")
            assert commit.previous == story["commits"][-1]["hash"]
            assert space.verify(against=story["checkpoint"]).ok


def test_a_golden_store_that_never_had_branches_can_have_them(golden: Path) -> None:
    """The store was written before there was an index of events."""
    with rote.open(golden, create=False) as store:
        space = store.space(STORIES[0]["name"])
        id = next(iter(space.scan())).id
        space.create_branch("topic").set(id, "changed")
        assert space.merge("topic").merged == (id,)
        assert [branch.name for branch in space.branches()] == ["main", "topic"]
        assert space.verify(against=STORIES[0]["checkpoint"]).ok


def vectors(did: str) -> list[VectorRow]:
    rows = [
        vector_record(did, EMBEDDER, sha256(text.encode()).digest(), body)
        for text, body in VECTORS.items()
    ]
    return sorted(rows, key=lambda row: row.hash)


def write(path: Path, told: list[Story]) -> None:
    """Write a closed store file to which every story has happened, each with its checkpoint."""
    for story in told:
        with stories.tell(story, path) as store:
            store.space(story["name"]).checkpoint()
    with rote.open(path) as store:
        for data, content_type in FILES.items():
            store.space("files").put_blob(data, content_type)
    engine = SqliteEngine(path)
    row = engine.space("files")
    assert row is not None
    with engine.writer(row.number) as writes:
        writes.put_vectors(row.number, EMBEDDER, vectors(row.did))
        for segment in SEGMENTS:
            writes.put_segment(row.number, INDEX, segment, POSTINGS.items())
        writes.derive(row.number, INDEX, rows=(), ended=(), indexed=5)
    engine.close()
    shutil.rmtree(path.with_name(path.name + ".keys"))


if __name__ == "__main__":
    target = stories.FOLDER / sys.argv[1]
    assert not target.exists(), "golden files are added, never edited"
    write(target, STORIES)
