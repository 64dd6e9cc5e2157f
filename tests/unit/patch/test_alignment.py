"""Alignment: what lies outside the gaps is equal and in order, and few edits make few gaps."""

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from rote.patch.alignment import Gap, find_gaps
from rote.values.limits import ALIGNMENT_EDITS_MAX

FEW, MANY = 5, 3 * ALIGNMENT_EDITS_MAX
ELEMENTS: dict[str, Any] = {
    "different": lambda number: number,
    "repeated": lambda number: number % 7,
    "equal": lambda number: 0,
    "objects": lambda number: {"id": number, "tags": ["a", "b"]},
    "arrays": lambda number: [number % 5, [number % 3]],
}


def edited(elements: list[Any], count: int, seed: int) -> list[Any]:
    chance, new = Random(seed), list(elements)
    for number in range(count):
        if number % 2:
            del new[chance.randrange(len(new))]
        else:
            new.insert(chance.randrange(len(new)), f"new {number}")
    return new


def check(old: list[Any], new: list[Any]) -> list[Gap]:
    """Return the gaps, after a check that the rest is equal."""
    gaps = find_gaps(old, new)
    edges = [Gap(0, 0, 0, 0), *gaps, Gap(len(old), len(old), len(new), len(new))]
    for before, after in pairwise(edges):
        assert old[before.old_end : after.old_start] == new[before.new_end : after.new_start]
    assert all(gap.old_count or gap.new_count for gap in gaps)
    # Between two gaps something stays, or they would be one.
    assert all(before.old_end < after.old_start for before, after in pairwise(gaps))
    assert gaps == find_gaps(list(old), list(new))
    return gaps


@pytest.mark.parametrize("kind", ELEMENTS)
def test_a_few_edits_make_as_many_gaps(kind: str) -> None:
    old = [ELEMENTS[kind](number) for number in range(3_000)]
    for seed in range(4):
        new = edited(old, FEW, seed)
        gaps = check(old, new)
        assert len(gaps) <= FEW
        assert sum(gap.old_count + gap.new_count for gap in gaps) <= FEW


def test_very_many_edits_between_different_elements_leave_the_others() -> None:
    old = list(range(3_000))
    gaps = check(old, edited(old, MANY, 1))
    assert sum(gap.old_count + gap.new_count for gap in gaps) <= MANY


@pytest.mark.parametrize("kind", ELEMENTS)
def test_very_many_edits_are_aligned_all_the_same(kind: str) -> None:
    old = [ELEMENTS[kind](number) for number in range(2_000)]
    check(old, edited(old, MANY, 2))
    check(old, old[::-1])
    check(old, old[1_000:] + old[:1_000])
    check(old, [ELEMENTS[kind](number + 1_000) for number in range(2_000)])


def test_what_was_moved_stays_where_fewer_elements_have_to_go() -> None:
    old = list(range(1_000))
    gaps = check(old, [*old[1:], 0])
    assert gaps == [Gap(0, 1, 0, 0), Gap(1_000, 1_000, 999, 1_000)]


@pytest.mark.parametrize(
    ("old", "new", "gaps"),
    [
        ([], [], []),
        ([1], [1], []),
        ([], [1], [Gap(0, 0, 0, 1)]),
        ([1], [], [Gap(0, 1, 0, 0)]),
        ([1], [2], [Gap(0, 1, 0, 1)]),
        ([1, 2, 3], [1, 3], [Gap(1, 2, 1, 1)]),
        ([1, 2, 3], [0, 2, 4], [Gap(0, 1, 0, 1), Gap(2, 3, 2, 3)]),
        ([1, 1], [1, 1, 1], [Gap(2, 2, 2, 3)]),
    ],
)
def test_the_gaps_are_those_of_the_table(old: list[Any], new: list[Any], gaps: list[Gap]) -> None:
    assert check(old, new) == gaps


def test_all_small_lists_are_aligned() -> None:
    chance = Random(3)
    for _ in range(3_000):
        old, new = ([chance.randrange(4) for _ in range(chance.randrange(9))] for _ in range(2))
        check(old, new)
