"""The living records of a state as memories, for the policies of ranking.

The index leads to those that may be in the answer. Where it cannot be used, or a question concerns
all memories, a plain scan reads them. Both give the same answer.
"""

from collections.abc import Callable
from typing import TypeVar

from rote.questions import SPACE_SCHEME
from rote.records.envelope import life_of, record_of
from rote.records.keys import PREFIX
from rote.records.listing import of_newest
from rote.retrieval.asked import NamedCorpus, Reading
from rote.retrieval.corpus import Corpus
from rote.retrieval.ranking.memories import Memories
from rote.retrieval.ranking.scoring import terms_of
from rote.retrieval.segments.asking import ask
from rote.retrieval.segments.memories import FoundMemories
from rote.retrieval.spaces import Named, memories_of
from rote.space import Space
from rote.values import micros_of

_Read = TypeVar("_Read")


def read_memories(named: Named, reading: Reading) -> NamedCorpus[Memories]:
    """Return the memories of the state that a path names, under the one name of that state."""

    def read(view: Space, now: int) -> NamedCorpus[Memories]:
        name = _name(view)
        if not reading.is_plain:
            answer = ask(view, reading.request.scoring.language, terms_of(reading.request), now)
            if answer is not None:
                return NamedCorpus(name, FoundMemories(view, name, answer))
        return NamedCorpus(name, _scan(view, name, now))

    return _of_state(named, read)


def scan_memories(named: Named) -> Corpus:
    """Return the memories of the state that a path names, all of them with their texts."""
    return _of_state(named, lambda view, now: _scan(view, _name(view), now))


def _of_state(named: Named, read: Callable[[Space, int], _Read]) -> _Read:
    """Return what is read of the state that a path names, at the time that counts for it."""
    if named.view is not None:
        return read(named.view, micros_of(named.view.now) if named.now is None else named.now)
    now = micros_of(named.space.now)
    return of_newest(named.space, lambda view: read(view, now))


def _name(view: Space) -> str:
    return f"{SPACE_SCHEME}{view.did}@{view.branch}:{view.last_change}"


def _scan(view: Space, name: str, now: int) -> Corpus:
    corpus = Corpus()
    for state in view.scan(PREFIX):
        record = record_of(state)
        life = None if record is None else life_of(record)
        if record is not None and life is not None and not life.has_expired(now):
            memories = memories_of(record)
            corpus.extend(
                name, [memory for memory, _ in memories], [details for _, details in memories]
            )
    return corpus
