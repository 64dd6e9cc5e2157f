"""A packed index for tests: words of a text, split at blanks. Its segments are JSON, easy to look into."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from rote.contract import Found, Port, View
from rote.contract.commands import Postings
from rote.contract.index import Change, Note, Packed
from rote.patch import replay
from rote.space import Space
from rote.values import canonical, decode_canonical

Row = list[
    Any
]  # version, branch, id and the words; None in their place when there is no text any more

# A segment with so many rows keeps words outside of its body; one with more is cut.
LARGE_ROWS, ROWS_MAX = 8, 50
# Bounds of kernel/reading/segments.py that tests can reach: changes that wait, rows of a small segment, rows
# and segments to merge.
WAITING, SMALL, MERGED, MANY = 4, 12, 24, 6
BOUNDS = {
    "PACKED_PENDING_MAX": WAITING,
    "SEGMENT_SMALL_ROWS": SMALL,
    "SEGMENT_MERGE_ROWS": MERGED,
    "SEGMENT_SMALL_MAX": MANY,
}


class PackedWords:
    """Implements contract.PackedIndex for entities with a `text`. Counts what it is given."""

    prefix = "urn:"

    def __init__(self, name: str = "packed-words/1", *, is_eager: bool = True) -> None:
        self.name = name
        self.is_eager = is_eager
        self.noted = 0  # changes
        self.packed: list[int] = []  # notes of each call of pack
        self.merged: list[int] = []  # rows of each call of merge
        self.held: list[bool] = []  # answers of `holds`
        self.in_pack: Callable[[], object] = lambda: None  # is called in each pack
        self.in_merge: Callable[[], None] = lambda: None  # is called in each merge

    def notes(self, change: Change, /) -> Iterator[bytes]:
        self.noted += 1
        if change.operations is not None:
            assert canonical(replay(change.before, [list(change.operations)])) == canonical(
                change.after
            )
        words = words_of(change.after)
        if words_of(change.before) != words:
            yield canonical(words)

    def pack(self, notes: Sequence[Note], /) -> list[Packed]:
        self.packed.append(len(notes))
        self.in_pack()
        assert [note.version for note in notes] == sorted(note.version for note in notes)
        rows = [
            [note.version, note.branch, note.id, decode_canonical(words)]
            for note in notes
            for words in note.rows
        ]
        return [_packed(rows[start : start + ROWS_MAX]) for start in range(0, len(rows), ROWS_MAX)]

    def merge(self, segments: Sequence[Packed], /) -> Packed:
        self.merged.append(sum(segment.size for segment in segments))
        self.in_merge()
        return _packed([row for segment in segments for row in _rows(segment)])

    def holds(self, body: bytes, ids: Collection[str], /) -> bool:
        rows: Any = decode_canonical(body)
        self.held.append(any(id in ids for _, _, id, _ in rows))
        return self.held[-1]

    def without(self, segment: Packed, ids: Collection[str], /) -> Packed:
        return _packed([row for row in _rows(segment) if row[2] not in ids])

    def rows(self, segment: Packed, /) -> Iterator[bytes]:
        return map(canonical, _rows(segment))


def words_of(value: Any) -> list[str] | None:
    """Return the words of a value, each once, in order; None when it has no text."""
    text = value.get("text") if isinstance(value, dict) else None
    return sorted(set(text.split())) if isinstance(text, str) else None


def _packed(rows: list[Row]) -> Packed:
    if len(rows) < LARGE_ROWS:
        return Packed(len(rows), canonical(rows), {})
    places: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        for word in row[3] or ():
            places.setdefault(word, []).append(place)
    body = [[*row[:3], None if row[3] is None else []] for row in rows]
    return Packed(
        len(rows), canonical(body), {word: canonical(found) for word, found in places.items()}
    )


def _rows(segment: Packed) -> list[Row]:
    rows: Any = decode_canonical(segment.body)
    for word, places in sorted(segment.postings.items()):
        found: Any = decode_canonical(places)
        for place in found:
            rows[place][3].append(word)
    return list(rows)


class WordFinder:
    """Asks the index of a store, and keeps the bodies of segments, as a reader of it would."""

    def __init__(self, port: Port, did: str, name: str = "packed-words/1") -> None:
        self._port = port
        self._did = did
        self._name = name
        self.bodies: dict[int, bytes] = {}
        self.found: Found | None = None  # the last answer

    def find(self, *terms: str, view: View = View()) -> dict[str, list[str]] | None:  # noqa: B008
        """Return the entities that each of the terms finds; None where the index cannot be used."""
        while True:
            command = Postings(self._name, terms, tuple(self.bodies), view, PackedWords.prefix)
            self.found = found = self._port.answer(self._did, command)
            if found is None:
                return None
            for segment in found.segments:
                if segment.body is not None:
                    assert segment.number not in self.bodies
                    self.bodies[segment.number] = segment.body
            if all(segment.number in self.bodies for segment in found.segments):
                return self._told(found, terms)

    def _told(self, found: Found, terms: Sequence[str]) -> dict[str, list[str]]:
        postings: dict[int, dict[str, bytes]] = {}
        for number, term, places in found.postings:
            assert term in terms
            postings.setdefault(number, {})[term] = places
        packed = [
            Packed(0, self.bodies[segment.number], postings.get(segment.number, {}))
            for segment in found.segments
        ]
        packed += PackedWords().pack(found.pending)
        newest: dict[str, Row] = {}
        caps = dict(found.line)
        assert all(change.version <= found.version for change in found.pending)
        for row in (row for segment in packed for row in _rows(segment)):
            version, branch, id, _ = row
            if version <= caps.get(branch, 0) and version >= newest.get(id, [0])[0]:
                assert id not in newest or version > newest[id][0], "a row is there twice"
                newest[id] = row
        return {
            term: sorted(id for id, row in newest.items() if term in (row[3] or ()))
            for term in terms
        }


def scanned(space: Space, *terms: str) -> dict[str, list[str]]:
    """Return the same by reading all entities."""
    words = {state.id: words_of(state.value) or () for state in space.scan(PackedWords.prefix)}
    return {term: sorted(id for id, found in words.items() if term in found) for term in terms}
