"""Words of erased memories are in no posting, vector, cache or sidecar afterwards: searched as bytes.

An index of words holds terms, which are not the text. So each is searched for as it was written, as
its stem, and in pieces of two characters where the script has no blanks.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture(params=["lowered", "usual"])
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
        assert any(RARE[0] in excerpt for excerpt in ask(space))
        retrieve(store, cache)
        erase(space)
        assert found_in(files_in(folder, cache)) == []
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
        erase(space)
        assert found_in({**tables_of(schema), **relation_files(schema)}) == []
        for number in range(OTHERS // 2):
            rote.Memory(space).put("ops", "note", str(number), {"text": f"another note {number}"})
        assert not any(word in excerpt for excerpt in ask(space) for word in RARE)
        assert space.verify().ok
        assert found_in({**tables_of(schema), **relation_files(schema)}) == []


def tables_of(schema: str) -> dict[str, bytes]:
    """Return the values of each table, as they are."""
    with psycopg.connect(server_url(), autocommit=True) as server:
        tables = server.execute(
            "select tablename from pg_tables where schemaname = %s", (schema,)
        ).fetchall()
        return {
            table: b"\n".join(
                value if isinstance(value, bytes) else str(value).encode()
                for row in server.execute(f"select * from {schema}.{table}".encode(), binary=True)
                for value in row
            )
            for (table,) in tables
        }
