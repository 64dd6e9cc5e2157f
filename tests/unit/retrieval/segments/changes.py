"""Random changes of records, for the tests of segments."""

from collections.abc import Iterable
from random import Random
from typing import Any

from msgspec import UNSET

from rote.contract.index import Change, Note, Packed, PackedIndex
from rote.records.keys import entity_id
from rote.values import Json, format_time

WORDS = ("plan", "plans", "tea", "the", "went", "2023", "1,000", "don't", "école", "日本語", "京")
KINDS, IDS = ("turn", "k!"), ("1", "2", "a/b", "c%#", "é")
METADATA: tuple[dict[str, Any] | None, ...] = (
    None,
    {},
    {"tags": ["Tea", "plan"]},
    {"thread": "a", "turn": 2},
    {"thread": "a", "turn": 2.0, "user": 1},
    {"thread": "ops/turn/1", "turn": 1e300, "user": True},
    {"thread": "", "turn": 2**60, "source": "mail"},
    {"thread": 5, "turn": "5", "valid_at": "2023-05-08T10:00:00Z", "list": [1]},
)


def text(random: Random) -> str:
    return " ".join(random.choices(WORDS, k=random.choice((0, 1, 5, 30))))


def entry(random: Random) -> Json:
    if random.random() < 0.1:
        return random.choice((5, "plan", None, [], {}))
    found: dict[str, Json] = {}
    for name in ("text", "content", "speaker", "ts_utc", "n"):
        if random.random() < 0.5:
            values = ("2023-05-08",) if name == "ts_utc" else (text(random), 1, True)
            found[name] = random.choice(values)
    return found


def payload(random: Random, before: Any) -> dict[str, Json]:
    if random.random() < 0.5:
        return {"text": text(random)}
    held = before.get("payload") if isinstance(before, dict) else None
    last = None if held is None else held.get("entries")
    entries = list(last) if isinstance(last, list) and random.random() < 0.7 else []
    if entries and random.random() < 0.3:
        entries[random.randrange(len(entries))] = entry(random)
    if entries and random.random() < 0.2:
        entries.pop()
    return {"entries": [*entries, *(entry(random) for _ in range(random.randrange(4)))]}


def record(random: Random, key: tuple[str, str, str], at: int, before: Any) -> dict[str, Json]:
    time = format_time(at)
    names = dict(zip(("namespace", "record_kind", "record_id"), key, strict=True))
    return {
        **names,
        "created_at": time,
        "updated_at": time,
        "ttl_seconds": random.choice((None, None, 1, 5)),
        "payload": payload(random, before),
        "metadata": random.choice(METADATA),
    }


class History:
    """Random changes on main, on a branch of it, and on a branch of that."""

    def __init__(self, random: Random, count: int) -> None:
        self.changes: list[Change] = []
        self.forks = sorted(random.choices(range(count + 1), k=2))
        self._states: dict[int, dict[str, Json]] = {1: {}}
        for version in range(1, count + 1):
            for branch, fork in enumerate(self.forks, 2):
                if fork == version - 1 and branch not in self._states:
                    self._states[branch] = dict(self._states[branch - 1])
            self._change(random, version)

    def _change(self, random: Random, version: int) -> None:
        branch = random.choice(sorted(self._states))
        state = self._states[branch]
        key = ("ops", random.choice(KINDS), random.choice(IDS))
        id = entity_id(*key)
        before: Any = state.get(id, UNSET)
        after: Any = record(random, key, version * 1_000_000, before)
        roll = random.random()
        if roll < 0.15:
            after = UNSET
        elif roll < 0.2:
            after = {"text": "no record"}
        elif roll < 0.25:
            after = before
        self.changes.append(Change(version, branch, id, before, after))
        if after is UNSET:
            state.pop(id, None)
        else:
            state[id] = after

    def line(self, branch: int, version: int) -> dict[int, int]:
        """Return the caps of a branch's line at a version."""
        line, cap = {branch: version}, version
        for other in range(branch - 1, 0, -1):
            cap = min(cap, self.forks[other - 1])
            line[other] = cap
        return line

    def state(self, line: dict[int, int]) -> dict[str, Any]:
        """Return the values on a line."""
        found: dict[str, Any] = {}
        for change in self.changes:
            if line.get(change.branch, -1) >= change.version:
                found[change.id] = change.after
        return {id: value for id, value in found.items() if value is not UNSET}


def changes(random: Random, count: int) -> list[Change]:
    return History(random, count).changes


def pack(index: PackedIndex, changes: Iterable[Change]) -> list[Packed]:
    """Return the segments of changes."""
    return index.pack([note(index, change) for change in changes])


def note(index: PackedIndex, change: Change) -> Note:
    return Note(change.version, change.branch, change.id, tuple(index.notes(change)))
