"""Questions by lexical-1 to one state of a space, as data, and their plain answers.

A question can be asked again by another process, which must give the same bytes.
"""

from pathlib import Path
from typing import Any

from msgspec import Struct

from rote.records.memory import Memory
from rote.retrieval import retrieve
from rote.retrieval.embedders import Embedder
from rote.space import Space, Store
from rote.testing.naive_excerpts import naive_highlights
from rote.testing.naive_ranking import naive_rank
from rote.testing.naive_retrieval import naive_moment, naive_time
from rote.testing.naive_words import naive_analyse, naive_memory_terms
from rote.testing.retrieval_histories import plain_records
from rote.values import canonical

NAME = "notes"  # of the space that is asked


class Question(Struct, frozen=True):
    """A question to a state, by retrieve or by memory.search."""

    branch: str
    version: int | None  # None: as the branch is
    request: dict[str, Any]  # of retrieval, without store paths
    is_search: bool
    others: tuple[str, ...] = ()  # more store paths
    dropped: str = "counts"

    @property
    def path(self) -> str:
        """The store path of the state."""
        return f"rote:{NAME}@{self.branch}" + ("" if self.version is None else f":{self.version}")


class PlainState(Struct, frozen=True):
    """A state as a plain scan reads it."""

    view: Space
    name: str  # the one name by which packages tell it
    memories: list[dict[str, Any]]  # as lines of a JSONL store
    expired: list[dict[str, Any]]

    @property
    def lines(self) -> bytes:
        return b"\n".join(map(canonical, self.memories))


def state_of(view: Space) -> PlainState:
    pinned = view if view.is_pinned else view.at(view.version)
    return PlainState(
        view,
        f"rote:{view.did}@{view.branch}:{pinned.last_change}",
        plain_memories(view),
        [each for record in plain_records(view, living=False) for each in _memories(record)],
    )


def answer_of(
    store: Store, question: Question, root: Path, *, embedder: Embedder | None = None
) -> dict[str, Any]:
    """Return what the store answers."""
    if question.is_search:
        return search_of(Memory(store.space(NAME).on(question.branch)), question)
    request = {**question.request, "store_paths": [question.path, *question.others]}
    dropped = question.dropped
    return dict(retrieve(request, root=root, store=store, dropped=dropped, embedder=embedder))


def search_of(memory: Memory, question: Question) -> dict[str, Any]:
    asked = question.request
    limit, scoring = asked["budget"]["max_items"], asked.get("scoring") or {}
    filters = asked.get("filters")
    return memory.search(
        asked["query"], limit=limit, filters=filters, at=question.version, **scoring
    )


def naive_answer(
    state: PlainState, question: Question, root: Path, *, embedder: Embedder | None = None
) -> dict[str, Any]:
    """Return what the contract says; with a package always the list of the dropped."""
    spaces = {
        path: (state.name, state.lines)
        for path in (question.path, *question.others)
        if path.startswith("rote:")
    }
    request = {**question.request, "store_paths": [question.path, *question.others]}
    if question.is_search:
        limit = request["budget"]["max_items"]
        request["now_utc"] = state.view.now.isoformat()
        request["budget"] = {
            "max_excerpt_tokens": 256 * limit,
            "per_item_max_excerpt_tokens": 256,
            "max_items": limit,
        }
    package = naive_rank(request, root, spaces=spaces, embedder=embedder)
    return _naive_items(state, package) if question.is_search else package


def without_dropped(package: dict[str, Any]) -> dict[str, Any]:
    """Return a package as `dropped="counts"` gives it."""
    selection = {key: each for key, each in package["selection"].items() if key != "dropped"}
    return {**package, "selection": selection}


def item_id(item: dict[str, Any]) -> str:
    """Return the id of the memory behind an item of a search."""
    id = plain_id(*(item[name] for name in ("namespace", "record_kind", "record_id")))
    return id if item["entry"] is None else f"{id}#{item['entry']}"


def terms_of(memory: dict[str, Any], language: str = "english") -> set[str]:
    """Return the distinct terms of a line of a JSONL store."""
    time = memory["ts_utc"]
    at = None if time is None else naive_moment(time)
    tags = sorted({tag.lower() for tag in memory["tags"]})
    return {*naive_memory_terms({**memory, "at": at, "tags": tags}, language)}


def _naive_items(state: PlainState, package: dict[str, Any]) -> dict[str, Any]:
    language = package["policy"]["language"]
    known = set().union(*(terms_of(each, language) for each in state.memories))
    terms = known.intersection(package["query"]["terms"])
    by_id = {each["memory_id"]: each for each in state.memories}
    items = []
    for found in package["selection"]["selected"]:
        memory = by_id[found["memory_id"]]
        id, _, entry = found["memory_id"].partition("#")
        marks = naive_highlights(
            found["excerpt"], terms, lambda piece: naive_analyse(piece, language)
        )
        items.append(
            {
                "namespace": memory["namespace"],
                "record_kind": memory["kind"],
                "record_id": _unescaped(id.rpartition("/")[2]),
                "entry": int(entry) if entry else None,
                "score": found["score"],
                "excerpt": found["excerpt"],
                "highlights": marks,
                "ts_utc": None if memory["ts_utc"] is None else naive_time(memory["ts_utc"]),
                "tags": sorted({tag.lower() for tag in memory["tags"]}),
            }
        )
    return {"items": items, "version": state.view.version}


# -- memories --------------------------------------------------------------------------------------


def plain_memories(view: Space) -> list[dict[str, Any]]:
    """Return the memories of a state as the contract writes them for a JSONL store."""
    return [memory for record in plain_records(view) for memory in _memories(record)]


def _memories(record: dict[str, Any]) -> list[dict[str, Any]]:
    key = (record["namespace"], record["record_kind"], record["record_id"])
    id, payload, metadata = plain_id(*key), record["payload"], record["metadata"] or {}
    common = {"namespace": key[0], "kind": key[1], "tags": metadata.get("tags") or []}
    entries = payload.get("entries")
    if isinstance(entries, list):
        return [
            {
                **common,
                "memory_id": f"{id}#{number}",
                "metadata": {**metadata, "thread": id, "turn": number},
                "ts_utc": _first(entry, "ts_utc", "valid_at"),
                "text": _entry_text(entry),
            }
            for number, entry in enumerate(entries, 1)
            if isinstance(entry, dict)
        ]
    text = payload["text"] if "text" in payload else canonical(payload).decode()
    time = metadata.get("valid_at") or record["updated_at"]
    return [{**common, "memory_id": id, "metadata": metadata, "ts_utc": time, "text": text}]


_ESCAPES = (("%", "%25"), ("/", "%2F"), ("#", "%23"))


def plain_id(*key: str) -> str:
    """Return the id of the memory of a record."""
    parts = list(key)
    for character, escape in _ESCAPES:
        parts = [part.replace(character, escape) for part in parts]
    return "/".join(parts)


def _unescaped(part: str) -> str:
    for character, escape in reversed(_ESCAPES):
        part = part.replace(escape, character)
    return part


def _entry_text(entry: dict[str, Any]) -> str:
    text = _first(entry, "text", "content")
    if text is None:
        return canonical(entry).decode()
    names = [entry.get(name) for name in ("speaker", "name", "role")]
    who = [name for name in names if isinstance(name, str) and name]
    return f"{who[0]}: {text}" if who else text


def _first(entry: dict[str, Any], *names: str) -> str | None:
    """Return the first of some members that is a string."""
    found = [entry[name] for name in names if isinstance(entry.get(name), str)]
    return found[0] if found else None
