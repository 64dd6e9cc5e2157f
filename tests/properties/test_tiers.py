"""Tiers beside plain models: grants that only narrow, frames and caches that do what they say."""

import copy
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import rote
from rote.errors import InvalidInput, LimitExceeded
from rote.testing.clocks import FixedClock
from tests.lanes import examples

# -- grants ----------------------------------------------------------------------------------------

NAMES = ["a", "b", "C", "é", "É"]
LISTS = {
    ("sqlite", "allow_tables"), ("fs", "allow_extensions"), ("memory", "namespaces"),
    ("queue", "queues"), ("agent", "targets"),
}  # fmt: skip
NUMBERS = {
    ("limits", "max_adapter_calls"), ("limits", "max_frame_bytes"), ("fs", "max_read_bytes"),
    ("fs", "max_write_bytes"),
}  # fmt: skip
FLAGS = {("sqlite", "allow_write"), ("fs", "allow_delete")}
VERBS = {"frame": ["get", "set", "delete"], "cache": ["get", "set", "delete"]}
ADAPTERS = ["frame", "cache", "memory", "store", "sqlite", "fs", "queue", "agent"]


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


@st.composite
def grants(draw: st.DrawFn) -> dict[str, Any]:
    grant: dict[str, Any] = {}
    for part, member in sorted(LISTS | NUMBERS | FLAGS):
        if draw(st.booleans()):
            continue
        if (part, member) in LISTS:
            value = draw(maybe(st.lists(st.sampled_from(NAMES))))
        elif (part, member) in NUMBERS:
            value = draw(maybe(st.integers(0, 5)))
        else:
            value = draw(maybe(st.booleans()))
        grant.setdefault(part, {})[member] = value
    if draw(st.booleans()):
        grant["adapters"] = draw(maybe(st.lists(st.sampled_from(ADAPTERS))))
    if draw(st.booleans()):
        grant["verbs"] = {
            adapter: draw(maybe(st.lists(st.sampled_from(verbs))))
            for adapter, verbs in VERBS.items()
        }
    return grant


QUESTIONS: list[tuple[str, ...]] = [
    *(("adapters", name) for name in ADAPTERS),
    *(("verbs", adapter, verb) for adapter, verbs in VERBS.items() for verb in verbs),
    *((part, member, name) for part, member in sorted(LISTS) for name in NAMES),
    *((part, member, str(size)) for part, member in sorted(NUMBERS) for size in range(7)),
    *((part, member, "") for part, member in sorted(FLAGS)),
]


def as_sqlite(name: str) -> str:
    return name.lower() if name.isascii() else name


def allows(grant: dict[str, Any], question: tuple[str, ...]) -> bool:
    """Return whether a grant alone allows something, as its own words say."""
    part, member, *rest = question
    if part == "adapters":
        return grant.get("adapters") is None or member in grant["adapters"]
    word = (grant.get(part) or {}).get(member)
    if word is None:
        return True
    if (part, member) in FLAGS:
        return bool(word)
    if (part, member) in NUMBERS:
        return bool(int(rest[0]) <= word)
    if member == "allow_tables":  # SQLite compares A to Z without case, and nothing else
        return as_sqlite(rest[0]) in map(as_sqlite, word)
    return rest[0] in word


def in_force(host: rote.Host, question: tuple[str, ...]) -> bool:
    """Return whether a host allows something, by what it hands to its adapters."""
    part, member, *rest = question
    grant: Any = host._grant
    if part == "adapters":
        return member in host._allowed
    if part == "limits":
        limit = host.capabilities()["limits"][member]
        return limit is None or bool(int(rest[0]) <= limit)
    word = grant.get(part, {}).get(member)
    if word is None:
        return True
    if (part, member) in FLAGS:
        return bool(word)
    if (part, member) in NUMBERS:
        return bool(int(rest[0]) <= word)
    # An adapter compares the names of tables in small letters.
    return (as_sqlite(rest[0]) if member == "allow_tables" else rest[0]) in word


