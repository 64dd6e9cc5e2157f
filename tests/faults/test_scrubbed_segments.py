"""Nothing of dropped segments, postings and vectors is left in any file of an engine after a scrub."""

from pathlib import Path

from rote.engines import Engine
from rote.engines.postgres import PostgresEngine
from rote.engines.rows import SegmentRow, VectorRow
from rote.engines.sqlite import SqliteEngine
from rote.testing.engine_suite.ground import MAIN_BRANCH
from rote.testing.postgres import schema_of, server_url
from tests.faults.test_erasures import MARK, analyze, files_of, found_in, relation_files, rows_of

VECTORS = [VectorRow(f"{number:03}{MARK}".encode(), MARK.encode(), b"") for number in range(50)]


def put_packed(store: Engine) -> None:
    """Write segments and vectors full of the mark."""
    space = store.create_space(did="did:key:a", name="agent", seal=b"", main=MAIN_BRANCH).number
    with store.writer(space) as writes:
        postings = [(f"{number:03}{MARK}", MARK.encode() * number) for number in range(50)]
        segment = SegmentRow(1, 1, 1, MARK.encode() * 500)
        writes.put_segment(space, "words/1", segment, postings)
        writes.put_vectors(space, "v", VECTORS)


def drop_packed(store: Engine) -> None:
    [space] = store.spaces()
    with store.writer(space.number) as writes:
        writes.drop_segments(space.number, "words/1", [1])
        writes.drop_vectors(space.number, "v", [row.hash for row in VECTORS])
    store.scrub()
    store.close()


def test_no_file_of_sqlite_holds_a_byte_of_dropped_segments_and_vectors(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = SqliteEngine(path)
    put_packed(store)
    store.close()
    assert any(map(found_in, files_of(path).values()))
    drop_packed(SqliteEngine(path))
    assert not any(map(found_in, files_of(path).values()))


def test_no_file_or_statistic_of_postgres_holds_a_byte_of_dropped_segments_and_vectors(
    tmp_path: Path,
) -> None:
    schema = schema_of(tmp_path)
    store = PostgresEngine(server_url(), schema=schema)
    put_packed(store)
    analyze(schema)
    holding = {name for name, data in rows_of(schema).items() if found_in(data)}
    assert holding == {"segments", "postings", "vectors"}  # and no statistics
    drop_packed(store)
    everything = {**rows_of(schema), **relation_files(schema)}
    assert {name for name, data in everything.items() if found_in(data)} == set()
