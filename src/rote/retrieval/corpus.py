"""A corpus: memories as columns, ready to be scored and ordered."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import accumulate, chain, repeat
from typing import Any

import msgspec

from rote.errors import InvalidInput
from rote.questions import NormalTags, NormalTimes, read_column
from rote.values import Json, canonical

_encode = msgspec.json.encode


class Simple(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A record as most are; members in canonical order, for the digest of its normal form."""

    memory_id: str
    refs: tuple[()] | None = ()  # what is in others has to be looked at
    tags: tuple[str, ...] | None = ()
    text: str
    ts_utc: str | None = None


class Drop(msgspec.Struct, frozen=True, gc=False):
    """A memory that does not come back; members in canonical order."""

    memory_id: str
    reason: str
    record_hash: str
    store_path: str


class Corpus:
    """The memories of some stores: one entry in each column for each, in the order of reading."""

    def __init__(self) -> None:
        self.paths: list[str] = []  # as the package names the stores
        self.ids: list[str] = []
        self.hashes: list[str] = []
        self.instants: list[int] = []
        self.texts: list[str] = []
        self.lowers: list[str] = []  # the texts in lower case
        self.tags: list[tuple[str, ...]] = []
        self.invalid: list[tuple[str, str, str]] = []  # path, memory id, hash of what is no record
        self._times = NormalTimes()
        self._tags = NormalTags()
        self._order: list[int] | None = None
        self._fragments: _Fragments | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def extend(self, path: str, records: Sequence[Simple]) -> None:
        """Records without refs, which are brought into normal form."""
        tags = [self._tags[record.tags] for record in records]
        instants, times = self._read_times([record.ts_utc for record in records])
        for record, record_tags, time in zip(records, tags, times, strict=True):
            record.refs, record.tags, record.ts_utc = (), record_tags, time
        self.extend_columns(
            path,
            ids=[record.memory_id for record in records],
            # No number and no object is in these, so every encoder writes the canonical form.
            hashes=[sha256(form).hexdigest() for form in map(_encode, records)],
            instants=instants,
            texts=[record.text for record in records],
            tags=tags,
        )

    def _read_times(
        self, texts: Sequence[str | None]
    ) -> tuple[Sequence[int], Sequence[str | None]]:
        """Instants and normal forms."""
        read = read_column(texts)
        if read is None:
            found = [self._times[text] for text in texts]
            read = [instant for instant, _ in found], [normal for _, normal in found]
        return read

    def extend_columns(
        self,
        path: str,
        *,
        ids: Sequence[str],
        hashes: Sequence[str],
        instants: Sequence[int],
        texts: Sequence[str],
        tags: Sequence[tuple[str, ...]],
    ) -> None:
        """Rows that are ready, column by column; ValueError when one column is shorter."""
        if not len(ids) == len(hashes) == len(instants) == len(texts) == len(tags):
            raise ValueError("the columns of a corpus are equally long")
        self.paths += [path] * len(ids)
        self.ids += ids
        self.hashes += hashes
        self.instants += instants
        self.texts += texts
        self.lowers += [text.lower() for text in texts]
        self.tags += tags

    def add(self, path: str, value: Json) -> None:
        """A record of any shape; InvalidInput when it is none."""
        id, text, given_time, given_tags, refs = _fields(value)
        instant, ts_utc = self._times[given_time]
        tags = self._tags[tuple(given_tags or ())]
        form: Json = {
            "memory_id": id, "refs": refs or [], "tags": list(tags), "text": text, "ts_utc": ts_utc
        }  # fmt: skip
        hash = sha256(canonical(form)).hexdigest()
        self.extend_columns(
            path, ids=[id], hashes=[hash], instants=[instant], texts=[text], tags=[tags]
        )

    @property
    def order(self) -> list[int]:
        """The rows as they rank when nothing else decides: newest first, then by path, id, hash."""
        if self._order is None:
            # One sort by each column, the least important first: a column that is in order
            # already, as ids of a log are, costs next to nothing.
            rows = list(range(len(self.ids)))
            if len(set(self.ids)) < len(rows):
                rows.sort(key=self.hashes.__getitem__)
            rows.sort(key=self.ids.__getitem__)
            rows.sort(key=self.paths.__getitem__)
            rows.sort(key=self.instants.__getitem__, reverse=True)
            self._order = rows
        return self._order

    def rank_key(self, row: int) -> tuple[int, str, str, str]:
        """How rows of equal score rank."""
        return -self.instants[row], self.paths[row], self.ids[row], self.hashes[row]

    def drops(self, rows: Iterable[int], reason: str) -> list[Drop]:
        ids, hashes, paths = self.ids, self.hashes, self.paths
        return [Drop(ids[row], reason, hashes[row], paths[row]) for row in rows]

    def encoded_without(self, left_out: Collection[int], reason: str) -> Iterator[memoryview]:
        """All rows but some in order, dropped for a reason, as `encoded` gives them."""
        kept = self._fragments
        if kept is None or kept.reason != reason:
            kept = self._fragments = _Fragments(self, reason)
        return kept.without(left_out)


def encoded(drops: Iterable[Drop]) -> Iterator[bytes]:
    """The dropped as canonical JSON in pieces, each item after a comma."""
    return (b"," + _encode(drop) for drop in drops)


class _Fragments:
    """The dropped as they are hashed. Nearly all of them stand in one order whatever is asked."""

    def __init__(self, corpus: Corpus, reason: str) -> None:
        self.reason = reason
        self._places = [0] * len(corpus)  # of rows in the order
        for place, row in enumerate(corpus.order):
            self._places[row] = place
        # In the order of reading first: rows that lie together in memory are soon encoded.
        drops = map(Drop, corpus.ids, repeat(reason), corpus.hashes, corpus.paths)
        by_row = list(map(_encode, drops))
        pieces = [by_row[row] for row in corpus.order]
        self._sizes = [0, *accumulate(map(len, pieces))]  # of all that stand before a place
        self._bytes = memoryview(b",".join([b"", *pieces]))

    def without(self, left_out: Collection[int]) -> Iterator[memoryview]:
        start = 0
        for place in sorted(self._places[row] for row in left_out):
            if place > start:
                yield self._between(start, place)
            start = place + 1
        if start < len(self._places):
            yield self._between(start, len(self._places))

    def _between(self, start: int, end: int) -> memoryview:
        """From one place up to another; every piece before them has a comma of its own."""
        return self._bytes[self._sizes[start] + start : self._sizes[end] + end]


def join(corpora: Sequence[Corpus]) -> Corpus:
    """Several as one."""
    if len(corpora) == 1:
        return corpora[0]
    whole = Corpus()
    for name in ("paths", "ids", "hashes", "instants", "texts", "lowers", "tags", "invalid"):
        setattr(whole, name, list(chain.from_iterable(getattr(each, name) for each in corpora)))
    return whole


def _fields(value: Json) -> tuple[Any, ...]:
    if type(value) is not dict:
        raise InvalidInput("a record is an object")
    id, text = value.get("memory_id"), value.get("text")
    time, tags, refs = value.get("ts_utc"), value.get("tags"), value.get("refs")
    if (
        type(id) is not str
        or not id.strip()
        or type(text) is not str
        or type(time) not in (str, type(None))
        or not _is_list_of(tags, str)
        or not _is_list_of(refs, dict)
    ):
        raise InvalidInput("a record has a memory_id and a text")
    return id, text, time, tags, refs


def _is_list_of(value: Json, kind: type) -> bool:
    if value is None:
        return True
    return type(value) is list and all(type(item) is kind for item in value)