@given(st.lists(grants(), min_size=1, max_size=4))
@settings(max_examples=examples(60, 5_000))
def test_a_chain_of_grants_allows_what_all_of_them_allow_and_nothing_more(
    chain: list[dict[str, Any]],
) -> None:
    host = rote.Host("operator-controlled", grant=chain[0])
    for grant in chain[1:]:
        inner = host.scope(grant=grant)
        assert _is_within(inner.capabilities(), host.capabilities())
        host = inner
    for question in QUESTIONS:
        assert in_force(host, question) == all(allows(grant, question) for grant in chain)


def _is_within(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
    return all(
        name in outer["adapters"] and verbs.keys() <= outer["adapters"][name].keys()
        for name, verbs in inner["adapters"].items()
    )


# -- the frame -------------------------------------------------------------------------------------

STEPS = st.sampled_from(["a", "b", "0", "1", "2", "01", "-1", "é", ""])
PATHS = st.lists(STEPS, max_size=4).map(".".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, "x", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STEPS, inner, max_size=3),
    max_leaves=6,
)
FRAME_CALLS = st.one_of(
    st.tuples(st.just("get"), PATHS, VALUES),
    st.tuples(st.just("set"), PATHS, VALUES),
    st.tuples(st.just("set"), PATHS, VALUES),
    st.tuples(st.just("delete"), PATHS),
)
FRAME_MAX = 60


class PlainFrame:
    """A frame that copies and measures everything at every call."""

    def __init__(self) -> None:
        self.values: Any = {}

    def get(self, path: str, default: Any) -> Any:
        value = self.values
        for step in self._steps(path):
            if isinstance(value, dict) and step in value:
                value = value[step]
            elif isinstance(value, list) and step in [str(place) for place in range(len(value))]:
                value = value[int(step)]
            else:
                return default
        return value

    def set(self, path: str, value: Any) -> dict[str, Any]:
        steps = self._steps(path)
        if not steps:
            if not isinstance(value, dict):
                raise InvalidInput("no object", code="bad_arguments")
            whole = value
        else:
            whole = copy.deepcopy(self.values)
            self._put(whole, steps, value)
        size = len(rote.canonical(whole))
        if size > FRAME_MAX and whole != {}:
            raise LimitExceeded("frame", size=size, limit=FRAME_MAX)
        self.values = copy.deepcopy(whole)
        return {"ok": True, "bytes": size}

    def _put(self, holder: Any, steps: list[str], value: Any) -> None:
        *leading, last = steps
        for step in leading:
            if isinstance(holder, list):
                self._grow(holder, step, {})
                holder = holder[int(step)]
            elif isinstance(holder, dict):
                holder = holder.setdefault(step, {})
            else:
                raise InvalidInput("through a scalar", code="bad_path")
        if isinstance(holder, list):
            self._grow(holder, last, value)
            holder[int(last)] = value
        elif isinstance(holder, dict):
            holder[last] = value
        else:
            raise InvalidInput("through a scalar", code="bad_path")

    @staticmethod
    def _grow(holder: list[Any], step: str, value: Any) -> None:
        if step == str(len(holder)):
            holder.append(value)
        elif step not in [str(place) for place in range(len(holder))]:
            raise InvalidInput("no index", code="bad_path")

    def delete(self, path: str) -> dict[str, Any]:
        steps = self._steps(path)
        had_values = bool(self.values)
        if not steps:
            self.values = {}
            return {"ok": True, "deleted": had_values}
        missing = object()
        if self.get(path, missing) is missing:
            return {"ok": True, "deleted": False}
        holder = self.get(".".join(steps[:-1]), None)
        del holder[int(steps[-1]) if isinstance(holder, list) else steps[-1]]
        return {"ok": True, "deleted": True}

    @staticmethod
    def _steps(path: str) -> list[str]:
        steps = path.split(".") if path else []
        if "" in steps:
            raise InvalidInput("an empty step", code="bad_path")
        return steps


