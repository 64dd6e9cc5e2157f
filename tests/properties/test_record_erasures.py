"""Erasing by a filter takes exactly the records that ever matched, on any branch, in random histories."""

from random import Random
from typing import Any

import pytest

import rote
from rote.records.envelope import read_record
from rote.records.filters import parse_filters
from rote.testing import FixedClock, SeededIds
from tests.lanes import examples

HISTORIES = examples(12, 1_500)
STEPS = 30
FILTERS: list[dict[str, Any]] = [
    {"tags_any": ["a"]},
    {"tags_all": ["a", "b"]},
    {"source": "s"},
    {"tags_any": ["a"], "source": "s"},
    {"updated_before": "2026-01-01T12:00:40Z"},
]
LONG = "x" * 1_500  # past an inline snapshot, so that patches are stored alone


def expected(space: rote.Space, filters: dict[str, Any]) -> set[str]:
    """Return the ids of all entities that matched at any version on any branch, by plain reads."""
    wanted = parse_filters(filters)
    found = set()
    for branch in space.branches():
        for version in range(max(space.oldest, 1), space.version + 1):
            view = space.at(version).on(branch.name)
            for state in view.scan("record:"):
                record = read_record(state.id, state.value)
                if record is not None and wanted.match(record[0]):
                    found.add(state.id)
    return found


def step(space: rote.Space, clock: FixedClock, random: Random) -> None:
    names = [branch.name for branch in space.branches() if not branch.deleted]
    memory = rote.Memory(space.on(random.choice(names)))
    id = str(random.randrange(4))
    metadata: Any = random.choice(
        [
            None,
            {"tags": ["a"]},
            {"tags": ["a", "b"], "source": "s"},
            {"source": "s"},
            {"tags": ["b"]},
        ]
    )
    match random.randrange(10):
        case 0:
            memory.delete("ops", "log", id)
        case 1 if len(names) < 4:
            at = random.randint(min(space.oldest, space.version), space.version)
            memory.space.create_branch(f"b{space.version}", at=at)
        case 2:
            memory.space.merge(random.choice(names), on_conflict="theirs")
        case 3:
            clock.move(seconds=20)
        case 4:
            memory.touch("ops", "log", id)
        case 5 if space.version > 12:
            space.compact(before=space.version - 6)
        case 6:
            memory.put("ops", "log", id, {"entries": [{"text": LONG}]}, metadata=metadata)
        case _:
            memory.append("ops", "log", id, {"text": LONG}, metadata=metadata)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_filter_takes_what_ever_matched(seed: int) -> None:
    random, clock = Random(seed), FixedClock()
    with rote.open(":memory:", clock=clock, ids=SeededIds()) as store:
        space = store.space("x")
        for _ in range(STEPS):
            step(space, clock, random)
        for filters in random.sample(FILTERS, 2):
            wanted = expected(space, filters)
            result = rote.Memory(space).erase(filters=filters, reason="r")
            erased = {rote.Memory.entity_id(*key.values()) for key in result["erased"]}
            # A compaction keeps values for merges that nobody can read; they are erased too.
            assert erased >= wanted if space.oldest > 1 else erased == wanted
            assert not any(state.exists for id in wanted for state in [space.read(id)])
            assert expected(space, filters) == set()
            step(space, clock, random)
        assert space.verify().ok
