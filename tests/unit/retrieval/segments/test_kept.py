"""The parts of the index that a process keeps: of which store they are, and when they go."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rote.contract import OpenStore
from rote.contract.index import Note
from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import MemoryKeys
from rote.questions import ENGLISH
from rote.records.memory import Memory
from rote.retrieval import retrieve
from rote.retrieval.cache import CORPORA, CorpusCache, CorpusKey
from rote.retrieval.segments.asking import ask
from rote.retrieval.segments.kept import SEGMENTS, Kept, Pending, SegmentCache, names_of
from rote.retrieval.segments.rows import Memory as MemoryRow
from rote.retrieval.segments.rows import Row
from rote.retrieval.segments.segment import Segment
from rote.retrieval.segments.words import WORDS, Making
from rote.retrieval.spaces import Named
from rote.retrieval.states import read_state
from rote.space import Space, Store
from rote.testing import StoreSettings, open_on
from rote.testing.clocks import FixedClock
from rote.values.limits import MIB

PLACE = ("did:example", "words/1")


@pytest.fixture
def keys() -> MemoryKeys:
    return MemoryKeys()


def opened(path: Path, keys: MemoryKeys) -> Store:
    settings = StoreSettings(clock=FixedClock(), content_rules=())
    return open_on(SqliteEngine(path, durability="os"), settings, keys=keys)


@pytest.fixture
def store(tmp_path: Path, keys: MemoryKeys) -> Iterator[Store]:
    with opened(tmp_path / "a.db", keys) as store:
        yield store


def held(store: Store, cache: SegmentCache = SEGMENTS) -> list[Kept]:
    """Return all that is kept of a store."""
    shelf = cache._shelves.get(store.space("n").open_store)
    return [] if shelf is None else [entry.kept for entry in shelf.entries.values()]


def words(kept: Kept) -> set[str]:
    segments = (*kept.segments.values(), *kept.pending.segments)
    return {term for each in segments for term in each._terms}


def excerpts(memory: Memory, query: str) -> list[str]:
    return [item["excerpt"] for item in memory.search(query)["items"]]


def of_size(count: int) -> Kept:
    """Return an index with so many segments."""
    making = Making(ENGLISH)
    making.add(Note(1, 0, "a", ()), Row(0, MemoryRow("boat", (), 0), "{}"))
    body = making.packed().body
    return Kept({number: Segment(body, number) for number in range(count)})


def test_a_store_and_its_copy_keep_nothing_in_common(
    store: Store, tmp_path: Path, keys: MemoryKeys
) -> None:
    """Both have one did. Changes that are equal in Python, as True and 1 are, were taken for the same."""
    memory = Memory(store.space("n"))
    memory.put("ops", "k", "1", {"text": "boat"})
    store.backup(tmp_path / "b.db")
    with opened(tmp_path / "b.db", keys) as copy:
        other = Memory(copy.space("n"))
        assert other.space.did == memory.space.did
        memory.put("ops", "k", "2", {"answer": True, "w": "ship"})
        other.put("ops", "k", "2", {"answer": 1, "w": "ship"})
        assert excerpts(memory, "true") == ['{"answer":true,"w":"ship"}']
        assert excerpts(other, "true") == []
        assert excerpts(other, "1")[0] == '{"answer":1,"w":"ship"}'


def test_changes_are_not_packed_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(store.space("n"))
    packed: list[int] = []
    real = type(WORDS).pack

    def pack(index: object, changes: list[Note], /) -> object:
        packed.append(len(changes))
        return real(WORDS, changes)

    monkeypatch.setattr(type(WORDS), "pack", pack)
    for number in range(3):
        memory.put("ops", "k", str(number), {"text": "boat"})
        excerpts(memory, "boat")
        excerpts(memory, "boat")
    assert packed == [1, 1, 1]


@pytest.mark.parametrize("count", [3, 400])
def test_erased_words_are_kept_nowhere(store: Store, count: int) -> None:
    """Neither those of pending changes nor those of segments of the store."""
    space = store.space("n")
    memory = Memory(space)
    for number in range(count):
        memory.put("ops", "k", str(number), {"text": f"boat secret{number}"})
    excerpts(memory, "boat")
    assert "secret2" in set().union(*map(words, held(store)))
    space.erase(Memory.entity_id("ops", "k", "2"), reason="asked for")
    assert not held(store)
    assert len(excerpts(memory, "boat")) == min(10, count - 1)
    assert "secret2" not in set().union(*map(words, held(store)))


def test_an_erasure_by_another_process_is_met(
    store: Store, tmp_path: Path, keys: MemoryKeys
) -> None:
    memory = Memory(store.space("n"))
    memory.put("ops", "k", "1", {"text": "boat secret"})
    excerpts(memory, "boat")
    with opened(tmp_path / "a.db", keys) as other:
        other.space("n").erase(Memory.entity_id("ops", "k", "1"), reason="asked for")
    assert store.space("n").version == 2
    assert store.space("n").get(Memory.entity_id("ops", "k", "1")) is None
    assert not held(store)


def test_an_erased_space_is_kept_nowhere(store: Store) -> None:
    memory = Memory(store.space("n"))
    memory.put("ops", "k", "1", {"text": "boat"})
    excerpts(memory, "boat")
    open_store = memory.space.open_store
    store.erase_space("n", reason="asked for", confirm="n")
    assert not SEGMENTS._shelves[open_store].entries


def test_a_question_from_before_an_erasure_puts_nothing_back(store: Store) -> None:
    space, id = store.space("n"), Memory.entity_id("ops", "k", "1")
    Memory(space).put("ops", "k", "1", {"text": "boat secret"})
    cache = _Slow(lambda: space.erase(id, reason="asked for"))
    assert ask(space.at(space.version), ENGLISH, ("boat",), 0, cache) is not None
    assert not held(store, cache)
    assert ask(space.at(space.version), ENGLISH, ("boat",), 0, cache) is not None
    assert [words(kept) for kept in held(store, cache)] == [set()]


class _Slow(SegmentCache):
    """A cache before whose first put something happens."""

    def __init__(self, happen: Callable[[], object]) -> None:
        super().__init__()
        self._happening = [happen]

    def put(
        self, open_store: OpenStore, place: tuple[str, str], kept: Kept, *, before: Kept
    ) -> None:
        while self._happening:
            self._happening.pop()()
        super().put(open_store, place, kept, before=before)


def test_an_older_question_replaces_nothing_of_a_newer_one() -> None:
    cache, store = SegmentCache(), OpenStore()
    older = cache.get(store, PLACE)
    store.forget(PLACE[0])
    newer = of_size(2)
    cache.put(store, PLACE, newer, before=cache.get(store, PLACE))
    cache.put(store, PLACE, of_size(3), before=older)
    assert cache.get(store, PLACE) is newer


@pytest.mark.parametrize("other", [(1, 0, "b"), (1, 1, "a"), (3, 0, "a")])
def test_only_the_same_changes_are_known(other: tuple[int, int, str]) -> None:
    changes = [Note(1, 0, "a", ()), Note(2, 0, "a", ())]
    pending = Pending(names_of(changes))
    assert pending.begins([*changes, Note(3, 0, "a", ())])
    assert not pending.begins(changes[:1])
    assert not pending.begins([Note(*other, ()), changes[1]])


def test_a_question_that_an_erasure_overlaps_packs_its_changes_again(store: Store) -> None:
    """The names of changes are the same, but one has lost its words."""
    space, id = store.space("n"), Memory.entity_id("ops", "k", "1")
    Memory(space).put("ops", "k", "1", {"text": "boat"})
    Memory(space).put("ops", "k", "2", {"text": "ship"})
    view, cache = space.at(2), _Late(lambda: space.erase(id, reason="asked for"))
    counts = []
    for _ in range(3):
        answer = ask(view, ENGLISH, ("boat",), 0, cache)
        assert answer is not None
        counts.append(answer.living.count)
    assert counts == [2, 1, 1]


class _Late(SegmentCache):
    """A cache after whose second get something happens."""

    def __init__(self, happen: Callable[[], object]) -> None:
        super().__init__()
        self._happening: list[Callable[[], object]] = [happen, lambda: None]

    def get(self, store: OpenStore, place: tuple[str, str]) -> Kept:
        kept = super().get(store, place)
        if self._happening:
            self._happening.pop()()
        return kept


def test_the_texts_of_a_space_are_kept_nowhere_after_an_erasure(store: Store) -> None:
    space = store.space("n")
    memory, id = Memory(space), Memory.entity_id("ops", "k", "1")
    memory.put("ops", "k", "1", {"text": "boat secret"})
    _retrieve(store)
    assert "secret" in _texts(space)
    space.erase(id, reason="asked for")
    assert _texts(space) == ""
    memory.put("ops", "k", "2", {"text": "boat hidden"})
    _retrieve(store)
    store.close()
    assert _texts(space) == ""


def test_texts_that_were_read_before_an_erasure_are_not_put_back(store: Store) -> None:
    space = store.space("n")
    Memory(space).put("ops", "k", "1", {"text": "boat secret"})
    cache = _SlowCorpora(lambda: space.erase(Memory.entity_id("ops", "k", "1"), reason="asked for"))
    assert read_state(Named(space, None, "rote:n"), cache).row_count == 1
    assert not cache._kept
    assert read_state(Named(space, None, "rote:n"), cache).row_count == 0


class _SlowCorpora(CorpusCache):
    """The same for corpora."""

    def __init__(self, happen: Callable[[], object]) -> None:
        super().__init__()
        self._happening = [happen]

    def put(self, *args: Any) -> None:
        while self._happening:
            self._happening.pop()()
        super().put(*args)


def _retrieve(store: Store) -> None:
    budget = {"max_excerpt_tokens": 1_000}
    retrieve({"query": "boat", "store_paths": ["rote:n"], "budget": budget}, store=store)


def _texts(space: Space) -> str:
    """Return the texts of all corpora that are kept of a space."""
    return " ".join(
        text
        for place, kept in CORPORA._kept.items()
        if isinstance(place, CorpusKey) and place.did == space.did
        for text in kept.corpus.texts
    )


def test_a_closed_store_leaves_nothing(tmp_path: Path, keys: MemoryKeys) -> None:
    size = SEGMENTS.size_bytes
    with opened(tmp_path / "a.db", keys) as store:
        memory = Memory(store.space("n"))
        memory.put("ops", "k", "1", {"text": "boat"})
        excerpts(memory, "boat")
        assert SEGMENTS.size_bytes > size
    assert SEGMENTS.size_bytes == size


def test_a_store_that_nobody_holds_leaves_nothing() -> None:
    cache, open_store = SegmentCache(), OpenStore()
    cache.put(open_store, PLACE, of_size(3), before=cache.get(open_store, PLACE))
    assert cache.size_bytes > 0
    del open_store
    gc.collect()
    assert cache.size_bytes == 0


def test_no_document_is_kept(store: Store) -> None:
    """Pending changes were kept whole, and their size was not counted."""
    memory = Memory(store.space("n"))
    memory.put("ops", "k", "1", {"text": "the " * 100_000 + "boat"})
    excerpts(memory, "boat")
    (kept,) = held(store)
    assert kept.pending.changes == ((1, 1, Memory.entity_id("ops", "k", "1")),)
    assert 0 < kept.size_bytes < MIB


def test_the_last_one_is_kept_however_large_it_is() -> None:
    """Else each question would read all of a large index again."""
    stores = [OpenStore(), OpenStore()]
    size = of_size(3).size_bytes
    cache = SegmentCache(2 * size)
    places = [(open_store, ("did", str(number))) for number in range(3) for open_store in stores]
    kept = [of_size(3) for _ in places]
    for (open_store, place), each in zip(places, kept, strict=True):
        cache.put(open_store, place, each, before=cache.get(open_store, place))
    assert cache.size_bytes <= 2 * size
    assert cache.get(*places[-1]) is kept[-1]
    assert cache.get(*places[0]) is not kept[0]
    large = of_size(20)
    cache.put(*places[-1], large, before=kept[-1])
    assert cache.get(*places[-1]) is large
    assert cache.size_bytes == large.size_bytes


def test_the_size_is_that_of_all_that_is_kept() -> None:
    cache, open_store = SegmentCache(), OpenStore()
    for count in (5, 1, 3):
        for name in ("a", "b"):
            cache.put(
                open_store, (name, "x"), of_size(count), before=cache.get(open_store, (name, "x"))
            )
    assert cache.size_bytes == 2 * of_size(3).size_bytes
    cache.forget(open_store, "a")
    assert cache.size_bytes == of_size(3).size_bytes


def test_a_question_with_very_many_terms_is_answered(store: Store) -> None:
    """The store answers for so many terms at most; a scan answers for more."""
    memory = Memory(store.space("n"))
    memory.put("ops", "k", "1", {"text": "w1 boat"})
    query = "".join(chr(0x4E00 + number) for number in range(20_000))
    assert excerpts(memory, query + " boat") == ["w1 boat"]
