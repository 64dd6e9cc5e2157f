"""The cost of erasing many records of one person against erasing one, by the same filter."""

import itertools
from functools import partial
from io import BytesIO
from typing import Any

import rote
from bench.documents import Documents
from bench.harness import Benchmark, Effort, Measure, Result, compare_times, timed
from rote import Memory
from rote.bridges import import_records
from rote.values import canonical, format_time

EPOCH = 1_767_225_600_000_000  # microseconds; 2026 begins


def erase(effort: Effort) -> Result:
    """Compare erasing 1,000 records, half of them deleted before, with erasing one."""
    size, many = effort.count(100_000, 400), effort.count(1_000, 20)
    path = effort.folder / "memory.db"
    with rote.open(path, durability="os") as store:
        space = store.space("bench")
        records = _records(size, many, effort.rounds + 1)
        lines = b"".join(canonical(record) + b"\n" for record in records)
        import_records(Memory(space), BytesIO(lines))
        gone = [record["record_id"] for record in records if _is_deleted(record)]
        space.transact([{"op": "delete", "id": Memory.entity_id("ops", "fact", id)} for id in gone])
        turns = {name: itertools.count() for name in ("one", "many")}

        def turn(name: str, expected: int) -> Measure:
            filters = {"tags_any": [f"{name}-{next(turns[name])}"]}

            def work() -> None:
                erased = Memory(space).erase(filters=filters, reason="bench")["erased"]
                assert len(erased) == expected

            return timed(1, work)

        return compare_times(effort, partial(turn, "one", 1), partial(turn, "many", many))


def _records(size: int, many: int, turns: int) -> list[dict[str, Any]]:
    """Return records of which each turn has one, and many, with a tag of its own."""
    tags = [f"one-{turn}" for turn in range(turns)]
    tags += [f"many-{turn}" for turn in range(turns) for _ in range(many)]
    tags += ["somebody"] * (size - len(tags))
    documents = Documents().notes(len(tags))
    return [
        {
            "namespace": "ops",
            "record_kind": "fact",
            "record_id": f"{number * 7_919 % 1_000_003:07d}",
            "created_at": format_time(EPOCH),
            "updated_at": format_time(EPOCH),
            "ttl_seconds": None,
            "payload": document,
            "metadata": {"tags": [tag, "all"]},
        }
        for number, (tag, (_, document)) in enumerate(zip(tags, documents, strict=True))
    ]


def _is_deleted(record: dict[str, Any]) -> bool:
    return bool(record["metadata"]["tags"][0].startswith("many-") and record["record_id"][-1] < "5")


BENCHMARKS = [
    Benchmark("erase/records", "erasing 1,000 of 100,000 records by a tag against one", 3, 1.2,
              erase, "at most"),
]  # fmt: skip
