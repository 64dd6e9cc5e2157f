"""The hashes of a fixed history: formulas, golden file and store agree byte for byte."""

from pathlib import Path

import pytest

import rote
from tests.golden import stories
from tests.golden.formulas import Story, completed

STORIES = stories.load("chain-1.json")
by_name = pytest.mark.parametrize("story", STORIES, ids=[story["name"] for story in STORIES])


@by_name
def test_the_formulas_give_every_hash_of_the_golden_file(story: Story) -> None:
    assert completed(story) == story


@by_name
def test_the_store_reproduces_the_golden_file(story: Story, store_path: Path) -> None:
    with stories.tell(story, store_path) as store:
        space = store.space(story["name"])
        commits = list(space.log())
        assert space.did == story["did"]
        assert space.head == story["commits"][-1]["hash"]
        assert [commit.hash for commit in commits] == [told["hash"] for told in story["commits"]]
        assert [commit.at for commit in commits] == [told["at"] for told in story["commits"]]
        for commit, told in zip(commits, story["commits"], strict=True):
            assert [_as_told(fact) for fact in commit.facts] == told["facts"]


@by_name
def test_the_store_gives_every_value_of_the_golden_file(story: Story, store_path: Path) -> None:
    with stories.tell(story, store_path) as store:
        space = store.space(story["name"])
        for version, told in enumerate(story["commits"], start=1):
            for id, value in told["values"].items():
                assert space.at(version).get(id) == value


@by_name
def test_a_checkpoint_has_the_golden_signature(story: Story, store_path: Path) -> None:
    with stories.tell(story, store_path) as store:
        space = store.space(story["name"])
        assert space.checkpoint() == story["checkpoint"]
        assert space.verify(against=story["checkpoint"]).ok


def test_a_changed_input_changes_every_later_hash() -> None:
    story = STORIES[0]
    first, second, *later = story["commits"]
    other = {**second, "at": "2026-03-01T09:00:01.400000Z"}
    told = completed({**story, "commits": [first, other, *later]})
    same = [a["hash"] == b["hash"] for a, b in zip(told["commits"], story["commits"], strict=True)]
    assert same == [True] + [False] * (len(same) - 1)


def _as_told(fact: rote.Fact) -> dict[str, object]:
    members = ("id", "op", "body", "salt", "parent", "hash")
    return {name: getattr(fact, name) for name in members}
