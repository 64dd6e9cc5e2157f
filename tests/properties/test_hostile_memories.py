"""Memories with hostile texts are found as the plain reference finds them: in files and in spaces."""

from pathlib import Path
from typing import Any

import pytest

import rote
from rote.engines import Engine
from rote.opening.keys import MemoryKeys
from rote.records.memory import Memory
from rote.retrieval.cache import CORPORA
from rote.testing import StoreSettings, open_on
from rote.testing.naive_ranking import naive_rank
from rote.testing.ranking_questions import NAME, Question, answer_of, naive_answer, state_of
from rote.values import canonical
from tests.lanes import examples
from tests.properties.test_hostile_texts import COMPARED, FIRST, PARTS, Texts
from tests.properties.test_ranking_histories import ENGINES

BATCH = 50  # texts in one store
# What no text of a record can be, and what is none though a decoder may take it.
TORN = (
    rb'{"memory_id":"s","text":"\ud800"}', rb'{"memory_id":"s","text":"x\udc00y\ud800"}',
    rb'{"memory_id":"s","text":"plan","tags":["\udfff"]}', rb'{"memory_id":"\ud834","text":"x"}',
    b'{"memory_id":"s","text":"\xed\xa0\x80"}', b'{"memory_id":"s","text":"\xf5\x80\x80\x80"}',
    rb'{"memory_id":"s","text":"\ud83d\ude00","metadata":{"thread":"\udc00"}}',
)  # fmt: skip


class Batch:
    """Some hostile texts, and a question to them."""

    def __init__(self, seed: int) -> None:
        draws = Texts(seed)
        self.random = draws.random
        self.texts = [draws.text() for _ in range(BATCH)]
        self.tags = [[text[:40]] if text[:40].strip() else [] for text in self.texts]
        self.is_compared = max(map(len, self.texts)) <= 2 * COMPARED
        asked = self.random.choice(self.texts)[:100]
        self.request: dict[str, Any] = {
            "policy": "lexical-1",
            "query": asked if asked.strip() else "plan",
            "budget": {
                "max_excerpt_tokens": 500,
                "per_item_max_excerpt_tokens": 30,
                "max_items": 9,
            },
            "scoring": {"language": self.random.choice(("english", "none"))},
        }

    def lines(self) -> bytes:
        lines = [
            canonical(
                {
                    "memory_id": str(number),
                    "text": text,
                    "tags": tags,
                    "metadata": {"thread": text[:9] or "t", "turn": number},
                }
            )
            for number, (text, tags) in enumerate(zip(self.texts, self.tags, strict=True))
        ]
        return b"\n".join([*lines, self.random.choice(TORN)])

    def write(self, memory: Memory) -> None:
        for number, (text, tags) in enumerate(zip(self.texts, self.tags, strict=True)):
            if number % 3:
                memory.put("ops", "note", str(number), {"text": text}, None, {"tags": tags})
            else:
                memory.append("session", "chat", "one", {"speaker": text[:9], "text": text})


def batches(part: int, texts: int) -> range:
    """Return the seeds of one part."""
    first = FIRST + part * texts // BATCH
    return range(first, first + texts // BATCH)


@pytest.mark.parametrize("part", range(PARTS))
def test_a_file_of_hostile_texts_is_answered(part: int, tmp_path: Path) -> None:
    found_some = 0
    for seed in batches(part, examples(150, 10_000)):
        batch = Batch(seed)
        (tmp_path / "store.jsonl").write_bytes(batch.lines())
        request = {**batch.request, "store_paths": ["store.jsonl"]}
        for cache in (None, tmp_path / "cache"):
            found = rote.retrieve(request, root=tmp_path, dropped="full", cache=cache)
            if batch.is_compared:
                assert found == naive_rank(request, tmp_path), seed
            CORPORA.forget(lambda place: True)
        found_some += bool(found["selection"]["selected"])
        assert rote.package_text(found).count("<memory ") <= len(found["selection"]["selected"])
    assert found_some


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_space_of_hostile_texts_is_answered(name: str, part: int, tmp_path: Path) -> None:
    found_some = 0
    for seed in batches(part, examples(100, 10_000 if name == "sqlite" else 1_000)):
        batch = Batch(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        found_some += _is_answered(batch, ENGINES[name](folder))
    assert found_some


def _is_answered(batch: Batch, engine: Engine) -> bool:
    with open_on(engine, StoreSettings(), keys=MemoryKeys()) as store:
        space = store.space(NAME)
        for _ in range(2):  # the second time, texts are replaced and turns are added
            with space.transaction() as tx:
                batch.write(Memory(tx))
        state = state_of(space)
        found = False
        for is_search in (True, False):
            question = Question("main", None, batch.request, is_search=is_search)
            answer = answer_of(store, question, Path())
            if batch.is_compared:
                expected = naive_answer(state, question, Path())
                expected.get("selection", {}).pop("dropped", None)
                assert answer == expected
            found |= bool(answer["items"] if is_search else answer["selection"]["selected"])
        return found
