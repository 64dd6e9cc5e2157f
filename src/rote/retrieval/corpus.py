"""A corpus: memories as columns, ready to be scored and ordered."""

import threading
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import chain, islice
from operator import lt
from typing import Any

import msgspec

from rote.errors import InvalidInput
from rote.questions import Filters, NormalTags, NormalTimes, Request, read_column
from rote.retrieval.details import Details, details_of
from rote.retrieval.order import Drop, EncodedDrops, tied
from rote.retrieval.ranking.filtering import filtered_rows
from rote.retrieval.ranking.postings import Postings, postings_of
from rote.retrieval.ranking.scores import RowScores
from rote.retrieval.ranking.scoring import Telling, score_rows
from rote.retrieval.ranking.threads import Threads, threads_of
from rote.retrieval.vocabulary import Vocabulary, Words
from rote.values import Json, canonical
from rote.values.limits import RETRIEVAL_TERMS_PLAIN_MAX

_encode_into = msgspec.json.Encoder().encode_into


class Simple(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A record of the usual shape; members in canonical order, for the digest of its normal form."""

    memory_id: str
    refs: tuple[()] | None = ()  # empty; other refs are checked one by one
    tags: tuple[str, ...] | None = ()
    text: str
    ts_utc: str | None = None


# Each column has one entry for each row; texts that are no record are listed beside them.
COLUMNS = ("paths", "ids", "hashes", "instants", "texts", "tags", "details")


class Corpus:
    """The memories of some stores, as columns: row by row one entry in each."""

    # A vocabulary is made after so many terms were searched for without one.
    looked_for_min = RETRIEVAL_TERMS_PLAIN_MAX

    def __init__(self) -> None:
        self.paths: list[str] = []  # the paths by which the package names the stores
        self.ids: list[str] = []
        self.hashes: list[str] = []
        self.instants = array("q")
        self.texts: list[str] = []
        self.tags: list[tuple[str, ...]] = []
        self.details: list[Details | None] = []  # None for a memory without any
        self.invalid: list[tuple[str, str, str]] = []  # path, memory id, hash of what is no record
        self._times = NormalTimes()
        self._tags = NormalTags()
        self.gone: set[int] = set()  # rows of memories that no longer exist
        self._order: array[int] | None = None
        self.encoded_drops = EncodedDrops()
        self._vocabulary = Vocabulary()
        self._looked_for = 0  # terms, so far
        self._postings: dict[str, Postings] = {}  # by language
        # Returns the terms of all rows in a language, where they are kept.
        self.analyse: Callable[[Corpus, str], Postings] | None = None
        self._threads: Threads | None = None
        self._lock = threading.Lock()

    @property
    def row_count(self) -> int:
        """Return the number of rows, including those that are gone.

        Entries beyond that number in the columns belong to a later corpus.
        """
        return len(self.ids)

    def __len__(self) -> int:
        return self.row_count - len(self.gone)

    def rows(self) -> Iterable[int]:
        """Return all rows that exist, in the order of reading."""
        return range(self.row_count)

    def extend(
        self, path: str, records: Sequence[Simple], details: Sequence[Details | None] | None = None
    ) -> None:
        """Add records without refs, and bring them into normal form."""
        tags = [self._tags[record.tags] for record in records]
        instants, times = self._read_times([record.ts_utc for record in records])
        for record, record_tags, time in zip(records, tags, times, strict=True):
            record.refs, record.tags, record.ts_utc = (), record_tags, time
        self.extend_columns(
            path,
            ids=[record.memory_id for record in records],
            hashes=_hashes(records),
            instants=instants,
            texts=[record.text for record in records],
            tags=tags,
            details=details,
        )

    def _read_times(
        self, texts: Sequence[str | None]
    ) -> tuple[Sequence[int], Sequence[str | None]]:
        """Return the instants and the normal forms of times."""
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
        details: Sequence[Details | None] | None = None,
    ) -> None:
        """Add finished rows, column by column; raise ValueError when one column is shorter."""
        details = [None] * len(ids) if details is None else details
        if len({*map(len, (ids, hashes, instants, texts, tags, details))}) > 1:
            raise ValueError("the columns of a corpus are equally long")
        self.paths += [path] * len(ids)
        self.ids += ids
        self.hashes += hashes
        self.instants.extend(instants)
        self.texts += texts
        self.tags += tags
        self.details += details

    def add(self, path: str, value: Json) -> None:
        """Add a record of any shape; raise InvalidInput when it is none."""
        id, text, given_time, given_tags, refs = _fields(value)
        instant, ts_utc = self._times[given_time]
        tags = self._tags[tuple(given_tags or ())]
        form: Json = {
            "memory_id": id,
            "refs": refs or [],
            "tags": list(tags),
            "text": text,
            "ts_utc": ts_utc,
        }
        hash = sha256(canonical(form)).hexdigest()
        self.extend_columns(
            path,
            ids=[id],
            hashes=[hash],
            instants=[instant],
            texts=[text],
            tags=[tags],
            details=[details_of(value)],
        )

    @property
    def order(self) -> "array[int]":
        """Return the rows as they rank when nothing else decides: newest first, then by path, id, hash."""
        if self._order is None:
            rows = sorted(self.rows(), key=self.instants.__getitem__, reverse=True)
            # Nearly all times differ, and a log has them in order, so this costs next to nothing.
            places = tied([self.instants[row] for row in rows])
            for place, row in zip(
                places, self._tie_broken([rows[at] for at in places]), strict=True
            ):
                rows[place] = row
            self._order = array("I", rows)
        return self._order

    def _tie_broken(self, rows: list[int]) -> list[int]:
        """Return rows in order: sorted by one column after the other, the least important first."""
        ids = list(map(self.ids.__getitem__, rows))
        # Rising ids, such as those of a log, need no sort and are no duplicates.
        if not all(map(lt, ids, islice(ids, 1, None))):
            if len(set(ids)) < len(ids):
                rows.sort(key=self.hashes.__getitem__)
            rows.sort(key=self.ids.__getitem__)
        rows.sort(key=self.paths.__getitem__)
        rows.sort(key=self.instants.__getitem__, reverse=True)
        return rows

    def words(self, terms: int) -> Iterator[Words]:
        """Yield the words of all rows, some rows after the other, to search for so many terms.

        Words are listed once that costs less than it saves.
        """
        with self._lock:
            if self._looked_for >= self.looked_for_min:
                self._vocabulary = self._vocabulary.grown(self.texts, self.tags, self.row_count)
            self._looked_for += terms
            vocabulary = self._vocabulary
        return vocabulary.words(self.texts, self.tags, self.row_count)

    def load(self, rows: Collection[int]) -> None:
        """Do nothing: all texts are here."""

    def filtered(self, filters: Filters, denied: Collection[int]) -> list[int]:
        """Return the rows that filters leave out, other than denied ones."""
        return filtered_rows(filters, self, (row for row in self.rows() if row not in denied))

    def scores(self, request: Request, telling: Telling, excluded: Collection[int]) -> RowScores:
        """Return the scores by lexical-1 of all rows that are not excluded, without recency."""
        return RowScores(
            score_rows(
                telling,
                self.frequencies(request.scoring.language),
                self.threads if request.scoring.context else {},
                excluded=frozenset(excluded),
            )
        )

    def frequencies(self, language: str) -> Postings:
        """Return the terms of all rows, for the policies of ranking."""
        with self._lock:
            found = self._postings.get(language)
            if found is None:
                analyse = postings_of if self.analyse is None else self.analyse
                found = analyse(self, language)
                self._postings[language] = found
            return found

    @property
    def threads(self) -> Threads:
        """Return the threads of all rows."""
        if self._threads is None:
            self._threads = threads_of(self)
        return self._threads

    def rank_key(self, row: int) -> tuple[int, str, str, str]:
        """Return the key by which rows of equal score rank."""
        return -self.instants[row], self.paths[row], self.ids[row], self.hashes[row]

    def drops(self, rows: Sequence[int], reason: str) -> list[Drop]:
        """Return these rows as dropped, with a reason."""
        ids, hashes, paths = self.ids, self.hashes, self.paths
        return [Drop(ids[row], reason, hashes[row], paths[row]) for row in rows]


def join(corpora: Sequence[Corpus]) -> Corpus:
    """Return several corpora as one."""
    if len(corpora) == 1:
        return corpora[0]
    whole = Corpus()
    for corpus in corpora:
        rows = list(corpus.rows())
        for name in COLUMNS:
            column = getattr(corpus, name)
            getattr(whole, name).extend(map(column.__getitem__, rows))
    whole.invalid = list(chain.from_iterable(corpus.invalid for corpus in corpora))
    return whole


def _hashes(records: Iterable[Simple]) -> list[str]:
    """Return the digests of records; each normal form is written over the one before it."""
    hashes, form = [], bytearray()
    for record in records:
        # The record holds no number and no object, so every encoder writes the canonical form.
        _encode_into(record, form)
        hashes.append(sha256(form).hexdigest())
    return hashes


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
