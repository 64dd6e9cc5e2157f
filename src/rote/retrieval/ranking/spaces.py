"""The living records of a state as memories, for the policies of ranking.

The index leads to those that may be in the answer. Where it cannot be used, or a question concerns
all memories, a plain scan reads them. Both give the same answer.
"""

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


def read_memories(named: Named, reading: Reading) -> NamedCorpus[Memories]:
    """Return the memories of the state that a path names, under the one name of that state."""
    if named.view is not None:
        now = micros_of(named.view.now) if named.now is None else named.now
        return _read(named.view, reading, now)
    now = micros_of(named.space.now)
    return of_newest(named.space, lambda view: _read(view, reading, now))


def _read(view: Space, reading: Reading, now: int) -> NamedCorpus[Memories]:
    name = f"{SPACE_SCHEME}{view.did}@{view.branch}:{view.last_change}"
    if not reading.is_plain:
        answer = ask(view, reading.request.scoring.language, terms_of(reading.request), now)
        if answer is not None:
            return NamedCorpus(name, FoundMemories(view, name, answer))
    return NamedCorpus(name, _scan(view, name, now))


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
