"""The memories of a state, found by the index. Only those that may be in the answer are read."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import chain, compress
from typing import Generic, TypeVar

from rote.errors import Compacted
from rote.questions import NO_FILTERS, Filters, Request
from rote.records.envelope import record_of
from rote.records.keys import key_of
from rote.retrieval.corpus import Corpus, Simple
from rote.retrieval.order import Drop
from rote.retrieval.ranking import weights
from rote.retrieval.ranking.scores import Scores
from rote.retrieval.ranking.scoring import OWN, Telling
from rote.retrieval.segments.asking import Answer
from rote.retrieval.segments.filtering import passing
from rote.retrieval.segments.living import Living
from rote.retrieval.segments.scores import PlainScores, ThreadedScores
from rote.retrieval.segments.scoring import cell_postings, frequent_term, plain_totals
from rote.retrieval.spaces import entry_memory, whole_memory
from rote.space import Space
from rote.values.limits import RECORDS_READ_AT_ONCE

Cell = TypeVar("Cell")


class MovedError(Exception):
    """A memory that the index has found was erased or compacted away before it was read."""


class FoundMemories:
    """Implements ranking.memories.Memories. Rows are numbered through all parts of the index."""

    def __init__(self, view: Space, name: str, answer: Answer) -> None:
        self.invalid: Sequence[tuple[str, str, str]] = ()
        self._view = view
        self._name = name
        self._living = answer.living
        self._postings = answer.postings
        self.texts: dict[int, str] = {}  # of the memories that were read
        self.hashes: dict[int, str] = {}
        self.tags: dict[int, tuple[str, ...]] = {}
        # Not methods: what refers to itself stays until the garbage collector finds it.
        self._ids: dict[int, str] = {}
        self.ids = _Column(partial(_id, self._living, self._ids))
        self.paths = _Column(lambda _: name)
        self.instants = _Column(partial(_instant, self._living))

    def __len__(self) -> int:
        return self._living.count

    def rows(self) -> Iterable[int]:
        """Return all rows, in the order of the index."""
        return chain.from_iterable(
            compress(range(part.base, part.base + part.segment.size), part.living)
            for part in self._living.parts
        )

    def load(self, rows: Collection[int]) -> None:
        missing = [row for row in rows if row not in self.texts]
        for start in range(0, len(missing), RECORDS_READ_AT_ONCE):
            self._load(missing[start : start + RECORDS_READ_AT_ONCE])

    def _load(self, rows: Sequence[int]) -> None:
        keys = [self._key(row) for row in rows]
        numbers: dict[str, list[int]] = {}
        for entity, number in keys:
            numbers.setdefault(entity, []).append(number)
        try:
            found = self._whole([each for each, own in numbers.items() if own == [0]])
            for entity, own in numbers.items():
                if own != [0]:
                    found |= self._entries(entity, own)
        except Compacted:
            raise MovedError from None
        if not found.keys() >= set(keys):
            raise MovedError
        read = Corpus()
        read.extend(self._name, [found[key] for key in keys])
        self.texts.update(zip(rows, read.texts, strict=True))
        self._ids.update(zip(rows, read.ids, strict=True))
        self.hashes.update(zip(rows, read.hashes, strict=True))
        self.tags.update(zip(rows, read.tags, strict=True))

    def _whole(self, entities: Sequence[str]) -> dict[tuple[str, int], Simple]:
        """Return the memories that are records."""
        found = {}
        for state in self._view.read_many(entities) if entities else ():
            record = record_of(state)
            memory = None if record is None else whole_memory(record)
            if memory is not None:
                found[(state.id, 0)] = memory
        return found

    def _entries(self, entity: str, numbers: Sequence[int]) -> dict[tuple[str, int], Simple]:
        """Return memories that are entries of a record, which may have many others."""
        paths = [f"/payload/entries/{number - 1}" for number in numbers]
        metadata, *entries = self._view.glance(entity, values=("/metadata", *paths)).values
        key = key_of(entity)
        return {
            (entity, number): entry_memory(key, number, entry, metadata)
            for number, entry in zip(numbers, entries, strict=True)
            if key is not None and type(entry) is dict
        }

    @property
    def length(self) -> int:
        """Return the number of terms of all memories."""
        return self._living.length

    def having(self, term: str) -> int:
        """Return the number of memories that have a term."""
        count = 0
        for part, postings in zip(self._living.parts, self._postings, strict=True):
            posting = postings.get(term)
            if posting is not None:
                for rows in (posting.singles, posting.repeats):
                    is_living = part.living.__getitem__
                    count += len(rows) if part.is_whole else sum(map(is_living, rows))
        return count

    def frequencies(self, _: str) -> "FoundMemories":
        """Return itself: the index was asked in the language of the question."""
        return self

    def filtered(self, filters: Filters, _: Collection[int]) -> list[int]:
        """Return the rows that filters leave out. Nobody is denied, or all memories would be read."""
        if filters == NO_FILTERS:
            return []
        left: list[int] = []
        for part in self._living.parts:
            passes = passing(filters, part.segment, self._living.details_of)
            rows = range(part.base, part.base + part.segment.size)
            out = (
                is_living and not passed
                for is_living, passed in zip(part.living, passes, strict=True)
            )
            left += compress(rows, out)
        return left

    def scores(self, request: Request, telling: Telling, excluded: Collection[int]) -> Scores:
        living = self._living
        weighed = [part.weights(telling.average) for part in living.parts]
        if excluded:
            weighed = self._without(weighed, excluded)
        has_threads = any(part.segment.has_threads for part in living.parts)
        is_threaded = request.scoring.context and has_threads
        least = self._least(telling, 1 if is_threaded else OWN)
        if not is_threaded:
            # Where rows are excluded, each must be looked at.
            frequent = None if excluded else frequent_term(self._postings, telling)
            found = plain_totals(living, weighed, self._postings, telling, frequent)
            most = OWN * telling.idf.get(frequent or "", 0) * weights.weight(1, 0, telling.average)
            return PlainScores([part.base for part in living.parts], found, least, most)
        layout = living.layout
        filled = bytearray(layout.filled)
        for row in excluded:
            place = living.part_of(row)
            filled[layout.cells[place][row - living.parts[place].base]] = 0
        cells = cell_postings(living, weighed, self._postings, telling)
        return ThreadedScores(layout, bytes(filled), cells, least)

    def _least(self, telling: Telling, share: int) -> int:
        """Return a number that no total above 0 is below: a term with the least weight."""
        longest = max((part.segment.longest for part in self._living.parts), default=0)
        weight = weights.weight(1, longest, telling.average)
        return min((idf for idf in telling.idf.values() if idf), default=0) * share * weight

    def _without(self, weighed: Sequence[list[int]], excluded: Collection[int]) -> list[list[int]]:
        """Return weights with 0 for rows that are excluded."""
        kept = [list(each) for each in weighed]
        for row in excluded:
            place = self._living.part_of(row)
            kept[place][row - self._living.parts[place].base] = 0
        return kept

    def rank_key(self, row: int) -> tuple[int, str, str, str]:
        # No two memories of a space have the same id.
        return -self.instants[row], self._name, self.ids[row], ""

    def drops(self, rows: Sequence[int], reason: str) -> list[Drop]:
        self.load(rows)
        return [Drop(self.ids[row], reason, self.hashes[row], self._name) for row in rows]

    def _key(self, row: int) -> tuple[str, int]:
        part, number = self._living.place(row)
        segment = part.segment
        return segment.entities[segment.entity[number]], segment.number[number]


def _id(living: Living, read: dict[int, str], row: int) -> str:
    """Return the id of a memory, which need not be one of those that were read."""
    id = read.get(row)
    if id is None:
        part, number = living.place(row)
        id = part.segment.memory_id(number)
    return id


def _instant(living: Living, row: int) -> int:
    part, number = living.place(row)
    return part.segment.instant[number]


class _Column(Generic[Cell]):
    """Implements order.Column."""

    def __init__(self, cell: Callable[[int], Cell]) -> None:
        self._cell = cell

    def __getitem__(self, row: int) -> Cell:
        return self._cell(row)
