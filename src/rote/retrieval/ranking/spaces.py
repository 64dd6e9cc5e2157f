"""The living records of a state as memories, for the policies of ranking: read by a plain scan."""

from rote.questions import SPACE_SCHEME
from rote.records.envelope import life_of, record_of
from rote.records.keys import PREFIX
from rote.records.listing import of_newest
from rote.retrieval.asked import NamedCorpus
from rote.retrieval.corpus import Corpus
from rote.retrieval.spaces import Named, memories_of
from rote.space import Space
from rote.values import micros_of


def read_memories(named: Named) -> NamedCorpus:
    """Return the memories of the state that a path names, under the one name of that state."""
    if named.view is not None:
        return _read(named.view, micros_of(named.view.now) if named.now is None else named.now)
    now = micros_of(named.space.now)
    return of_newest(named.space, lambda view: _read(view, now))


def _read(view: Space, now: int) -> NamedCorpus:
    name = f"{SPACE_SCHEME}{view.did}@{view.branch}:{view.last_change}"
    corpus = Corpus()
    for state in view.scan(PREFIX):
        record = record_of(state)
        life = None if record is None else life_of(record)
        if record is not None and life is not None and not life.has_expired(now):
            memories = memories_of(record)
            corpus.extend(
                name, [memory for memory, _ in memories], [details for _, details in memories]
            )
    return NamedCorpus(name, corpus)
