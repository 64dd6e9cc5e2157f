"""Words of erased memories are in no posting, vector, cache or sidecar afterwards: searched as bytes.

An index of words holds terms, which are not the text. So each is searched for as it was written, as
its stem, and in pieces of two characters where the script has no blanks.
"""

import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import rote
from rote.retrieval.words.analyser import analyse
from rote.testing.postgres import schema_of, server_url
from tests.faults.postgres_rig import open_postgres
from tests.faults.test_erasures import relation_files
from tests.lanes import examples
from tests.lowering import SMALL_SEGMENTS, lower_limits

NAME = "agent"
OTHERS = examples(60, 3_000)  # records that stay
# Of each erased record: a word that is stemmed, one of another script, an unspaced one, a tag.
RARE = ("Vuxoqwarblings", "ёжикоправление", "鑪鑫鑽", "Qyzzuxtag", "zwölfkuxträger")
VERSIONS = 3  # of each erased record


@pytest.fixture(params=["lowered", pytest.param("usual", marks=pytest.mark.slow)])
def _segments(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "lowered":
        lower_limits(monkeypatch, SMALL_SEGMENTS)


def write(space: rote.Space) -> None:
    """Write records among others, on two branches, with every rare word in several versions."""
    memory, side = rote.Memory(space), rote.Memory(space.create_branch("side"))
    for number in range(OTHERS):
        memory.put("ops", "note", str(number), {"text": f"an ordinary note {number} on planning"})
        if number % (OTHERS // 10) == 0:
            secret(memory, side, number // (OTHERS // 10) % VERSIONS)
    ask(space)


def secret(memory: rote.Memory, side: rote.Memory, version: int) -> None:
    text = f"{RARE[0]} and {RARE[1]} {RARE[2]}, said {version} times on planning"
    metadata = {"tags": [RARE[3]], "thread": "t", "source": RARE[4]}
    memory.put("ops", "note", "secret", {"text": text}, None, metadata)
    side.put("ops", "note", "secret", {"text": f"{RARE[4]} {version}"}, None, metadata)
    memory.append("session", "chat", "talk", {"speaker": RARE[4], "text": text})


def ask(space: rote.Space) -> list[str]:
    """Return all excerpts that questions in both languages find, now and on the other branch."""
    return [
        item["excerpt"]
        for view in (space, space.on("side"), space.at(space.version))
        for language in ("english", "none")
        for item in rote.Memory(view).search(
            " ".join(RARE), limit=50, language=language, min_share=0.1
        )["items"]
    ]


def erase(space: rote.Space) -> None:
    ids = [
        rote.Memory.entity_id("ops", "note", "secret"),
        rote.Memory.entity_id("session", "chat", "talk"),
    ]
    space.erase(ids, reason="asked to")


def forms() -> Iterator[bytes]:
    """Yield the bytes that nothing may hold."""
    for word in RARE:
        yield word.encode()
        yield word.lower().encode()
        for language in ("english", "none"):
            for term in analyse(word, language):
                yield term.encode()
                yield term.encode("utf-16-le")
                yield term.encode("utf-32-le")


def found_in(parts: dict[str, bytes]) -> list[tuple[str, bytes]]:
    return [(name, form) for name, data in parts.items() for form in {*forms()} if form in data]


def holding(values: list[bytes]) -> list[bytes]:
    """Return the last bytes of each value that holds a word once it is decompressed."""
    found = []
    for value in values:
        with suppress(zlib.error):
            if found_in({"": zlib.decompress(value)}):
                found.append(value[-32:])
    return found


def rows_in(path: Path) -> list[bytes]:
    """Return every value of every table of a store in SQLite that is bytes."""
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    tables = database.execute("select name from sqlite_schema where type = 'table'").fetchall()
    found = [
        value
        for (table,) in tables
        for row in database.execute(f"select * from {table}")
        for value in row
        if isinstance(value, bytes)
    ]
    database.close()
    return found


def files_in(*folders: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.usefixtures("_segments")
def test_no_file_holds_a_word_of_an_erased_memory(tmp_path: Path) -> None:
    folder, cache, elsewhere = (tmp_path / name for name in ("store", "cache", "elsewhere"))
    for each in (folder, cache, elsewhere):
        each.mkdir()
    with rote.open(folder / "memory.db") as store:
        space = store.space(NAME)
        write(space)
        assert len(found_in(files_in(folder))) > len(RARE)
        segments = holding(rows_in(folder / "memory.db"))
        assert segments
        assert any(RARE[0] in excerpt for excerpt in ask(space))
        retrieve(store, cache)
        erase(space)
        assert found_in(files_in(folder, cache)) == []
        assert holding(rows_in(folder / "memory.db")) == []
        assert not [
            name for name, data in files_in(folder).items() if any(end in data for end in segments)
        ]
        assert not any(word in excerpt for excerpt in ask(space) for word in RARE)
        # What comes after does not bring them back.
        for number in range(OTHERS // 2):
            rote.Memory(space).put("ops", "note", str(number), {"text": f"another note {number}"})
        retrieve(store, cache)
        store.backup(elsewhere / "backup.db")
        with rote.open(elsewhere / "copy.db") as target:
            assert store.copy(NAME, target).ok
            ask(target.space(NAME))
        assert space.verify().ok
        assert found_in(files_in(folder, cache, elsewhere)) == []
        for path in (folder / "memory.db", elsewhere / "backup.db", elsewhere / "copy.db"):
            assert holding(rows_in(path)) == []
    assert found_in(files_in(folder, cache, elsewhere)) == []


def retrieve(store: rote.Store, cache: Path) -> None:
    request: dict[str, Any] = {
        "policy": "lexical-1",
        "query": "planning of an ordinary note",
        "store_paths": [f"rote:{NAME}", f"rote:{NAME}@side"],
        "budget": {"max_excerpt_tokens": 1_000},
    }
    assert rote.retrieve(request, store=store, cache=cache)["selection"]["selected"]


@pytest.mark.usefixtures("_segments")
def test_no_table_of_postgres_holds_a_word_of_an_erased_memory(tmp_path: Path) -> None:
    schema = schema_of(tmp_path)
    with open_postgres(tmp_path) as store:
        space = store.space(NAME)
        write(space)
        assert len(found_in(tables_of(schema))) > len(RARE)
        assert holding(values_of(schema))
        erase(space)
        assert holding(values_of(schema)) == []
        assert found_in({**tables_of(schema), **relation_files(schema)}) == []
        for number in range(OTHERS // 2):
            rote.Memory(space).put("ops", "note", str(number), {"text": f"another note {number}"})
        assert not any(word in excerpt for excerpt in ask(space) for word in RARE)
        assert space.verify().ok
        assert found_in({**tables_of(schema), **relation_files(schema)}) == []
        assert holding(values_of(schema)) == []


def tables_of(schema: str) -> dict[str, bytes]:
    return {str(number): value for number, value in enumerate(values_of(schema))}


def values_of(schema: str) -> list[bytes]:
    """Return every value of every table, as it is."""
    with psycopg.connect(server_url(), autocommit=True) as server:
        tables = server.execute(
            "select tablename from pg_tables where schemaname = %s", (schema,)
        ).fetchall()
        return [
            value if isinstance(value, bytes) else str(value).encode()
            for (table,) in tables
            for row in server.execute(f"select * from {schema}.{table}".encode(), binary=True)
            for value in row
        ]
