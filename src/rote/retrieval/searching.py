"""Searches: lexical-1 on one state of a space, with the records behind the memories. Nothing is written."""

from collections.abc import Mapping, Sequence
from typing import Any

from rote.errors import Busy
from rote.questions import LEXICAL, SPACE_SCHEME
from rote.records.envelope import record_of
from rote.records.keys import entity_id
from rote.records.listing import of_newest
from rote.retrieval.embedders import Embedding
from rote.retrieval.ranking.excerpts import Highlights
from rote.retrieval.ranking.spaces import scan_memories
from rote.retrieval.retrieving import Examined, examine
from rote.retrieval.spaces import Key, Named, entry_of
from rote.retrieval.vector_homes import SpaceHome, Tell, hashes_of, vectors_of
from rote.space import Space
from rote.values import Json, micros_of
from rote.values.limits import CONTENTION_ATTEMPTS_MAX

_VERSION = "version"


class StateSearching:
    """Implements space.searching.Searching."""

    def search(
        self, space: Space, request: Mapping[str, Any], included: Sequence[str]
    ) -> dict[str, Any]:
        now = micros_of(space.now)

        def search_in(view: Space) -> dict[str, Any]:
            found = examine(
                {**request, "store_paths": [SPACE_SCHEME]},
                root=".",
                open_space=lambda path: Named(view, view, path, now),
                dropped="counts",
                policies=(LEXICAL,),
            )
            return items_of(found, view, included)

        return of_newest(space, search_in)

    def embed(
        self, space: Space, embedder: Any, namespaces: Sequence[str] | None, tell: Tell
    ) -> dict[str, int]:
        embedding = Embedding(embedder)
        for _ in range(CONTENTION_ATTEMPTS_MAX):
            home = SpaceHome(space, embedding)
            corpus = scan_memories(Named(space, space if space.is_pinned else None, ""))
            hashes = hashes_of(corpus)
            texts = {
                hash: text
                for hash, text, details in zip(hashes, corpus.texts, corpus.details, strict=True)
                if namespaces is None or (details is not None and details.namespace in namespaces)
            }
            if home.store(vectors_of(embedding, home, texts, hashes, tell)):
                return {"texts": len(texts), "embedded": embedding.count}
        raise Busy("others erase or compact in this space all the time; try again")


def items_of(found: Examined, view: Space, included: Sequence[str]) -> dict[str, Any]:
    """Return the answer of a search from the retrieval that it is. `view` is the state that was asked."""
    answered, package = found.answered, found.package
    highlights = Highlights(answered.terms, package["policy"]["language"])
    selected = package["selection"]["selected"]
    places = [entry_of(memory["memory_id"]) for memory in selected]
    members = _members(view, [key for key, _ in places], included)
    items = [
        {
            "namespace": key[0],
            "record_kind": key[1],
            "record_id": key[2],
            "entry": entry,
            "score": memory["score"],
            "excerpt": memory["excerpt"],
            "highlights": highlights.of(memory["excerpt"]),
            "ts_utc": memory["ts_utc"],
            "tags": list(tags),
            **members[key],
        }
        for memory, (key, entry), tags in zip(selected, places, answered.tags, strict=True)
    ]
    return {"items": items, "version": view.version}


def _members(
    view: Space, keys: Sequence[Key], included: Sequence[str]
) -> dict[Key, dict[str, Json]]:
    """Return the included members of each record; each is null if the record was erased meanwhile."""
    if not included:
        return {key: {} for key in keys}
    distinct = list(dict.fromkeys(keys))
    states = view.read_many([entity_id(*key) for key in distinct])
    found: dict[Key, dict[str, Json]] = {}
    for key, state in zip(distinct, states, strict=True):
        record = record_of(state)
        known: dict[str, Any] = (
            {} if record is None else {**record, _VERSION: state.version or None}
        )
        found[key] = {name: known.get(name) for name in included}
    return found
