"""Asking the index: its segments and postings come from the store, and what is kept stays."""

from collections.abc import Sequence

from msgspec import Struct

from rote.contract.index import Found, Note
from rote.errors import Busy
from rote.questions import ENGLISH
from rote.records.keys import PREFIX
from rote.retrieval.segments.kept import (
    SEGMENTS,
    Kept,
    Pending,
    SegmentCache,
    names_of,
    put_first,
    state_of,
)
from rote.retrieval.segments.living import Living, in_order
from rote.retrieval.segments.scoring import Postings
from rote.retrieval.segments.segment import Segment
from rote.retrieval.segments.words import WORDS, WORDS_NONE, WordsIndex
from rote.space import Space
from rote.values.limits import PENDING_SEGMENTS_MAX, RETRIEVAL_TERMS_MAX


class Answer(Struct, frozen=True):
    """The memories of a state, and for each part those that have the terms of a question."""

    living: Living
    postings: Postings


def ask(
    view: Space, language: str, terms: Sequence[str], now: int, cache: SegmentCache = SEGMENTS
) -> Answer | None:
    """Return what the index has for a question at a time; None where it cannot be used."""
    if len(terms) > RETRIEVAL_TERMS_MAX:
        return None
    index = WORDS if language == ENGLISH else WORDS_NONE
    place = (view.did, index.name)
    count = view.open_store.count(view.did)
    kept = cache.get(view.open_store, place)
    segments = dict(kept.segments)
    found = _ask(view, index, terms, segments)
    if found is None:
        return None
    segments = {each.number: segments[each.number] for each in found.segments}
    line = dict(found.line)
    is_right = view.open_store.count(view.did) == count  # nothing was erased meanwhile
    pending = _pending(index, kept.pending if is_right else Pending(), found.pending)
    stored = tuple(in_order(segments.values()))
    alone = state_of(kept.alone, stored, line)
    whole = state_of((*kept.whole, alone), (*stored, *pending.segments), line)
    states = put_first(kept.alone, alone), put_first(kept.whole, whole)
    cache.put(view.open_store, place, Kept(segments, pending, *states), before=kept)
    living = whole.living.at(now)
    return Answer(living, _postings(living, found, terms))


def _ask(
    view: Space, index: WordsIndex, terms: Sequence[str], segments: dict[int, Segment]
) -> Found | None:
    """Return the answer of the store; add the segments that were not there yet."""
    while True:
        found = view.postings(index.name, terms, known=tuple(segments), within=PREFIX)
        if found is None:
            return None
        count = len(segments)
        for each in found.segments:
            if each.body is not None:
                segments[each.number] = Segment(each.body, each.number)
        if all(each.number in segments for each in found.segments):
            return found
        if len(segments) == count:
            raise Busy("the index is written anew all the time; try again")


def _pending(index: WordsIndex, kept: Pending, changes: tuple[Note, ...]) -> Pending:
    """Return the segments of changes; those of the first ones are known."""
    if not kept.begins(changes) or len(kept.segments) > PENDING_SEGMENTS_MAX:
        kept = Pending()
    later = changes[len(kept.changes) :]
    if not later:
        return kept
    new = [Segment(each.body, postings=each.postings) for each in index.pack(later)]
    return Pending((*kept.changes, *names_of(later)), (*kept.segments, *new))


def _postings(living: Living, found: Found, terms: Sequence[str]) -> Postings:
    blobs: dict[int, dict[str, bytes]] = {}
    for number, term, blob in found.postings:
        blobs.setdefault(number, {})[term] = blob
    postings = []
    for part in living.parts:
        held = blobs.get(part.segment.stored_number, {})
        pairs = ((term, part.segment.posting(term, held)) for term in terms)
        postings.append({term: posting for term, posting in pairs if posting is not None})
    return postings
