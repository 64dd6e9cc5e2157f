"""The memories that searches are measured on: the same texts in a store and in SQLite's full-text search.

They are written once in a process, into a folder that goes with it. `notes` are records of one text
each, `talks` are conversations of twenty turns, one record each, and `few` are a hundredth of the notes.
"""

import re
import tempfile
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import apsw

import rote
from bench.memories import EPOCH, MINUTE, TURNS, Memories
from rote import Memory, Store
from rote.bridges import import_records
from rote.retrieval.words.analyser import analyse
from rote.values import canonical, format_time
from rote.values.limits import SEARCH_EXCERPT_TOKENS

FEW, NOTES, TALKS = "few", "notes", "talks"
COUNT, COUNT_QUICK, FEW_MIN = 100_000, 2_000, 500
FOUND = 50  # memories in an answer
# Full-text search that keeps the texts, and that keeps only its index.
CONTENT, CONTENTLESS = "content", "contentless"
HIGHLIGHTED = "highlight({}, 0, '[', ']')"  # a text, with the words that matched marked
_BATCH = 10_000  # texts
_COMMIT = 500  # records

_Record = tuple[dict[str, Any], list[str]]  # and its texts
_words = re.compile(r"\w+").findall


class Searched:
    """A store, and a database of full-text search with the same texts."""

    def __init__(self, count: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rote-bench-searched-")
        folder = Path(self._folder.name)
        self.count = count
        self.path, self.raw_path = folder / "rote.db", folder / "raw.db"
        self.store = rote.open(self.path, durability="os")
        self.raw = FullText(self.raw_path)
        self.memories = Memories()  # also of questions, none of which comes twice
        for name, wanted in ((FEW, max(FEW_MIN, count // 100)), (NOTES, count), (TALKS, count)):
            for batch in batches_of(name, wanted, self.memories):
                load(self.store, name, batch)
                self.raw.load(name, batch)

    def questions(self, count: int) -> list[str]:
        return [self.memories.question() for _ in range(count)]


@cache
def searched(quick: bool) -> Searched:
    """Return what all rows of a process share."""
    return Searched(COUNT_QUICK if quick else COUNT)


def retrieve(store: Store, name: str, question: str) -> int:
    """Return the number of memories that answer a question."""
    request: dict[str, Any] = {
        "policy": "lexical-1",
        "query": question,
        "store_paths": [f"rote:{name}"],
        "budget": {"max_excerpt_tokens": FOUND * SEARCH_EXCERPT_TOKENS, "max_items": FOUND},
    }
    return len(rote.retrieve(request, store=store)["selection"]["selected"])


def search(store: Store, name: str, question: str) -> int:
    """Do the same by a search, which also marks the words that matched."""
    return len(Memory(store.space(name)).search(question, limit=FOUND)["items"])


class FullText:
    """SQLite's FTS5 with Porter's stems; a question is any of its words that are no stop words."""

    def __init__(self, path: Path) -> None:
        self.database = apsw.Connection(str(path))
        self.database.pragma("journal_mode", "wal")

    def load(self, name: str, batch: list[_Record]) -> None:
        texts = [(text,) for _, texts in batch for text in texts]
        with self.database:
            for kind, options in ((CONTENT, ""), (CONTENTLESS, ", content=''")):
                self.database.execute(
                    f"create virtual table if not exists {name}_{kind}"
                    f" using fts5(text, tokenize=porter{options})"
                )
                insert = f"insert into {name}_{kind}(text) values (?)"
                self.database.executemany(insert, texts)

    def search(self, name: str, question: str, *, shown: str = "text") -> int:
        words = (word for word in _words(question) if any(analyse(word)))
        table = f"{name}_{CONTENT}"
        found = self.database.execute(
            f"select {shown.format(table)} from {table} where {table} match ?"
            f" order by rank limit {FOUND}",
            (" OR ".join(f'"{word}"' for word in words),),
        )
        return len(found.fetchall())


def batches_of(name: str, count: int, memories: Memories) -> Iterator[list[_Record]]:
    """Yield records with so many texts, some at a time."""
    records = talks(memories) if name == TALKS else notes(memories)
    size = TURNS if name == TALKS else 1
    for start in range(0, count, _BATCH):
        yield list(islice(records, min(_BATCH, count - start) // size))


def load(store: Store, name: str, batch: list[_Record]) -> None:
    lines = b"\n".join(canonical(record) for record, _ in batch)
    import_records(Memory(store.space(name)), BytesIO(lines), batch=_COMMIT)


def notes(memories: Memories) -> Iterator[_Record]:
    while True:
        for new in memories.memories(_COMMIT):
            yield _record("note", new.id, new.at, {"text": new.text}, new.tags), [new.text]


def talks(memories: Memories) -> Iterator[_Record]:
    number = 0
    while True:
        texts, start = memories.thread(), EPOCH + number * TURNS * MINUTE
        entries = [
            {"text": text, "ts_utc": format_time(start + turn * MINUTE)}
            for turn, text in enumerate(texts)
        ]
        yield _record("talk", f"{number:08d}", start, {"entries": entries}), texts
        number += 1


def _record(
    kind: str, id: str, at: int, payload: dict[str, Any], tags: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {
        "namespace": "ops",
        "record_kind": kind,
        "record_id": id,
        "created_at": format_time(at),
        "updated_at": format_time(at),
        "ttl_seconds": None,
        "payload": payload,
        "metadata": {"tags": list(tags)},
    }