def outcome(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except (InvalidInput, LimitExceeded) as error:
        return error.code


@given(st.lists(FRAME_CALLS, max_size=20))
@settings(max_examples=examples(150, 20_000))
def test_a_frame_does_what_a_plain_one_does(calls: list[Any]) -> None:
    host, plain = rote.Host("minimal", limits={"max_frame_bytes": FRAME_MAX}), PlainFrame()
    for verb, *args in calls:
        expected = outcome(getattr(plain, verb), *copy.deepcopy(args))
        assert outcome(getattr(host.frame, verb), *args) == expected
        assert host.frame.get() == plain.values
    # What is told is still the size: a set that changes nothing says it again.
    if plain.values:
        assert host.frame.set("", plain.values)["bytes"] == len(rote.canonical(plain.values))


# -- the cache -------------------------------------------------------------------------------------

CACHE_CALLS = st.one_of(
    st.tuples(st.just("get"), st.sampled_from("abcd")),
    st.tuples(
        st.just("set"),
        st.sampled_from("abcd"),
        st.integers(0, 12),
        st.sampled_from([None, 1, 2.5, 9]),
    ),
    st.tuples(st.just("delete"), st.sampled_from("abcd")),
    st.tuples(st.just("move"), st.sampled_from([0.5, 1, 2, 1.000001, -1])),
    st.tuples(st.just("reopen")),
)
ENTRIES_MAX, BYTES_MAX = 3, 45


class PlainCache:
    """A cache as a list, the least recently used first, that looks at everything at every call."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str, float, float | None]] = []  # key, value, set time, ttl
        self.now = 0.0

    def get(self, key: str) -> dict[str, Any]:
        found = self._take(key)
        if found is None:
            return {"found": False, "value": None}
        self.entries.append(found)
        return {"found": True, "value": found[1]}

    def set(self, key: str, size: int, ttl: float | None) -> dict[str, Any]:
        value = "x" * size
        self.entries = [entry for entry in self.entries if entry[0] != key]
        if self._is_over(more=(key, value)):
            self.entries = [entry for entry in self.entries if not self._has_expired(entry)]
        while self._is_over(more=(key, value)):
            del self.entries[0]
        self.entries.append((key, value, self.now, ttl))
        return {"ok": True}

    def delete(self, key: str) -> dict[str, Any]:
        return {"ok": True, "deleted": self._take(key) is not None}

    def _take(self, key: str) -> tuple[str, str, float, float | None] | None:
        found = [entry for entry in self.entries if entry[0] == key]
        self.entries = [entry for entry in self.entries if entry[0] != key]
        return found[0] if found and not self._has_expired(found[0]) else None

    def _is_over(self, more: tuple[str, str]) -> bool:
        kept = [(entry[0], entry[1]) for entry in self.entries] + [more]
        size = sum(len(rote.canonical(["n", key, value])) for key, value in kept)
        return len(kept) > ENTRIES_MAX or size > BYTES_MAX

    def _has_expired(self, entry: tuple[str, str, float, float | None]) -> bool:
        return entry[3] is not None and round(self.now - entry[2], 6) > entry[3]


def cache_of(path: Path, clock: FixedClock) -> rote.Host:
    options = {"path": str(path), "max_entries": ENTRIES_MAX, "max_bytes": BYTES_MAX}
    return rote.Host("compute-and-store", cache=options, clock=clock)


@given(st.lists(CACHE_CALLS, max_size=25), st.booleans())
@settings(max_examples=examples(100, 5_000))
def test_a_cache_does_what_a_plain_one_does(calls: list[Any], reopens: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, clock, plain = Path(folder) / "warm", FixedClock(), PlainCache()
        host = cache_of(path, clock)
        for verb, *args in calls:
            if verb == "move":
                clock.move(seconds=args[0])
                plain.now = round(plain.now + args[0], 6)
            elif verb == "reopen":
                if reopens:
                    # The order of uses is kept in memory alone, and so is who was seen to be over.
                    for key in "abcd":
                        assert host.cache.get("n", key) == plain.get(key)
                    host.close()
                    host = cache_of(path, clock)
                    order = [entry[0] for entry in plain.entries]
                    for key in order:
                        host.cache.get("n", key)
            elif verb == "set":
                key, size, ttl = args
                assert host.cache.set("n", key, "x" * size, ttl) == plain.set(key, size, ttl)
            else:
                assert getattr(host.cache, verb)("n", *args) == getattr(plain, verb)(*args)
        for key in "abcd":
            assert host.cache.get("n", key) == plain.get(key)
        host.close()
