"""A list equals a plain filter over all records: any metadata, filter, page, version, branch.

The plain filter reads every entity by a scan and compares times by the standard library, so it
shares neither the index nor the parsing with the code it checks.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rote.engines.sqlite import SqliteEngine
from rote.errors import NotFound
from rote.opening.keys import MemoryKeys
from rote.records.memory import Memory
from rote.space import Space
from rote.testing import StoreSettings, open_on
from rote.testing.clocks import START, FixedClock
from rote.testing.postgres import Schemas
from tests.lanes import examples

SCHEMAS = Schemas()
KINDS = ("k", "k!")
IDS = ("a", "a%", "A", "\U0001f600")
PREFIXES = ("", "a", "a%", "A", "z")
TAGS = ("red", "Red", "blue")
SOURCES = ("bot", "Bot", "import")
# Few instants, in several writings, around the times of the histories.
TIMES = (
    "2026-01-01T12:00:00Z", "2026-01-01T14:00:00+02:00", "2026-01-01t12:00:01.5-00:00",
    "2026-01-01T12:00:02Z", "2026-01-01T12:00:04.000000+00:00",
)  # fmt: skip
WINDOWS = (
    "created_after", "created_before", "updated_after", "updated_before", "valid_at_after",
    "valid_at_before", "since_last_accessed",
)  # fmt: skip
BRANCHES_MAX = 3
NAMESPACES = ("ops", "ops", "session")

STEPS, QUESTIONS = 30, 25


class Chance:
    """Random events and questions, dense enough that every part meets every other."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._one = self._random.choice

    def steps(self) -> list[Any]:
        kinds = (
            "put",
            "put",
            "put",
            "put",
            "append",
            "delete",
            "touch",
            "branch",
            "prune",
            "update",
            "other",
            "merge",
            "erase",
            "compact",
        )
        return [
            (self._one(kinds), self._random.randrange(9), self._key(), self._metadata(),
             self._one((None, None, None, 1, 3)))
            for _ in range(STEPS)
        ]  # fmt: skip

    def _key(self) -> tuple[str, str, str]:
        return self._one(NAMESPACES), self._one(KINDS), self._one(IDS)

    def _metadata(self) -> dict[str, Any] | None:
        chosen = {
            "tags": self._random.sample(TAGS, self._random.randrange(3)),
            "source": self._one((None, *SOURCES)),
            "valid_at": self._one(TIMES),
            "last_accessed": self._one(TIMES),
        }
        kept = self._random.sample(sorted(chosen), self._random.randrange(5))
        return {name: chosen[name] for name in kept} or None

    def question(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments of a list, and its filters.

        Most questions have one filter: with many, nothing is left to compare.
        """
        given = {
            "namespace": self._one(NAMESPACES),
            "kind": self._one((None, None, *KINDS)),
            "id_prefix": self._one((None, None, *PREFIXES)),
            "updated_since": self._one((None, None, None, *TIMES)),
        }
        filters: dict[str, Any] = {
            "tags_any": self._random.sample(TAGS, self._random.randrange(3)),
            "tags_all": self._random.sample(TAGS, self._random.randrange(3)),
            "source": self._one(SOURCES),
            **{name: self._one(TIMES) for name in WINDOWS},
        }
        kept = self._random.sample(sorted(filters), self._one((0, 1, 1, 1, 2)))
        return given, {name: filters[name] for name in kept}

    def version(self, oldest: int, newest: int) -> int | None:
        return self._one((None, self._random.randint(oldest, newest)))

    def order(self) -> tuple[str, bool]:
        return self._one(("id", "id", "created", "updated")), self._one((False, False, True))

    def page(self) -> int:
        return self._random.randint(1, 4)


class Story:
    """A space with random changes of records, on a few branches."""

    def __init__(self, space: Space, clock: FixedClock) -> None:
        self.space = space
        self._clock = clock
        self.names = ["main"]
        self.oldest = 0  # the version of the last compaction

    def on(self, number: int) -> Space:
        return self.space.on(self.names[number % len(self.names)])

    def run(self, happenings: list[Any]) -> None:
        for what, where, key, metadata, ttl in happenings:
            space = self.on(where)
            memory = Memory(space)
            if what == "put":
                memory.call("put", [*key, {"entries": []}, ttl, metadata])
            elif what == "append":
                memory.call("append", [*key, {"n": 1}, ttl, metadata])
            elif what == "update":
                with suppress(NotFound):
                    memory.update(*key, metadata=metadata, ttl_seconds=ttl)
            elif what == "branch":
                if len(self.names) < BRANCHES_MAX:
                    space.create_branch(f"b{space.version}")
                    self.names.append(f"b{space.version - 1}")
            elif what == "prune":
                memory.prune()
            elif what == "merge":
                space.merge(self.on(where + 1).branch, on_conflict="latest")
            elif what == "erase":
                with suppress(NotFound):  # never written
                    self.space.erase(Memory.entity_id(*key), reason="asked for")
            elif what == "compact":
                if space.version > self.oldest + 2 * where:
                    self.oldest = space.version - where
                    self.space.compact(before=self.oldest)
            elif what == "other":
                space.set("urn:other", where)
            else:
                memory.call(what, key)
            self._clock.move(seconds=where % 3 * 0.5)


def plainly(
    space: Space, now: datetime, asked: dict[str, Any], order: str, *, descending: bool
) -> list[tuple[str, str]]:
    """Return the keys of the records that a list must show."""
    records: list[Any] = [state.value for state in space.scan("record:")]
    keys = [
        (
            instant(record[f"{order}_at"]) if order != "id" else now,
            record["record_kind"],
            record["record_id"],
        )
        for record in records
        if matches(record, now, asked)
    ]
    return [(kind, id) for _, kind, id in sorted(keys, reverse=descending)]


def matches(record: Any, now: datetime, asked: dict[str, Any]) -> bool:
    metadata = record["metadata"] or {}
    tags = metadata.get("tags") or []
    life = record["ttl_seconds"]
    if life is not None and now - instant(record["updated_at"]) > timedelta(seconds=life):
        return False
    instants = {
        "created_": record["created_at"], "updated_": record["updated_at"],
        "valid_at_": metadata.get("valid_at"),
        "since_last_accessed": metadata.get("last_accessed"),
    }  # fmt: skip
    for name, bound in asked.items():
        if name == "namespace":
            holds = record["namespace"] == bound
        elif name == "kind":
            holds = record["record_kind"] == bound
        elif name == "id_prefix":
            holds = record["record_id"].startswith(bound)
        elif name == "tags_any":
            holds = not bound or any(tag in tags for tag in bound)
        elif name == "tags_all":
            holds = all(tag in tags for tag in bound)
        elif name == "source":
            holds = metadata.get("source") == bound
        else:
            time = next(time for start, time in instants.items() if name.startswith(start))
            if time is None:
                return False
            earlier = name.endswith("_before")
            holds = instant(time) <= instant(bound) if earlier else instant(time) >= instant(bound)
        if not holds:
            return False
    return True


def instant(time: str) -> datetime:
    return datetime.fromisoformat(time.upper())


@contextmanager
def fresh(engine: str) -> Iterator[Story]:
    clock = FixedClock(START)
    with TemporaryDirectory() as folder:
        made = SqliteEngine(None) if engine == "memory" else SCHEMAS.engine(Path(folder))
        with open_on(made, StoreSettings(clock=clock), keys=MemoryKeys()) as store:
            yield Story(store.space("records"), clock)
    SCHEMAS.take_back()


def compare(engine: str, seed: int) -> None:
    chance = Chance(seed)
    with fresh(engine) as story:
        story.run(chance.steps())
        for number in range(QUESTIONS):
            space = story.on(number)
            given, filtered = chance.question()
            at = chance.version(story.oldest, space.version)
            view = space if at is None else space.at(at)
            plain = {name: value for name, value in given.items() if value is not None}
            order, descending = chance.order()
            expected = plainly(view, view.now, {**filtered, **plain}, order, descending=descending)
            given |= {"order": order, "descending": descending}
            listed = pages(Memory(space), given, filtered, at, chance.page())
            assert listed == expected, (seed, space.branch, at, given, filtered)
        assert story.space.verify().ok


def pages(
    memory: Memory, given: dict[str, Any], filtered: dict[str, Any], at: int | None, size: int
) -> list[tuple[str, str]]:
    """Return the union of all pages, which is also the list without a limit."""
    whole = memory.list(**given, filters=filtered, at=at)["items"]
    found, offset = [], 0
    while True:
        limits = {"limit": size, "offset": offset}
        page = memory.list(**given, filters={**filtered, **limits}, at=at)
        assert len(page["items"]) <= size
        found += page["items"]
        if "next_offset" not in page:
            break
        offset = page["next_offset"]
    assert found == whole
    return [(item["record_kind"], item["record_id"]) for item in whole]


def test_a_list_is_what_a_plain_filter_gives() -> None:
    for seed in range(examples(40, 300)):
        compare("memory", seed)


def test_a_list_on_postgres_is_what_a_plain_filter_gives() -> None:
    for seed in range(examples(2, 10)):
        compare("postgres", seed)


texts = st.text(st.sampled_from('\0\t !"#ab~é\u0300\ufb33\U0001f600'), min_size=1, max_size=6)


@settings(max_examples=examples(50, 300))
@given(st.lists(st.tuples(texts, texts), min_size=2, max_size=2))
def test_the_order_of_entities_is_the_order_of_kind_and_id(keys: list[tuple[str, str]]) -> None:
    entities = {key: Memory.entity_id("ops", *key) for key in keys}
    assert sorted(keys) == sorted(keys, key=lambda key: entities[key])
    assert len(set(entities.values())) == len(set(keys))
