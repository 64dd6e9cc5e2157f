"""Rows of changes: of a patch the same as of the values before and after, with work for what it touches."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

import rote
from rote import Memory
from rote.contract.index import Change
from rote.patch import apply, normalize
from rote.records.keys import entity_id
from rote.retrieval.segments import layout, rows
from rote.retrieval.segments.rows import rows_of
from rote.space import Store
from rote.values.limits import PENDING_SEGMENTS_MAX
from tests.lanes import examples
from tests.unit.retrieval.segments.changes import METADATA, entry, record

KEY = ("ops", "chat", "1")
PATHS = ("/payload/entries/-", "/payload/entries/{}", "/payload/entries/{}/text")
OTHERS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("/metadata", METADATA),
    ("/metadata", METADATA),
    ("/ttl_seconds", (None, 5)),
    ("/payload", ({"text": "tea"}, {"entries": [{"text": "tea"}]}, {"entries": 5})),
    ("/payload/entries", ([], [{"text": "plan"}], {}, 5)),
    ("/payload/more", (1, 2)),
)


def operation(random: Random, count: int) -> dict[str, Any]:
    """Return an operation that mostly applies to a record with so many entries."""
    kind = random.choice(
        ("add", "add", "remove", "replace", "move", "copy", "splice", "other", "test")
    )
    place = random.randint(0, count)
    path = random.choice(PATHS).format(place)
    if kind == "other":
        path, values = random.choice(OTHERS)
        name = random.choice(("add", "replace"))
        return {"op": name, "path": path, "value": random.choice(values)}
    if kind == "splice":
        added = [entry(random) for _ in range(random.randrange(3))]
        removed = random.randrange(3)
        path = "/payload/entries"
        return {"op": kind, "path": path, "index": place, "remove": removed, "add": added}
    found: dict[str, Any] = {"op": kind, "path": path}
    if kind in ("move", "copy"):
        found["from"] = f"/payload/entries/{random.randint(0, count)}"
    elif kind != "remove":
        found["value"] = "tea" if path.endswith("text") else entry(random)
    return found


def test_a_patch_gives_the_rows_of_its_values() -> None:
    met: Counter[str] = Counter()
    for seed in range(examples(2_000, 200_000)):
        random = Random(seed)
        before: Any = record(random, KEY, 1_000_000, None)
        if random.random() < 0.9:
            entries = [entry(random) for _ in range(random.choice((0, 1, 6)))]
            before["payload"] = {"entries": entries}
        count = len(before["payload"].get("entries", ()))
        operations = normalize(
            [operation(random, count) for _ in range(random.choice((1, 1, 2, 4)))]
        )
        try:
            after = apply(before, operations)
        except rote.RoteError:
            met["refused"] += 1
            continue
        plain = Change(2, 1, entity_id(*KEY), before, after)
        assert list(rows_of(replace(plain, operations=operations))) == list(rows_of(plain)), seed
        met.update({each["op"] for each in operations})
    assert min(met[kind] for kind in ("add", "remove", "replace", "move", "copy", "splice")) > 20


ENTRIES, APPENDS = 3_000, 60


class Work:
    """Counts what is done for entries of records."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        for module, name in (
            (rows, "entry_text"),
            (rows, "_are_alike"),
            (layout, "_place"),
            (layout, "_grouped"),
        ):
            monkeypatch.setattr(module, name, self._counting(name, getattr(module, name)))

    def _counting(self, name: str, real: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            self.counts[name] += 1
            return real(*arguments)

        return counted


@pytest.fixture
def conversation() -> Any:
    """Yield a memory with a long record, which the index has."""
    with rote.open(":memory:") as store:
        memory = Memory(store.space("n"))
        memory.put(*KEY, {"entries": [{"text": f"tea {n}"} for n in range(ENTRIES)]})
        assert memory.search("tea 17")["items"]
        yield store, memory


def index_rows(store: Store) -> int:
    """Return the rows of all segments."""
    port: Any = store.space("n")._port
    space = port.spaces.open(store.space("n").did)
    return sum(row.size for row in space.engine.reader().segments(space.number, "words/1"))


@pytest.mark.parametrize("is_asked", [False, True])
@pytest.mark.parametrize(
    ("extra", "each"),
    [({}, 1), ({"ttl_seconds": 3_600}, 2), ({"metadata": True}, 2)],
    ids=["plain", "expiring", "metadata"],
)
def test_an_append_costs_what_it_adds(
    conversation: Any,
    monkeypatch: pytest.MonkeyPatch,
    extra: dict[str, Any],
    each: int,
    is_asked: bool,
) -> None:
    store, memory = conversation
    memory.append(*KEY, {"text": "plan"})
    memory.search("plan")
    work, before = Work(monkeypatch), index_rows(store)
    for number in range(APPENDS):
        given = {"metadata": {"count": number}} if "metadata" in extra else extra
        memory.append(*KEY, {"text": f"plan of {number}"}, **given)
        if is_asked:
            found = memory.search(f"plan of {number}", filters={"where": given.get("metadata")})
            assert found["items"][0]["entry"] == ENTRIES + number + 2
    assert memory.search(f"plan of {number}")["items"][0]["entry"] == ENTRIES + number + 2
    assert work.counts["entry_text"] == APPENDS
    assert work.counts["_are_alike"] == 0
    assert work.counts["_place"] <= ENTRIES + 3 * APPENDS
    assert work.counts["_grouped"] <= APPENDS // PENDING_SEGMENTS_MAX + 1
    memory.put("ops", "chat", "2", {"entries": [{"text": "tea"}] * 300})  # more than can wait
    assert index_rows(store) - before <= APPENDS * each + 3 + 301
