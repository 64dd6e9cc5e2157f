"""After an erasure no file in the folder of a store has a byte of the vectors of erased texts."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from random import Random

import apsw

import rote
from rote.engines.sqlite.checksums import checked
from rote.retrieval.ranking.vectors import quantised
from rote.retrieval.vector_cache import VECTORS

DIMENSION = 64
SECRETS = ("the code is 1234", "the code is 4321", "Ada: it was 9999")


class Noise:
    """An embedder whose vectors look like nothing else."""

    name, version, dimension = "noise", "1", DIMENSION

    def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        return [numbers_of(text) for text in texts]


def numbers_of(text: str) -> list[float]:
    random = Random(text)
    return [random.gauss(0, 1) for _ in range(DIMENSION)]


def left_of(texts: Sequence[str], folder: Path) -> list[tuple[str, str]]:
    """Return each text of which a file has the hash or a part of the vector, with the file's name."""
    found = []
    for file in sorted(folder.rglob("*")):
        data = file.read_bytes() if file.is_file() else b""
        for text in texts:
            vector = quantised(numbers_of(text)) or b""
            pieces = [vector[start : start + 16] for start in range(0, DIMENSION, 16)]
            if any(piece in data for piece in (sha256(text.encode()).digest(), *pieces)):
                found.append((text, file.name))
    return found


def write(memory: rote.Memory) -> None:
    """Write a record whose texts changed, on two branches, among many others; embed them all."""
    embedder = Noise()
    for number in range(200):
        memory.put("ops", "note", f"{number}", {"text": f"something else {number}"})
    memory.put("ops", "note", "x", {"text": SECRETS[0]})
    memory.embed(embedder)
    memory.put("ops", "note", "x", {"text": SECRETS[1]})
    side = rote.Memory(memory.space.create_branch("side"))
    side.put("ops", "note", "x", {"entries": [{"speaker": "Ada", "text": "it was 9999"}]})
    side.embed(embedder)
    memory.embed(embedder)


def test_no_file_of_the_store_holds_a_byte_of_an_erased_vector(tmp_path: Path) -> None:
    with rote.open(tmp_path / "memory.db") as store:
        memory = rote.Memory(store.space("notes"))
        write(memory)
        assert {text for text, _ in left_of(SECRETS, tmp_path)} == set(SECRETS)
        memory.erase("ops", "note", "x", reason="asked to")
        assert left_of(SECRETS, tmp_path) == []
        assert memory.space.verify().ok
    assert left_of(SECRETS, tmp_path) == []
    assert left_of(["something else 7"], tmp_path) != []


def test_a_stop_between_the_erasure_and_the_sweep_is_made_up_for(tmp_path: Path) -> None:
    """The process ends right after the commit; the next one finds the note and does the rest."""
    path = tmp_path / "memory.db"
    with rote.open(path) as store:
        memory = rote.Memory(store.space("notes"))
        write(memory)
    before = _vectors(path)
    with rote.open(path) as store:
        memory = rote.Memory(store.space("notes"))
        memory.erase("ops", "note", "x", reason="asked to")
        memory.put("ops", "note", "y", {"text": "one more"})
    _put_back(path, before)
    assert {text for text, _ in left_of(SECRETS, tmp_path)} == set(SECRETS)
    with rote.open(path) as store:
        store.space("notes").erase(rote.Memory.entity_id("ops", "note", "y"), reason="asked to")
    assert left_of(SECRETS, tmp_path) == []


def _vectors(path: Path) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path), vfs=checked())
    rows = connection.execute("select * from vectors").fetchall()
    connection.close()
    return rows


def _put_back(path: Path, rows: list[tuple[object, ...]]) -> None:
    connection = apsw.Connection(str(path), vfs=checked())
    marks = ", ".join("?" * len(rows[0]))
    connection.executemany(f"insert or ignore into vectors values ({marks})", rows)
    connection.close()


def test_a_file_that_lost_a_line_loses_its_vector_in_the_cache(tmp_path: Path) -> None:
    kept, notes = tmp_path / "kept", tmp_path / "notes.jsonl"
    lines = [
        rote.canonical({"memory_id": text, "text": text}) for text in (*SECRETS, "something else")
    ]
    asked = {
        "policy": "hybrid-1", "query": "code", "store_paths": ["notes.jsonl"],
        "budget": {"max_excerpt_tokens": 100},
    }  # fmt: skip
    notes.write_bytes(b"\n".join(lines))
    rote.retrieve(asked, root=tmp_path, cache=kept, embedder=Noise())
    files = [file for file in kept.iterdir() if file.suffix == ".vectors"]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600]
    assert {text for text, _ in left_of(SECRETS, kept)} == set(SECRETS)
    notes.write_bytes(lines[-1])
    VECTORS.begin()
    rote.retrieve(asked, root=tmp_path, cache=kept, embedder=Noise())
    assert left_of(SECRETS, kept) == []
