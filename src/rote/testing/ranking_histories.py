"""Random histories of a space with questions by the policies of ranking.

Each answer is compared with that of the plain reference.
"""

from collections import Counter
from typing import Any

from rote.questions import HYBRID, LEXICAL
from rote.retrieval import retrieve
from rote.space import Space
from rote.testing.naive_ranking import naive_rank
from rote.testing.ranking_draws import RankedMemories, ToyEmbedder
from rote.testing.retrieval_histories import RetrievalHistory, plain_records
from rote.values import canonical

_BESIDE = "beside.jsonl"


class RankingHistory(RetrievalHistory):
    """The same histories, with entries and threads in the records."""

    draws = RankedMemories
    policy = LEXICAL
    embedder: ToyEmbedder | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.met: Counter[str] = Counter()

    def _content(self) -> tuple[dict[str, Any], int | None, dict[str, Any] | None]:
        """Return payload, seconds to live, and metadata."""
        _, ttl, metadata = super()._content()
        payload = self._random.choice((self._text, self._text, self._entries, self._odd))()
        if self._draws.chance(0.5):
            metadata = {**(metadata or {}), "thread": self._random.choice("ab")}
        return payload, ttl, metadata

    def _text(self) -> dict[str, Any]:
        return {"text": self._draws.text()}

    def _odd(self) -> dict[str, Any]:
        return {"plan": self._draws.text(), "entries": self._random.choice((None, {}, "x"))}

    def _entries(self) -> dict[str, Any]:
        return {
            "text": "travel",
            "entries": [self._entry() for _ in range(self._random.randrange(5))],
        }

    def _entry(self) -> Any:
        if self._draws.chance(0.1):
            return self._random.choice((5, "plan", None, [], {}))
        entry: dict[str, Any] = {}
        for name in ("text", "content", "speaker", "name", "role", "ts_utc", "valid_at"):
            if self._draws.chance(0.5):
                is_time = name in ("ts_utc", "valid_at")
                values = (
                    ("2023-05-08", "2023-05-08t10:00:00z", 5)
                    if is_time
                    else (self._draws.text(), 5)
                )
                entry[name] = self._random.choice(values)
        return entry

    def _compare(self, view: Space, path: str, *, is_newest: bool) -> None:
        pinned = view.at(view.version)
        name = f"rote:{view.did}@{view.branch}:{pinned.last_change}"
        lines = b"\n".join(canonical(line) for line in plain_memories(view))
        (self._folder / _BESIDE).write_bytes(lines)
        beside = [_BESIDE] if self._draws.chance(0.2) else []
        names = [path]
        # Another name of the same state adds nothing, unless something has expired in between.
        last = self._space.on(view.branch).at(pinned.last_change)
        if self._draws.chance(0.5) and plain_memories(last) == plain_memories(view):
            names += self._random.choice(
                ([name], [name, f"rote:notes@{view.branch}:{last.version}"])
            )
            self.met["two names"] += 1
        request = {**self._draws.request([*names, *beside]), "policy": self.policy}
        self._deny_some(request)
        spaces = dict.fromkeys(names, (name, lines))
        expected = naive_rank(request, self._folder, spaces=spaces, embedder=self.embedder)
        found = retrieve(
            request, root=self._folder, store=self._store, dropped="full", embedder=self.embedder
        )
        assert dict(found) == expected, (path, request)
        self.met.update(expected["selection"]["dropped_counts"].keys())
        ids = [item["memory_id"] for item in expected["selection"]["selected"]]
        self.met["entry"] += any("#" in id for id in ids)
        self.met["branch"] += view.branch != "main" and bool(ids)
        self.met["old version"] += not is_newest and bool(ids)
        self.met["asked"] += 1


class HybridHistory(RankingHistory):
    """The same questions by hybrid-1, with one embedder for all."""

    policy = HYBRID

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.embedder = ToyEmbedder(self._random)


def plain_memories(view: Space) -> list[dict[str, Any]]:
    """Return the memories of a state as the contract writes them for a JSONL store."""
    return [memory for record in plain_records(view) for memory in _memories(record)]


def _memories(record: dict[str, Any]) -> list[dict[str, Any]]:
    key = (record["namespace"], record["record_kind"], record["record_id"])
    escaped = [part.replace("%", "%25").replace("/", "%2F").replace("#", "%23") for part in key]
    id, payload, metadata = "/".join(escaped), record["payload"], record["metadata"] or {}
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
